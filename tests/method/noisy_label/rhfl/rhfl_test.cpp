#include "winnow/method/noisy_label/rhfl/rhfl.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "method/one_client.h"

namespace winnow::rhfl::rhfl_test {

RHFL with(const Json& table = Json::object()) {
  RHFL method;
  Params params;
  method.declare(params);
  params.read(table, "method");
  return method;
}

// Clients 0 to 3; client 2 has no samples. Seven public images of two classes, in batches of 4.
struct Federation {
  explicit Federation(const Json& table = Json{{"public_batch", 4}}) : method(with(table)) {}

  Message answer(std::int64_t client, const Message& task) {
    check(task, method.exchanges({}));
    if (task.kind() == "probabilities") {
      const std::size_t images = task.get<std::uint32_t>("batch") == 0 ? 4 : 3;
      std::vector<float> values;
      for (std::size_t i = 0; i < images; ++i) {
        values.push_back(p[static_cast<std::size_t>(client)]);
        values.push_back(1.0F - p[static_cast<std::size_t>(client)]);
      }
      return Message("probabilities_done").set("probabilities", values);
    }
    if (task.kind() == "learn") {
      return Message("learn_done");
    }
    return Message("trained").set("loss", loss[static_cast<std::size_t>(client)]);
  }
  void play(std::int64_t round) {
    Server server{setting, fleet, global, notes};
    method.play(round, server);
  }
  // The values of the targets sent to a client, one after the other.
  std::vector<float> targets(std::int64_t client) const {
    std::vector<float> values;
    for (const Order& order : fleet.asked) {
      if (order.client == client && order.task.kind() == "learn") {
        const auto& target = order.task.get<std::vector<float>>("target");
        values.insert(values.end(), target.begin(), target.end());
      }
    }
    return values;
  }

  RHFL method;
  std::vector<float> p{0.9F, 0.6F, 0.0F, 0.2F};
  std::vector<double> loss{2, 2, 2, 2};
  FakeFleet fleet{{5, 9, 0, 7}, [this](std::int64_t client, const Message& task) {
                    const Message reply = answer(client, task);
                    check(reply, method.exchanges({}));
                    return reply;
                  }};
  Setting setting{
      .seed = 5, .rounds = 3, .clients = 4, .fraction = 1.0, .classes = 2, .public_images = 7};
  State global = state_of({1, 2, 3});
  Json notes = Json::object();
};

TEST(RHFL, ARoundAsksForProbabilitiesBeforeAnybodyLearns) {
  Federation federation;
  const std::string before = hash(federation.global);
  federation.play(0);
  std::vector<std::string> kinds;
  for (const Order& order : federation.fleet.asked) {
    EXPECT_NE(order.client, 2);
    kinds.push_back(order.task.kind());
  }
  std::vector<std::string> expected;
  for (const char* kind :
       {"pretrain", "probabilities", "learn", "probabilities", "learn", "train"}) {
    expected.insert(expected.end(), 3, kind);
  }
  EXPECT_EQ(kinds, expected);
  EXPECT_EQ(hash(federation.global), before) << "there is no global model";
  federation.fleet.asked.clear();
  federation.play(1);
  EXPECT_EQ(federation.fleet.asked.size(), 15U) << "no pretraining any more";
}

// spec: baselines 17 a: first round W_k = 1/(K-1)
TEST(RHFL, InTheFirstRoundEverybodyLearnsTheMeanOfTheOthers) {
  Federation federation;
  federation.play(0);
  const std::vector<float> first = federation.targets(0);
  ASSERT_EQ(first.size(), 14U) << "all seven images";
  for (std::size_t i = 0; i < first.size(); i += 2) {
    EXPECT_FLOAT_EQ(first[i], 0.4F) << "(0.6 + 0.2) / 2";
    EXPECT_FLOAT_EQ(first[i + 1], 0.6F);
  }
  EXPECT_FLOAT_EQ(federation.targets(3).front(), 0.75F);
  EXPECT_EQ(federation.notes.at("confidence"), Json({0.5, 0.5, 0.5}));
}

TEST(RHFL, LaterOnFallingLossesWeigh) {
  Federation federation;
  federation.loss = {2, 2, 2, 2};
  federation.play(0);  // pretraining and training both end in 2
  federation.loss = {1, 1.5, 0, 1.8};
  federation.play(1);
  EXPECT_EQ(federation.notes.at("confidence")[0], 1.0 / 3.0) << "nothing fell yet: the guard";
  federation.fleet.asked.clear();
  federation.play(2);
  const double q = 1.0 + 1.0 / 3.0 + 1.0 / 9.0;
  const double a = std::exp(0.5 / q);
  const double b = std::exp(0.5 / 3.0 / q);
  const double c = std::exp(0.5 / 9.0 / q);
  const Json weights = federation.notes.at("confidence");
  EXPECT_NEAR(weights[0].get<double>(), a / (a + b + c), 1e-12);
  EXPECT_NEAR(weights[1].get<double>(), b / (a + b + c), 1e-12);
  EXPECT_NEAR(weights[2].get<double>(), c / (a + b + c), 1e-12);
  EXPECT_NEAR(federation.targets(1).front(), (0.9 * a + 0.2 * c) / (a + b + c), 1e-6);
  const Findings findings = federation.method.findings();
  EXPECT_NEAR(findings.scores.at("confidence").at(3), c / (a + b + c), 1e-12);
  EXPECT_EQ(findings.scores.at("own_loss").at(3), 1.8);
}

TEST(RHFL, WithBetaZeroAllWeighTheSame) {
  Federation federation(Json{{"public_batch", 4}, {"beta", 0.0}});
  federation.play(0);
  federation.loss = {1, 1.5, 0, 1.8};
  federation.play(1);
  federation.play(2);
  for (const Json& weight : federation.notes.at("confidence")) {
    EXPECT_DOUBLE_EQ(weight.get<double>(), 1.0 / 3.0);
  }
}

// spec: baselines 17: probabilities on public data, and one double
TEST(RHFL, CountsItsBytes) {
  Federation federation;
  federation.play(0);
  const std::int64_t outputs = 4 * 7 * 2;  // float32, images, classes
  const std::int64_t clients = 3;
  const std::int64_t batches = 2;
  EXPECT_EQ(federation.fleet.traffic().bytes_up, clients * (8 + outputs + 8));
  EXPECT_EQ(federation.fleet.traffic().bytes_down,
            clients * (0 + 4 * batches + (8 * batches + outputs) + 4));
  const Traffic before = federation.fleet.traffic();
  federation.play(1);
  EXPECT_EQ(federation.fleet.traffic().bytes_up - before.bytes_up, clients * (outputs + 8));
}

TEST(RHFL, ADivergedClientIsNotListenedTo) {
  Federation federation;
  federation.loss[3] = std::numeric_limits<double>::quiet_NaN();
  federation.p[3] = std::numeric_limits<float>::quiet_NaN();
  federation.play(0);
  EXPECT_EQ(federation.notes.at("confidence"), Json({1.0, 1.0, 0.0}));
  EXPECT_FLOAT_EQ(federation.targets(0).front(), 0.6F);
  EXPECT_EQ(federation.notes.at("rejected"), Json({3}));
  Archive archive;
  federation.method.save(archive);
  EXPECT_FALSE(archive.values.at("loss").contains("3"));
}

TEST(RHFL, ProbabilitiesThatAreNotFiniteAreLeftOut) {
  Federation federation;
  federation.p[1] = std::numeric_limits<float>::infinity();
  federation.play(0);
  EXPECT_FLOAT_EQ(federation.targets(0).front(), 0.1F) << "0.2 / 2 alone";
  EXPECT_FLOAT_EQ(federation.targets(1).front(), 0.55F);
}

TEST(RHFL, StopsWhenEverybodyDiverges) {
  Federation federation;
  federation.loss.assign(4, std::numeric_limits<double>::infinity());
  EXPECT_EQ(error_text([&] { federation.play(0); }),
            "round 1: no client's loss is finite after pretraining | the training diverged: lower "
            "method.lr");
}

TEST(RHFL, RefusesAReplyOfTheWrongSize) {
  Federation federation;
  FakeFleet fleet({5, 9}, [&](std::int64_t client, const Message& task) {
    return task.kind() == "probabilities"
               ? Message("probabilities_done").set("probabilities", std::vector<float>(3))
               : federation.answer(client, task);
  });
  Server server{federation.setting, fleet, federation.global, federation.notes};
  EXPECT_EQ(error_text([&] { federation.method.play(0, server); }),
            "client 1 sent 3 probabilities for public batch 0, expected 8");
}

// As the server of a real federation: a reply that the method refuses is an absence.
class ForgivingFleet final : public Fleet {
 public:
  explicit ForgivingFleet(Fleet& inner) : inner_(inner) {}
  std::int64_t size() const override { return inner_.size(); }
  std::int64_t samples(std::int64_t client) const override { return inner_.samples(client); }
  const Traffic& traffic() const override { return inner_.traffic(); }
  std::vector<Absence> ask(const std::vector<Order>& orders, const Fold& fold) override {
    std::vector<Absence> refused;
    std::vector<Absence> absent =
        inner_.ask(orders, [&](std::int64_t client, const Message& reply) {
          try {
            fold(client, reply);
          } catch (const Error&) {
            refused.push_back({client, AbsenceReason::refused});
          }
        });
    absent.insert(absent.end(), refused.begin(), refused.end());
    std::ranges::sort(absent, {}, &Absence::client);
    return absent;
  }

 private:
  Fleet& inner_;
};

TEST(RHFL, ARefusedReplyLeavesNothingBehind) {
  Federation federation;
  FakeFleet fleet({5, 9, 0, 7}, [&](std::int64_t client, const Message& task) {
    // The last batch has three images; eight values are allowed, six are right.
    return task.kind() == "probabilities" && client == 1
               ? Message("probabilities_done").set("probabilities", std::vector<float>(8, 0.5F))
               : federation.answer(client, task);
  });
  ForgivingFleet forgiving(fleet);
  Server server{federation.setting, forgiving, federation.global, federation.notes};
  federation.method.play(0, server);
  for (const Order& order : fleet.asked) {
    if (order.task.kind() == "learn") {
      const std::size_t images = order.task.get<std::uint32_t>("batch") == 0 ? 4 : 3;
      EXPECT_EQ(order.task.get<std::vector<float>>("target").size(), 2 * images);
    }
  }
}

TEST(RHFL, ASelectionLearnsAmongItself) {
  Federation federation;
  federation.setting.fraction = 0.67;
  federation.play(0);
  std::map<std::string, int> kinds;
  for (const Order& order : federation.fleet.asked) {
    ++kinds[order.task.kind()];
  }
  EXPECT_EQ(kinds, (std::map<std::string, int>{
                       {"pretrain", 3}, {"probabilities", 4}, {"learn", 4}, {"train", 2}}));
}

TEST(RHFL, SavesAndLoadsEverything) {
  Federation calm;
  Federation stopped;
  for (Federation* federation : {&calm, &stopped}) {
    federation->play(0);
    federation->loss = {1, 1.5, 0, 1.8};
    federation->play(1);
  }
  Archive archive;
  stopped.method.save(archive);
  Federation resumed;
  resumed.loss = stopped.loss;
  resumed.method.load(archive);
  calm.play(2);
  resumed.play(2);
  EXPECT_EQ(resumed.notes.at("confidence"), calm.notes.at("confidence"));
  EXPECT_EQ(resumed.method.findings().scores, calm.method.findings().scores);
  resumed.method.load({});
  EXPECT_TRUE(resumed.method.findings().scores.empty());
}

TEST(RHFL, RefusesSettingsItCannotWorkIn) {
  const Setting good{.clients = 4, .fraction = 1.0, .public_images = 7};
  EXPECT_NO_THROW(with().check(good));
  Setting setting = good;
  setting.public_images = 0;
  EXPECT_EQ(error_text([&] { with().check(setting); }),
            "public.source = \"none\": rhfl's clients learn from each other on public images | add "
            "a [public] table with source = \"split\", \"data\" or \"folder\"");
  setting = good;
  setting.fraction = 0.25;
  EXPECT_EQ(error_text([&] { with().check(setting); }),
            "federation.clients = 4 with fraction = 0.25: rhfl needs at least two clients in a "
            "round | set federation.fraction to 1, or have more clients");
  EXPECT_NE(error_text([&] {
              with({{"networks", {"lenet5", "lenet6"}}}).check(good);
            }).find("unknown model 'lenet6'"),
            std::string::npos);
}

TEST(RHFL, ParametersChooseNetworksAndWhatIsMeasured) {
  EXPECT_TRUE(with().networks().empty());
  EXPECT_EQ(with().measured(), Measured::clients);
  EXPECT_EQ(with({{"evaluate", "ensemble"}}).measured(), Measured::ensemble);
  const std::vector<std::string> names{"lenet5", "cnn2"};
  EXPECT_EQ(with({{"networks", names}}).networks(), names);
}

// spec: baselines 17
TEST(RHFL, HasTheSpecsDefaults) {
  EXPECT_EQ(defaults_of<RHFL>(), (Json{{"beta", 0.5},
                                       {"networks", Json::array()},
                                       {"pretrain_epochs", 40},
                                       {"local_epochs", 0},
                                       {"batch_size", 256},
                                       {"public_batch", 256},
                                       {"optimiser", "adam"},
                                       {"lr", 1e-3},
                                       {"sce_alpha", 0.1},
                                       {"sce_beta", 1.0},
                                       {"evaluate", "mean"}}));
}

TEST(RHFLAbsences, WhoIsNotHeardHasNoSay) {
  Federation federation;
  federation.fleet.away = [](std::int64_t client, const Message& task) {
    return client == 1 && task.kind() == "probabilities";
  };
  federation.play(0);
  EXPECT_FLOAT_EQ(federation.targets(0).front(), 0.5F * 0.2F);
  EXPECT_FLOAT_EQ(federation.targets(1).front(), 0.5F * (0.9F + 0.2F)) << "it still learns";
}

// A client without a model cannot be asked for it.
TEST(RHFLAbsences, WhoMissedTheStartIsGivenAModelLater) {
  Federation federation;
  bool away = true;
  federation.fleet.away = [&away](std::int64_t client, const Message&) {
    return away && client == 3;
  };
  federation.play(0);
  EXPECT_EQ(federation.notes.at("waiting"), Json::array({3}));
  Archive archive;
  federation.method.save(archive);
  federation.method.load(archive);
  away = false;
  federation.fleet.asked.clear();
  federation.play(1);
  EXPECT_EQ(federation.fleet.asked.front().client, 3);
  EXPECT_EQ(federation.fleet.asked.front().task.kind(), "pretrain");
  EXPECT_FALSE(federation.targets(3).empty());
  federation.fleet.asked.clear();
  federation.play(2);
  EXPECT_NE(federation.fleet.asked.front().task.kind(), "pretrain") << "once is enough";
}

TEST(RHFLAbsences, NobodyIsNoError) {
  Federation federation;
  federation.fleet.away = [](std::int64_t, const Message&) { return true; };
  federation.play(0);
  federation.play(1);
  EXPECT_TRUE(federation.notes.contains("standstill"));
  EXPECT_TRUE(federation.fleet.asked.empty());
}

}  // namespace winnow::rhfl::rhfl_test
