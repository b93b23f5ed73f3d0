// Checkpoints: a run as of the end of a round, written whole or not at all. A head, which is one
// safetensors file and names the round, has the models and what the method keeps; what there is of
// single clients is in segments (run/segment_log.h), of which only the changed ones are written
// anew. The rounds themselves are in the log of the run.
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
#include "winnow/run/client_record.h"
#include "winnow/run/segment_log.h"

namespace winnow {

struct Checkpoint {
  std::string experiment_hash;
  std::int64_t rounds_done = 0;
  State global;
  Archive method;
  std::map<std::int64_t, ClientMemory> clients;  // after reading, also those of the parts
  std::vector<MemoryPart> parts = {};            // files beside it
  Traffic traffic;
  // What metrics are computed from. It is not in the file, but in the log; older versions had it in
  // the file.
  Json history = Json::array();
  bool has_history = false;        // read from the file of an older version
  std::uintmax_t events_size = 0;  // length of events.jsonl at this moment
  std::string events_hash = {};    // SHA-256 of these bytes
  double wall_seconds = 0.0;
  std::filesystem::path path = {};                  // where it was read from
  std::map<std::int64_t, RecordPlace> places = {};  // of all that the segments speak of
};

// Writes the checkpoints of a run into its folder, one after the other.
class CheckpointWriter {
 public:
  explicit CheckpointWriter(std::filesystem::path folder,
                            std::uintmax_t segment_bytes = kSegmentBytes)
      : folder_(folder), log_(std::move(folder), 0, segment_bytes) {}

  // Goes on after the checkpoint that was read. Where it says no, everything has to be written
  // anew.
  bool adopt(const Checkpoint& read);
  // Where clients that changed since the last save() are to be appended first.
  SegmentLog& log() { return log_; }
  // Has the segments on the disk, then writes the head `folder`/round-N.safetensors, then removes
  // what belongs to older ones: the previous checkpoint stays until the new one is safe. Of `head`
  // the clients are not looked at, and its parts are those that other processes have written.
  // Throws Error(kind run) where one of these is not in the folder.
  void save(Checkpoint head);

 private:
  std::filesystem::path folder_;
  SegmentLog log_;
};

// Writes a checkpoint with all of its clients anew, and removes others.
void save_checkpoint(const std::filesystem::path& folder, const Checkpoint& checkpoint);

// Removes everything else from its folder: a process may die between the steps of save().
void keep_only_checkpoint(const Checkpoint& checkpoint);

// Adds a hash of every tensor and of the metadata, by which load_checkpoint() knows damage. Moves
// the tensors to the CPU.
void seal_checkpoint(TensorFile& file);

// What to throw where a checkpoint turns out to hold something that does not fit.
Error damaged_checkpoint(const std::filesystem::path& path, const std::string& why);

// The newest checkpoint of a folder with its parts, or nothing when there is none; without its
// history, which the caller has. Throws Error(kind run) when a file is damaged, was written by a
// version that is not read or made under another experiment. The hashes catch damage, but somebody
// who forges a file makes them anew: what the method and the clients have in it is checked by
// Session::restore(). What clients remember beyond a limit is on the disk when it returns.
[[nodiscard]] std::optional<Checkpoint> load_checkpoint(const std::filesystem::path& folder,
                                                        const std::string& experiment_hash,
                                                        const LayoutPtr& layout,
                                                        const SpillOptions& spill = {});

}  // namespace winnow
