#include "winnow/method/noisy_label/fedgr/fedgr.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "method/one_client.h"
#include "method/rows.h"
#include "testing/support.h"
#include "winnow/method/noisy_label/fedgr/client.h"

namespace winnow::fedgr_test {

using testing::ElementsAre;
using testing::HasSubstr;
using Values = std::vector<double>;
using Floats = std::vector<float>;
using Ids = std::vector<std::int64_t>;

// spec: rivals 4.3: probabilities .5, .25, .25.
TEST(FedGrLoss, IsTheWorkedNumber) {
  const at::Tensor logits = rows_of({{std::log(2.0F), 0.0F, 0.0F}});
  const auto loss = [&](std::int64_t refined) {
    return fedgr::refined_loss(logits, at::tensor({0}, at::kLong), at::tensor({refined}, at::kLong),
                               at::tensor({.8F}))
        .item<double>();
  };
  EXPECT_NEAR(loss(1), .831777, 1e-5);
  EXPECT_NEAR(loss(-1), .554518, 1e-5);
}

// spec: rivals 4.4
TEST(FedGrLoss, FollowsTheSlowModel) {
  const at::Tensor target = rows_of({{1.0F, 0.0F}});
  EXPECT_NEAR(fedgr::divergence(target, at::zeros({1, 2}), .5).item<double>(), .327813, 1e-5);
  EXPECT_NEAR(fedgr::divergence(target, target, .5).item<double>(), 0.0, 1e-6);
}

TEST(FedGrMeans, RollOn) {
  Values mean{0, 0};
  fedgr::roll(mean, Values{2, 4}, 0);
  fedgr::roll(mean, Values{4, 4}, 1);
  EXPECT_THAT(mean, ElementsAre(3, 4));
}

TEST(FedGrRefining, KeepsReplacesOrDrops) {
  const auto refined = fedgr::refine(Values{.9, .1, .1, .5}, Ids{0, 0, 0, 1},
                                     Floats{.2F, .95F, .9F, .99F}, Ids{2, 2, 2, 2}, {});
  EXPECT_THAT(refined.labels, ElementsAre(0, 2, -1, 1));
  EXPECT_THAT(refined.suspected, ElementsAre(false, true, true, false));
  EXPECT_EQ(refined.noisy, .5);
  EXPECT_EQ(refined.known, .75);
  EXPECT_THAT(fedgr::refine(Values{.1}, Ids{0}, Floats{.95F}, Ids{2}, {.refine = false}).labels,
              ElementsAre(-1));
}

TEST(FedGrSlowModel, StartsAgainEarlyAndWhereLittleIsKnown) {
  EXPECT_TRUE(fedgr::resets({}, 99, {}));
  EXPECT_FALSE(fedgr::resets({}, 100, {}));
  EXPECT_TRUE(fedgr::resets({.noisy = .9, .known = .4}, 100, {}));
  EXPECT_FALSE(fedgr::resets({.noisy = .9, .known = .6}, 100, {}));
}

Message task_of(const State& model, std::uint32_t round, const Values& mixture = {}) {
  return Message("train").set("round", round).set("model", model).set("mixture", mixture);
}

TEST(FedGrClient, TellsTheMeanOfItsLosses) {
  OneClient client;
  const auto method = make_with<FedGr>();
  const State start = client.initial(1);
  const Message sniffed = client.handle(*method, task_of(start, 0));
  EXPECT_EQ(model_hash(sniffed), hash(client.plain(start, 0))) << "plain training";
  const auto first = sniffed.get<Floats>("losses");
  EXPECT_EQ(first.size(), 12U);
  const Message again = client.handle(*method, task_of(start, 1));
  EXPECT_EQ(again.get<Floats>("losses").size(), 12U);
  EXPECT_NEAR(again.get<Floats>("losses")[0], first[0], 1e-6) << "the same model, the same mean";
  EXPECT_EQ(client.memory.own.values.at("fedgr.seen"), 2);
}

TEST(FedGrClient, RefinesAfterTheSniffing) {
  for (const char* selection : {"inter", "intra"}) {
    OneClient client;
    const auto method = make_with<FedGr>({{"sniff_rounds", 1}, {"selection", selection}});
    const State start = client.initial(1);
    const Message first = client.handle(*method, task_of(start, 0));
    EXPECT_EQ(first.get<Floats>("losses").empty(), std::string(selection) == "intra");
    const Values mixture =
        std::string(selection) == "inter" ? Values{.5, 3, .1, .5, .5, .5} : Values{};
    const Message later = client.handle(*method, task_of(start, 1, mixture));
    EXPECT_NE(model_hash(later), hash(client.plain(start, 1))) << selection;
    EXPECT_EQ(client.memory.trace.suspected->size(), 12U);
    EXPECT_TRUE(client.memory.own.tensors.contains("fedgr.slow"));
  }
}

TEST(FedGrClient, RefusesAMixtureThatIsNone) {
  OneClient client;
  const auto method = make_with<FedGr>();
  client.handle(*method, task_of(client.initial(1), 0));
  EXPECT_EQ(error_text([&] {
              client.handle(*method, task_of(client.initial(1), 1, {1, 2, 0, 1, .5, .5}));
            }),
            "message 'train' holds a mixture that is none");
}

TEST(FedGrClient, RefusesAForgedMemory) {
  OneClient client;
  client.memory.own.tensors["fedgr.losses"] = at::zeros({12}, at::kDouble);
  ClientContext context(client.kId, client.held, client.memory, client.lane, client.options,
                        client.kSeed);
  EXPECT_EQ(error_text([&] { make_with<FedGr>()->client_side()->check_memory(context); }),
            "fedgr.losses, fedgr.seen and fedgr.clean cannot be combined");
}

// Clients 0 and 1 with small losses, client 2 with large ones.
TEST(FedGr, EstimatesNoiseFromPooledLosses) {
  const auto method = make_with<FedGr>({{"sniff_rounds", 1}});
  Values sent;
  FakeFleet fleet({4, 4, 4}, [&](std::int64_t client, const Message& task) {
    sent = task.get<Values>("mixture");
    const float loss = client == 2 ? 4.0F : 0.2F;
    return Message("train_done")
        .set("model", task.get<State>("model"))
        .set("samples", std::uint32_t{4})
        .set("losses", Floats{loss, loss + .1F, loss, loss + .1F});
  });
  const Setting setting{.seed = 4, .rounds = 9, .clients = 3, .fraction = 1.0, .classes = 2};
  State global = state_of({1});
  for (std::int64_t round = 0; round < 2; ++round) {
    Json notes = Json::object();
    Server server{setting, fleet, global, notes};
    method->play(round, server);
    EXPECT_EQ(notes.at("stage"), round == 0 ? "sniffing" : "refining");
    EXPECT_EQ(sent.size(), round == 0 ? 0U : 6U);
  }
  EXPECT_EQ(method->findings().noise_levels.at(0), 0.0);
  EXPECT_EQ(method->findings().noise_levels.at(2), 1.0);
  Archive archive;
  method->save(archive);
  const auto again = make_with<FedGr>({{"sniff_rounds", 1}});
  again->load(archive);
  EXPECT_EQ(again->findings().noise_levels, method->findings().noise_levels);
  archive = out_of_a_file(archive);
  again->load(archive);
  EXPECT_EQ(again->findings().noise_levels, method->findings().noise_levels);
  archive.values["estimates"]["1"]["mixture"][2] = 0.0;
  EXPECT_EQ(error_text([&] { again->load(archive); }), "estimates.1: expected a mixture");
}

TEST(FedGr, RefusesARunThatIsAllSniffing) {
  EXPECT_THAT(
      error_text([] { make_with<FedGr>()->check({.rounds = 100}); }),
      HasSubstr("method.sniff_rounds = 100: expected fewer than the 100 rounds of the run"));
}

}  // namespace winnow::fedgr_test
