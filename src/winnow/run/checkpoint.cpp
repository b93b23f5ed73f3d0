#include "winnow/run/checkpoint.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "winnow/base/error.h"
#include "winnow/base/files.h"
#include "winnow/base/text.h"
#include "winnow/model/safetensors.h"

namespace winnow {
namespace {

constexpr const char* kMetadataKey = "winnow_checkpoint";
constexpr int kVersion = 1;

at::Tensor tensor_of(const Labels& labels) {
  at::Tensor tensor = at::empty({static_cast<std::int64_t>(labels.size())}, at::kLong);
  std::ranges::copy(labels, tensor.data_ptr<std::int64_t>());
  return tensor;
}

Labels labels_of(const std::string& name, const at::Tensor& tensor) {
  if (tensor.scalar_type() != at::kLong) {
    throw Error(ErrorKind::data, fmt::format("tensor '{}' does not hold labels", name));
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

Traffic traffic_of(const Json& json) {
  return {json.at("participations").get<std::int64_t>(), json.at("bytes_down").get<std::int64_t>(),
          json.at("bytes_up").get<std::int64_t>(), json.at("client_steps").get<std::int64_t>(),
          json.at("train_seconds").get<double>()};
}

// Tensors are named method/NAME, client/ID/NAME, client/ID (the labels in use) and selected/ID.
void put_client(std::int64_t id, const ClientMemory& memory, TensorFile& file, Json& clients) {
  const std::string prefix = fmt::format("client/{}", id);
  if (memory.labels) {
    file.tensors[prefix] = tensor_of(*memory.labels);
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
  const bool is_selection = name.starts_with("selected/");
  if (!is_selection && !name.starts_with("client/")) {
    return;
  }
  const std::vector<std::string> parts = split(name, '/');
  std::int64_t id = -1;
  std::from_chars(parts[1].data(), parts[1].data() + parts[1].size(), id);
  const auto client = checkpoint.clients.find(id);
  if (client == checkpoint.clients.end()) {
    throw Error(ErrorKind::data, fmt::format("tensor '{}' belongs to no client", name));
  }
  if (is_selection) {
    const Labels places = labels_of(name, tensor);
    client->second.selected.emplace(places.begin(), places.end());
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

Checkpoint decode(const TensorFile& file, const std::string& experiment_hash,
                  const LayoutPtr& layout) {
  const auto text = file.metadata.find(kMetadataKey);
  if (text == file.metadata.end()) {
    throw Error(ErrorKind::data, "it is not a checkpoint");
  }
  const Json json = Json::parse(text->second);
  if (json.at("version") != kVersion) {
    throw Error(ErrorKind::data, "it was written by another version of winnow");
  }
  Checkpoint checkpoint;
  checkpoint.experiment_hash = json.at("experiment").get<std::string>();
  if (checkpoint.experiment_hash != experiment_hash) {
    return checkpoint;  // the rest need not fit; the caller refuses it
  }
  checkpoint.rounds_done = json.at("rounds_done").get<std::int64_t>();
  checkpoint.traffic = traffic_of(json.at("traffic"));
  checkpoint.history = json.at("history");
  checkpoint.events_size = json.at("events_size").get<std::uintmax_t>();
  checkpoint.wall_seconds = json.at("wall_seconds").get<double>();
  checkpoint.method.values = json.at("method");
  for (const auto& [id, values] : json.at("clients").items()) {
    checkpoint.clients[std::stoll(id)].archive.values = values;
  }
  for (const auto& [name, tensor] : file.tensors) {
    take_tensor(name, tensor, checkpoint);
  }
  const auto global = file.tensors.find("global");
  if (global == file.tensors.end() || global->second.numel() != layout->total() ||
      global->second.dim() != 1 || global->second.scalar_type() != at::kFloat) {
    throw Error(ErrorKind::data, "its model does not fit the experiment's");
  }
  checkpoint.global = {layout, global->second};
  if (hash(checkpoint.global) != json.at("global_hash").get<std::string>()) {
    throw Error(ErrorKind::data, "its model does not have the hash it was saved with");
  }
  return checkpoint;
}

}  // namespace

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
                  {"global_hash", hash(checkpoint.global)},
                  {"traffic", to_json(checkpoint.traffic)},
                  {"history", checkpoint.history},
                  {"events_size", checkpoint.events_size},
                  {"wall_seconds", checkpoint.wall_seconds},
                  {"method", checkpoint.method.values},
                  {"clients", clients}};
  file.metadata[kMetadataKey] = json.dump();

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
  Checkpoint checkpoint;
  try {
    checkpoint = decode(load_tensors(path), experiment_hash, layout);
  } catch (const std::exception& error) {
    throw Error(ErrorKind::run, fmt::format("checkpoint {}: {}", path.string(), error.what()),
                "delete the file to start the run from its beginning");
  }
  if (checkpoint.experiment_hash != experiment_hash) {
    throw Error(ErrorKind::run,
                fmt::format("checkpoint {} was made under another experiment", path.string()),
                "restore the run's experiment.toml, or start a new run with --out");
  }
  return checkpoint;
}

}  // namespace winnow
