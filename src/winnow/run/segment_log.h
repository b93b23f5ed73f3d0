// Segments: files of a checkpoint that only grow, with a record for every change of a client. Of a
// client the last record counts. A round of ten clients adds ten records, however many clients
// there are.
//
// A record is the client's id and the length of what follows (8 bytes each, little-endian), the
// record's SHA-256 as 64 hexadecimal digits, and the bytes of run/client_record.h. The head of a
// checkpoint (run/checkpoint.h) says how many bytes of which segments count, with a hash over the
// records of each. So a segment may grow, or a new one appear, before the head that speaks of it:
// what a killed process has added is cut off. A segment goes when a head is on the disk that does
// not name it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "winnow/base/files.h"
#include "winnow/engine/engine.h"

namespace winnow {

inline constexpr std::uintmax_t kSegmentBytes = std::uintmax_t{64} << 20;

// Where the last record of a client is.
struct RecordPlace {
  std::size_t segment = 0;  // by its place in the head's list
  std::uintmax_t offset = 0;
  std::uintmax_t bytes = 0;
  bool has_memory = false;  // ClientRecord::memory
};

// Whether a file is called as segments are.
bool is_segment(const std::filesystem::path& path);
// The rank that wrote it, by its name; -1 where that is none of a segment.
std::int64_t rank_of_segment(const std::string& name);

// Calls `take` with every record of a segment, in order. Trusts nothing: throws Error(kind data) or
// Error(kind run) where its name cannot be that of a segment, where it is not whole, or where a
// record or all of them do not have their hash.
struct SegmentRecord {
  std::int64_t client = 0;
  std::uintmax_t offset = 0;
  std::string_view bytes = {};    // with the id, the length and the hash
  std::string_view payload = {};  // without
};
void read_segment(const std::filesystem::path& folder, const MemoryPart& part,
                  const std::function<void(const SegmentRecord& record)>& take);

// What one process writes. A segment of which more is dead than alive is left: what is alive in it
// goes to the end of the log. So the files hold at most twice what counts, and a segment.
class SegmentLog {
 public:
  // Ranks write files of their own.
  explicit SegmentLog(std::filesystem::path folder, std::int64_t rank = 0,
                      std::uintmax_t segment_bytes = kSegmentBytes)
      : folder_(std::move(folder)), rank_(rank), segment_bytes_(segment_bytes) {}

  // Goes on after segments that were read.
  void adopt(const std::vector<MemoryPart>& parts,
             const std::map<std::int64_t, RecordPlace>& places);
  // Adds a record, which takes the place of the client's last one.
  void append(std::int64_t client, std::string_view payload, bool has_memory);
  // Whether the client's last record speaks of its memory; then the next one has to, as well.
  bool has_memory(std::int64_t client) const;
  // Has everything on the disk and returns the segments that count from now on, which a head must
  // name before anything else is removed.
  [[nodiscard]] std::vector<MemoryPart> settle();

 private:
  struct Segment {
    MemoryPart part;
    std::uintmax_t live = 0;
  };

  // The last segment, open at its end.
  Segment& open();
  void close();
  void add(std::int64_t client, std::string_view record, bool has_memory);
  void clean();
  // Adds what is alive in a segment to the end of the log.
  void move_out(std::size_t number);
  std::string new_name();

  std::filesystem::path folder_;
  std::int64_t rank_;
  std::uintmax_t segment_bytes_;
  std::map<std::size_t, Segment> segments_;  // in the order in which they were begun
  std::unordered_map<std::int64_t, RecordPlace> places_;
  std::unique_ptr<AppendingFile> file_;  // of the last segment; null: it is not open
  std::int64_t last_name_ = -1;          // -1: not looked for yet
  bool is_new_ = false;                  // a file was made since the last settle()
};

}  // namespace winnow
