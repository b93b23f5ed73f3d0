// network.jsonl: who came, left and was refused, a line of JSON each.
#pragma once

#include <filesystem>
#include <memory>
#include <mutex>
#include <string>

#include "winnow/base/files.h"
#include "winnow/base/json.h"
#include "winnow/net/serve/clock.h"

namespace winnow::net {

// "2026-11-18T06:20:00.123Z"
std::string time_text(std::int64_t milliseconds);

// May be used by several threads. A line that cannot be written is dropped: it is no reason to end
// a federation.
class NetworkLog {
 public:
  NetworkLog(const std::filesystem::path& path, const Clock& clock);

  void write(const std::string& level, const std::string& event, const Json& fields);

 private:
  const Clock& clock_;
  std::mutex mutex_;
  std::unique_ptr<AppendingFile> file_;
};

}  // namespace winnow::net
