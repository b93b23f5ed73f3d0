// Checkpoints: a run as of the end of a round, written whole or not at all.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "winnow/federation/archive.h"
#include "winnow/federation/client.h"
#include "winnow/federation/fleet.h"
#include "winnow/model/state.h"

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
};

// Writes `folder`/round-N.safetensors and removes older ones; the previous checkpoint stays until
// the new one is safely on the disk.
void save_checkpoint(const std::filesystem::path& folder, const Checkpoint& checkpoint);

// The newest checkpoint of a folder, or nothing when there is none. Throws Error(kind run) when the
// file is damaged or was made under another experiment.
std::optional<Checkpoint> load_checkpoint(const std::filesystem::path& folder,
                                          const std::string& experiment_hash,
                                          const LayoutPtr& layout);

}  // namespace winnow
