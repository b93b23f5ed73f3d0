#include "winnow/run/segment_log.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <optional>
#include <span>
#include <utility>

#include "winnow/base/error.h"
#include "winnow/base/sha256.h"
#include "winnow/model/safetensors.h"

namespace winnow {
namespace {

constexpr std::string_view kStart = "clients-";
constexpr std::string_view kEnd = ".segment";
constexpr std::size_t kNumberBytes = 8;
constexpr std::size_t kHashDigits = 64;  // of a hash
constexpr std::size_t kHead = 2 * kNumberBytes + kHashDigits;
constexpr std::int64_t kLargestNumber = 1'000'000'000'000;  // in a name
// A segment that is smaller is not worth leaving.
constexpr std::uintmax_t kWorthCleaning = std::uintmax_t{1} << 16;

std::string record_hash(std::int64_t client, std::string_view payload) {
  const auto bytes = std::as_bytes(std::span(payload.data(), payload.size()));
  return sha256_hex(fmt::format("{} {} {}", client, payload.size(), sha256_in_pieces(bytes)));
}

// Of a segment, after one more record.
std::string next_hash(const std::string& before, std::string_view record) {
  return sha256_hex(before + std::string(record.substr(2 * kNumberBytes, kHashDigits)));
}

void put_number(std::string& bytes, std::uint64_t number) {
  const std::size_t end = bytes.size();
  bytes.resize(end + kNumberBytes);
  std::memcpy(bytes.data() + end, &number, kNumberBytes);
}

std::uint64_t number_at(std::string_view bytes, std::size_t place) {
  std::uint64_t number = 0;
  std::memcpy(&number, bytes.data() + place, kNumberBytes);
  return number;
}

// The numbers of a segment's name: its rank, and its own.
std::optional<std::pair<std::int64_t, std::int64_t>> numbers_of(const std::string& name) {
  if (!name.starts_with(kStart) || !name.ends_with(kEnd)) {
    return std::nullopt;
  }
  std::int64_t rank = -1;
  std::int64_t number = -1;
  const char* end = name.data() + name.size() - kEnd.size();
  const auto [dash, no_rank] = std::from_chars(name.data() + kStart.size(), end, rank);
  if (no_rank != std::errc() || dash == end || *dash != '-' || rank < 0 || rank > kLargestNumber) {
    return std::nullopt;
  }
  const auto [rest, no_number] = std::from_chars(dash + 1, end, number);
  return no_number != std::errc() || rest != end || number < 0 || number > kLargestNumber
             ? std::nullopt
             : std::optional(std::pair(rank, number));
}

// Cuts the records of a segment apart without looking at their hashes.
void each_record(std::string_view bytes, const std::string& name,
                 const std::function<void(const SegmentRecord& record)>& take) {
  for (std::size_t offset = 0; offset < bytes.size();) {
    const std::string_view rest = bytes.substr(offset);
    if (rest.size() < kHead || number_at(rest, kNumberBytes) > rest.size() - kHead) {
      throw Error(ErrorKind::run, fmt::format("{} ends in the middle of a record", name));
    }
    const std::size_t length = kHead + number_at(rest, kNumberBytes);
    take({static_cast<std::int64_t>(number_at(rest, 0)), offset, rest.substr(0, length),
          rest.substr(kHead, length - kHead)});
    offset += length;
  }
}

std::string read_counting(const std::filesystem::path& folder, const MemoryPart& part) {
  std::string bytes = read_file(folder / part.file);
  if (bytes.size() < part.bytes) {
    throw Error(ErrorKind::run,
                fmt::format("{} has {} bytes, expected {}", part.file, bytes.size(), part.bytes));
  }
  bytes.resize(part.bytes);
  return bytes;
}

}  // namespace

bool is_segment(const std::filesystem::path& path) {
  return numbers_of(path.filename().string()).has_value();
}

std::int64_t rank_of_segment(const std::string& name) {
  const auto numbers = numbers_of(name);
  return numbers ? numbers->first : -1;
}

void read_segment(const std::filesystem::path& folder, const MemoryPart& part,
                  const std::function<void(const SegmentRecord& record)>& take) {
  if (part.file.find('/') != std::string::npos || !is_segment(part.file)) {
    throw Error(ErrorKind::run, fmt::format("{} cannot be a part of it", quoted_name(part.file)));
  }
  const std::string bytes = read_counting(folder, part);
  std::string hash;
  each_record(bytes, part.file, [&](const SegmentRecord& record) {
    const std::string_view saved = record.bytes.substr(2 * kNumberBytes, kHashDigits);
    if (saved != record_hash(record.client, record.payload)) {
      throw Error(ErrorKind::run,
                  fmt::format("client {} in {} does not have the hash it was saved with",
                              record.client, part.file));
    }
    hash = next_hash(hash, record.bytes);
    take(record);
  });
  if (hash != part.hash) {
    throw Error(ErrorKind::run,
                fmt::format("{} does not have the hash it was saved with", part.file));
  }
}

void SegmentLog::adopt(const std::vector<MemoryPart>& parts,
                       const std::map<std::int64_t, RecordPlace>& places) {
  for (std::size_t i = 0; i < parts.size(); ++i) {
    segments_[i] = {parts[i], 0};
  }
  for (const auto& [client, place] : places) {
    places_[client] = place;
    segments_.at(place.segment).live += place.bytes;
  }
}

bool SegmentLog::has_memory(std::int64_t client) const {
  const auto found = places_.find(client);
  return found != places_.end() && found->second.has_memory;
}

std::string SegmentLog::new_name() {
  if (last_name_ < 0) {
    last_name_ = 0;
    std::error_code ignored;
    for (const auto& entry : std::filesystem::directory_iterator(folder_, ignored)) {
      const auto numbers = numbers_of(entry.path().filename().string());
      if (numbers && numbers->first == rank_) {
        last_name_ = std::max(last_name_, numbers->second);
      }
    }
  }
  // A folder's listing may be incomplete, and a segment that is there may be all of a checkpoint.
  std::string name;
  do {
    if (last_name_ >= kLargestNumber) {
      throw Error(ErrorKind::run,
                  fmt::format("{} has a segment {}{}-{}{}, and no higher number is possible",
                              folder_.string(), kStart, rank_, last_name_, kEnd));
    }
    name = fmt::format("{}{}-{:06d}{}", kStart, rank_, ++last_name_, kEnd);
  } while (std::filesystem::exists(std::filesystem::symlink_status(folder_ / name)));
  return name;
}

void SegmentLog::close() {
  if (file_) {
    file_->sync();
    file_.reset();
  }
}

SegmentLog::Segment& SegmentLog::open() {
  if (file_ && segments_.rbegin()->second.part.bytes >= segment_bytes_) {
    close();
  }
  if (!file_) {
    const auto numbers =
        segments_.empty() ? std::nullopt : numbers_of(segments_.rbegin()->second.part.file);
    const bool goes_on = numbers && numbers->first == rank_ &&
                         segments_.rbegin()->second.part.bytes < segment_bytes_;
    if (!goes_on) {
      std::error_code failed;
      std::filesystem::create_directories(folder_, failed);
      const std::size_t number = segments_.empty() ? 0 : segments_.rbegin()->first + 1;
      segments_[number].part.file = new_name();
    }
    const MemoryPart& part = segments_.rbegin()->second.part;
    is_new_ = is_new_ || part.bytes == 0;
    file_ = std::make_unique<AppendingFile>(folder_ / part.file, part.bytes);
  }
  return segments_.rbegin()->second;
}

void SegmentLog::append(std::int64_t client, std::string_view payload, bool has_memory) {
  std::string record;
  record.reserve(kHead + payload.size());
  put_number(record, static_cast<std::uint64_t>(client));
  put_number(record, payload.size());
  record += record_hash(client, payload);
  record += payload;
  add(client, record, has_memory);
}

void SegmentLog::add(std::int64_t client, std::string_view record, bool has_memory) {
  Segment& segment = open();
  const std::uintmax_t offset = segment.part.bytes;
  file_->write(record);
  segment.part.bytes += record.size();
  segment.part.hash = next_hash(segment.part.hash, record);
  segment.live += record.size();
  if (const auto old = places_.find(client); old != places_.end()) {
    segments_.at(old->second.segment).live -= old->second.bytes;
  }
  places_[client] = {segments_.rbegin()->first, offset, record.size(), has_memory};
}

void SegmentLog::move_out(std::size_t number) {
  const MemoryPart part = segments_.at(number).part;
  each_record(read_counting(folder_, part), part.file, [&](const SegmentRecord& record) {
    const RecordPlace place = places_.at(record.client);
    if (place.segment == number && place.offset == record.offset) {
      add(record.client, record.bytes, place.has_memory);
    }
  });
}

void SegmentLog::clean() {
  std::uintmax_t moved = 0;  // a checkpoint has to be quick: the rest waits for the next one
  std::vector<std::size_t> numbers;
  for (const auto& [number, segment] : segments_) {
    numbers.push_back(number);
  }
  for (const std::size_t number : numbers) {
    const auto& [part, live] = segments_.at(number);
    const bool is_last = number == segments_.rbegin()->first;
    if (part.bytes - live <= live || moved > segment_bytes_ ||
        (is_last && part.bytes < std::min(kWorthCleaning, segment_bytes_))) {
      continue;
    }
    moved += live;
    if (is_last) {
      close();
      segments_[number + 1].part.file = new_name();
    }
    if (live > 0) {
      move_out(number);
    }
    segments_.erase(number);
  }
}

std::vector<MemoryPart> SegmentLog::settle() {
  clean();
  if (file_) {
    file_->sync();
  }
  if (std::exchange(is_new_, false)) {
    sync_folder(folder_);
  }
  std::vector<MemoryPart> parts;
  for (const auto& [number, segment] : segments_) {
    if (segment.part.bytes > 0) {
      parts.push_back(segment.part);
    }
  }
  return parts;
}

}  // namespace winnow
