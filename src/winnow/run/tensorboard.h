// A run's numbers for TensorBoard: a file of records with checksums (TFRecord), each an Event
// protocol buffer. Only what scalars need is encoded.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "winnow/base/files.h"
#include "winnow/base/json.h"

namespace winnow {

// TensorBoard finds files by "tfevents" in their name.
inline constexpr const char* kTensorBoardFile = "events.out.tfevents.0.winnow";

// The checksum CRC-32C (Castagnoli), before TensorFlow's masking.
std::uint32_t crc32c(std::string_view bytes);

// A payload between its length and checksums of both.
std::string tensorboard_record(std::string_view payload);

// The record that begins every file.
std::string tensorboard_header();

// The record of one round, from its line in events.jsonl: every scalar that was measured, as a
// float32 under the name it has in metrics.csv; those of the flagged clients are
// "flag_precision" and "flag_recall". The time of an event is the run's seconds so far,
// so that curves of a run that was resumed have no gap.
std::string tensorboard_round(const Json& round);

// Writes the file beside a run. What it says follows from events.jsonl alone, so it needs no place
// in checkpoints: a run that continues writes the rounds it keeps anew.
class TensorBoardWriter {
 public:
  // Replaces what is there by the given rounds. Throws Error(kind run), as add() does.
  TensorBoardWriter(std::filesystem::path path, const std::vector<Json>& rounds);

  // Appends a round, visible to a TensorBoard that runs.
  void add(const Json& round);

 private:
  AppendingFile file_;
};

}  // namespace winnow
