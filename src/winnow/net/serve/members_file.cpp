#include "winnow/net/serve/members_file.h"

#include <algorithm>
#include <utility>

#include "winnow/base/error.h"
#include "winnow/base/files.h"
#include "winnow/base/json.h"
#include "winnow/net/serve/network_log.h"

namespace winnow::net {
namespace {

constexpr std::int64_t kBetweenLooks = 1000;  // milliseconds
constexpr std::int64_t kStaleAfter = 10'000;

Json time_or_null(std::int64_t milliseconds) {
  return milliseconds == 0 ? Json(nullptr) : Json(time_text(milliseconds));
}

std::string text_of_members(std::int64_t rounds, const std::vector<MemberView>& views,
                            bool with_times) {
  Json members = Json::array();
  for (const MemberView& view : views) {
    const MemberRow& row = view.row;
    members.push_back({{"name", row.name},
                       {"client", row.client},
                       {"status", view.status},
                       {"samples", row.samples},
                       {"version", row.version},
                       {"last_seen", time_or_null(with_times ? row.seen : 0)},
                       {"rounds", row.rounds},
                       {"absences", row.absences},
                       {"refusals", row.refusals},
                       {"expires", time_or_null(view.expires * 1000)}});
  }
  const Json file{{"round", rounds}, {"members", std::move(members)}};
  return file.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::int64_t latest(const std::vector<MemberView>& members) {
  std::int64_t seen = 0;
  for (const MemberView& view : members) {
    seen = std::max(seen, view.row.seen);
  }
  return seen;
}

}  // namespace

MembersFile::MembersFile(std::filesystem::path path, const Desk& desk, const Clock& clock)
    : path_(std::move(path)), desk_(desk), clock_(clock) {}

void MembersFile::put(const std::vector<MemberView>& members) {
  write_file_whole(path_, text_of_members(rounds_, members, true));
  said_ = text_of_members(rounds_, members, false);
  last_seen_ = latest(members);
  written_ = clock_.now();
}

void MembersFile::write(std::int64_t rounds) {
  const std::lock_guard lock(mutex_);
  rounds_ = rounds;
  put(desk_.members());
}

void MembersFile::look() {
  const std::lock_guard lock(mutex_);
  const std::int64_t now = clock_.now();
  if (rounds_ < 0 || now - looked_ < kBetweenLooks) {
    return;
  }
  looked_ = now;
  const std::vector<MemberView> members = desk_.members();
  const bool stale = now - written_ >= kStaleAfter && latest(members) != last_seen_;
  if (!stale && text_of_members(rounds_, members, false) == said_) {
    return;
  }
  try {
    put(members);
  } catch (const Error&) {  // a full disk, say: the next look tries again, and the run says it
  }
}

}  // namespace winnow::net
