// Checkpoints: a run as of the end of a round, written whole or not at all.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "winnow/base/error.h"
#include "winnow/engine/engine.h"
#include "winnow/federation/archive.h"
#include "winnow/federation/fleet.h"
#include "winnow/federation/memory.h"
#include "winnow/model/safetensors.h"

namespace winnow {

struct Checkpoint {
  std::string experiment_hash;
  std::int64_t rounds_done = 0;
  State global;
  Archive method;
  std::map<std::int64_t, ClientMemory> clients;  // after reading, also those of the parts
  std::vector<MemoryPart> parts = {};            // files beside it with the memory of other clients
  Traffic traffic;
  Json history = Json::array();    // what metrics are computed from
  std::uintmax_t events_size = 0;  // length of events.jsonl at this moment
  double wall_seconds = 0.0;
  std::filesystem::path path = {};  // where it was read from
};

// Writes `folder`/round-N.safetensors and removes older ones; the previous checkpoint stays until
// the new one is safely on the disk. Throws Error(kind run) where a part is not in the folder.
void save_checkpoint(const std::filesystem::path& folder, const Checkpoint& checkpoint);

// What clients remember as the bytes of a safetensors file, and back; the bytes may be forged, and
// whether a memory fits its client is not looked at. Throws Error(kind data) or Error(kind run).
std::string encode_memories(const std::map<std::int64_t, ClientMemory>& memories);
std::map<std::int64_t, ClientMemory> decode_memories(std::string_view bytes,
                                                     const std::string& source);

// Writes them as the part of a rank into the folder, for the checkpoint of a round.
MemoryPart save_part(const std::filesystem::path& folder, std::int64_t round, std::int64_t rank,
                     const std::map<std::int64_t, ClientMemory>& memories);

// Removes all but the newest, which is known to be whole: a process may die between the two steps
// of save_checkpoint().
void keep_newest_checkpoint(const std::filesystem::path& folder);

// Adds a hash of every tensor and of the metadata, by which load_checkpoint() knows damage. Moves
// the tensors to the CPU.
void seal_checkpoint(TensorFile& file);

// What to throw where a checkpoint turns out to hold something that does not fit.
Error damaged_checkpoint(const std::filesystem::path& path, const std::string& why);

// The newest checkpoint of a folder with its parts, or nothing when there is none. Throws
// Error(kind run) when a file is damaged, was written by another version or made under another
// experiment. The hashes catch damage, but somebody who forges a file makes them anew: what the
// method and the clients have in it is checked by Session::restore().
std::optional<Checkpoint> load_checkpoint(const std::filesystem::path& folder,
                                          const std::string& experiment_hash,
                                          const LayoutPtr& layout);

}  // namespace winnow
