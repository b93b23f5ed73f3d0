#include "winnow/federation/message.h"

#include <gtest/gtest.h>

#include "testing/support.h"

namespace winnow::message_test {

TEST(Message, CountsThePayloadOfEveryType) {
  const State small = state_of({1, 2, 3});
  const State normed = state_of({1, 2}, {3, 4}, {5});
  const std::vector<std::pair<Field, std::int64_t>> table{
      {std::uint8_t{7}, 1},
      {std::uint32_t{7}, 4},
      {std::uint64_t{7}, 8},
      {7.0, 8},
      {std::vector<double>{}, 0},
      {std::vector<double>{1.0, 2.0, 3.0}, 24},
      {std::vector<float>{1.0F, 2.0F}, 8},
      {small, 12},
      {normed, 20},  // buffers and counters travel too
      {std::vector<State>{}, 0},
      {std::vector<State>{small, normed}, 32},
  };
  Message all("all");
  std::int64_t sum = 0;
  for (const auto& [field, bytes] : table) {
    EXPECT_EQ(Message("one").set("x", field).bytes(), bytes);
    all.set(std::to_string(sum), field);
    sum += bytes;
  }
  EXPECT_EQ(all.bytes(), sum);
  EXPECT_EQ(Message("a long kind without fields").bytes(), 0);
}

TEST(Message, GivesBackWhatWasSet) {
  const State state = state_of({1, 2});
  const Message message = Message("mix")
                              .set("round", std::uint32_t{3})
                              .set("key", std::uint64_t{1} << 40U)
                              .set("loss", 0.25)
                              .set("share", std::vector<double>{0.5})
                              .set("model", state)
                              .set("models", std::vector<State>{state, state});
  EXPECT_EQ(message.kind(), "mix");
  EXPECT_EQ(message.get<std::uint32_t>("round"), 3U);
  EXPECT_EQ(message.get<std::uint64_t>("key"), std::uint64_t{1} << 40U);
  EXPECT_EQ(message.get<double>("loss"), 0.25);
  EXPECT_EQ(message.get<std::vector<double>>("share"), std::vector<double>{0.5});
  EXPECT_EQ(message.get<std::vector<State>>("models").size(), 2U);
  EXPECT_TRUE(message.has("loss"));
  EXPECT_FALSE(message.has("los"));
}

TEST(Message, SharesAModelInsteadOfCopyingIt) {
  const State state = state_of({1, 2});
  const Message message = Message("train").set("model", state);
  EXPECT_EQ(message.get<State>("model").flat.data_ptr(), state.flat.data_ptr());
}

TEST(Message, NamesTheFieldThatIsMissingOrOfAnotherType) {
  const Message message = Message("train").set("round", std::uint32_t{3});
  EXPECT_EQ(error_text([&] { message.get<State>("model"); }),
            "message 'train' has no field 'model'");
  EXPECT_EQ(error_text([&] { message.get<std::uint64_t>("round"); }),
            "message 'train': field 'round' has another type than expected");
  EXPECT_EQ(error_kind([&] { message.get<State>("model"); }), ErrorKind::peer);
  EXPECT_EQ(error_kind([&] { message.get<double>("round"); }), ErrorKind::peer);
}

TEST(Message, RenamedKeepsTheFields) {
  const Message task = Message("train").set("round", std::uint32_t{3});
  const Message other = task.renamed("train_score");
  EXPECT_EQ(other.kind(), "train_score");
  EXPECT_EQ(other.get<std::uint32_t>("round"), 3U);
  EXPECT_EQ(task.kind(), "train");
}

}  // namespace winnow::message_test
