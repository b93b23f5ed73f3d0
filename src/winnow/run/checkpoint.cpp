#include "winnow/run/checkpoint.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <span>
#include <tuple>

#include "winnow/base/error.h"
#include "winnow/base/files.h"
#include "winnow/base/json.h"
#include "winnow/base/sha256.h"
#include "winnow/base/text.h"

namespace winnow {
namespace {

constexpr const char* kMetadataKey = "winnow_checkpoint";
constexpr const char* kPartsKey = "winnow_parts";  // a line "HASH NAME" for each tensor
constexpr const char* kSealKey = "winnow_sha256";  // over the two above
// 1 had a hash of the global model alone; in 2 a client's memory was one drawer.
constexpr std::int64_t kVersion = 3;
// The same with parts; a file without any says 3, as before there were parts.
constexpr std::int64_t kVersionInParts = 4;
constexpr std::string_view kPartMark = ".part-";

at::Tensor tensor_of(const Labels& labels) {
  at::Tensor tensor = at::empty({static_cast<std::int64_t>(labels.size())}, at::kLong);
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

Json to_json(const Traffic& traffic) {
  return {{"participations", traffic.participations},
          {"bytes_down", traffic.bytes_down},
          {"bytes_up", traffic.bytes_up},
          {"client_steps", traffic.client_steps},
          {"forward_passes", traffic.passes.forward},
          {"backward_passes", traffic.passes.backward},
          {"train_seconds", traffic.train_seconds}};
}

Traffic traffic_of(const CheckedJson& json) {
  const auto passes = [&json](const char* name) {
    const auto found = json.find(name);  // checkpoints from before they were counted have none
    return found ? found->count() : 0;
  };
  return {
      json.at("participations").count(),    json.at("bytes_down").count(),
      json.at("bytes_up").count(),          json.at("client_steps").count(),
      json.at("train_seconds").number(0.0), {passes("forward_passes"), passes("backward_passes")}};
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
  clients[std::to_string(id)] = {{"own", memory.own.values}, {"base", memory.base.values}};
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

using Memories = std::map<std::int64_t, ClientMemory>;

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

std::string name_of_round(std::int64_t round) {
  return fmt::format("round-{:09d}", round);
}

bool is_part(const std::filesystem::path& path) {
  return path.filename().string().find(kPartMark) != std::string::npos;
}

// Checkpoints and their parts, sorted.
std::vector<std::filesystem::path> files_of_rounds(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(folder, ignored)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("round-") && name.ends_with(".safetensors")) {
      files.push_back(entry.path());
    }
  }
  std::ranges::sort(files);
  return files;
}

std::vector<std::filesystem::path> checkpoint_files(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files = files_of_rounds(folder);
  std::erase_if(files, is_part);
  return files;
}

// Removes all but one checkpoint and what is a part of it, by its name.
void remove_others(const std::filesystem::path& folder, const std::filesystem::path& kept) {
  const std::string parts = kept.stem().string() + std::string(kPartMark);
  std::error_code ignored;
  for (const std::filesystem::path& file : files_of_rounds(folder)) {
    if (file != kept && !file.filename().string().starts_with(parts)) {
      std::filesystem::remove(file, ignored);
    }
  }
}

// What a killed process was writing when it died.
void remove_leftovers(const std::filesystem::path& folder) {
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(folder, ignored)) {
    if (is_leftover(entry.path())) {
      std::filesystem::remove(entry.path(), ignored);
    }
  }
}

const std::string& entry_of(const TensorFile& file, const char* key) {
  const auto found = file.metadata.find(key);
  if (found == file.metadata.end()) {
    throw Error(ErrorKind::run, fmt::format("it has no {}", key));
  }
  return found->second;
}

Json metadata_of(const TensorFile& file) {
  return parse_json(entry_of(file, kMetadataKey), "its metadata");
}

std::string seal_of(const TensorFile& file) {
  return sha256_hex(entry_of(file, kMetadataKey) + "\n" + entry_of(file, kPartsKey));
}

// Of a tensor on the CPU: its name, type, shape and bytes.
std::string part_hash(const std::string& name, const at::Tensor& tensor) {
  Sha256 hash;
  hash.update(fmt::format("{}\n{} {}\n", name, at::toString(tensor.scalar_type()),
                          fmt::join(tensor.sizes(), " ")));
  hash.update(
      sha256_in_pieces({static_cast<const std::byte*>(tensor.data_ptr()), tensor.nbytes()}));
  return hash.hex();
}

void check_hashes(const TensorFile& file) {
  if (entry_of(file, kSealKey) != seal_of(file)) {
    throw Error(ErrorKind::run, "its metadata does not have the hash it was saved with");
  }
  constexpr std::size_t kDigits = 64;
  std::map<std::string, std::string> saved;
  for (const std::string& line : split(entry_of(file, kPartsKey), '\n')) {
    if (line.size() > kDigits) {
      saved[line.substr(kDigits + 1)] = line.substr(0, kDigits);
    }
  }
  for (const auto& [name, tensor] : file.tensors) {
    const auto known = saved.find(name);
    if (known == saved.end() || known->second != part_hash(name, tensor)) {
      throw Error(ErrorKind::run, fmt::format("part {} does not have the hash it was saved with",
                                              quoted_name(name)));
    }
    saved.erase(known);
  }
  if (!saved.empty()) {
    throw Error(ErrorKind::run,
                fmt::format("part {} is missing", quoted_name(saved.begin()->first)));
  }
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

Checkpoint decode(const TensorFile& file, const CheckedJson& json, const LayoutPtr& layout) {
  Checkpoint checkpoint;
  checkpoint.experiment_hash = json.at("experiment").text();
  checkpoint.rounds_done = json.at("rounds_done").count();
  checkpoint.traffic = traffic_of(json.at("traffic"));
  std::ignore = json.at("history").elements();
  checkpoint.history = json.at("history").json();
  checkpoint.events_size = static_cast<std::uintmax_t>(json.at("events_size").count());
  checkpoint.wall_seconds = json.at("wall_seconds").number(0.0);
  checkpoint.method.values = table(json.at("method"));
  checkpoint.clients = take_clients(json.at("clients"));
  if (const auto parts = json.find("parts")) {
    for (const CheckedJson& part : parts->elements()) {
      checkpoint.parts.push_back({part.at("file").text(), part.at("sha256").text()});
    }
  }
  const auto global = file.tensors.find("global");
  if (global == file.tensors.end() || global->second.numel() != layout->total() ||
      global->second.dim() != 1 || global->second.scalar_type() != at::kFloat) {
    throw Error(ErrorKind::run, "its model does not fit the experiment's");
  }
  checkpoint.global = {layout, global->second};
  for (const auto& [name, tensor] : file.tensors) {
    if (name.starts_with("method/")) {
      checkpoint.method.tensors[name.substr(7)] = tensor;
    } else if (name != "global") {
      take_tensor(name, tensor, checkpoint.clients);
    }
  }
  return checkpoint;
}

// Adds the memory that lies in a part. Its name may be forged: it must be one of the checkpoint's.
void read_part(const MemoryPart& part, Checkpoint& checkpoint) {
  const std::string start = checkpoint.path.stem().string() + std::string(kPartMark);
  if (!part.file.starts_with(start) || part.file.find('/') != std::string::npos) {
    throw Error(ErrorKind::run, fmt::format("{} cannot be a part of it", quoted_name(part.file)));
  }
  const std::string bytes = read_file(checkpoint.path.parent_path() / part.file);
  if (sha256_hex(bytes) != part.hash) {
    throw Error(ErrorKind::run,
                fmt::format("{} does not have the hash it was saved with", part.file));
  }
  for (auto& [client, memory] : decode_memories(bytes, part.file)) {
    if (!checkpoint.clients.emplace(client, std::move(memory)).second) {
      throw Error(ErrorKind::run, fmt::format("client {} is in two of its parts", client));
    }
  }
}

}  // namespace

Error damaged_checkpoint(const std::filesystem::path& path, const std::string& why) {
  return {ErrorKind::run, fmt::format("checkpoint {} is damaged: {}", path.string(), why),
          "delete the file to resume from an earlier checkpoint, or from the beginning where there "
          "is none"};
}

void seal_checkpoint(TensorFile& file) {
  std::string& parts = file.metadata[kPartsKey];
  parts.clear();
  for (auto& [name, tensor] : file.tensors) {
    tensor = tensor.cpu().contiguous();
    parts += fmt::format("{} {}\n", part_hash(name, tensor), name);
  }
  file.metadata[kSealKey] = seal_of(file);
}

void save_checkpoint(const std::filesystem::path& folder, const Checkpoint& checkpoint) {
  TensorFile file;
  file.tensors["global"] = checkpoint.global.flat;
  for (const auto& [name, tensor] : checkpoint.method.tensors) {
    file.tensors["method/" + name] = tensor;
  }
  Json clients = Json::object();
  for (const auto& [id, memory] : checkpoint.clients) {
    put_client(id, memory, file, clients);
  }
  Json json{{"version", checkpoint.parts.empty() ? kVersion : kVersionInParts},
            {"experiment", checkpoint.experiment_hash},
            {"rounds_done", checkpoint.rounds_done},
            {"traffic", to_json(checkpoint.traffic)},
            {"history", checkpoint.history},
            {"events_size", checkpoint.events_size},
            {"wall_seconds", checkpoint.wall_seconds},
            {"method", checkpoint.method.values},
            {"clients", clients}};
  for (const MemoryPart& part : checkpoint.parts) {
    if (!std::filesystem::exists(folder / part.file)) {
      throw Error(ErrorKind::run,
                  fmt::format("{} was written by another process and cannot be seen here",
                              (folder / part.file).string()),
                  "put the run directory on a file system that all nodes share");
    }
    json["parts"].push_back({{"file", part.file}, {"sha256", part.hash}});
  }
  file.metadata[kMetadataKey] = json.dump();
  seal_checkpoint(file);

  std::error_code failed;
  std::filesystem::create_directories(folder, failed);
  const std::filesystem::path path =
      folder / (name_of_round(checkpoint.rounds_done) + ".safetensors");
  save_tensors(path, file);
  remove_leftovers(folder);
  remove_others(folder, path);
}

std::string encode_memories(const std::map<std::int64_t, ClientMemory>& memories) {
  TensorFile file;
  Json clients = Json::object();
  for (const auto& [id, memory] : memories) {
    put_client(id, memory, file, clients);
  }
  file.metadata[kMetadataKey] = Json{{"clients", clients}}.dump();
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

MemoryPart save_part(const std::filesystem::path& folder, std::int64_t round, std::int64_t rank,
                     const std::map<std::int64_t, ClientMemory>& memories) {
  const std::string bytes = encode_memories(memories);
  MemoryPart part{fmt::format("{}{}{}.safetensors", name_of_round(round), kPartMark, rank),
                  sha256_hex(bytes)};
  std::error_code failed;
  std::filesystem::create_directories(folder, failed);
  write_file_whole(folder / part.file, bytes);
  return part;
}

void keep_newest_checkpoint(const std::filesystem::path& folder) {
  if (const auto files = checkpoint_files(folder); !files.empty()) {
    remove_others(folder, files.back());
  }
}

std::optional<Checkpoint> load_checkpoint(const std::filesystem::path& folder,
                                          const std::string& experiment_hash,
                                          const LayoutPtr& layout) {
  const std::vector<std::filesystem::path> files = checkpoint_files(folder);
  if (files.empty()) {
    return std::nullopt;
  }
  const std::filesystem::path& path = files.back();
  const auto or_damaged = [&path](const auto& read) {
    try {
      return read();
    } catch (const Error& error) {
      throw damaged_checkpoint(path, error.what());
    }
  };
  const TensorFile file = or_damaged([&] { return decode_tensors(read_file(path), "the file"); });
  const Json json = or_damaged([&] { return metadata_of(file); });
  const CheckedJson metadata(json, "");
  if (const std::int64_t version = or_damaged([&] { return metadata.at("version").count(); });
      version != kVersion && version != kVersionInParts) {
    throw Error(
        ErrorKind::run,
        fmt::format("checkpoint {} was made by {} Winnow: format {}, this program reads {} and {}",
                    path.string(), version > kVersion ? "a newer" : "an older", version, kVersion,
                    kVersionInParts),
        "resume the run with the version that started it, or delete the file to start from "
        "the beginning");
  }
  or_damaged([&] { check_hashes(file); });
  if (or_damaged([&] { return metadata.at("experiment").text(); }) != experiment_hash) {
    throw Error(ErrorKind::run,
                fmt::format("checkpoint {} was made under another experiment", path.string()),
                "restore the run's experiment.toml, or start a new run with 'winnow run'");
  }
  Checkpoint checkpoint = or_damaged([&] { return decode(file, metadata, layout); });
  checkpoint.path = path;
  or_damaged([&] {
    for (const MemoryPart& part : checkpoint.parts) {
      read_part(part, checkpoint);
    }
  });
  return checkpoint;
}

}  // namespace winnow
