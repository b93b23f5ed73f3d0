#include "winnow/run/session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <optional>
#include <set>
#include <string_view>

#include "run/small_run.h"
#include "winnow/model/safetensors.h"

namespace winnow::session_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> remembering(std::vector<std::string> more = {}) {
  more.emplace_back("method.name=remembering");
  return more;
}

TEST(Session, PlaysItsRoundsAndCountsWhatCrossed) {
  Session session(small(), methods(), on_cpu(), nullptr);
  EXPECT_EQ(session.rounds(), 4);
  EXPECT_EQ(session.rounds_done(), 0);
  const Session::Played first = session.play();
  EXPECT_EQ(first.record.round, 1);
  EXPECT_EQ(first.record.hash, hash(session.global()));
  EXPECT_EQ(first.record.traffic.participations, 2);
  EXPECT_EQ(first.record.traffic.client_steps, 8) << "2 clients, 40 samples, batches of 10";
  EXPECT_EQ(first.record.traffic.passes.forward, 80);
  EXPECT_EQ(first.record.traffic.passes.backward, 80) << "the test set does not count";
  EXPECT_EQ(first.record.traffic.bytes_up, 2 * (session.global().bytes() + 4));
  EXPECT_EQ(first.record.traffic.bytes_down, 2 * (session.global().bytes() + 4));
  EXPECT_TRUE(first.record.accuracy.has_value());
  EXPECT_EQ(first.notes.at("clients").size(), 2U);
  session.play();
  EXPECT_EQ(session.rounds_done(), 2);
  EXPECT_EQ(session.history().back().traffic.participations, 4);
}

TEST(Session, NetworksSeeCropsOfTheImages) {
  const auto play = [](const std::string& augment) {
    Session session(small({"rounds=2", "data.size=36", "data.crop=28", "data.augment=" + augment}),
                    methods(), on_cpu(), nullptr);
    session.play();
    session.play();
    const Session plain(small(), methods(), on_cpu(), nullptr);  // of 28 x 28 images
    EXPECT_EQ(session.global().layout->total(), plain.global().layout->total());
    std::size_t exported = 0;
    EXPECT_TRUE(session.has_script());
    session.write_script([&exported](std::string_view piece) { exported += piece.size(); });
    EXPECT_GT(exported, 0U) << "the exported model takes what the network saw";
    return session.model_hash();
  };
  EXPECT_NE(play("on"), play("off"));
}

TEST(Session, TheSameSeedGivesTheSameBitsForAnyNumberOfLanes) {
  const Experiment experiment = small(remembering({"rounds=3"}));
  const std::vector<std::string> expected = undisturbed_hashes(experiment);
  for (const std::int64_t lanes : {1, 3, 5}) {
    Session session(experiment, methods(), on_cpu(lanes), nullptr);
    EXPECT_EQ(session.engine().workforce().lanes, lanes);
    while (session.rounds_done() < session.rounds()) {
      session.play();
    }
    EXPECT_EQ(hashes(session.history()), expected) << lanes << " lanes";
  }
  EXPECT_NE(undisturbed_hashes(small(remembering({"rounds=3", "seed=2"}))), expected);
}

// The optimiser starts afresh in every participation, so a run has nothing to remember of it.
TEST(Session, OptimisersAndSchedulesGiveTheSameBitsForAnyLanesAndAfterACheckpoint) {
  std::set<std::string> ends;
  for (const char* optimizer : {"sgd", "adam", "adamw"}) {
    for (const char* schedule : {"exponential", "step", "cosine"}) {
      const Experiment experiment =
          small({std::string("train.optimizer=") + optimizer, "train.lr=0.005",
                 std::string("train.lr_schedule=") + schedule, "train.lr_step_size=2",
                 std::string("train.lr_decay=") + (schedule[0] == 'c' ? "1.0" : "0.5"),
                 "train.weight_decay=0.1", "train.mixup=0.5", "method.name=fedprox"});
      const std::vector<std::string> expected = undisturbed_hashes(experiment);
      Session one(experiment, methods(), on_cpu(1), nullptr);
      one.play();
      one.play();
      Session rest(experiment, methods(), on_cpu(3), nullptr);
      rest.restore(one.checkpoint());
      while (rest.rounds_done() < rest.rounds()) {
        rest.play();
      }
      EXPECT_EQ(hashes(rest.history()), expected) << optimizer << " " << schedule;
      ends.insert(expected.back());
    }
  }
  EXPECT_EQ(ends.size(), 9U);
}

TEST(Session, ARestoredSessionContinuesInTheSameBits) {
  const Experiment experiment = small(remembering());
  const std::vector<std::string> expected = undisturbed_hashes(experiment);
  const TestFolder folder;
  for (std::int64_t stop = 0; stop <= 4; ++stop) {
    Session first(experiment, methods(), on_cpu(), nullptr);
    while (first.rounds_done() < stop) {
      first.play();
    }
    // Through a file, as a run does.
    Session second(experiment, methods(), on_cpu(3), nullptr);
    second.restore(through_files(folder / std::to_string(stop), first));
    EXPECT_EQ(second.rounds_done(), stop);
    EXPECT_EQ(second.engine().traffic().participations, 2 * stop);
    while (second.rounds_done() < second.rounds()) {
      second.play();
    }
    EXPECT_EQ(hashes(second.history()), expected) << "stopped after " << stop;
    EXPECT_EQ(second.engine().traffic().participations, 8);
    EXPECT_GE(second.seconds(), first.history().empty() ? 0.0 : first.history().back().seconds);
  }
}

// What clients remember may lie on the disk: nothing but the memory that it takes changes.
TEST(Session, TheMemoryOfClientsMaySpillToTheDisk) {
  for (const char* method : {"scaffold", "feddyn", "moon", "fedrn", "rhfl"}) {
    std::vector<std::string> sets{"rounds=4", std::string("method.name=") + method};
    if (method == std::string("fedrn")) {
      sets.insert(sets.end(),
                  {"method.warmup=1", "method.neighbours=2", "method.store_limit_mb=0"});
    } else if (method == std::string("rhfl")) {
      sets.insert(sets.end(),
                  {"method.pretrain_epochs=1", "federation.fraction=1.0", "public.source=\"split\"",
                   "public.size=20", "method.public_batch=12"});
    }
    const Experiment experiment = small(sets);
    const std::vector<std::string> expected = undisturbed_hashes(experiment);
    Runtime runtime = on_cpu();
    runtime.client_memory_mb = 0;
    Session session(experiment, methods(), runtime, nullptr);
    session.play();
    session.play();
    std::size_t spilled = 0;
    for (const auto& [client, memory] : session.engine().memories()) {
      EXPECT_EQ(bytes_in_memory(memory), 0) << method;
      for (const auto& [name, tensor] : memory.own.tensors) {
        spilled += Spill::is_spilled(tensor) ? 1U : 0U;
      }
      spilled += memory.model.defined() && Spill::is_spilled(memory.model) ? 1U : 0U;
    }
    EXPECT_GT(spilled, 0U) << method;
    const TestFolder folder;
    Session resumed(experiment, methods(), runtime, nullptr);
    resumed.restore(through_files(folder.path(), session));
    for (Session* one : {&session, &resumed}) {
      while (one->rounds_done() < one->rounds()) {
        one->play();
      }
      EXPECT_EQ(hashes(one->history()), expected) << method;
    }
  }
}

// The temporary folder is gone for as long as this lives.
class NoTemporaryFolder {
 public:
  NoTemporaryFolder() {
    const char* before = std::getenv("TMPDIR");
    before_ = before != nullptr ? std::optional<std::string>(before) : std::nullopt;
    ::setenv("TMPDIR", "/there/is/no/such/folder", 1);
  }
  ~NoTemporaryFolder() {
    if (before_) {
      ::setenv("TMPDIR", before_->c_str(), 1);
    } else {
      ::unsetenv("TMPDIR");
    }
  }
  NoTemporaryFolder(const NoTemporaryFolder&) = delete;
  NoTemporaryFolder& operator=(const NoTemporaryFolder&) = delete;

 private:
  std::optional<std::string> before_;
};

TEST(Session, NeedsATemporaryFolderOnlyToSpillAndARoundWithoutOneLeavesNoTrace) {
  const Experiment experiment = small({"rounds=3", "method.name=scaffold"});
  const std::vector<std::string> expected = undisturbed_hashes(experiment);
  Runtime runtime = on_cpu();
  std::optional<Session> spilling;
  {
    const NoTemporaryFolder gone;
    Session roomy(experiment, methods(), runtime, nullptr);
    roomy.play();
    EXPECT_EQ(roomy.history().back().hash, expected.front());
    runtime.client_memory_mb = 0;
    spilling.emplace(experiment, methods(), runtime, nullptr);
    try {
      spilling->play();
      FAIL() << "it stored models nowhere";
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("cannot store a client's model in the temporary folder "
                                          "($TMPDIR): "));
    }
    EXPECT_EQ(spilling->rounds_done(), 0);
  }
  while (spilling->rounds_done() < spilling->rounds()) {
    spilling->play();
  }
  EXPECT_EQ(hashes(spilling->history()), expected);
}

TEST(Session, ACheckpointIsNotChangedByWhatIsPlayedAfterwards) {
  const Experiment experiment = small(remembering());
  Session session(experiment, methods(), on_cpu(), nullptr);
  session.play();
  session.play();
  const Checkpoint checkpoint = session.checkpoint();
  const std::string before = hash(checkpoint.global);
  const int times = checkpoint.clients.begin()->second.own.values.at("times");
  const std::vector<float> trace =
      values_of(checkpoint.clients.begin()->second.own.tensors.at("trace"));
  session.play();
  session.play();
  EXPECT_EQ(hash(checkpoint.global), before);
  EXPECT_EQ(checkpoint.clients.begin()->second.own.values.at("times"), times);
  EXPECT_EQ(values_of(checkpoint.clients.begin()->second.own.tensors.at("trace")), trace);
  Session again(experiment, methods(), on_cpu(), nullptr);
  again.restore(checkpoint);
  again.play();
  again.play();
  EXPECT_EQ(hashes(again.history()), hashes(session.history()));
}

// Takes long on the server and asks no client.
class Pondering final : public FedAvg {
 public:
  explicit Pondering(std::atomic<bool>& stop) : stop_(stop) {}

  void play(std::int64_t /*round*/, Server& server) override {
    server.pause();
    stop_ = true;
    server.pause();
    FAIL() << "the run was asked to stop";
  }

 private:
  std::atomic<bool>& stop_;
};

TEST(Session, AServerThatComputesForLongCanBeStopped) {
  std::atomic<bool> stop{false};
  Registry registry = builtin_registry();
  registry.methods.add({"pondering", "test", "takes long on the server",
                        [&] { return std::make_unique<Pondering>(stop); }});
  const Experiment experiment = parse_experiment(small_tree({"method.name=pondering"}), registry);
  Session session(experiment, registry, on_cpu(), &stop);
  EXPECT_THROW(session.play(), Interrupted);
  EXPECT_EQ(session.rounds_done(), 0);
}

TEST(Session, AnInterruptedRoundLeavesNoTrace) {
  const Experiment experiment = small(remembering());
  const std::vector<std::string> expected = undisturbed_hashes(experiment);
  std::atomic<bool> stop{false};
  std::atomic<int> trainings{0};
  int limit = 0;
  const Registry registry = methods([&](std::int64_t, std::int64_t) {
    if (++trainings == limit) {
      stop = true;
    }
  });
  for (limit = 1; limit <= 8; ++limit) {
    trainings = 0;
    stop = false;
    Session session(experiment, registry, on_cpu(), &stop);
    bool interrupted = false;
    while (session.rounds_done() < session.rounds()) {
      const std::int64_t done = session.rounds_done();
      const std::string before = hash(session.global());
      const Json saved = session.checkpoint().method.values;
      try {
        session.play();
      } catch (const Interrupted&) {
        interrupted = true;
        EXPECT_EQ(session.rounds_done(), done);
        EXPECT_EQ(hash(session.global()), before);
        EXPECT_EQ(session.checkpoint().method.values, saved);
        EXPECT_EQ(session.engine().traffic().participations, 2 * done);
        EXPECT_EQ(session.engine().training_loss().mean(), std::nullopt);
        stop = false;
      }
    }
    EXPECT_TRUE(interrupted) << limit;
    EXPECT_EQ(hashes(session.history()), expected) << "stopped in training " << limit;
    EXPECT_EQ(session.engine().traffic().participations, 8);
  }
}

TEST(Session, AFailedRoundLeavesNoTraceEither) {
  bool fail = true;
  const Experiment experiment = small(remembering({"rounds=2"}));
  const Registry registry = methods([&](std::int64_t round, std::int64_t) {
    if (round == 1 && fail) {
      throw Error(ErrorKind::run, "a client failed");
    }
  });
  Session session(experiment, registry, on_cpu(1), nullptr);
  session.play();
  EXPECT_EQ(error_text([&] { session.play(); }), "a client failed");
  fail = false;
  session.play();
  EXPECT_EQ(hashes(session.history()), undisturbed_hashes(experiment));
}

// The rounds that were evaluated, counted from 1.
std::vector<std::int64_t> evaluated_rounds(Session& session) {
  std::vector<std::int64_t> evaluated;
  while (session.rounds_done() < session.rounds()) {
    const RoundRecord record = session.play().record;
    if (record.accuracy) {
      evaluated.push_back(record.round);
    }
  }
  return evaluated;
}

TEST(Session, EvaluatesWhenDueAndInEachOfTheLastTenRounds) {
  Session session(small({"rounds=15", "eval_every=4"}), methods(), on_cpu(), nullptr);
  EXPECT_THAT(evaluated_rounds(session), ElementsAre(4, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15));
  EXPECT_TRUE(accuracies(session.history()).last10.has_value());
}

TEST(Session, TheLastTenRoundsAreThoseOfTheMethodsOwnSchedule) {
  // One turn of four clients, then three and six rounds: thirteen, whatever `rounds` says.
  Session session(small({"method.name=fedcorr", "method.iterations=1", "method.finetune_rounds=3",
                         "method.usual_rounds=6", "rounds=2", "eval_every=100"}),
                  methods(), on_cpu(), nullptr);
  EXPECT_EQ(session.rounds(), 13);
  EXPECT_THAT(evaluated_rounds(session), ElementsAre(4, 5, 6, 7, 8, 9, 10, 11, 12, 13));
}

// spec: baselines 21, "report model 1 (and 2)"
TEST(Session, TheSecondOfTwoModelsIsMeasuredWithTheFirst) {
  Session session(small({"method.name=coteaching", "eval_every=2", "rounds=11"}), methods(),
                  on_cpu(), nullptr);
  EXPECT_FALSE(session.play().notes.contains("second_accuracy"));
  const auto accuracy = session.play().notes.at("second_accuracy").get<double>();
  EXPECT_GT(accuracy, 0.0);
  EXPECT_LE(accuracy, 1.0);
}

TEST(Session, EvaluationHasNoInfluenceOnTheResult) {
  EXPECT_EQ(undisturbed_hashes(small({"rounds=12", "eval_every=12", "train.eval_batch=7"})),
            undisturbed_hashes(small({"rounds=12"})));
}

TEST(Session, StartsFromAWeightFile) {
  const TestFolder folder;
  Session source(small(), methods(), on_cpu(), nullptr);
  source.play();
  save_state(folder / "w.safetensors", source.global());
  const std::string set = "model.weights=" + (folder / "w.safetensors").string();
  Session session(small({set}), methods(), on_cpu(), nullptr);
  EXPECT_EQ(hash(session.global()), hash(source.global()));
  EXPECT_NE(hash(Session(small(), methods(), on_cpu(), nullptr).global()), hash(source.global()));
}

TEST(Session, AWeightFileThatDoesNotFitIsNamed) {
  const TestFolder folder;
  save_state(folder / "w.safetensors", state_of({1.0F}));
  const std::string set = "model.weights=" + (folder / "w.safetensors").string();
  EXPECT_THAT(error_text([&] { Session(small({set}), methods(), on_cpu(), nullptr); }),
              HasSubstr((folder / "w.safetensors").string() +
                        " does not fit the model: \"w\" is unknown; \"conv1.weight\" is missing"));
  EXPECT_THAT(error_text([&] {
                Session(small({"model.weights=/no/w.safetensors"}), methods(), on_cpu(), nullptr);
              }),
              HasSubstr("model.weights = \"/no/w.safetensors\": no such file | put weights of "));
}

TEST(Session, TheMethodDecidesHowManyRoundsThereAre) {
  class Twice final : public FedAvg {
   public:
    std::int64_t rounds(const Setting& setting) const override { return 2 * setting.rounds; }
  };
  Registry registry = methods();
  registry.methods.add({"twice", "test", "", [] { return std::make_unique<Twice>(); }});
  const Experiment experiment = parse_experiment(small_tree({"method.name=twice"}), registry);
  EXPECT_EQ(Session(experiment, registry, on_cpu(), nullptr).rounds(), 8);
}

TEST(Device, OnlyWhatIsThereCanBeChosen) {
  EXPECT_TRUE(choose_device("cpu").is_cpu());
  EXPECT_EQ(error_text([] { choose_device("tpu"); }),
            "--device tpu: expected cpu, cuda, cuda:N or auto");
  EXPECT_EQ(error_kind([] { choose_device("cudax"); }), ErrorKind::usage);
  EXPECT_EQ(choose_device("auto").is_cpu(), !at::hasCUDA());
  if (!at::hasCUDA()) {
    EXPECT_THAT(error_text([] { choose_device("cuda:0"); }),
                HasSubstr("--device cuda:0: no CUDA device can be used here"));
  } else {
    EXPECT_EQ(error_kind([] { choose_device("cuda:99"); }), ErrorKind::usage);
    EXPECT_EQ(error_kind([] { choose_device("cuda:x"); }), ErrorKind::usage);
  }
}

}  // namespace winnow::session_test
