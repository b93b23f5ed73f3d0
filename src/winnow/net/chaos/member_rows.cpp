// Rows 3, 4, 22, 23 and 24: a member dies, has no room, stays away or is of another kind.
#include <fmt/format.h>

#include <chrono>
#include <thread>

#include "winnow/base/error.h"
#include "winnow/base/random.h"
#include "winnow/net/chaos/outcome.h"
#include "winnow/net/chaos/proxy.h"
#include "winnow/net/chaos/rogue.h"
#include "winnow/net/chaos/rows.h"
#include "winnow/net/join/keep.h"
#include "winnow/net/serve/wire_form.h"
#include "winnow/run/deal.h"
#include "winnow/train/lane.h"

namespace winnow::chaos {
namespace {

namespace fs = std::filesystem;

constexpr int kExitUsage = 2;
constexpr std::int64_t kModelBytes = 240'000;  // of LeNet-5, a little less than it has

bool owes_a_reply(const Federation& federation) {
  const fs::path outbox = federation.state_of(kTarget) / "outbox";
  std::error_code none;
  return !fs::is_empty(outbox, none) && !none;
}

// Kills the target at three moments of a task and lets it come back each time.
std::string killed_at_moments(const Stage& stage, const fs::path& folder) {
  // A training of about a second.
  Federation federation(stage, folder,
                        {.experiment = {"rounds=2", "train.epochs=150", kWithMemory}});
  federation.serve();
  federation.swarm(honest());
  Proxy proxy(federation.port(), [](std::int64_t number) {
    Line line;
    line.up.stall_at = number == 1 ? kModelBytes / 2 : -1;  // in the middle of its reply
    return line;
  });
  {
    const auto training = federation.join(kTarget, proxy.port());
    await([&] { return proxy.down() > kModelBytes; }, 120, "a model on its way", stage.stop);
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    require(!owes_a_reply(federation), "it had trained already");
    training->kill();
  }
  {
    const auto sending = federation.join(kTarget, proxy.port());
    await([&] { return proxy.faults() == 1; }, 120, "half a reply", stage.stop);
    require(owes_a_reply(federation), "it sends without having written its reply down");
    sending->kill();
  }
  {
    const auto sent = federation.join(kTarget, proxy.port());
    federation.await_rounds(1);
    sent->kill();
  }
  const auto last = federation.join(kTarget, proxy.port());
  federation.finish();
  return "back in time: " + federation.same_model();
}

std::string stays_away(const Stage& stage, const fs::path& folder) {
  Federation federation(stage, folder,
                        {.experiment = {"rounds=8", kWithMemory}, .serve = {"deadline=2"}});
  federation.serve();
  federation.swarm(honest());
  auto target = federation.join(kTarget);
  federation.await_rounds(1);
  target->kill();
  const std::int64_t before = federation.rounds();
  federation.await_rounds(before + 2);
  target = federation.join(kTarget);
  federation.finish();
  return "too late: " + federation.same_absences();
}

std::string member_killed(const Stage& stage, const fs::path& folder) {
  const std::string back = killed_at_moments(stage, folder / "back");
  return fmt::format("{}; {}", back, stays_away(stage, folder / "late"));
}

std::string member_without_room(const Stage& stage, const fs::path& folder) {
  Federation federation(stage, folder,
                        {.experiment = {"rounds=7", kWithMemory}, .serve = {"deadline=3"}});
  federation.serve();
  federation.swarm(honest());
  const auto target = federation.join(kTarget);
  federation.await_rounds(2);
  target->limit_files(100'000);
  target->await_words("is not answered: cannot write", 60);
  const std::int64_t before = federation.rounds();
  federation.await_rounds(before + 1);
  target->limit_files(std::int64_t{1} << 40);
  federation.finish();
  return "it says so; " + federation.same_absences();
}

// Everybody answers half of the orders, by chance.
std::string half_drop_out(const Stage& stage, const fs::path& folder) {
  Federation federation(
      stage, folder,
      {.experiment = {"rounds=6"}, .serve = {"deadline=1.5", "quorum=0.1", "retry=0.1"}});
  federation.serve();
  std::vector<std::unique_ptr<Rogue>> members;
  std::vector<std::thread> threads;
  std::vector<std::string> failures(kMembers);
  for (std::int64_t client = 0; client < kMembers; ++client) {
    members.push_back(std::make_unique<Rogue>(federation, client));
  }
  for (std::int64_t client = 0; client < kMembers; ++client) {
    threads.emplace_back([&, client] {
      Rogue& rogue = *members[static_cast<std::size_t>(client)];
      try {
        rogue.take_part([&](const v1::Task& task) {
          const v1::OrderId& order = task.order();
          if (Stream(stage.seed, "chaos drop-outs", order.round(), order.attempt(), client)
                  .bernoulli(0.5)) {
            std::this_thread::sleep_for(std::chrono::milliseconds(100));
          } else {
            rogue.deliver(rogue.answer(task));
          }
        });
      } catch (const std::exception& error) {
        failures[static_cast<std::size_t>(client)] = error.what();
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  if (stage.stop != nullptr && stage.stop->load()) {
    throw Interrupted();
  }
  for (const std::string& failure : failures) {
    require(failure.empty(), failure);
  }
  federation.finish();
  return federation.same_absences(4);
}

// Without one of four nothing is decided: the round is taken back, at the members too, whose memory
// must be that of the round before.
std::string below_quorum(const Stage& stage, const fs::path& folder) {
  Federation federation(stage, folder,
                        {.experiment = {"rounds=7", kWithMemory},
                         .serve = {"deadline=2", "quorum=1.0", "retry=0.5"}});
  federation.serve();
  federation.swarm(honest());
  auto target = federation.join(kTarget);
  federation.await_rounds(2);
  target->kill();
  await([&] { return federation.heard("taken back").size() >= 2; }, 60, "a second attempt",
        stage.stop);
  target = federation.join(kTarget);
  federation.finish();
  return fmt::format("taken back {} times; {}", federation.heard("taken back").size(),
                     federation.same_model());
}

std::string refusal_of(Rogue& rogue, const v1::Hello& hello) {
  const v1::Welcome welcome = rogue.channel().join(hello);
  return welcome.has_refusal() ? net::name_of(welcome.refusal().reason()) : "welcome";
}

std::string other_kind(const Stage& stage, const fs::path& folder) {
  Federation federation(stage, folder);
  federation.serve();
  Rogue rogue(federation, kTarget);
  v1::Hello hello = rogue.hello();
  hello.set_protocol_low(2);
  hello.set_protocol_high(3);
  require(refusal_of(rogue, hello) == "wrong_protocol", "another protocol was taken");
  hello = rogue.hello();
  hello.set_numerics(hello.numerics() + 1);
  require(refusal_of(rogue, hello) == "wrong_numerics", "other numerics were taken");
  hello = rogue.hello();
  hello.set_charter(std::string(net::kDigestBytes, 'x'));
  require(refusal_of(rogue, hello) == "wrong_charter", "another charter was taken");
  federation.swarm(honest());
  fs::create_directories(federation.state_of(kTarget));
  member::Keep(federation.state_of(kTarget))
      .agree(stage.authority.federation(), std::string(64, 'a'));
  const auto asks = federation.join(kTarget, 0, {}, /*agrees=*/false);
  const int code = asks->wait(60);
  require(code == kExitUsage &&
              asks->said().find("the charter has changed and has not been agreed to again") !=
                  std::string::npos,
          fmt::format("join without a new consent: exit {}", code));
  const auto agrees = federation.join(kTarget);
  federation.finish();
  return "wrong_protocol, _numerics, _charter; asks again; " + federation.same_model();
}

}  // namespace

void add_member_rows(std::vector<Row>& rows) {
  rows.push_back({3, "member killed while training, while sending and afterwards",
                  "same model; if too late, the model with these absences", member_killed});
  rows.push_back({4, "member's disk full while it saves",
                  "says so and is absent; its old memory is intact", member_without_room});
  rows.push_back({22, "half of all orders unanswered", "finishes with the model for these absences",
                  half_drop_out});
  rows.push_back({23, "fewer members than the quorum",
                  "the round is taken back at all members, then same model", below_quorum});
  rows.push_back({24, "member with another protocol, numerics or charter",
                  "refused; asked to agree again", other_kind});
}

}  // namespace winnow::chaos
