#include "winnow/run/client_record.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <tuple>
#include <vector>

#include "winnow/base/error.h"
#include "winnow/base/json.h"
#include "winnow/base/text.h"

namespace winnow {
namespace {

using Memories = std::map<std::int64_t, ClientMemory>;

// Smaller tensors are not worth a name.
constexpr std::size_t kWorthSharing = 256;
// More than any client side keeps: a few bytes must not stand for a thousand large tensors.
constexpr std::size_t kMostShared = 256;

at::Tensor tensor_of(const Labels& labels) {
  at::Tensor tensor = at::empty({std::ssize(labels)}, at::kLong);
  std::ranges::copy(labels, tensor.data_ptr<std::int64_t>());
  return tensor;
}

Labels labels_of(const std::string& name, const at::Tensor& tensor) {
  if (tensor.scalar_type() != at::kLong || tensor.dim() != 1) {
    throw Error(ErrorKind::run, fmt::format("tensor {} does not hold labels", quoted_name(name)));
  }
  const auto* first = tensor.data_ptr<std::int64_t>();
  return {first, first + tensor.numel()};
}

at::Tensor tensor_of(const std::vector<bool>& marks) {
  return tensor_of(Labels(marks.begin(), marks.end()));
}

std::vector<bool> marks_of(const std::string& name, const at::Tensor& tensor) {
  const Labels marks = labels_of(name, tensor);
  require_range(tensor, name, 0, 1);
  return {marks.begin(), marks.end()};
}

// A client's tensors are named ID/own/NAME, ID/base/NAME and ID/WHAT for the rest of its memory.
void put_client(std::int64_t id, const ClientMemory& memory, TensorFile& file, Json& clients) {
  const auto put = [&](const std::string& name, const at::Tensor& tensor) {
    file.tensors[fmt::format("client/{}/{}", id, name)] = tensor;
  };
  const Trace& trace = memory.trace;
  if (trace.labels) {
    put("labels", tensor_of(*trace.labels));
  }
  if (trace.last_labels) {
    put("last_labels", tensor_of(*trace.last_labels));
  }
  if (trace.selected) {
    put("selected", tensor_of(*trace.selected));
  }
  if (trace.suspected) {
    put("suspected", tensor_of(*trace.suspected));
  }
  if (memory.model.defined()) {
    put("model", memory.model);
  }
  if (memory.last_model.defined()) {
    put("last_model", memory.last_model);
  }
  for (const auto& [name, tensor] : memory.own.tensors) {
    put("own/" + name, tensor);
  }
  for (const auto& [name, tensor] : memory.base.tensors) {
    put("base/" + name, tensor);
  }
  append_member(clients, std::to_string(id),
                {{"own", memory.own.values}, {"base", memory.base.values}});
}

// `part`: the end of the tensor's name.
void take_part(const std::string& name, const std::string& part, const at::Tensor& tensor,
               ClientMemory& memory) {
  Trace& trace = memory.trace;
  if (part.starts_with("own/")) {
    memory.own.tensors[part.substr(4)] = tensor;
  } else if (part.starts_with("base/")) {
    memory.base.tensors[part.substr(5)] = tensor;
  } else if (part == "labels") {
    trace.labels = labels_of(name, tensor);
  } else if (part == "last_labels") {
    trace.last_labels = labels_of(name, tensor);
  } else if (part == "selected") {
    trace.selected = marks_of(name, tensor);
  } else if (part == "suspected") {
    trace.suspected = marks_of(name, tensor);
  } else if (part == "model") {
    memory.model = tensor;
  } else if (part == "last_model") {
    memory.last_model = tensor;
  } else {
    throw Error(ErrorKind::run, fmt::format("tensor {} is unknown", quoted_name(name)));
  }
}

bool is_same(const at::Tensor& one, const at::Tensor& other) {
  return one.scalar_type() == other.scalar_type() && one.sizes() == other.sizes() &&
         (one.data_ptr() == other.data_ptr() ||
          std::memcmp(one.data_ptr(), other.data_ptr(), one.nbytes()) == 0);
}

// Takes out every tensor that equals an earlier one, and returns by its name that one's.
Json take_out_equal(TensorFile& file) {
  Json same = Json::object();
  std::vector<std::pair<std::string, at::Tensor>> kept;
  for (auto item = file.tensors.begin(); item != file.tensors.end();) {
    item->second = item->second.cpu().contiguous();
    const at::Tensor& tensor = item->second;
    const auto equal =
        tensor.nbytes() < kWorthSharing || same.size() == kMostShared
            ? kept.end()
            : std::ranges::find_if(kept, [&](const auto& k) { return is_same(k.second, tensor); });
    if (equal != kept.end()) {
      same[item->first] = equal->first;
      item = file.tensors.erase(item);
    } else {
      kept.emplace_back(item->first, tensor);
      ++item;
    }
  }
  return same;
}

void put_back_equal(const CheckedJson& same, TensorFile& file) {
  if (same.json().size() > kMostShared) {
    throw Error(ErrorKind::run, fmt::format("more than {} of its tensors are equal", kMostShared));
  }
  for (const auto& [name, other] : same.members()) {
    const auto found = file.tensors.find(other.text());
    if (found == file.tensors.end() || file.tensors.contains(name)) {
      throw Error(ErrorKind::run,
                  fmt::format("tensor {} equals none that is there", quoted_name(name)));
    }
    file.tensors.emplace(name, found->second);
  }
}

std::string server_prefix(std::int64_t client) {
  return fmt::format("server/{}/", client);
}

}  // namespace

const std::string& entry_of(const TensorFile& file, const char* key) {
  const auto found = file.metadata.find(key);
  if (found == file.metadata.end()) {
    throw Error(ErrorKind::run, fmt::format("it has no {}", key));
  }
  return found->second;
}

Json metadata_of(const TensorFile& file) {
  return parse_json(entry_of(file, kCheckpointKey), "its metadata");
}

const Json& table(const CheckedJson& value) {
  std::ignore = value.members();
  return value.json();
}

Memories take_clients(const CheckedJson& saved) {
  Memories clients;
  for (const auto& [id, values] : saved.members()) {
    ClientMemory& memory = clients[saved_client(id, values.name(), {})];
    memory.own.values = table(values.at("own"));
    memory.base.values = table(values.at("base"));
  }
  return clients;
}

void take_tensor(const std::string& name, const at::Tensor& tensor, Memories& clients) {
  const std::vector<std::string> parts = split(name, '/');
  auto client = clients.end();
  if (parts[0] == "client" && parts.size() >= 3) {
    client = clients.find(saved_client(parts[1], "tensor " + quoted_name(name), {}));
  }
  if (client == clients.end()) {
    throw Error(ErrorKind::run, fmt::format("tensor {} belongs to nobody", quoted_name(name)));
  }
  take_part(name, name.substr(parts[0].size() + parts[1].size() + 2), tensor, client->second);
}

ServerEntry server_entry(const Archive& archive, std::int64_t client) {
  ServerEntry entry;
  for (const auto& [name, column] : archive.columns) {
    if (!column->has(client)) {
      continue;
    }
    if (at::Tensor tensor = column->tensor(client); tensor.defined()) {
      if (tensor.numel() > 0) {
        entry.tensors[name] = std::move(tensor);
      }
    } else {
      entry.values[name] = column->value(client);
    }
  }
  return entry;
}

std::string encode_record(std::int64_t client, const ClientRecord& record) {
  TensorFile file;
  Json json = Json::object();
  if (record.memory) {
    json["clients"] = Json::object();
    if (!record.memory->empty()) {
      put_client(client, *record.memory, file, json["clients"]);
    }
  }
  if (record.server) {
    json["server"] = Json(record.server->values);
    for (const auto& [name, tensor] : record.server->tensors) {
      file.tensors[server_prefix(client) + name] = tensor;
    }
  }
  if (Json same = take_out_equal(file); !same.empty()) {
    json["same"] = std::move(same);
  }
  file.metadata[kCheckpointKey] = json.dump();
  return encode_tensors(file);
}

ClientRecord decode_record(std::int64_t client, std::string_view bytes, const std::string& source) {
  TensorFile file = decode_tensors(bytes, source);
  const Json json = metadata_of(file);
  const CheckedJson checked(json, "");
  if (const auto same = checked.find("same")) {
    put_back_equal(*same, file);
  }
  ClientRecord record;
  Memories memories;
  if (const auto saved = checked.find("clients")) {
    memories = take_clients(*saved);
    if (memories.size() > memories.count(client)) {
      throw Error(ErrorKind::run, fmt::format("{} is of another client too", source));
    }
    record.memory.emplace();
  }
  if (const auto saved = checked.find("server")) {
    record.server.emplace();
    for (const auto& [name, value] : saved->members()) {
      record.server->values[name] = value.json();
    }
  }
  const std::string prefix = server_prefix(client);
  for (const auto& [name, tensor] : file.tensors) {
    if (record.server && name.starts_with(prefix)) {
      record.server->tensors[name.substr(prefix.size())] = tensor;
    } else {
      take_tensor(name, tensor, memories);
    }
  }
  if (!memories.empty()) {
    record.memory = std::move(memories.at(client));
  }
  return record;
}

std::string encode_memories(const std::map<std::int64_t, ClientMemory>& memories) {
  TensorFile file;
  Json clients = Json::object();
  for (const auto& [id, memory] : memories) {
    put_client(id, memory, file, clients);
  }
  file.metadata[kCheckpointKey] = Json{{"clients", clients}}.dump();
  return encode_tensors(file);
}

std::map<std::int64_t, ClientMemory> decode_memories(std::string_view bytes,
                                                     const std::string& source) {
  const TensorFile file = decode_tensors(bytes, source);
  const Json json = metadata_of(file);
  Memories clients = take_clients(CheckedJson(json, "").at("clients"));
  for (const auto& [name, tensor] : file.tensors) {
    take_tensor(name, tensor, clients);
  }
  return clients;
}

}  // namespace winnow
