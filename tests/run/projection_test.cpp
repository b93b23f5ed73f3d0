// model.projection in an experiment.
#include <gtest/gtest.h>

#include "run/small_run.h"

namespace winnow::projection_test {

TEST(Projection, StandsBeforeTheHeadOfTheRunsModel) {
  Session plain(small(), methods(), on_cpu(), nullptr);
  Session session(small({"model.projection=16"}), methods(), on_cpu(), nullptr);
  EXPECT_EQ(plain.global().layout->find("projection.weight"), nullptr);
  const Slot* slot = session.global().layout->find("projection.weight");
  ASSERT_NE(slot, nullptr);
  EXPECT_EQ(slot->shape.at(0), 16);
  session.play();
  EXPECT_TRUE(session.history().back().accuracy.has_value());
}

TEST(Projection, IsPartOfTheResolvedExperiment) {
  EXPECT_EQ(small({"model.projection=16"}).resolved()["model"]["projection"], 16);
  EXPECT_EQ(small().resolved()["model"]["projection"], 0);
  EXPECT_NE(small({"model.projection=16"}).hash(), small().hash());
  EXPECT_EQ(
      error_text([] { small({"model.projection=-2"}); }),
      "model.projection = -2: expected a whole number from -1 to 65,536 | width of a two-layer "
      "projection between the features and the head; 0: none, -1: what the method needs");
}

// spec: baselines 8
TEST(Projection, IsAsTheMethodWantsItUnlessTheExperimentSays) {
  const auto width = [](const std::vector<std::string>& sets) {
    const Experiment experiment = small(sets);
    EXPECT_EQ(experiment.resolved()["model"]["projection"], experiment.model.projection);
    return experiment.model.projection;
  };
  EXPECT_EQ(width({"method.name=moon"}), 256);
  EXPECT_EQ(width({"method.name=moon", "model.projection=-1"}), 256);
  EXPECT_EQ(width({"method.name=moon", "model.projection=0"}), 0) << "penultimate features";
  EXPECT_EQ(width({"method.name=moon", "model.projection=16"}), 16);
  EXPECT_EQ(width({"method.name=fedavg"}), 0);
  EXPECT_EQ(width({"method.name=fedavg", "model.projection=-1"}), 0);
  EXPECT_EQ(width({"method.name=rofl"}), 0);
}

TEST(Projection, IsAsTheWrappedMethodWantsIt) {
  for (const char* wrapper : {"clipfl", "fedcorr", "fedns", "oracle"}) {
    const std::string name = std::string("method.name=") + wrapper;
    EXPECT_EQ(small({name, "method.base=moon"}).model.projection, 256) << wrapper;
    EXPECT_EQ(small({name}).model.projection, 0) << wrapper;
  }
}

TEST(Projection, OfMoonStandsBeforeTheHead) {
  Session session(small({"method.name=moon"}), methods(), on_cpu(), nullptr);
  const Slot* slot = session.global().layout->find("projection.weight");
  ASSERT_NE(slot, nullptr);
  EXPECT_EQ(slot->shape.at(0), 256);
  session.play();
  Session plain(small({"method.name=moon", "model.projection=0"}), methods(), on_cpu(), nullptr);
  EXPECT_EQ(plain.global().layout->find("projection.weight"), nullptr);
}

TEST(Projection, ANetworkOfOnesOwnBringsItItself) {
  const Experiment experiment =
      small({"method.name=moon", "model.name=torchscript", "model.path=net.pt"});
  EXPECT_EQ(experiment.model.projection, 0);
}

}  // namespace winnow::projection_test
