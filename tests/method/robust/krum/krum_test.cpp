#include "winnow/method/robust/krum/krum.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "method/base_rounds.h"
#include "testing/support.h"

namespace winnow::krum_test {

template <typename T>
std::unique_ptr<T> with(const Json& table) {
  auto method = std::make_unique<T>();
  Params params;
  method->declare(params);
  params.read(table, "method");
  return method;
}

struct Given {
  float value = 0;
  std::uint32_t samples = 1;
  double factor = 1.0;
};

State aggregate(BaseMethod& method, const std::vector<Given>& given) {
  std::vector<Upload> uploads;
  for (std::size_t k = 0; k < given.size(); ++k) {
    uploads.push_back({static_cast<std::int64_t>(k),
                       Message("train_done")
                           .set("model", state_of({given[k].value}, {}, {static_cast<float>(k)}))
                           .set("samples", given[k].samples),
                       static_cast<double>(given[k].samples), given[k].factor});
  }
  return fuse(method, state_of({0}), uploads);
}

// The notes of a round of clients that reply with these values.
Json notes_of(BaseMethod& method, const std::vector<float>& values) {
  FakeFleet fleet(std::vector<std::int64_t>(values.size(), 5),
                  [&](std::int64_t client, const Message&) {
                    return Message("train_done")
                        .set("model", state_of({values[static_cast<std::size_t>(client)]}))
                        .set("samples", std::uint32_t{5});
                  });
  const Setting setting{.seed = 4,
                        .rounds = 1,
                        .clients = static_cast<std::int64_t>(values.size()),
                        .fraction = 1.0,
                        .classes = 3};
  State global = state_of({0});
  Json notes = Json::object();
  Server server{setting, fleet, global, notes};
  method.play(0, server);
  return notes;
}

const std::vector<Given> kWorked{{0}, {1, 300}, {1.5F, 100}, {2.2F, 100}, {10}};

// spec: baselines 11
TEST(Krum, TakesTheModelOfTheLowestScore) {
  EXPECT_EQ(values_of(aggregate(*with<Krum>({{"byzantine", 1}}), kWorked)),
            (std::vector<float>{1.5F, 2}))
      << "one of the inputs, with its counter";
}

TEST(Krum, ExpectsAFifthToBeBad) {
  // f = 1 of 5 by default. With f = 0 the three nearest count, and 1.5 wins as well.
  Krum by_default;
  EXPECT_EQ(values_of(aggregate(by_default, kWorked))[0], 1.5F);
  // Of a pair and three in a row, the pair wins when only one neighbour counts.
  const std::vector<Given> pair{{0}, {.1F}, {10}, {11}, {12}};
  EXPECT_EQ(values_of(aggregate(*with<Krum>({{"byzantine", 2}}), pair))[0], 0.0F);
  EXPECT_EQ(values_of(aggregate(*with<Krum>({{"byzantine", 1}}), pair))[0], 11.0F);
}

TEST(Krum, NotesWhoseModelItTook) {
  EXPECT_EQ(notes_of(*with<Krum>({{"byzantine", 1}}), {0, 1, 1.5F, 2.2F, 10})["selected"], 2);
}

TEST(Krum, OfOneOrTwoTakesTheFirst) {
  Krum method;
  EXPECT_EQ(values_of(aggregate(method, {{4}}))[0], 4.0F);
  EXPECT_EQ(values_of(aggregate(method, {{4}, {6}}))[0], 4.0F);
}

// spec: baselines 11
TEST(MultiKrum, AveragesTheModelsOfTheLowestScores) {
  const auto method = with<MultiKrum>({{"byzantine", 1}, {"keep", 3}});
  std::vector<Given> equal = kWorked;
  for (Given& given : equal) {
    given.samples = 7;
  }
  EXPECT_NEAR(values_of(aggregate(*method, equal))[0], 1.566667, 1e-6);
  EXPECT_NEAR(values_of(aggregate(*method, kWorked))[0], 1.34, 1e-6) << "n = 300, 100, 100";
}

TEST(MultiKrum, MultipliesSamplesByTheFactors) {
  const auto method = with<MultiKrum>({{"byzantine", 1}, {"keep", 3}});
  std::vector<Given> given = kWorked;
  given[1].factor = 0.0;
  EXPECT_NEAR(values_of(aggregate(*method, given))[0], 1.85, 1e-6);
  for (Given& one : given) {
    one.factor = 0.0;
  }
  EXPECT_EQ(error_text([&] { aggregate(*method, given); }),
            "no client contributed to this round | lower the noise or raise federation.fraction");
}

TEST(MultiKrum, KeepsAllButTheBadOnesUnlessTold) {
  MultiKrum method;
  EXPECT_EQ(notes_of(method, {0, 1, 1.5F, 2.2F, 10})["selected"], (Json{2, 1, 3, 0}));
  EXPECT_EQ(
      notes_of(*with<MultiKrum>({{"byzantine", 2}}), {0, 1, 1.5F, 2.2F, 10})["selected"].size(),
      3U);
}

TEST(MultiKrum, KeepsAtLeastOneAndAtMostAll) {
  EXPECT_EQ(notes_of(*with<MultiKrum>({{"keep", 0}}), {1, 2, 3})["selected"].size(), 1U);
  EXPECT_EQ(notes_of(*with<MultiKrum>({{"byzantine", 9}}), {1, 2, 3})["selected"].size(), 1U);
  EXPECT_EQ(notes_of(*with<MultiKrum>({{"keep", 9}}), {1, 2, 3})["selected"].size(), 3U);
}

TEST(Krum, RefusesFewerThanMinusOne) {
  EXPECT_THAT(error_text([] {
                with<Krum>({{"byzantine", -2}});
              }),
              testing::HasSubstr("method.byzantine"));
  EXPECT_THAT(error_text([] {
                with<MultiKrum>({{"keep", -2}});
              }),
              testing::HasSubstr("method.keep"));
}

}  // namespace winnow::krum_test
