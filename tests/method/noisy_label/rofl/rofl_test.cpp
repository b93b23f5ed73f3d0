#include "winnow/method/noisy_label/rofl/rofl.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "testing/support.h"

namespace winnow::rofl_test {

using testing::ElementsAre;
using testing::FloatNear;
using Floats = std::vector<float>;

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

struct Reply {
  State model;
  std::uint32_t samples = 1;
  Floats centroids = {};
};

// The server side over clients whose replies are given.
struct Federation {
  explicit Federation(State start, std::int64_t classes = 1)
      : setting{.seed = 4, .rounds = 10, .clients = 3, .fraction = 1.0, .classes = classes},
        global(std::move(start)) {}

  void play(std::int64_t round, const std::vector<Reply>& replies) {
    std::vector<std::int64_t> sizes;
    for (const Reply& reply : replies) {
      sizes.push_back(reply.samples);
    }
    fleet.emplace(sizes, [replies](std::int64_t client, const Message&) {
      const Reply& reply = replies[static_cast<std::size_t>(client)];
      return Message("train_done")
          .set("model", reply.model)
          .set("samples", reply.samples)
          .set("centroids", reply.centroids);
    });
    notes = Json::object();
    Server server{setting, *fleet, global, notes};
    method.play(round, server);
  }
  // The centroids that the last round's tasks carried.
  Floats sent() const { return fleet->asked.front().task.get<Floats>("centroids"); }

  Setting setting;
  std::optional<FakeFleet> fleet;
  State global;
  Json notes;
  Rofl method;
};

TEST(Rofl, TakesThePlainMeanOfModelsAndStatisticsBySamples) {
  Federation federation(state_of({9}, {9}, {9}));
  federation.play(0, {{state_of({1}, {0}, {10}), 100, {1}}, {state_of({3}, {4}, {11}), 300, {1}}});
  EXPECT_THAT(values_of(federation.global), ElementsAre(2, 3, 11));
  EXPECT_EQ(federation.notes["clients"], (Json{0, 1}));
  EXPECT_EQ(federation.notes["stage"], "given labels");
}

// spec: baselines 16
TEST(Rofl, SendsNoCentroidsAtFirstAndThenWhatItAgreedOn) {
  const State model = state_of({1});
  Federation federation(model);
  federation.play(0, {{model, 1, {1, 1}}, {model, 1, {1, -1}}});
  EXPECT_THAT(federation.sent(), ElementsAre());
  federation.play(1, {{model, 3, {1, 0}}, {model, 2, {1, 1}}, {model, 1, {0, 1}}});
  EXPECT_THAT(federation.sent(), ElementsAre(1, 0));
  federation.play(2, {{model, 1, {1, 1}}});
  EXPECT_THAT(federation.sent(), ElementsAre(FloatNear(1, 1e-6F), FloatNear(.414214F, 1e-6F)));
}

// spec: baselines T6
TEST(Rofl, CostsCTimesDMoreThanFedAvgEachWay) {
  // P = 5 values, C = 3 classes of d = 2.
  const State model = state_of({1, 2, 3}, {4}, {5});
  Federation federation(model, 3);
  const Reply reply{model, 2, Floats(6, 1.0F)};
  federation.play(0, {reply, reply});
  EXPECT_EQ(federation.fleet->traffic().bytes_down, 2 * (4 + 4 * 5));
  EXPECT_EQ(federation.fleet->traffic().bytes_up, 2 * (4 * 5 + 4 + 4 * 6));
  federation.play(1, {reply, reply});
  EXPECT_EQ(federation.fleet->traffic().bytes_down, 2 * (4 + 4 * 5 + 4 * 6));
  for (const Order& order : federation.fleet->asked) {
    EXPECT_NO_THROW(check(order.task, federation.method.exchanges({})));
  }
  for (const Message& message : federation.fleet->replies) {
    EXPECT_NO_THROW(check(message, federation.method.exchanges({})));
  }
}

TEST(Rofl, SaysWhenPseudoLabelsBegin) {
  const State model = state_of({1});
  Federation federation(model);
  federation.play(100, {{model, 1, {1}}});
  EXPECT_EQ(federation.notes["stage"], "pseudo-labels");
}

TEST(Rofl, RejectsAReplyThatIsNotFinite) {
  Federation federation(state_of({0}));
  federation.play(
      0,
      {{state_of({kNaN}), 9, {1, 0}}, {state_of({5}), 8, {kNaN, 0}}, {state_of({3}), 1, {0, 1}}});
  EXPECT_THAT(values_of(federation.global), ElementsAre(3));
  EXPECT_EQ(federation.notes["rejected"], (Json{0, 1}));
  federation.play(1, {{state_of({3}), 1, {0, 1}}});
  EXPECT_THAT(federation.sent(), ElementsAre(0, 1));
}

TEST(Rofl, GivesUpWhenEveryReplyIsNotFinite) {
  Federation federation(state_of({1}));
  EXPECT_EQ(error_text([&] {
              federation.play(2, {{state_of({kNaN}), 1, {1}}});
            }),
            "round 3: every reply held values that are not finite | the training diverged: lower "
            "train.lr");
}

TEST(Rofl, NamesTheClientWhoseCentroidsDoNotFit) {
  const State model = state_of({1});
  Federation federation(model, 3);
  const auto play = [&](std::int64_t round, std::vector<Reply> replies) {
    return error_text([&] { federation.play(round, replies); });
  };
  EXPECT_EQ(play(0, {{model, 1, Floats(4)}}),
            "client 0 sent 4 centroid values, expected a multiple of 3 classes");
  EXPECT_EQ(play(0, {{model, 1, {}}}),
            "client 0 sent 0 centroid values, expected a multiple of 3 classes");
  EXPECT_EQ(play(0, {{model, 5, Floats(6, 1.0F)}, {model, 1, Floats(9, 1.0F)}}),
            "client 1 sent 9 centroid values, expected 3 classes of 2");
  EXPECT_EQ(error_kind([&] { federation.play(0, {{model, 1, Floats(4)}}); }), ErrorKind::peer);
  federation.play(0, {{model, 1, Floats(6, 1.0F)}});
  EXPECT_EQ(play(1, {{model, 1, Floats(3)}}),
            "client 0 sent 3 centroid values, expected 3 classes of 2");
}

TEST(Rofl, CarriesItsCentroidsThroughAnArchive) {
  const State model = state_of({1});
  Federation federation(model);
  Archive empty;
  federation.method.save(empty);
  EXPECT_TRUE(empty.tensors.empty());
  federation.play(0, {{model, 1, {.25F, 3}}});
  Archive archive;
  federation.method.save(archive);
  Federation resumed(model);
  resumed.method.load(archive);
  resumed.play(1, {{model, 1, {1, 1}}});
  EXPECT_THAT(resumed.sent(), ElementsAre(.25F, 3));
  resumed.method.load(empty);
  resumed.play(0, {{model, 1, {1, 1}}});
  EXPECT_THAT(resumed.sent(), ElementsAre()) << "what is absent is cleared";
}

TEST(Rofl, IsANoisyLabelMethod) {
  EXPECT_EQ(rofl_info().name, "rofl");
  EXPECT_EQ(rofl_info().group, "noisy-label");
}

}  // namespace winnow::rofl_test
