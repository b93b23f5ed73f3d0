#include "winnow/model/state.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "winnow/base/sha256.h"

namespace winnow::state_test {

LayoutPtr small_layout() {
  return std::make_shared<const Layout>(std::vector<Slot>{{"a.weight", {2, 3}, SlotKind::parameter},
                                                          {"a.mean", {2}, SlotKind::buffer},
                                                          {"a.count", {}, SlotKind::counter},
                                                          {"b.weight", {4}, SlotKind::parameter}});
}

TEST(Layout, PutsParametersFirstThenBuffersThenCounters) {
  const LayoutPtr layout = small_layout();
  EXPECT_EQ(layout->parameters(), 10);
  EXPECT_EQ(layout->buffers(), 2);
  EXPECT_EQ(layout->counters(), 1);
  EXPECT_EQ(layout->total(), 13);
  EXPECT_EQ(layout->find("b.weight")->offset, 6);
  EXPECT_EQ(layout->find("a.mean")->offset, 10);
  EXPECT_EQ(layout->find("a.count")->offset, 12);
  EXPECT_EQ(layout->find("a.count")->size, 1);
  EXPECT_EQ(layout->find("nothing"), nullptr);
}

TEST(Layout, DigestTellsNamesShapesAndKindsApart) {
  const auto digest = [](const char* name, std::vector<std::int64_t> shape, SlotKind kind) {
    return Layout({{name, std::move(shape), kind}}).digest();
  };
  const std::string base = digest("w", {2, 3}, SlotKind::parameter);
  EXPECT_EQ(base, digest("w", {2, 3}, SlotKind::parameter));
  EXPECT_NE(base, digest("v", {2, 3}, SlotKind::parameter));
  EXPECT_NE(base, digest("w", {3, 2}, SlotKind::parameter));
  EXPECT_NE(base, digest("w", {2, 3}, SlotKind::buffer));
  EXPECT_EQ(base, sha256_hex("w:2:3/0;"));
}

TEST(State, ViewsShareTheBufferAndClonesDoNot) {
  const State state = State::zeros(small_layout());
  const State shared = state;
  const State copy = state.clone();
  state.view(*state.layout->find("b.weight")).fill_(2);
  EXPECT_EQ(shared.parameters().sum().item<float>(), 8);
  EXPECT_EQ(copy.flat.sum().item<float>(), 0);
  state.counters().add_(1);
  EXPECT_EQ(state.view(*state.layout->find("a.count")).item<float>(), 1);
  EXPECT_EQ(state.buffers().sum().item<float>(), 0);
  EXPECT_EQ(state.bytes(), 52);
}

TEST(State, HashChangesWithASingleBit) {
  const State state = State::zeros(small_layout());
  EXPECT_EQ(hash(state), sha256_hex(std::string(52, '\0')));
  State other = state.clone();
  other.flat[12].fill_(-0.0);
  EXPECT_NE(hash(state), hash(other));
}

TEST(StateHash, OfMoreThanAMiBIsThatOfItsPieces) {
  const auto layout = std::make_shared<const Layout>(
      std::vector<Slot>{{"w", {(1 << 18) + 5}, SlotKind::parameter, 0, 0}});
  State state = State::zeros(layout);
  EXPECT_EQ(hash(state),
            sha256_hex(sha256_hex(std::string(1 << 20, '\0')) + sha256_hex(std::string(20, '\0'))));
  const std::string before = hash(state);
  state.flat[(1 << 18) + 4] = 1.0F;
  EXPECT_NE(hash(state), before);
}

}  // namespace winnow::state_test
