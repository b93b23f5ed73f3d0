// model.projection in an experiment.
#include <gtest/gtest.h>

#include "run/small_run.h"

namespace winnow {
namespace {

TEST(Projection, StandsBeforeTheHeadOfTheRunsModel) {
  Session plain(small(), methods(), on_cpu(), nullptr);
  Session session(small({"model.projection=16"}), methods(), on_cpu(), nullptr);
  EXPECT_EQ(plain.engine().layout()->find("projection.weight"), nullptr);
  const Slot* slot = session.engine().layout()->find("projection.weight");
  ASSERT_NE(slot, nullptr);
  EXPECT_EQ(slot->shape.at(0), 16);
  session.play();
  EXPECT_TRUE(session.history().back().accuracy.has_value());
}

TEST(Projection, IsPartOfTheResolvedExperiment) {
  EXPECT_EQ(small({"model.projection=16"}).resolved()["model"]["projection"], 16);
  EXPECT_EQ(small().resolved()["model"]["projection"], 0);
  EXPECT_NE(small({"model.projection=16"}).hash(), small().hash());
  EXPECT_EQ(error_text([] { small({"model.projection=-1"}); }),
            "model.projection = -1: expected a whole number from 0 to 65536 | width of a two-layer "
            "projection of the features before the head; 0: none");
}

}  // namespace
}  // namespace winnow
