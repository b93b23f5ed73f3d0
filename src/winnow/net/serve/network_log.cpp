#include "winnow/net/serve/network_log.h"

#include <fmt/format.h>

#include <ctime>

#include "winnow/base/error.h"

namespace winnow::net {
namespace {

// Up to the end of the last whole line.
std::uintmax_t kept_size(const std::filesystem::path& path) {
  std::error_code failed;
  if (!std::filesystem::is_regular_file(std::filesystem::symlink_status(path, failed))) {
    return 0;
  }
  const std::string log = read_file(path);
  const std::size_t end = log.rfind('\n');
  return end == std::string::npos ? 0 : end + 1;
}

}  // namespace

std::string time_text(std::int64_t milliseconds) {
  const std::time_t seconds = milliseconds / 1000;
  std::tm parts{};
  ::gmtime_r(&seconds, &parts);
  return fmt::format("{:04d}-{:02d}-{:02d}T{:02d}:{:02d}:{:02d}.{:03d}Z", parts.tm_year + 1900,
                     parts.tm_mon + 1, parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec,
                     milliseconds % 1000);
}

NetworkLog::NetworkLog(const std::filesystem::path& path, const Clock& clock)
    : clock_(clock), file_(std::make_unique<AppendingFile>(path, kept_size(path))) {}

void NetworkLog::write(const std::string& level, const std::string& event, const Json& fields) {
  Json line{{"time", time_text(clock_.wall())}, {"level", level}, {"event", event}};
  line.update(fields);
  const std::lock_guard lock(mutex_);
  try {
    file_->write_line(line.dump(-1, ' ', false, Json::error_handler_t::replace));
  } catch (const Error&) {  // the disk is full, which others notice
  }
}

}  // namespace winnow::net
