#include "winnow/method/sample_history.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "method/one_client.h"

namespace winnow::sample_history_test {

HistoryForm form() {
  return {.method = "m", .ring = "m.ring", .length = 3, .shape = {2}, .type = at::kFloat};
}

struct Recorder {
  explicit Recorder(OneClient<>& client)
      : context(OneClient<>::kId, client.held, client.memory, client.lane, client.options,
                OneClient<>::kSeed),
        history(form(), context) {}

  // Writes `value` for every sample, as an objective does in an epoch.
  void record(float value) {
    Plan plan;
    plan.place = at::arange(context.size(), at::kLong);
    history.begin_epoch(plan, context.trainer());
    EXPECT_GE(history.place().size(0), context.size());
    const auto slot = history.slot()[0].item<std::int64_t>();
    history.ring().narrow(0, 0, context.size()).select(1, slot).fill_(value);
  }
  std::vector<float> of_first_sample() const { return values_of(history.ring()[0].select(1, 0)); }

  ClientContext context;
  SampleHistory history;
};

TEST(SampleHistory, IsARingThatLastsBetweenParticipations) {
  OneClient<> client;
  {
    Recorder first(client);
    EXPECT_EQ(first.history.filled(), 0);
    first.record(1);
    first.record(2);
    EXPECT_EQ(first.history.filled(), 2);
    EXPECT_FALSE(first.history.full());
    EXPECT_EQ(first.of_first_sample(), (std::vector<float>{1, 2, 0}));
    first.history.remember(first.context);
  }
  EXPECT_EQ(client.memory.own.values.dump(), R"({"m.recorded":2})");
  EXPECT_EQ(client.memory.own.tensors.at("m.ring").sizes(), (std::vector<std::int64_t>{12, 3, 2}));
  client.lane.trainer()
      .buffer("m.ring", 12, {3, 2}, at::kFloat)
      .fill_(-5);  // another client was here
  Recorder second(client);
  EXPECT_EQ(second.of_first_sample(), (std::vector<float>{1, 2, 0}));
  second.record(3);
  EXPECT_TRUE(second.history.full());
  second.record(4);
  EXPECT_EQ(second.history.filled(), 3);
  EXPECT_EQ(second.of_first_sample(), (std::vector<float>{4, 2, 3})) << "the oldest goes";
}

TEST(SampleHistory, RefusesAForgedMemory) {
  OneClient<> client;
  ClientContext context(7, client.held, client.memory, client.lane, client.options, 5);
  EXPECT_FALSE(check_history(form(), context).defined());
  client.memory.own.tensors["m.ring"] = at::zeros({12, 3, 2});
  EXPECT_TRUE(check_history(form(), context).defined());
  client.memory.own.values["m.recorded"] = -1;
  EXPECT_EQ(error_kind([&] { check_history(form(), context); }), ErrorKind::run);
  client.memory.own.values["m.recorded"] = 1;
  client.memory.own.tensors["m.ring"] = at::zeros({12, 4, 2});
  EXPECT_EQ(error_text([&] { check_history(form(), context); }),
            "tensor 'm.ring' is Float [12, 4, 2], expected Float [12, 3, 2]");
}

}  // namespace winnow::sample_history_test
