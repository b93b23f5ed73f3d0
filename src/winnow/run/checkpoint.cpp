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
constexpr std::int64_t kVersion = 2;               // 1 had a hash of the global model alone

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
          {"train_seconds", traffic.train_seconds}};
}

Traffic traffic_of(const CheckedJson& json) {
  return {json.at("participations").count(), json.at("bytes_down").count(),
          json.at("bytes_up").count(), json.at("client_steps").count(),
          json.at("train_seconds").number(0.0)};
}

// Tensors are named method/NAME, client/ID/NAME, client/ID (the labels in use), last_labels/ID and
// selected/ID.
void put_client(std::int64_t id, const ClientMemory& memory, TensorFile& file, Json& clients) {
  const std::string prefix = fmt::format("client/{}", id);
  if (memory.labels) {
    file.tensors[prefix] = tensor_of(*memory.labels);
  }
  if (memory.last_labels) {
    file.tensors[fmt::format("last_labels/{}", id)] = tensor_of(*memory.last_labels);
  }
  if (memory.selected) {
    file.tensors[fmt::format("selected/{}", id)] =
        tensor_of(Labels(memory.selected->begin(), memory.selected->end()));
  }
  for (const auto& [name, tensor] : memory.archive.tensors) {
    file.tensors[fmt::format("{}/{}", prefix, name)] = tensor;
  }
  clients[std::to_string(id)] = memory.archive.values;
}

void take_tensor(const std::string& name, const at::Tensor& tensor, Checkpoint& checkpoint) {
  if (name.starts_with("method/")) {
    checkpoint.method.tensors[name.substr(7)] = tensor;
    return;
  }
  const std::vector<std::string> parts = split(name, '/');
  const bool is_selection = parts[0] == "selected" && parts.size() == 2;
  const bool is_last = parts[0] == "last_labels" && parts.size() == 2;
  auto client = checkpoint.clients.end();
  if (is_selection || is_last || (parts[0] == "client" && parts.size() >= 2)) {
    client = checkpoint.clients.find(saved_client(parts[1], "tensor " + quoted_name(name), {}));
  }
  if (client == checkpoint.clients.end()) {
    throw Error(ErrorKind::run, fmt::format("tensor {} belongs to nobody", quoted_name(name)));
  }
  if (is_selection) {
    const Labels marks = labels_of(name, tensor);
    require_range(tensor, name, 0, 1);
    client->second.selected.emplace(marks.begin(), marks.end());
  } else if (is_last) {
    client->second.last_labels = labels_of(name, tensor);
  } else if (parts.size() == 2) {
    client->second.labels = labels_of(name, tensor);
  } else {
    client->second.archive.tensors[name.substr(parts[0].size() + parts[1].size() + 2)] = tensor;
  }
}

std::vector<std::filesystem::path> checkpoint_files(const std::filesystem::path& folder) {
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
  for (const auto& [id, values] : json.at("clients").members()) {
    checkpoint.clients[saved_client(id, values.name(), {})].archive.values = table(values);
  }
  const auto global = file.tensors.find("global");
  if (global == file.tensors.end() || global->second.numel() != layout->total() ||
      global->second.dim() != 1 || global->second.scalar_type() != at::kFloat) {
    throw Error(ErrorKind::run, "its model does not fit the experiment's");
  }
  checkpoint.global = {layout, global->second};
  for (const auto& [name, tensor] : file.tensors) {
    if (name != "global") {
      take_tensor(name, tensor, checkpoint);
    }
  }
  return checkpoint;
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
  const Json json{{"version", kVersion},
                  {"experiment", checkpoint.experiment_hash},
                  {"rounds_done", checkpoint.rounds_done},
                  {"traffic", to_json(checkpoint.traffic)},
                  {"history", checkpoint.history},
                  {"events_size", checkpoint.events_size},
                  {"wall_seconds", checkpoint.wall_seconds},
                  {"method", checkpoint.method.values},
                  {"clients", clients}};
  file.metadata[kMetadataKey] = json.dump();
  seal_checkpoint(file);

  std::error_code failed;
  std::filesystem::create_directories(folder, failed);
  const std::filesystem::path path =
      folder / fmt::format("round-{:09d}.safetensors", checkpoint.rounds_done);
  save_tensors(path, file);
  remove_leftovers(folder);
  for (const std::filesystem::path& old : checkpoint_files(folder)) {
    if (old != path) {
      std::filesystem::remove(old, failed);
    }
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
  if (or_damaged([&] { return metadata.at("version").count(); }) != kVersion) {
    throw Error(
        ErrorKind::run,
        fmt::format("checkpoint {} was written by another version of winnow", path.string()),
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
  return checkpoint;
}

}  // namespace winnow
