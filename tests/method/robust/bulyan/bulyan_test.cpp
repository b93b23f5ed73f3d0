#include "winnow/method/robust/bulyan/bulyan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "method/base_rounds.h"
#include "testing/support.h"

namespace winnow::bulyan_test {

std::unique_ptr<Bulyan> with(std::int64_t byzantine) {
  auto method = std::make_unique<Bulyan>();
  Params params;
  method->declare(params);
  params.read({{"byzantine", byzantine}}, "method");
  return method;
}

State aggregate(BaseMethod& method, const std::vector<float>& values) {
  std::vector<Upload> uploads;
  std::int64_t client = 0;
  for (const float value : values) {
    uploads.push_back(
        {client++, Message("train_done").set("model", state_of({value})).set("samples", 1U), 1.0});
  }
  return fuse(method, state_of({0}), uploads);
}

// spec: baselines 12
TEST(Bulyan, GivesTheWorkedNumber) {
  Bulyan method;
  EXPECT_NEAR(values_of(aggregate(method, {0, .1F, .2F, .3F, .4F, .5F, 9}))[0], 0.2, 1e-6);
}

// spec: baselines 12
TEST(Bulyan, WithoutBadOnesIsTheMean) {
  EXPECT_EQ(values_of(aggregate(*with(0), {0, 1, 8, 3})), std::vector<float>{3});
}

// spec: baselines 12
TEST(Bulyan, RefusesTooFewModels) {
  for (const std::int64_t byzantine : {1, 2, 3}) {
    const auto enough = static_cast<std::size_t>(4 * byzantine + 3);
    EXPECT_NO_THROW(aggregate(*with(byzantine), std::vector<float>(enough, 2)));
    EXPECT_EQ(error_kind([&] { aggregate(*with(byzantine), std::vector<float>(enough - 1, 2)); }),
              ErrorKind::run);
  }
  EXPECT_EQ(error_text([] { aggregate(*with(2), std::vector<float>(10, 2)); }),
            "bulyan needs 11 models to withstand byzantine = 2 bad ones, and got 10 | raise "
            "federation.fraction or lower byzantine");
}

// spec: baselines 12
TEST(Bulyan, RefusesASettingWhoseRoundsAreTooSmall) {
  const auto refusal = [](std::int64_t byzantine, const Setting& setting) {
    return error_text([&] { with(byzantine)->check(setting); });
  };
  EXPECT_EQ(refusal(1, {.clients = 20, .fraction = 0.1}),
            "federation.fraction = 0.1 of 20 clients: expected at least the 7 models that bulyan "
            "needs | raise federation.fraction or lower byzantine");
  EXPECT_EQ(refusal(1, {.clients = 70, .fraction = 0.1}), "no error");
  EXPECT_EQ(refusal(1, {.clients = 69, .fraction = 0.1}),
            "federation.fraction = 0.1 of 69 clients: expected at least the 7 models that bulyan "
            "needs | raise federation.fraction or lower byzantine");
  for (const std::int64_t byzantine : {0, 2, 3}) {
    const std::int64_t enough = 4 * byzantine + 3;
    EXPECT_EQ(refusal(byzantine, {.clients = enough, .fraction = 1.0}), "no error");
    EXPECT_NE(refusal(byzantine, {.clients = enough - 1, .fraction = 1.0}), "no error");
  }
  EXPECT_EQ(error_kind([] { with(1)->check({.clients = 20, .fraction = 0.1}); }),
            ErrorKind::experiment);
}

TEST(Bulyan, NotesTheOrderOfSelection) {
  const std::vector<float> values{0, 1, 2.5F, 3, 4.5F, 6, 90};
  FakeFleet fleet(std::vector<std::int64_t>(7, 5), [&](std::int64_t client, const Message&) {
    return Message("train_done")
        .set("model", state_of({values[static_cast<std::size_t>(client)]}))
        .set("samples", 5U);
  });
  const Setting setting{.seed = 4, .rounds = 1, .clients = 7, .fraction = 1.0, .classes = 3};
  State global = state_of({0});
  Json notes = Json::object();
  Server server{setting, fleet, global, notes};
  Bulyan method;
  method.play(0, server);
  EXPECT_EQ(notes["selected"].size(), 5U);
  EXPECT_EQ(notes["selected"][0], 2);
  EXPECT_THAT(notes["selected"].get<std::vector<int>>(), testing::Not(testing::Contains(6)));
}

TEST(Bulyan, RefusesANegativeNumber) {
  EXPECT_THAT(error_text([] { with(-1); }), testing::HasSubstr("method.byzantine"));
}

}  // namespace winnow::bulyan_test
