#include "winnow/method/noisy_label/fedefc/fedefc.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "method/one_client.h"
#include "method/rows.h"
#include "testing/support.h"
#include "winnow/method/noisy_label/fedefc/client.h"

namespace winnow::fedefc_test {

using testing::DoubleNear;
using testing::ElementsAre;
using Ids = std::vector<std::int64_t>;
using Values = std::vector<double>;

const Values kRows{.8, .2, .6, .4, .3, .7, .1, .9, .9, .1};
const Ids kGiven{0, 0, 0, 1, 1};

// spec: rivals 5.2, 5.3
TEST(FedEfcCounts, AreTheWorkedNumbers) {
  EXPECT_THAT(fedefc::thresholds(kRows, kGiven, 2),
              ElementsAre(DoubleNear(.566667, 1e-6), DoubleNear(.5, 1e-12)));
  EXPECT_THAT(fedefc::count_matrix(kRows, kGiven, 2), ElementsAre(2, 1, 1, 1));
}

TEST(FedEfcCounts, HaveADiagonalOfOneAndNoAbsentClass) {
  EXPECT_THAT(fedefc::count_matrix(Values{.2, .8, .2, .8}, Ids{0, 0}, 2), ElementsAre(2, 0, 0, 1))
      << "nobody was given class 1, so nobody counts for it";
}

// spec: rivals 5.4
TEST(FedEfcMatrix, IsTheWorkedOne) {
  EXPECT_THAT(fedefc::transition(Values{2, 1, 1, 1}, {}, 2),
              ElementsAre(DoubleNear(2.0 / 3, 1e-12), .5, DoubleNear(1.0 / 3, 1e-12), .5));
  EXPECT_THAT(fedefc::transition(Values{2, 1, 1, 1}, Values{.5, .5}, 2)[0],
              DoubleNear(2.0 / 3, 1e-12));
  EXPECT_THAT(fedefc::transition(Values{1, 0, 0, 1}, Values{1, 0}, 2), ElementsAre(1, 0, 0, 1));
  EXPECT_THAT(fedefc::frequencies(kGiven, 2), ElementsAre(DoubleNear(.6, 1e-12), .4));
}

// spec: rivals 5.5
TEST(FedEfcLoss, IsTheWorkedNumber) {
  const at::Tensor logits = rows_of({{std::log(1.5F), 0.0F}});
  const at::Tensor matrix = rows_of({{2.0F / 3, .5F}, {1.0F / 3, .5F}});
  const auto loss = [&](std::int64_t label) {
    return fedefc::forward_loss(logits, at::tensor({label}, at::kLong), matrix).item<double>();
  };
  EXPECT_NEAR(loss(0), .510826, 1e-5);
  EXPECT_NEAR(loss(1), .916291, 1e-5);
}

// spec: rivals 5.1
TEST(FedEfcWatch, StopsOnceNothingImproves) {
  fedefc::Watch watch;
  watch.see(.9, 3, 3, 2);
  EXPECT_EQ(watch.best, 0.0) << "too early to count";
  watch.see(.5, 4, 3, 2);
  watch.see(.5, 5, 3, 2);
  EXPECT_FALSE(watch.stopped);
  watch.see(.6, 6, 3, 2);
  watch.see(.6, 7, 3, 2);
  watch.see(.55, 8, 3, 2);
  EXPECT_TRUE(watch.stopped);
  watch.see(.99, 9, 3, 2);
  EXPECT_TRUE(watch.stopped) << "for good";
}

Message task_of(const State& model, std::uint8_t corrected) {
  return Message("train")
      .set("round", std::uint32_t{2})
      .set("model", model)
      .set("corrected", corrected);
}

TEST(FedEfcClient, IsFedAvgBeforeThePreStop) {
  OneClient client;
  const auto method = make_with<FedEfc>();
  const State start = client.initial(1);
  const Message plain = client.handle(*method, task_of(start, 0));
  EXPECT_EQ(model_hash(plain), hash(client.plain(start, 2)));
  EXPECT_GE(plain.get<double>("accuracy"), 0.0);
  EXPECT_LE(plain.get<double>("accuracy"), 1.0);
  EXPECT_NE(model_hash(client.handle(*method, task_of(start, 1))), model_hash(plain));
  EXPECT_TRUE(client.memory.empty());
}

TEST(FedEfc, RefusesMoreClassesThanAMatrixOfPairsCanHave) {
  EXPECT_EQ(error_text([] { make_with<FedEfc>()->check({.classes = 1001}); }),
            "method fedefc: 1001 classes are more than 1000, the most whose pairs it can compare");
  EXPECT_NO_THROW(make_with<FedEfc>()->check({.classes = 1000}));
}

TEST(FedEfc, CorrectsOnceAccuracyStandsStill) {
  const auto method = make_with<FedEfc>({{"from", 0}, {"patience", 2}});
  std::vector<int> corrected;
  FakeFleet fleet({5}, [&](std::int64_t, const Message& task) {
    corrected.push_back(task.get<std::uint8_t>("corrected"));
    return Message("train_done")
        .set("model", task.get<State>("model"))
        .set("samples", std::uint32_t{5})
        .set("accuracy", .5);
  });
  const Setting setting{.seed = 4, .rounds = 9, .clients = 1, .fraction = 1.0, .classes = 2};
  State global = state_of({1});
  for (std::int64_t round = 0; round < 5; ++round) {
    Json notes = Json::object();
    Server server{setting, fleet, global, notes};
    method->play(round, server);
    EXPECT_EQ(notes.at("training_accuracy"), .5);
  }
  EXPECT_THAT(corrected, ElementsAre(0, 0, 0, 0, 1));
  Archive archive;
  method->save(archive);
  EXPECT_EQ(archive.values.at("watch").at("stopped"), true);
  archive.values["watch"]["best"] = 2.0;
  EXPECT_NE(error_text([&] { make_with<FedEfc>()->load(archive); }), "no error");
}

}  // namespace winnow::fedefc_test
