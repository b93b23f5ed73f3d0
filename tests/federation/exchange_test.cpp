#include "winnow/federation/exchange.h"

#include <gtest/gtest.h>

#include "testing/errors.h"
#include "testing/support.h"

namespace winnow::exchange_test {

std::vector<Exchange> two_exchanges() {
  return {{"train",
           {field::round(), field::global_model()},
           "done",
           {field::number("loss", "its loss"), field::whole("n", "how many")}},
          {"dismiss", {}, "dismissed", {}}};
}

Message train_task() {
  return Message("train").set("round", std::uint32_t{3}).set("model", state_of({1}));
}

TEST(Exchange, ATaskHasExactlyItsFields) {
  const std::vector<Exchange> exchanges = two_exchanges();
  EXPECT_NO_THROW(check_task(train_task(), exchanges));
  EXPECT_NO_THROW(check_task(Message("dismiss"), exchanges));
  const auto text = [&](const Message& task) {
    EXPECT_EQ(error_kind([&] { check_task(task, exchanges); }), ErrorKind::peer);
    return error_text([&] { check_task(task, exchanges); });
  };
  EXPECT_EQ(text(Message("trian")), "unknown task 'trian'");
  EXPECT_EQ(text(Message("dismissed")), "message 'dismissed' is a reply, expected a task");
  EXPECT_EQ(text(Message("train")), "message 'train': field 1 is missing, expected 'round'");
  EXPECT_EQ(text(Message("train").set("model", state_of({1}))),
            "message 'train': field 1 is 'model', expected 'round'");
  EXPECT_EQ(text(train_task().set("x", 1.0)), "message 'train': field 'x' is one too many");
  EXPECT_EQ(text(Message("train").set("round", 1.0).set("model", state_of({1}))),
            "message 'train': field 'round' is not of type u32");
}

TEST(Exchange, AReplyIsOfTheKindThatTheTaskAsksFor) {
  const std::vector<Exchange> exchanges = two_exchanges();
  const Message done = Message("done").set("loss", 1.0).set("n", std::uint32_t{1});
  EXPECT_NO_THROW(check_reply(done, train_task(), exchanges));
  EXPECT_NO_THROW(check_reply(Message("dismissed"), Message("dismiss"), exchanges));
  const auto text = [&](const Message& reply, const Message& task) {
    EXPECT_EQ(error_kind([&] { check_reply(reply, task, exchanges); }), ErrorKind::peer);
    return error_text([&] { check_reply(reply, task, exchanges); });
  };
  EXPECT_EQ(text(Message("dismissed"), train_task()),
            "task 'train' was answered with 'dismissed', expected 'done'");
  EXPECT_EQ(text(train_task(), train_task()),
            "task 'train' was answered with 'train', expected 'done'");
  EXPECT_EQ(text(Message("done").set("loss", 1.0), train_task()),
            "message 'done': field 2 is missing, expected 'n'");
}

TEST(Exchange, SaysShapesRangesAndPayloads) {
  const FieldRule shares = field::numbers("a", "shares", Length::exactly(10, "C")).between(0, 1);
  EXPECT_EQ(shares.shape(), "C f64");
  EXPECT_EQ(shares.range(), "0 to 1");
  EXPECT_EQ(field::number("b", "a loss").at_least(0).range(), "at least 0");
  EXPECT_EQ(field::samples().range(), "all its samples");
  EXPECT_EQ(field::relabelled().range(), "at most its samples");
  EXPECT_EQ(field::number("c", "anything").range(), "");
  EXPECT_EQ(field::number("c", "anything").any_number().range(), "any number");
  const FieldRule lent = field::models("m", "models", {0, 2, "k"});
  EXPECT_EQ(lent.shape(), "k models");
  EXPECT_EQ(field::numbers("r", "weights", {1, 3, "k + 1"}).shape(), "(k + 1) f64");
  EXPECT_EQ(payload({}), "0");
  EXPECT_EQ(payload({field::round(), field::global_model(), shares, lent}),
            "4 + 4 P + 8 C + 4 k P");
  EXPECT_EQ(letters({{"t", {field::global_model()}, "r", {shares}}}),
            "P: number of values in a model (parameters, running statistics, counters), C: number "
            "of classes");
}

// A length that the setting does not know holds for any.
TEST(Exchange, ALengthOfNothingIsUnknown) {
  EXPECT_EQ(Length::exactly(0, "C").least, 0);
  EXPECT_EQ(Length::exactly(0, "C").most, Length::kUnknown);
  EXPECT_EQ(Length::exactly(7, "C").least, 7);
  EXPECT_EQ(Length::up_to(7, "C").least, 0);
  EXPECT_EQ(Length::up_to(7, "C").most, 7);
}

}  // namespace winnow::exchange_test
