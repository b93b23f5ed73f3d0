// What every method declares of its messages.
#include <gtest/gtest.h>

#include <algorithm>

#include "winnow/experiment/registry.h"

namespace winnow::exchanges_test {

class ExchangesOf : public ::testing::TestWithParam<std::string> {};

TEST_P(ExchangesOf, SayOfEveryFieldWhatItTells) {
  const std::vector<Exchange> exchanges = builtin_registry().make(GetParam())->exchanges({});
  ASSERT_FALSE(exchanges.empty());
  for (const Exchange& exchange : exchanges) {
    EXPECT_EQ(std::ranges::count(exchanges, exchange.task, &Exchange::task), 1) << exchange.task;
    EXPECT_EQ(std::ranges::count(exchanges, exchange.reply, &Exchange::task), 0) << exchange.reply;
    for (const auto* fields : {&exchange.asks, &exchange.answers}) {
      for (const FieldRule& field : *fields) {
        EXPECT_FALSE(field.tells.empty()) << exchange.task << " " << field.name;
        EXPECT_FALSE(field.tells.ends_with(".")) << field.tells;
        EXPECT_LE(field.low, field.high) << field.name;
        EXPECT_FALSE(field.shape().starts_with(" ")) << field.name << " has no letters";
      }
    }
    for (const FieldRule& field : exchange.answers) {
      const bool number = field.type == FieldType::f64 || field.type == FieldType::f64s ||
                          field.type == FieldType::f32s;
      EXPECT_FALSE(number && field.range().empty())
          << exchange.reply << " " << field.name << ": say its range, or any_number()";
    }
    for (const FieldRule& field : exchange.asks) {
      EXPECT_EQ(field.counts, Counts::nothing) << "a task counts nobody's samples";
    }
  }
}

// Whoever plays sums has its models marked; the default says nothing about sums, and no built-in
// method is content with it.
TEST_P(ExchangesOf, SayHowModelsAreSummedWhereSumsAreEnough) {
  const std::unique_ptr<Method> method = builtin_registry().make(GetParam());
  const ServerNeeds needs = method->server_needs();
  EXPECT_FALSE(needs.why.empty());
  EXPECT_FALSE(needs.why.ends_with("."));
  EXPECT_NE(needs.why, "it does not say that sums would be enough");
  EXPECT_EQ(needs.plays_sums && needs.sees == ServerSees::models, false);
  if (!needs.plays_sums) {
    return;
  }
  int models = 0;
  for (const Exchange& exchange : method->exchanges({})) {
    bool summed = false;
    for (const FieldRule& field : exchange.answers) {
      const bool model = field.type == FieldType::state || field.type == FieldType::states;
      EXPECT_EQ(model, field.sum.has_value()) << exchange.reply << " " << field.name;
      summed = summed || model;
      models += model ? 1 : 0;
    }
    EXPECT_EQ(summed && std::ranges::count(exchange.answers, "samples", &FieldRule::name) == 0,
              false)
        << exchange.reply << " must say what it weighs";
  }
  EXPECT_GT(models, 0);
}

std::vector<std::string> all_names() {
  std::vector<std::string> names;
  const Registry registry = builtin_registry();
  for (const MethodInfo& info : registry.methods) {
    names.push_back(info.name);
  }
  return names;
}

INSTANTIATE_TEST_SUITE_P(All, ExchangesOf, ::testing::ValuesIn(all_names()),
                         [](const auto& info) { return info.param; });

}  // namespace winnow::exchanges_test
