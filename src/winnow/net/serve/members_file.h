// members.json: how the members are, for people and for `winnow watch`.
#pragma once

#include <cstdint>
#include <filesystem>
#include <mutex>
#include <string>
#include <vector>

#include "winnow/net/serve/clock.h"
#include "winnow/net/serve/desk.h"

namespace winnow::net {

// May be used by several threads.
class MembersFile {
 public:
  // Both must outlive it.
  MembersFile(std::filesystem::path path, const Desk& desk, const Clock& clock);

  // Writes it now: so many rounds are done. Throws Error(kind run) where it cannot.
  void write(std::int64_t rounds);
  // Writes it where something else is to be said of a member than at the last time, at most once a
  // second; where members were only heard of again, every ten seconds. Does nothing before the
  // first write(). To be called a few times a second.
  void look();

 private:
  void put(const std::vector<MemberView>& members);

  std::filesystem::path path_;
  const Desk& desk_;
  const Clock& clock_;
  std::mutex mutex_;
  std::int64_t rounds_ = -1;    // -1: it was not written yet
  std::int64_t looked_ = 0;     // when
  std::int64_t written_ = 0;    // when
  std::string said_ = {};       // at the last time, but for when members were seen
  std::int64_t last_seen_ = 0;  // of all members, at the last time
};

}  // namespace winnow::net
