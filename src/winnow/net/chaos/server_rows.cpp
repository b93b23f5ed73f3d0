// Rows 1, 2, 5, 21 and 25: the server dies, has no room, or finds something else than it left.
#include <fmt/format.h>

#include <array>
#include <chrono>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <thread>
#include <vector>

#include "winnow/base/files.h"
#include "winnow/base/random.h"
#include "winnow/net/chaos/outcome.h"
#include "winnow/net/chaos/rogue.h"
#include "winnow/net/chaos/rows.h"
#include "winnow/net/pki/doctor.h"
#include "winnow/net/serve/database.h"
#include "winnow/net/serve/fail_point.h"
#include "winnow/run/deal.h"
#include "winnow/run/run_directory.h"

namespace winnow::chaos {
namespace {

namespace fs = std::filesystem;

constexpr int kExitRun = 5;
constexpr int kKilledAtPoint = 137;
constexpr std::int64_t kKiB = 1024;
constexpr std::int64_t kAnySize = std::int64_t{1} << 40;

Launch dying_at(std::string_view point, int time) {
  return {.environment = {fmt::format("WINNOW_FAILPOINT={}:{}", point, time)}};
}

// One federation that dies at one point after the other.
std::string dies_at_points(const Stage& stage, const fs::path& folder) {
  constexpr std::array<std::string_view, 7> kPoints{
      net::kBeforeOrder,  net::kAfterOrder, net::kAfterPiece,     net::kAfterRename,
      net::kAfterVerdict, net::kAfterFold,  net::kAfterCheckpoint};
  Federation federation(stage, folder, {.experiment = {"rounds=9", kWithMemory}});
  bool first = true;
  for (const std::string_view point : kPoints) {
    federation.serve(dying_at(point, first ? 2 : 1));
    if (first) {
      federation.swarm({0, 1, 2, 3});
      first = false;
    }
    const int code = federation.server().wait(120);
    require(code == kKilledAtPoint, fmt::format("it did not die at {}: exit {}", point, code));
  }
  federation.serve();
  federation.finish();
  return fmt::format("{} deaths, nothing counted twice, {}", kPoints.size(),
                     federation.same_model());
}

// What the seed decides: who dies next, and how long after a round of theirs.
struct Death {
  std::optional<std::int64_t> member;  // else the server
  double moment = 0.0;                 // in rounds
};

// As many of the server as of members, in an order by chance.
std::vector<Death> all_deaths(Stream& chance) {
  constexpr std::int64_t kOfEach = 20;
  constexpr double kLongest = 2.0;
  std::vector<Death> deaths;
  for (std::int64_t number = 0; number < kOfEach; ++number) {
    deaths.push_back({std::nullopt, chance.uniform(0.0, kLongest)});
    deaths.push_back({number % kMembers, chance.uniform(0.0, kLongest)});
  }
  chance.shuffle(std::span(deaths));
  return deaths;
}

// Every member is a process of its own. Between two deaths a round is played to its end.
std::string dies_at_random(const Stage& stage, const fs::path& folder) {
  constexpr std::int64_t kUndisturbed = 3;  // rounds, to see how long they take
  Federation federation(stage, folder, {.experiment = {"rounds=240", kWithMemory}});
  Stream chance(stage.seed, "chaos deaths");
  federation.serve();
  std::vector<std::unique_ptr<Process>> members;
  for (std::int64_t client = 0; client < kMembers; ++client) {
    members.push_back(federation.join(client));
  }
  federation.await_rounds(1);
  const auto begun = std::chrono::steady_clock::now();
  federation.await_rounds(1 + kUndisturbed);
  const std::chrono::duration<double> round =
      (std::chrono::steady_clock::now() - begun) / static_cast<double>(kUndisturbed);
  int of_server = 0;
  int of_members = 0;
  for (const Death& next : all_deaths(chance)) {
    federation.await_rounds(federation.rounds() + 1);
    std::this_thread::sleep_for(next.moment * round);
    require(!federation.server().code(),
            fmt::format("it was over after {} deaths", of_server + of_members));
    if (next.member) {
      const auto place = static_cast<std::size_t>(*next.member);
      require(!members[place]->code(), fmt::format("{} has ended", member_name(*next.member)));
      members[place]->kill();
      members[place] = federation.join(*next.member);
      members[place]->await_words("taking part", 120);
      ++of_members;
    } else {
      federation.server().kill();
      federation.serve();
      ++of_server;
    }
  }
  federation.finish();
  return fmt::format("{} deaths of the server, {} of members; {}", of_server, of_members,
                     federation.same_model());
}

// No room for a model of 240 KiB: the round waits until there is.
std::string full_spool(const Stage& stage, const fs::path& folder) {
  Federation federation(stage, folder);
  federation.serve();
  federation.server().limit_files(236 * kKiB);
  federation.swarm({0, 1, 2, 3});
  await([&] { return federation.refused_with("not_now"); }, 60, "a refusal", stage.stop);
  require(federation.rounds() == 0, "a round was played without room");
  federation.server().limit_files(kAnySize);
  federation.finish();
  return "spool: not_now, waits, " + federation.same_model();
}

// The journal or the checkpoint cannot be written: an end that can be gone on from.
std::string full_file(const Stage& stage, const fs::path& folder, const Settings& settings,
                      std::int64_t limit, const std::string& file) {
  Federation federation(stage, folder, settings);
  federation.serve();
  federation.server().limit_files(limit);
  federation.swarm({0, 1, 2, 3});
  const int code = federation.server().wait(120);
  const std::string said = federation.server().said();
  require(code == kExitRun, fmt::format("{}: exit {}", file, code));
  require(said.find(file) != std::string::npos, fmt::format("{} is not named", file));
  federation.serve();
  federation.finish();
  return fmt::format("{}: exit 5, goes on, {}", file, federation.same_model());
}

std::string full_disk(const Stage& stage, const fs::path& folder) {
  const std::string spool = full_spool(stage, folder / "spool");
  // The model fits, the log of the journal grows beyond.
  const std::string journal =
      full_file(stage, folder / "journal", {.experiment = {"rounds=20"}}, 320 * kKiB, "journal");
  // With its momentum the checkpoint is two models long.
  const std::string checkpoint =
      full_file(stage, folder / "checkpoint", {.experiment = {"method.name=\"fedavgm\""}},
                420 * kKiB, "checkpoint");
  return fmt::format("{}; {}; {}", spool, journal, checkpoint);
}

// Deadlines stand in the journal by the clock of the wall: after a death in the middle of a round,
// and with a clock that is a year ahead, they are long past.
std::string other_clocks(const Stage& stage, const fs::path& folder) {
  const Credentials own = stage.credentials(member_name(kTarget));
  Federation federation(stage, folder);
  federation.serve(dying_at(net::kAfterOrder, 3));
  federation.swarm({0, 1, 2, 3});
  require(federation.server().wait(120) == kKilledAtPoint, "it did not die");
  {
    net::Database journal(federation.run() / kJournalFile);
    journal.execute(
        "UPDATE ask SET opened = opened - 31536000000, deadline = deadline - 31536000000");
  }
  federation.serve();
  federation.finish();
  const std::string same = federation.same_model();

  Federation early(stage, folder / "early", {.server = "tomorrow"});
  early.serve();
  const Diagnosis behind = examine(kHere, early.port(), own);
  require(behind.sentence.find("is not valid before") != std::string::npos, behind.sentence);
  return fmt::format("a year ahead: {}; a day behind: \"... is not valid before ...\"", same);
}

void change_byte(const fs::path& file, std::size_t place) {
  std::string bytes = read_file(file);
  require(place < bytes.size(), file.filename().string() + " is too short to damage");
  bytes[place] = static_cast<char>(bytes[place] ^ 0x20);
  write_file_whole(file, bytes);
}

// Damages a file of a server that has died, expects that it says so, and puts it right again.
void refuses(Federation& federation, const fs::path& file, std::size_t place,
             const std::string& words) {
  const std::string before = read_file(file);
  change_byte(file, place);
  federation.begin_to_serve();
  const int code = federation.server().wait(120);
  const std::string said = federation.server().said();
  const std::string name = file.filename().string();
  require(code == kExitRun, fmt::format("{} damaged at byte {}: exit {}", name, place, code));
  require(said.find(words) != std::string::npos,
          fmt::format("{} damaged at byte {}: '{}' is not said", name, place, words));
  write_file_whole(file, before);
}

// A model in the spool that the journal counts on; others may lie there for a while.
fs::path accepted_model(const Federation& federation) {
  net::Database journal(federation.run() / kJournalFile);
  net::Statement row = journal.statement(
      "SELECT models FROM orders WHERE verdict = 'accepted' AND settled = 0 LIMIT 1");
  const std::string named = row.step() ? row.text(0) : "";
  for (const auto& entry : fs::directory_iterator(federation.run() / kSpoolFolder)) {
    if (named.find(entry.path().stem().string()) != std::string::npos) {
      return entry.path();
    }
  }
  throw Failed("the spool has no model that counts");
}

std::string damaged(const Stage& stage, const fs::path& folder) {
  Federation federation(stage, folder);
  federation.serve(dying_at(net::kAfterVerdict, 6));
  federation.swarm({0, 1, 2, 3});
  require(federation.server().wait(120) == kKilledAtPoint, "it did not die");
  const fs::path journal = federation.run() / kJournalFile;
  {
    // What the log holds goes into the file, which is then all there is.
    net::Database all(journal);
    all.execute("PRAGMA wal_checkpoint(TRUNCATE)");
  }
  refuses(federation, journal, 3, kJournalFile);     // what says that it is a database
  refuses(federation, journal, 4096, kJournalFile);  // the first page of a table
  // The number of samples in an accepted reply: it would weigh more or less.
  const std::size_t head = read_file(journal).find(std::string("WN1\x01", 4));
  require(head != std::string::npos, "the journal has no accepted reply");
  refuses(federation, journal, head + 8, "the journal is damaged");
  const fs::path model = accepted_model(federation);
  refuses(federation, model, 1000, model.filename().string());
  federation.serve();
  federation.finish();
  return "exit 5 names it, 4 times; restored: " + federation.same_model();
}

}  // namespace

void add_server_rows(std::vector<Row>& rows) {
  rows.push_back({1, "server killed at each of seven points of a round",
                  "no reply is lost or counted twice, same model", dies_at_points});
  rows.push_back({2, "server or a member killed at random moments",
                  "no reply is lost or counted twice, same model", dies_at_random});
  rows.push_back({5, "server's disk full: spool, journal, checkpoint",
                  "not_now and waits, or exit code 5 and continues; same model", full_disk});
  rows.push_back({21, "server's clock a year ahead, member's a day behind",
                  "rounds are unaffected; the message says what is wrong", other_clocks});
  rows.push_back({25, "journal or spool damaged by hand",
                  "exit code 5, the message names the file; no wrong model", damaged});
}

}  // namespace winnow::chaos
