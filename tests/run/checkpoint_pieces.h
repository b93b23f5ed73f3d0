// A checkpoint taken apart: all its tensors and all that it says in one TensorFile, to be changed
// and put together again with hashes that fit, as a forger would.
#pragma once

#include <charconv>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "winnow/base/files.h"
#include "winnow/base/text.h"
#include "winnow/run/checkpoint.h"

namespace winnow {

// The newest head of a folder.
inline std::filesystem::path head_in(const std::filesystem::path& folder) {
  std::filesystem::path newest;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() == ".safetensors" && entry.path() > newest) {
      newest = entry.path();
    }
  }
  return newest;
}

// Tensors `global`, `method/NAME`, `client/ID/NAME`; the JSON of the head, with `clients` as every
// client says it of itself. What the server keeps of clients is with the method's.
inline TensorFile take_apart(const std::filesystem::path& folder) {
  TensorFile file = load_tensors(head_in(folder));
  Json json = Json::parse(file.metadata.at(kCheckpointKey));
  json["clients"] = Json::object();
  Archive method;
  method.values = json.at("method");
  for (const Json& part : json.at("parts")) {
    read_segment(folder, {part.at("file"), part.at("sha256"), part.at("bytes")},
                 [&](const SegmentRecord& record) {
                   TensorFile own = decode_tensors(record.payload, "a record");
                   const Json said = Json::parse(own.metadata.at(kCheckpointKey));
                   json["clients"].update(said.value("clients", Json::object()));
                   const ClientRecord decoded =
                       decode_record(record.client, record.payload, "a record");
                   for (const auto& [column, value] : decoded.server->values) {
                     method.take_entry(column, record.client, value);
                   }
                   for (const auto& [column, tensor] : decoded.server->tensors) {
                     method.take_entry(column, record.client, tensor);
                   }
                   const Json same = said.value("same", Json::object());
                   for (const auto& [name, other] : same.items()) {
                     own.tensors[name] = own.tensors.at(other.get<std::string>());
                   }
                   for (const auto& [name, tensor] : own.tensors) {
                     if (name.starts_with("client/")) {
                       file.tensors[name] = tensor;
                     }
                   }
                 });
  }
  json["method"] = method.values;
  for (const auto& [name, tensor] : method.tensors) {
    file.tensors["method/" + name] = tensor;
  }
  json.erase("parts");
  file.metadata[kCheckpointKey] = json.dump();
  return file;
}

// The part that a head would have of a segment.
inline Json part_json(const MemoryPart& part) {
  return {{"file", part.file}, {"bytes", part.bytes}, {"sha256", part.hash}};
}

// Writes what take_apart() gave, in one segment with a record for each client that is named
// anywhere. Names that belong to no client go to one that the head does not expect.
inline void put_together(const std::filesystem::path& folder, TensorFile file) {
  const std::filesystem::path head = head_in(folder);
  Json json = parse_json(file.metadata.at(kCheckpointKey), "its metadata");
  const Json clients = json.is_object() ? json.value("clients", Json()) : Json();
  std::map<std::string, TensorFile> records;
  std::map<std::string, Json> said;
  if (clients.is_object()) {
    for (const auto& [id, own] : clients.items()) {
      records[id];
      said[id] = Json{{"clients", Json::object({{id, own}})}, {"server", Json::object()}};
    }
  }
  for (auto item = file.tensors.begin(); item != file.tensors.end();) {
    const std::vector<std::string> parts = split(item->first, '/');
    if (parts.size() < 3 || parts[0] != "client") {
      ++item;
      continue;
    }
    records[parts[1]].tensors[item->first] = item->second;
    item = file.tensors.erase(item);
  }
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (is_segment(entry.path())) {
      std::filesystem::remove(entry.path());
    }
  }
  SegmentLog log(folder);
  for (auto& [id, record] : records) {
    std::int64_t client = -1;
    std::from_chars(id.data(), id.data() + id.size(), client);
    const auto words = said.find(id);
    record.metadata[kCheckpointKey] =
        words == said.end() ? R"({"clients":{},"server":{}})" : words->second.dump();
    log.append(client, encode_tensors(record), true);
  }
  if (json.is_object()) {
    json["parts"] = Json::array();
    for (const MemoryPart& part : log.settle()) {
      json["parts"].push_back(part_json(part));
    }
    if (clients.is_object()) {
      json.erase("clients");
    }
    file.metadata[kCheckpointKey] = json.dump();
  }
  seal_checkpoint(file);
  save_tensors(head, file);
}

// Has the head name these parts and no others.
inline void name_parts(const std::filesystem::path& folder, const Json& parts) {
  const std::filesystem::path head = head_in(folder);
  TensorFile file = load_tensors(head);
  Json json = parse_json(file.metadata.at(kCheckpointKey), "its metadata");
  json["parts"] = parts;
  file.metadata[kCheckpointKey] = json.dump();
  seal_checkpoint(file);
  save_tensors(head, file);
}

// A record of a segment as a forger would have it: any bytes, in the name of any client.
struct RawRecord {
  std::int64_t client = 0;
  std::string payload = {};
};

// Puts one segment with these records in the place of all others.
inline void put_records(const std::filesystem::path& folder,
                        const std::vector<RawRecord>& records) {
  SegmentLog log(folder);
  for (const RawRecord& record : records) {
    log.append(record.client, record.payload, true);
  }
  Json parts = Json::array();
  for (const MemoryPart& part : log.settle()) {
    parts.push_back(part_json(part));
  }
  name_parts(folder, parts);
}

}  // namespace winnow
