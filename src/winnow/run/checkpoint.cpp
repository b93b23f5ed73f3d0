#include "winnow/run/checkpoint.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <span>
#include <tuple>

#include "winnow/base/error.h"
#include "winnow/base/files.h"
#include "winnow/base/json.h"
#include "winnow/base/sha256.h"
#include "winnow/base/text.h"

namespace winnow {
namespace {

constexpr const char* kPartsKey = "winnow_parts";  // a line "HASH NAME" for each tensor
constexpr const char* kSealKey = "winnow_sha256";  // over the two above
// 1 had a hash of the global model alone; in 2 a client's memory was one drawer. 3 had everything
// in one file, 4 the clients of other processes in parts: files that were written whole.
constexpr std::int64_t kVersion = 5;
constexpr std::int64_t kOldestRead = 3;
constexpr std::string_view kPartMark = ".part-";  // until 4

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

// Removes what belongs to other checkpoints.
void remove_others(const std::filesystem::path& folder, const Checkpoint& kept) {
  const auto is_kept = [&kept](const std::filesystem::path& file) {
    return file == kept.path ||
           std::ranges::count(kept.parts, file.filename().string(), &MemoryPart::file) > 0;
  };
  std::vector<std::filesystem::path> others = files_of_rounds(folder);
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(folder, ignored)) {
    if (is_segment(entry.path())) {
      others.push_back(entry.path());
    }
  }
  for (const std::filesystem::path& file : others) {
    if (!is_kept(file)) {
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

std::string seal_of(const TensorFile& file) {
  return sha256_hex(entry_of(file, kCheckpointKey) + "\n" + entry_of(file, kPartsKey));
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

Checkpoint decode(const TensorFile& file, const CheckedJson& json, const LayoutPtr& layout) {
  Checkpoint checkpoint;
  checkpoint.experiment_hash = json.at("experiment").text();
  checkpoint.rounds_done = json.at("rounds_done").count();
  checkpoint.traffic = traffic_of(json.at("traffic"));
  if (json.at("version").count() < kVersion) {
    std::ignore = json.at("history").elements();
    checkpoint.history = json.at("history").json();
    checkpoint.clients = take_clients(json.at("clients"));
    checkpoint.has_history = true;
  } else {
    checkpoint.events_hash = json.at("events_sha256").text();
  }
  checkpoint.events_size = static_cast<std::uintmax_t>(json.at("events_size").count());
  checkpoint.wall_seconds = json.at("wall_seconds").number(0.0);
  checkpoint.method.values = table(json.at("method"));
  if (const auto parts = json.find("parts")) {
    for (const CheckedJson& part : parts->elements()) {
      const auto bytes = part.find("bytes");
      checkpoint.parts.push_back({part.at("file").text(), part.at("sha256").text(),
                                  static_cast<std::uintmax_t>(bytes ? bytes->count() : 0)});
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

// Adds the memory that lies in a part, as older versions wrote them. Its name may be forged: it
// must be one of the checkpoint's.
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

// Adds what lies in the segments: of every client the last that was said of it.
void read_segments(Checkpoint& checkpoint, const SpillOptions& spill_options) {
  std::map<std::int64_t, ServerEntry> entries;
  Spill spill(spill_options);  // there may be more than fits into memory
  std::int64_t in_memory = 0;
  std::set<std::string> names;
  for (std::size_t i = 0; i < checkpoint.parts.size(); ++i) {
    const MemoryPart& part = checkpoint.parts[i];
    if (!names.insert(part.file).second) {
      throw Error(ErrorKind::run, fmt::format("it names {} twice", quoted_name(part.file)));
    }
    read_segment(checkpoint.path.parent_path(), part, [&](const SegmentRecord& saved) {
      ClientRecord record = decode_record(saved.client, saved.payload,
                                          fmt::format("client {} in {}", saved.client, part.file));
      checkpoint.places[saved.client] = {i, saved.offset, saved.bytes.size(),
                                         record.memory.has_value()};
      if (record.memory) {
        if (const auto old = checkpoint.clients.find(saved.client);
            old != checkpoint.clients.end()) {
          in_memory -= bytes_in_memory(old->second);
          checkpoint.clients.erase(old);
        }
        if (!record.memory->empty()) {
          keep_within(*record.memory, spill, in_memory);
          checkpoint.clients[saved.client] = std::move(*record.memory);
        }
      }
      if (record.server) {
        entries[saved.client] = std::move(*record.server);
      }
    });
  }
  for (auto& [client, entry] : entries) {
    for (auto& [column, value] : entry.values) {
      checkpoint.method.take_entry(column, client, std::move(value));
    }
    for (const auto& [column, tensor] : entry.tensors) {
      checkpoint.method.take_entry(column, client, tensor);
    }
  }
}

void read_parts(const CheckedJson& metadata, Checkpoint& checkpoint, const SpillOptions& spill) {
  if (metadata.at("version").count() == kVersion) {
    read_segments(checkpoint, spill);
    return;
  }
  for (const MemoryPart& part : checkpoint.parts) {
    read_part(part, checkpoint);
  }
}

// The file that names the others.
void write_head(const std::filesystem::path& folder, const Checkpoint& checkpoint) {
  TensorFile file;
  file.tensors["global"] = checkpoint.global.flat;
  for (const auto& [name, tensor] : checkpoint.method.tensors) {
    file.tensors["method/" + name] = tensor;
  }
  Json json{{"version", kVersion},
            {"experiment", checkpoint.experiment_hash},
            {"rounds_done", checkpoint.rounds_done},
            {"traffic", to_json(checkpoint.traffic)},
            {"events_size", checkpoint.events_size},
            {"events_sha256", checkpoint.events_hash},
            {"wall_seconds", checkpoint.wall_seconds},
            {"method", checkpoint.method.values},
            {"parts", Json::array()}};
  for (const MemoryPart& part : checkpoint.parts) {
    if (!std::filesystem::exists(folder / part.file)) {
      throw Error(ErrorKind::run,
                  fmt::format("{} was written by another process and cannot be seen here",
                              (folder / part.file).string()),
                  "put the run directory on a file system that all nodes share");
    }
    json["parts"].push_back({{"file", part.file}, {"bytes", part.bytes}, {"sha256", part.hash}});
  }
  file.metadata[kCheckpointKey] = json.dump();
  seal_checkpoint(file);
  save_tensors(checkpoint.path, file);
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

bool CheckpointWriter::adopt(const Checkpoint& read) {
  const auto is_own = [](const MemoryPart& part) { return rank_of_segment(part.file) == 0; };
  // Of an older version, or with files of other ranks, in which a client's last record says only
  // what it remembers.
  if (read.has_history || !std::ranges::all_of(read.parts, is_own)) {
    return false;
  }
  log_.adopt(read.parts, read.places);
  return true;
}

void CheckpointWriter::save(Checkpoint head) {
  std::error_code failed;
  std::filesystem::create_directories(folder_, failed);
  head.path = folder_ / (name_of_round(head.rounds_done) + ".safetensors");
  std::vector<MemoryPart> parts = log_.settle();
  head.parts.insert(head.parts.begin(), parts.begin(), parts.end());
  write_head(folder_, head);
  remove_leftovers(folder_);
  remove_others(folder_, head);
}

void save_checkpoint(const std::filesystem::path& folder, const Checkpoint& checkpoint) {
  CheckpointWriter writer(folder);
  std::set<std::int64_t> clients;
  for (const auto& [client, memory] : checkpoint.clients) {
    clients.insert(client);
  }
  each_changed_client({}, checkpoint.method, [&](std::int64_t client) { clients.insert(client); });
  for (const std::int64_t client : clients) {
    const auto memory = checkpoint.clients.find(client);
    ClientRecord record{.server = server_entry(checkpoint.method, client)};
    if (memory != checkpoint.clients.end()) {
      record.memory = memory->second;
    }
    writer.log().append(client, encode_record(client, record), record.memory.has_value());
  }
  writer.save(checkpoint);
}

void keep_only_checkpoint(const Checkpoint& checkpoint) {
  remove_others(checkpoint.path.parent_path(), checkpoint);
}

std::optional<Checkpoint> load_checkpoint(const std::filesystem::path& folder,
                                          const std::string& experiment_hash,
                                          const LayoutPtr& layout, const SpillOptions& spill) {
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
      version < kOldestRead || version > kVersion) {
    throw Error(
        ErrorKind::run,
        fmt::format("checkpoint {} was made by {} Winnow: format {}, this program reads {} to {}",
                    path.string(), version > kVersion ? "a newer" : "an older", version,
                    kOldestRead, kVersion),
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
  or_damaged([&] { read_parts(metadata, checkpoint, spill); });
  return checkpoint;
}

}  // namespace winnow
