#include "winnow/net/serve/net_engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <set>
#include <thread>
#include <tuple>

#include "net/serve/desk_harness.h"
#include "winnow/engine/crew.h"
#include "winnow/engine/local_examiner.h"
#include "winnow/engine/members.h"
#include "winnow/engine/prototype.h"
#include "winnow/run/run_directory.h"
#include "winnow/run/runner.h"

namespace winnow::net {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

// Thrown where the server "dies" on its own thread.
class Death : public std::exception {};

const std::vector<std::string> kMemberNames{"ann", "bob", "cy", "dan"};

Experiment served_experiment(std::vector<std::string> sets = {}) {
  sets.insert(sets.begin(), {"rounds=3", "checkpoint_every=1", "federation.fraction=1.0"});
  return small(sets);
}

// Members that train in the test's process and talk to a desk without a network.
class Members {
 public:
  explicit Members(const Experiment& experiment)
      : place_(experiment, methods(), on_cpu(4), nullptr) {
    place_.members().serve(place_.client_side());
  }
  ~Members() { stop(); }

  // Whether a member keeps silent on an order.
  std::function<bool(std::int64_t client, const v1::OrderId& order)> silent = {};
  // Whether it leaves for good instead.
  std::function<bool(std::int64_t client, const v1::OrderId& order)> leaves = {};

  void start(Desk& desk) {
    stop_ = false;
    for (std::int64_t client = 0; client < 4; ++client) {
      threads_.emplace_back([this, &desk, client] {
        use_one_thread_per_operation();
        try {
          work(desk, client);
        } catch (const Death&) {
          died_ = true;  // the server did, in the middle of a call
        }
      });
    }
  }
  void stop() {
    stop_ = true;
    for (std::thread& thread : threads_) {
      thread.join();
    }
    threads_.clear();
  }
  bool died() const { return died_; }
  std::int64_t trained() const { return trained_; }

 private:
  struct Sent {
    v1::Opening opening;
    Parcel parcel;
  };

  void work(Desk& desk, std::int64_t client) {
    const Identity who = identity(kMemberNames[static_cast<std::size_t>(client)]);
    const auto samples = static_cast<std::uint64_t>(place_.members().samples(client));
    EXPECT_EQ(text_of(desk.join(who, hello('p', samples))), "welcome");
    std::uint64_t settled = 0;
    while (!stop_) {
      auto promise = std::make_shared<std::promise<v1::Assignment>>();
      std::future<v1::Assignment> future = promise->get_future();
      v1::Report report;
      report.set_process(process('p'));
      report.set_settled_up_to(settled);
      desk.next(who, report, [promise](v1::Assignment assignment) {
        promise->set_value(std::move(assignment));
      });
      while (future.wait_for(std::chrono::milliseconds(5)) != std::future_status::ready) {
        if (stop_) {
          return;
        }
      }
      const v1::Assignment assignment = future.get();
      EXPECT_FALSE(assignment.has_refusal()) << text_of(assignment.refusal());
      for (const v1::Settled& each : assignment.settled()) {
        settled = std::max(settled, each.order());
      }
      if (assignment.has_finished()) {
        return;
      }
      if (assignment.has_task() && leaves && leaves(client, assignment.task().order())) {
        v1::Farewell farewell;
        farewell.set_process(process('p'));
        EXPECT_EQ(text_of(desk.leave(who, farewell)), "accepted");
        return;
      }
      if (assignment.has_task()) {
        answer(desk, who, client, assignment.task());
      }
    }
  }

  void answer(Desk& desk, const Identity& who, std::int64_t client, const v1::Task& task) {
    if (silent && silent(client, task.order())) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      return;
    }
    auto& sent = outbox_.at(static_cast<std::size_t>(client));
    auto found = sent.find(task.order().number());
    if (found == sent.end()) {
      found = sent.emplace(task.order().number(), train(desk, who, client, task)).first;
    }
    deliver(desk, who, found->second);
  }

  Sent train(Desk& desk, const Identity& who, std::int64_t client, const v1::Task& task) {
    const LayoutPtr& layout = place_.crew().layout_of(client);
    Parcel parcel{task.head()};
    for (const v1::Model& model : task.models()) {
      PackedModel packed{hexadecimal_of(model.digest()), hexadecimal_of(model.layout())};
      v1::PieceRequest request;
      request.set_digest(model.digest());
      while (packed.values.size() < model.bytes()) {
        request.set_number(packed.values.size() / kPieceBytes);
        packed.values += desk.fetch(who, request).data();
      }
      parcel.models.push_back(std::move(packed));
    }
    const Known known{.layouts = {layout}, .samples = place_.members().samples(client)};
    const winnow::Members::Answer answer =
        place_.members().answer(client, {}, unpack_task(parcel, place_.exchanges(), known),
                                static_cast<std::size_t>(client));
    ++trained_;
    Sent sent;
    sent.parcel = pack_reply(answer.reply, "train", place_.exchanges());
    sent.opening = DeskHarness::opening(task.order(), sent.parcel);
    sent.opening.set_steps(static_cast<std::uint64_t>(answer.steps));
    sent.opening.set_forward(static_cast<std::uint64_t>(answer.passes.forward));
    sent.opening.set_backward(static_cast<std::uint64_t>(answer.passes.backward));
    return sent;
  }

  static void deliver(Desk& desk, const Identity& who, const Sent& sent) {
    const v1::Receipt opened = desk.open(who, sent.opening);
    for (const v1::Missing& missing : opened.missing()) {
      const std::string& values = sent.parcel.models.at(missing.model()).values;
      for (std::uint64_t piece = missing.first(); piece * kPieceBytes < values.size(); ++piece) {
        v1::Portion portion = DeskHarness::portion(sent.opening.order(), values, piece);
        portion.set_model(missing.model());
        std::ignore = desk.put(who, portion);
      }
    }
    std::ignore = desk.seal(who, DeskHarness::sealing(sent.opening.order()));
  }

  Workplace place_;
  std::atomic<bool> stop_ = false;
  std::atomic<bool> died_ = false;
  std::atomic<std::int64_t> trained_ = 0;
  std::vector<std::map<std::uint64_t, Sent>> outbox_{4};
  std::vector<std::thread> threads_;
};

// A server without a network.
class Bench final : public RunObserver {
 public:
  Bench(const Experiment& experiment, Members& members, std::filesystem::path directory,
        NetEngineOptions options, FailPoint fail = {}, double deadline = 60)
      : experiment_(experiment),
        members_(members),
        directory_(std::move(directory)),
        options_(options) {
    declare_server_metrics(metrics_);
    setup_.federation = kFederation;
    setup_.charter = "{}";
    setup_.charter_hash = kCharterHash;
    setup_.deadline = deadline;
    setup_.patience = deadline;
    // A death on the thread of a member stops the run where it is.
    setup_.fail = [this, fail](std::string_view point) {
      if (!fail) {
        return;
      }
      try {
        fail(point);
      } catch (const Death&) {
        stop_ = std::this_thread::get_id() != main_;
        throw;
      }
    };
  }
  ~Bench() override {
    if (desk_ != nullptr) {
      desk_->shut();
    }
    members_.stop();
  }

  RunOutcome run() {
    Runtime runtime = on_cpu(1);
    runtime.engines.add(
        {"net", "", nullptr,
         [this](const Experiment& experiment, const Registry& registry, const Runtime& how,
                const std::atomic<bool>* stop) { return host(experiment, registry, how, stop); }});
    runtime.engine = "net";
    if (std::filesystem::exists(directory_)) {
      return resume_run(directory_, methods(), runtime, &stop_, *this);
    }
    return start_run(experiment_, methods(), runtime, directory_, &stop_, *this);
  }

  void started(const Session&) override {
    if (desk_ == nullptr) {
      open();
    }
    members_.start(*desk_);
  }

  Desk& desk() { return *desk_; }
  Journal& journal() { return *journal_; }

 private:
  Hosted host(const Experiment& experiment, const Registry& registry, const Runtime& runtime,
              const std::atomic<bool>* stop) {
    World world = make_world(experiment, registry);
    for (ClientData& client : world.clients) {
      client = {};
    }
    world.truth_known = false;
    Hosted hosted;
    hosted.place =
        std::make_unique<Workplace>(experiment, std::move(world), registry, runtime, stop);
    setup_.exchanges = hosted.place->exchanges();
    setup_.layouts.clear();
    for (std::int64_t client = 0; client < 4; ++client) {
      setup_.layouts.push_back(hosted.place->crew().layout_of(client));
    }
    auto engine = std::make_unique<NetEngine>(*hosted.place, options_, clock_, stop);
    engine_ = engine.get();
    hosted.engine = std::move(engine);
    hosted.examiner = &hosted.place->examiner();
    if (std::filesystem::exists(directory_)) {
      open();
    }
    return hosted;
  }

  void open() {
    journal_ = std::make_unique<Journal>(directory_ / kJournalFile, owner_of_test(), kMemberNames);
    spool_ = std::make_unique<Spool>(directory_ / kSpoolFolder);
    desk_ = std::make_unique<Desk>(setup_, *journal_, *spool_, clock_, metrics_);
    engine_->attach(*desk_, *journal_);
  }

  std::thread::id main_ = std::this_thread::get_id();
  const Experiment& experiment_;
  Members& members_;
  std::filesystem::path directory_;
  NetEngineOptions options_;
  std::atomic<bool> stop_ = false;
  SystemClock clock_;
  Metrics metrics_;
  DeskSetup setup_;
  NetEngine* engine_ = nullptr;
  std::unique_ptr<Journal> journal_;
  std::unique_ptr<Spool> spool_;
  std::unique_ptr<Desk> desk_;
};

// `present` of the rounds of a log, in order; null where a round has none.
std::vector<Json> present_in(const std::filesystem::path& directory) {
  std::vector<Json> present;
  read_events(directory, [&](const Json& event) {
    if (event.at("event") == "round") {
      present.push_back(event.value("present", Json()));
    }
  });
  return present;
}

std::string simulated_hash(const Experiment& experiment) {
  return undisturbed_hashes(experiment).back();
}

const NetEngineOptions kAll{.quorum = 0.5, .retry = 0.0, .start_with = 4};

TEST(NetEngine, TheModelAndTheTrafficAreThoseOfTheSimulation) {
  const Experiment experiment = served_experiment({"federation.fraction=0.5"});
  const TestFolder folder;
  Members members(experiment);
  Bench bench(experiment, members, folder / "run", kAll);
  const RunOutcome outcome = bench.run();
  EXPECT_EQ(outcome.summary.at("model_hash"), simulated_hash(experiment));
  Session simulated(experiment, methods(), on_cpu(), nullptr);
  while (simulated.rounds_done() < simulated.rounds()) {
    simulated.play();
  }
  const Traffic& traffic = simulated.engine().traffic();
  EXPECT_EQ(outcome.summary.at("participations"), traffic.participations);
  EXPECT_EQ(outcome.summary.at("bytes_up"), traffic.bytes_up);
  EXPECT_EQ(outcome.summary.at("bytes_down"), traffic.bytes_down);
  EXPECT_EQ(outcome.summary.at("client_steps"), traffic.client_steps);
  EXPECT_EQ(outcome.summary.at("backward_passes"), traffic.passes.backward);
  EXPECT_EQ(outcome.summary.at("engine"), "net");
  EXPECT_EQ(bench.journal().committed(), 2) << "the last round is settled by who serves";
  bench.desk().settle(3);
  EXPECT_EQ(present_in(folder / "run"), std::vector<Json>(3, Json{0, 1, 2, 3}));
  EXPECT_NO_THROW(remove_run(folder / "run")) << "it knows all files of a federation";
}

TEST(NetEngine, ASimulationDoesNotSayWhoWasPresent) {
  const Experiment experiment = served_experiment({"rounds=2", "federation.dropout=0.5"});
  const TestFolder folder;
  RunObserver silent;
  start_run(experiment, methods(), on_cpu(1), folder / "run", nullptr, silent);
  EXPECT_EQ(present_in(folder / "run"), std::vector<Json>(2));
}

TEST(NetEngine, FixedSumsAreThoseOfTheSimulation) {
  const Experiment experiment = served_experiment({"federation.sums=\"fixed\""});
  const TestFolder folder;
  Members members(experiment);
  Bench bench(experiment, members, folder / "run", kAll);
  const std::string model = bench.run().summary.at("model_hash");
  EXPECT_EQ(model, simulated_hash(experiment));
  EXPECT_NE(model, simulated_hash(served_experiment())) << "the grid shows in the last bits";
}

// Once on each thread that may die; every point lies in the second round.
TEST(NetEngine, ARoundGoesOnFromTheJournalWhereverTheServerDied) {
  const Experiment experiment = served_experiment();
  const std::string expected = simulated_hash(experiment);
  const TestFolder folder;
  for (const auto& [point, time] :
       std::vector<std::pair<std::string_view, int>>{{kBeforeOrder, 2},
                                                     {kAfterOrder, 2},
                                                     {kAfterPiece, 6},
                                                     {kAfterRename, 6},
                                                     {kAfterVerdict, 6},
                                                     {kAfterFold, 2},
                                                     {kAfterCheckpoint, 2}}) {
    const std::filesystem::path directory = folder / std::string(point);
    Members members(experiment);
    bool died = false;
    {
      std::atomic<int> left = time;
      Bench bench(experiment, members, directory, kAll,
                  [&, wanted = point](std::string_view reached) {
                    if (reached == wanted && --left == 0) {
                      throw Death();
                    }
                  });
      try {
        died = bench.run().interrupted;
      } catch (const Death&) {
        died = true;
      }
    }
    EXPECT_TRUE(died) << point;
    EXPECT_TRUE(read_summary(directory).is_null()) << point;
    Bench bench(experiment, members, directory, kAll);
    const RunOutcome outcome = bench.run();
    EXPECT_EQ(outcome.summary.at("model_hash"), expected) << point;
    EXPECT_EQ(outcome.summary.at("participations"), 12) << point;
    EXPECT_LE(members.trained(), 16) << point << ": what was sent is not computed again";
    for (const MemberView& view : bench.desk().members()) {
      EXPECT_EQ(view.row.absences, 0) << point;
    }
  }
}

TEST(NetEngine, AnInterruptedRoundGoesOnTooAndChangedTasksAreRefused) {
  const Experiment experiment = served_experiment();
  const TestFolder folder;
  Members members(experiment);
  {
    std::atomic<int> left = 2;
    Bench bench(experiment, members, folder / "run", kAll, [&](std::string_view reached) {
      if (reached == kAfterVerdict && --left == 0) {
        throw Death();
      }
    });
    EXPECT_TRUE(bench.run().interrupted);
  }
  Database(folder.path() / "run" / kJournalFile).execute("UPDATE orders SET task_digest = 'other'");
  Bench bench(experiment, members, folder / "run", kAll);
  EXPECT_THAT(error_text([&] { bench.run(); }),
              HasSubstr("this build runs round 1 differently from the one that began it: ask"));
}

TEST(NetEngine, WhoIsSilentIsAbsentAndTheSimulationOfItGivesTheSameModel) {
  const Experiment experiment = served_experiment();
  const TestFolder folder;
  Members members(experiment);
  members.silent = [](std::int64_t client, const v1::OrderId& order) {
    return client == 2 && order.round() == 1;
  };
  std::string model;
  {
    Bench bench(experiment, members, folder / "run", kAll, {}, 3);
    model = bench.run().summary.at("model_hash");
    bench.desk().settle(3);
    EXPECT_EQ(bench.desk().members()[2].row.absences, 1);
    EXPECT_EQ(bench.desk().members()[2].row.rounds, 2);
  }
  EXPECT_NE(model, simulated_hash(experiment));
  EXPECT_EQ(model,
            simulated_hash(served_experiment(
                {"federation.absences=\"" + (folder / "run/events.jsonl").string() + "\""})));
}

TEST(NetEngine, WhoHasLeftIsDrawnAsBeforeAndTheSimulationOfItGivesTheSameModel) {
  const Experiment experiment = served_experiment({"federation.fraction=0.5", "rounds=6"});
  const TestFolder folder;
  Members members(experiment);
  std::atomic<std::int64_t> gone = -1;
  members.leaves = [&gone](std::int64_t client, const v1::OrderId& order) {
    std::int64_t nobody = -1;
    return order.round() == 1 && gone.compare_exchange_strong(nobody, client);
  };
  Bench bench(experiment, members, folder / "run", {.quorum = 1.0, .retry = 0.1, .start_with = 4});
  const RunOutcome outcome = bench.run();
  EXPECT_GE(gone, 0);
  EXPECT_LT(outcome.summary.at("participations"), 12) << "nobody waits for it";
  const std::vector<Json> present = present_in(folder / "run");
  ASSERT_EQ(present.size(), 6U);
  std::vector<std::int64_t> others{0, 1, 2, 3};
  std::erase(others, gone.load());
  for (std::size_t round = 0; round < present.size(); ++round) {
    EXPECT_EQ(present[round], round < 2 ? Json({0, 1, 2, 3}) : Json(others)) << round;
  }
  EXPECT_EQ(outcome.summary.at("model_hash"),
            simulated_hash(served_experiment(
                {"federation.fraction=0.5", "rounds=6",
                 "federation.absences=\"" + (folder / "run/events.jsonl").string() + "\""})));
}

// With `stop` set, whoever would wait is interrupted.
TEST(NetEngine, OnlyTheBeginningWaitsForMembers) {
  const Experiment experiment = served_experiment();
  const Workplace place(experiment, methods(), on_cpu(1), nullptr);
  DeskHarness bench([&](DeskSetup& setup) {
    setup.exchanges = place.exchanges();
    setup.layouts.assign(3, place.crew().layout_of(0));
  });
  const std::atomic<bool> stop = true;
  std::unique_ptr<NetEngine> engine;
  const auto restart = [&] {
    bench.reopen();
    engine =
        std::make_unique<NetEngine>(place, NetEngineOptions{.start_with = 3}, bench.clock, &stop);
    engine->attach(*bench.desk, *bench.journal);
  };
  restart();
  EXPECT_THROW(engine->begin(0), Interrupted);
  bench.join_all();
  EXPECT_NO_THROW(engine->begin(0));
  EXPECT_EQ(engine->present(), (std::vector<std::int64_t>{0, 1, 2}));
  v1::Farewell farewell;
  farewell.set_process(process('p'));
  std::ignore = bench.desk->leave(identity("ann"), farewell);
  restart();
  EXPECT_NO_THROW(engine->begin(0)) << "it had begun";
  EXPECT_EQ(engine->present(), (std::vector<std::int64_t>{1, 2})) << "ann has left";
  restart();
  EXPECT_NO_THROW(engine->begin(1));
  EXPECT_THAT(bench.events, Not(Contains("waiting for members")));
  for (const char* name : {"bob", "cy"}) {
    std::ignore = bench.desk->leave(identity(name), farewell);
  }
  restart();
  EXPECT_THROW(engine->begin(2), Interrupted) << "nobody is left to ask";
  EXPECT_THAT(bench.events, Contains("waiting for members"));
  EXPECT_EQ(text_of(bench.desk->join(identity("bob"), hello('q'))), "welcome");
  EXPECT_NO_THROW(engine->begin(2));
}

TEST(NetEngine, WithoutAQuorumTheRoundIsPlayedAgain) {
  const Experiment experiment = served_experiment();
  const TestFolder folder;
  Members members(experiment);
  members.silent = [](std::int64_t client, const v1::OrderId& order) {
    return client == 2 && order.round() == 1 && order.attempt() == 1;
  };
  Bench bench(experiment, members, folder / "run", {.quorum = 1.0, .retry = 0.1, .start_with = 4},
              {}, 3);
  const RunOutcome outcome = bench.run();
  EXPECT_EQ(outcome.summary.at("model_hash"), simulated_hash(experiment));
  EXPECT_EQ(outcome.summary.at("participations"), 12) << "the first attempt does not count";
}

// Refuses one client's replies while it folds.
class Picky final : public FedAvg {
 public:
  void add(Round& round, const Upload& upload) override {
    if (upload.client == 1) {
      throw Error(ErrorKind::peer, "not this one");
    }
    FedAvg::add(round, upload);
  }
};

TEST(NetEngine, WhatTheMethodRefusesIsAnAbsence) {
  const Experiment experiment = served_experiment({"rounds=1"});
  const TestFolder folder;
  Registry registry = methods();
  registry.methods.add({"picky", "test", "", [] { return std::make_unique<Picky>(); }});
  Experiment picky = experiment;
  picky.method = "picky";
  Members members(experiment);
  FakeClock clock;
  Metrics metrics;
  declare_server_metrics(metrics);
  Workplace place(picky, registry, on_cpu(1), nullptr);
  Journal journal(folder / "journal.sqlite", owner_of_test(), kMemberNames);
  Spool spool(folder / "spool");
  DeskSetup setup;
  setup.federation = kFederation;
  setup.charter_hash = kCharterHash;
  setup.exchanges = place.exchanges();
  setup.layouts.assign(4, place.crew().layout());
  Desk desk(setup, journal, spool, clock, metrics);
  NetEngine engine(place, kAll, clock, nullptr);
  engine.attach(desk, journal);
  members.start(desk);
  engine.begin(0);
  State global = place.prototype().initial_state(1);
  Json notes;
  Server server{place.setting(), engine, global, notes};
  place.method().play(0, server);
  engine.end();
  engine.commit();
  members.stop();
  EXPECT_THAT(journal.orders()[1].reason, "refused_by_method");
  EXPECT_EQ(engine.traffic().participations, 3);
  EXPECT_THAT(metrics.text(), HasSubstr("reason=\"refused_by_method\"} 1"));
  EXPECT_THAT(error_text([&] {
                engine.restore({{0, ClientMemory()}});
              }),
              "it has the memory of simulated clients");
}

TEST(NetEngine, AJournalThatIsNotOfTheCheckpointIsRefused) {
  const Experiment experiment = served_experiment({"rounds=2"});
  const TestFolder folder;
  Members members(experiment);
  {
    std::atomic<int> left = 2;
    Bench bench(experiment, members, folder / "run", kAll, [&](std::string_view reached) {
      if (reached == kBeforeOrder && --left == 0) {
        throw Death();
      }
    });
    EXPECT_THROW(bench.run(), Death);
  }
  const std::filesystem::path journal = folder.path() / "run" / kJournalFile;
  std::filesystem::remove(journal);
  std::filesystem::remove(journal.string() + "-wal");
  Bench bench(experiment, members, folder / "run", kAll);
  EXPECT_THAT(error_text([&] { bench.run(); }),
              HasSubstr("the checkpoint has 1 rounds, the journal knows of 0"));
}

}  // namespace
}  // namespace winnow::net
