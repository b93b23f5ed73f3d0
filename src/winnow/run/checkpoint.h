// Checkpoints: a run as of the end of a round, written whole or not at all.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "winnow/base/error.h"
#include "winnow/federation/archive.h"
#include "winnow/federation/client.h"
#include "winnow/federation/fleet.h"
#include "winnow/model/safetensors.h"

namespace winnow {

struct Checkpoint {
  std::string experiment_hash;
  std::int64_t rounds_done = 0;
  State global;
  Archive method;
  std::map<std::int64_t, ClientMemory> clients;
  Traffic traffic;
  Json history = Json::array();    // what metrics are computed from
  std::uintmax_t events_size = 0;  // length of events.jsonl at this moment
  double wall_seconds = 0.0;
  std::filesystem::path path = {};  // where it was read from
};

// Writes `folder`/round-N.safetensors and removes older ones; the previous checkpoint stays until
// the new one is safely on the disk.
void save_checkpoint(const std::filesystem::path& folder, const Checkpoint& checkpoint);

// Adds a hash of every tensor and of the metadata, by which load_checkpoint() knows damage. Moves
// the tensors to the CPU.
void seal_checkpoint(TensorFile& file);

// What to throw where a checkpoint turns out to hold something that does not fit.
Error damaged_checkpoint(const std::filesystem::path& path, const std::string& why);

// The newest checkpoint of a folder, or nothing when there is none. Throws Error(kind run) when the
// file is damaged, was written by another version or made under another experiment. The hashes
// catch damage, but somebody who forges a file makes them anew: what the method and the clients
// have in it is checked by Session::restore().
std::optional<Checkpoint> load_checkpoint(const std::filesystem::path& folder,
                                          const std::string& experiment_hash,
                                          const LayoutPtr& layout);

}  // namespace winnow
