#include "winnow/net/serve/desk.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <tuple>

#include "net/serve/desk_harness.h"
#include "testing/errors.h"
#include "winnow/base/sha256.h"
#include "winnow/net/serve/reply_bounds.h"
#include "winnow/train/lane.h"

namespace winnow::net {
namespace {

using ::testing::HasSubstr;

TEST(Desk, RefusesWhoCannotTakePart) {
  DeskHarness bench([](DeskSetup& setup) {
    setup.revoked = [](const std::string& fingerprint) {
      return fingerprint == "fingerprint of cy";
    };
  });
  const auto says = [&](const Identity& who, const std::function<void(v1::Hello&)>& change) {
    v1::Hello greeting = hello();
    change(greeting);
    return text_of(bench.desk->join(who, greeting));
  };
  const auto nothing = [](v1::Hello&) {};
  EXPECT_EQ(says({"feedbeef", "ann", "x"}, nothing),
            "wrong_federation: the certificate is of federation feedbeef, this is " + kFederation);
  EXPECT_EQ(says(identity("eve"), nothing), "not_enrolled: eve is not among the members");
  EXPECT_EQ(says(identity("cy"), nothing), "revoked: the certificate of cy is revoked");
  EXPECT_EQ(
      says(identity("ann"), [](v1::Hello& h) { h.set_protocol_low(2), h.set_protocol_high(3); }),
      "wrong_protocol: it speaks protocols 2 to 3, this server speaks 1");
  EXPECT_EQ(says(identity("ann"), [](v1::Hello& h) { h.set_numerics(7); }),
            "wrong_numerics: it computes by rules 7, the federation by 1");
  EXPECT_EQ(
      says(identity("ann"), [](v1::Hello& h) { h.set_charter("other"); }),
      "wrong_charter: ann has agreed to another charter; this one has the hash " + kCharterHash);
  EXPECT_EQ(says(identity("ann"), [](v1::Hello& h) { h.set_samples(1001); }),
            "wrong_samples: samples = 1001, expected at most 1000");
  EXPECT_EQ(says(identity("ann"), [](v1::Hello& h) { h.set_process("abc"); }),
            "wrong_fields: process has 3 bytes, expected 16");
  EXPECT_EQ(bench.desk->joined(), 0);
  EXPECT_EQ(says(identity("ann"), [](v1::Hello& h) { h.clear_charter(); }), "welcome")
      << "to read the charter";
  EXPECT_EQ(bench.desk->joined(), 0) << "which is not yet agreed to";
  EXPECT_THAT(*bench.poll("ann")->mutable_refusal()->mutable_detail(), "it has not joined yet");
  EXPECT_EQ(says(identity("ann"), nothing), "welcome");
  EXPECT_EQ(bench.desk->joined(), 1);
  EXPECT_EQ(bench.desk->members()[0].row.refusals, 6) << "ann's, with the poll";
}

TEST(Desk, TheNewerProcessOfANameWins) {
  DeskHarness bench;
  bench.join_all();
  EXPECT_FALSE(bench.poll("ann", 'p').has_value()) << "it waits";
  const auto waiting = bench.last_poll;
  EXPECT_EQ(text_of(bench.desk->join(identity("ann"), hello('q'))), "welcome");
  ASSERT_TRUE(waiting->has_value()) << "and is told at once";
  EXPECT_EQ(text_of((*waiting)->refusal()), "name_taken: another process has joined as ann");
  EXPECT_EQ(text_of(bench.poll("ann", 'p')->refusal()),
            "name_taken: another process has joined as ann");
  EXPECT_EQ(text_of(bench.desk->join(identity("ann"), hello('p'))),
            "name_taken: another process has joined as ann")
      << "it cannot take the name back";
  EXPECT_FALSE(bench.poll("ann", 'q').has_value());
}

TEST(Desk, MembersEnrolFirstComeFirstServed) {
  DeskHarness bench([](DeskSetup& setup) { setup.open = true; });
  for (const char* name : {"dan", "eve", "fay"}) {
    EXPECT_EQ(text_of(bench.desk->join(identity(name), hello())), "welcome");
  }
  EXPECT_EQ(text_of(bench.desk->join(identity("gus"), hello())),
            "not_enrolled: all 3 places are taken");
  bench.reopen();
  EXPECT_EQ(bench.desk->join(identity("fay"), hello()).client(), 2U) << "for good";
}

TEST(Desk, WhoOnlyReadsTheCharterTakesNoPlace) {
  DeskHarness bench([](DeskSetup& setup) { setup.open = true; });
  v1::Hello curious = hello();
  curious.clear_charter();
  v1::Hello other = hello();
  other.set_charter("other");
  for (const char* name : {"dan", "eve", "fay", "gus"}) {
    EXPECT_EQ(text_of(bench.desk->join(identity(name), curious)), "welcome");
    EXPECT_THAT(text_of(bench.desk->join(identity(name), other)), HasSubstr("wrong_charter"));
    EXPECT_EQ(text_of(bench.poll(name)->refusal()),
              std::string("not_enrolled: ") + name + " is not among the members");
  }
  EXPECT_TRUE(bench.journal->members().empty());
  v1::Hello agreed = hello();
  agreed.set_samples(0);
  EXPECT_EQ(bench.desk->join(identity("gus"), agreed).client(), 0U);
  EXPECT_EQ(bench.desk->join(identity("dan"), agreed).client(), 1U);
  EXPECT_EQ(bench.desk->joined(), 0) << "they are on their way";
  bench.reopen();
  EXPECT_EQ(bench.desk->join(identity("gus"), hello()).client(), 0U) << "and have their places";
  EXPECT_EQ(bench.desk->joined(), 1);
}

TEST(Desk, WhoHasMoreSamplesThanACallHasRoomForIsToldWhenItJoins) {
  DeskHarness bench([](DeskSetup& setup) {
    setup.samples_at_most = 0;
    setup.exchanges = {Exchange{"score",
                                {field::round(), field::global_model()},
                                "scored",
                                {field::numbers("norms", "its norms", Length::up_to_samples())}}};
  });
  EXPECT_EQ(text_of(bench.desk->join(identity("ann"), hello('p', 245'000))), "welcome");
  EXPECT_EQ(text_of(bench.desk->join(identity("bob"), hello('p', 246'000))),
            "wrong_samples: samples = 246000: a reply to 'score' could be longer than the 1966080 "
            "bytes that a call has room for");
  EXPECT_NO_THROW(check_calls(bench.setup.exchanges));
  EXPECT_THAT(
      error_text([] {
        check_calls({{"share",
                      {field::round()},
                      "shared",
                      {field::floats("scores", "its scores", Length::exactly(500'000, "n"))}}});
      }),
      HasSubstr("the exchange 'share' of the method can be longer than the 1966080 bytes"));
  const Exchange lists{"share",
                       {field::round()},
                       "shared",
                       {field::floats("scores", "its scores", Length::exactly(500'000, "n"))}};
  const Exchange models{
      "share", {field::models("models", "models", Length::up_to(60'000, "k"))}, "shared", {}};
  for (const Exchange& exchange : {lists, models}) {
    EXPECT_THAT(error_text([&] { check_calls({exchange}); }),
                HasSubstr("the exchange 'share' of the method can be longer than the 1966080 bytes "
                          "that a call has room for"));
  }
}

TEST(Desk, APollWaitsAndATaskEndsTheWait) {
  DeskHarness bench;
  bench.join_all();
  bench.begin();
  EXPECT_FALSE(bench.poll("ann"));
  const auto waiting = bench.last_poll;
  bench.clock.advance(24);
  bench.desk->tick();
  EXPECT_FALSE(waiting->has_value());
  bench.clock.advance(1);
  bench.desk->tick();
  ASSERT_TRUE(waiting->has_value());
  EXPECT_TRUE((*waiting)->has_idle());
  EXPECT_FALSE(bench.poll("ann"));
  const auto next = bench.last_poll;
  bench.ask(0, {0});
  ASSERT_TRUE(next->has_value());
  ASSERT_TRUE((*next)->has_task());
  EXPECT_EQ((*next)->task().seconds(), 100U);
  EXPECT_EQ((*next)->task().order().attempt(), 1U);
  EXPECT_TRUE(bench.poll("ann")->has_task()) << "until it is answered";
  EXPECT_FALSE(bench.poll("bob"));
  bench.desk->shut();
  EXPECT_TRUE((*bench.last_poll)->has_idle());
}

TEST(Desk, ModelsAreFetchedByThoseWhoseTasksReferToThem) {
  DeskHarness bench;
  bench.join_all();
  bench.begin();
  bench.ask(0, {0});
  const v1::Task task = bench.task("ann");
  std::string all;
  v1::PieceRequest request;
  request.set_digest(task.models(0).digest());
  for (std::uint64_t number = 0; number < 3; ++number) {
    request.set_number(number);
    all += bench.desk->fetch(identity("ann"), request).data();
  }
  EXPECT_EQ(all.size(), task.models(0).bytes());
  EXPECT_EQ(raw_of(sha256_in_pieces(std::as_bytes(std::span(all)))), task.models(0).digest());
  request.set_number(3);
  EXPECT_EQ(text_of(bench.desk->fetch(identity("ann"), request).refusal()),
            "wrong_length: piece 3: there are 3");
  request.set_number(0);
  EXPECT_EQ(text_of(bench.desk->fetch(identity("bob"), request).refusal()),
            "not_now: no task of it refers to such a model at present (try again)");
}

TEST(Desk, WhatWasSentOutIsLetGoOfOnceTheRoundIsInTheModel) {
  DeskHarness bench;
  bench.join_all();
  bench.begin();
  const std::vector<std::int64_t> ids = bench.ask(0, {0, 1});
  const v1::Task task = bench.task("ann");
  const v1::OrderId late = bench.task("bob").order();
  const Parcel unchanged = bench.parcel_of_reply(trained(filled(bench.layout, 1)));
  const v1::Receipt opened =
      bench.desk->open(identity("bob"), DeskHarness::opening(late, unchanged));
  EXPECT_EQ(opened.missing_size(), 0) << "it is the one that was sent out";
  const Parcel parcel = bench.parcel_of_reply(trained(filled(bench.layout, 2)));
  EXPECT_EQ(text_of(bench.deliver("ann", task.order(), parcel)), "accepted");
  bench.clock.advance(100);
  for (const std::int64_t id : ids) {
    std::ignore = bench.desk->await(id, nullptr);
  }
  v1::PieceRequest request;
  request.set_digest(task.models(0).digest());
  EXPECT_FALSE(bench.desk->fetch(identity("ann"), request).has_refusal());
  bench.desk->folded();
  EXPECT_EQ(text_of(bench.desk->fetch(identity("ann"), request).refusal()),
            "not_now: no task of it refers to such a model at present (try again)");
  // Who has opened its reply by then is late as before.
  EXPECT_EQ(text_of(bench.desk->seal(identity("bob"), DeskHarness::sealing(late))),
            "late: order 2 went on without it");
  EXPECT_EQ(text_of(bench.deliver("bob", late, unchanged)), "late: order 2 went on without it");
  EXPECT_EQ(text_of(bench.deliver("ann", task.order(), parcel)), "accepted") << "told again";
}

TEST(Desk, AReplyIsAcceptedOnceWhateverIsSentAgain) {
  DeskHarness bench;
  bench.join_all();
  bench.begin();
  const std::int64_t id = bench.ask(0, {0})[0];
  const v1::OrderId order = bench.task("ann").order();
  const Parcel parcel = bench.parcel_of_reply(trained(filled(bench.layout, 2)));
  EXPECT_EQ(text_of(bench.deliver("ann", order, parcel)), "accepted");
  EXPECT_EQ(text_of(bench.deliver("ann", order, parcel)), "accepted");
  EXPECT_EQ(text_of(bench.desk->seal(identity("ann"), DeskHarness::sealing(order))), "accepted");
  const Parcel other = bench.parcel_of_reply(trained(filled(bench.layout, 3)));
  EXPECT_EQ(text_of(bench.deliver("ann", order, other)),
            "duplicate: order 1 was answered with another reply");
  const OrderRow row = bench.desk->await(id, nullptr);
  EXPECT_EQ(row.verdict, OrderVerdict::accepted);
  ASSERT_EQ(row.reply.models.size(), 1U);
  EXPECT_EQ(hash(bench.desk->model(row.reply.models[0].digest, bench.layout)),
            parcel.models[0].digest);
  const auto told = bench.poll("ann", 'p', 0, 1);
  ASSERT_TRUE(told);
  ASSERT_EQ(told->settled_size(), 1);
  EXPECT_EQ(told->settled(0).verdict(), v1::ACCEPTED);
  EXPECT_FALSE(bench.poll("ann", 'p', 1)) << "what is known is not told again";
}

TEST(Desk, AModelThatTheServerHoldsNeedNotBeSent) {
  DeskHarness bench;
  bench.join_all();
  bench.begin();
  bench.ask(0, {0, 1});
  const Parcel unchanged = bench.parcel_of_reply(trained(filled(bench.layout, 1)));
  const v1::OrderId order = bench.task("ann").order();
  const v1::Receipt opened =
      bench.desk->open(identity("ann"), DeskHarness::opening(order, unchanged));
  EXPECT_EQ(opened.missing_size(), 0) << "it is the one that was sent out";
  EXPECT_EQ(text_of(bench.desk->seal(identity("ann"), DeskHarness::sealing(order))), "accepted");
  bench.reopen();
  EXPECT_EQ(bench.journal->orders()[0].verdict, OrderVerdict::accepted) << "and in the spool";
}

TEST(Desk, ADeliveryGoesOnWhereItWasBroken) {
  DeskHarness bench;
  bench.join_all();
  bench.begin();
  bench.ask(0, {0});
  const v1::OrderId order = bench.task("ann").order();
  const Parcel parcel = bench.parcel_of_reply(trained(filled(bench.layout, 2)));
  const v1::Opening opening = DeskHarness::opening(order, parcel);
  const std::string& values = parcel.models[0].values;
  EXPECT_EQ(text_of(bench.desk->put(identity("ann"), DeskHarness::portion(order, values, 0))),
            "not_now: it has to be opened first (try again)");
  EXPECT_EQ(bench.desk->open(identity("ann"), opening).missing(0).first(), 0U);
  std::ignore = bench.desk->put(identity("ann"), DeskHarness::portion(order, values, 2));
  std::ignore = bench.desk->put(identity("ann"), DeskHarness::portion(order, values, 0));
  const v1::Receipt early = bench.desk->seal(identity("ann"), DeskHarness::sealing(order));
  EXPECT_EQ(text_of(early), "open");
  ASSERT_EQ(early.missing_size(), 1);
  EXPECT_EQ(early.missing(0).first(), 1U);
  EXPECT_EQ(bench.desk->open(identity("ann"), opening).missing(0).first(), 1U);
  std::ignore = bench.desk->put(identity("ann"), DeskHarness::portion(order, values, 1));
  EXPECT_EQ(text_of(bench.desk->seal(identity("ann"), DeskHarness::sealing(order))), "accepted");
}

// Each of them on an order of its own.
TEST(Desk, RefusesEveryMalformedReplyByItsReason) {
  DeskHarness bench;
  bench.join_all();
  bench.begin();
  const State model = filled(bench.layout, 2);
  const std::string digest_of_model = hash(model);
  const LayoutPtr other = std::make_shared<const Layout>(std::vector<Slot>{{"v", {600'000}}});
  using Change = std::function<void(v1::Opening&)>;
  struct Case {
    Change change;
    std::string expected;
    bool decides = true;
  };
  const auto head = [&](const Message& reply) {
    return [text = pack_reply(
                       reply, "train", exchanges_of_test(), [](const std::string&) { return true; },
                       [&](const State&) { return digest_of_model; })
                       .head](v1::Opening& o) { o.set_head(text); };
  };
  const auto patched = [](std::size_t at, const std::string& bytes) {
    return [at, bytes](v1::Opening& o) { o.mutable_head()->replace(at, bytes.size(), bytes); };
  };
  const std::vector<Case> cases{
      {[](v1::Opening& o) { o.mutable_order()->set_number(77); },
       "not_asked: there is no order 77 for ann", false},
      {[](v1::Opening& o) { o.mutable_order()->set_number(~0ULL); },
       "not_asked: there is no order 18446744073709551615 for ann", false},
      {[](v1::Opening& o) { o.mutable_order()->set_number(77), o.mutable_order()->set_round(5); },
       "wrong_round: order 77 is of round 6, attempt 1; under way is round 1, attempt 1", false},
      {[](v1::Opening& o) { o.mutable_order()->set_attempt(2); },
       "wrong_round: order ORDER is of round 1, attempt 1, ask ASK", false},
      {[](v1::Opening& o) { o.mutable_order()->set_ask(99); },
       "wrong_round: order ORDER is of round 1, attempt 1, ask ASK", false},
      {[](v1::Opening& o) { o.mutable_order()->set_nonce(process('x')); },
       "wrong_nonce: order ORDER has another nonce", false},
      {[](v1::Opening& o) { o.set_process("short"); },
       "wrong_fields: process has 5 bytes, expected 16", false},
      {patched(0, "XX1"), "wrong_kind: a reply to 'train': it does not begin with WN1"},
      {patched(3, std::string(1, '\0')), "wrong_kind: a reply to 'train': it is no reply"},
      {patched(4, "\x07"), "wrong_kind: a reply to 'train': it is of exchange 7, there are 2"},
      {patched(4, "\x01"), "wrong_kind: a reply to 'train': it answers 'score'"},
      {[](v1::Opening& o) { o.mutable_head()->pop_back(); },
       "wrong_fields: a reply to 'train': field 'histogram' needs 24 bytes, there are 23"},
      {[](v1::Opening& o) { o.mutable_head()->push_back('x'); },
       "oversized: a head of 49 bytes, expected at most 48"},
      {[](v1::Opening& o) { o.set_head(std::string(1'900'000, 'x')); },
       "oversized: a head of 1900000 bytes, expected at most 48"},
      {[](v1::Opening& o) { o.clear_head(); },
       "wrong_fields: a reply to 'train': the start needs 3 bytes, there are 0"},
      {head(trained(model, 40, 0.5, {1, 2})),
       "wrong_length: a reply to 'train': field 'histogram' has 2 values, expected 3"},
      {patched(20, "\xff\xff\xff\xff"),
       "wrong_length: a reply to 'train': field 'histogram' has 4294967295 values, expected 3"},
      {head(trained(model, 40, 11)), "out_of_range: loss = 11, expected 0 to 10"},
      {head(trained(model, 41)), "wrong_samples: samples = 41, expected its 40"},
      {head(trained(model, 0xffffffffU)), "wrong_samples: samples = 4294967295, expected its 40"},
      {patched(6, std::string("\x07\x00", 2)),
       "wrong_fields: a reply to 'train': field 'model' is model 7, there are 1"},
      {[&](v1::Opening& o) { o.mutable_models(0)->set_layout(raw_of(other->digest())); },
       "wrong_layout: model 0 has the layout of another network"},
      {[](v1::Opening& o) { o.mutable_models(0)->set_bytes(1ULL << 63U); },
       "oversized: model 0 of 9223372036854775808 bytes, expected 2400000"},
      {[](v1::Opening& o) { o.mutable_models(0)->set_bytes(2'399'996); },
       "wrong_length: model 0 of 2399996 bytes, expected 2400000"},
      {[](v1::Opening& o) { *o.add_models() = o.models(0); },
       "oversized: 2 models, expected at most 1"},
      {[](v1::Opening& o) { o.clear_models(); },
       "wrong_fields: a reply to 'train': field 'model' is model 0, there are 0"},
      {[](v1::Opening& o) { o.mutable_models(0)->mutable_digest()->pop_back(); },
       "wrong_fields: model 0 has no digest of 32 bytes"},
      {[](v1::Opening& o) { o.set_own_model("12345"); },
       "wrong_fields: own_model has 5 bytes, expected 32"},
      {[](v1::Opening& o) { o.set_steps(1ULL << 63U); },
       "out_of_range: steps = 9223372036854775808, expected at most 1099511627776"},
  };
  const Parcel parcel = bench.parcel_of_reply(trained(model));
  std::int64_t ask = 0;
  for (const Case& each : cases) {
    const std::int64_t id = bench.ask(ask, {0})[0];
    const v1::OrderId order = bench.task("ann").order();
    v1::Opening opening = DeskHarness::opening(order, parcel);
    each.change(opening);
    std::string expected = each.expected;
    for (const auto& [word, value] : {std::pair{"ORDER", id}, {"ASK", ask}}) {
      if (const std::size_t at = expected.find(word); at != std::string::npos) {
        expected.replace(at, std::string(word).size(), std::to_string(value));
      }
    }
    EXPECT_EQ(text_of(bench.desk->open(identity("ann"), opening)), expected);
    const std::vector<OrderRow> rows = bench.journal->orders();
    EXPECT_EQ(rows.back().verdict, each.decides ? OrderVerdict::refused : OrderVerdict::open)
        << expected;
    if (each.decides) {
      EXPECT_THAT(expected, HasSubstr(rows.back().reason));
      EXPECT_THAT(text_of(bench.deliver("ann", order, parcel)), HasSubstr("was refused already"));
    } else {
      EXPECT_EQ(text_of(bench.deliver("ann", order, parcel)), "accepted") << expected;
    }
    EXPECT_LT(bench.spool->bytes(), 3'000'000) << expected;
    ++ask;
  }
  EXPECT_THAT(bench.metrics.text(),
              HasSubstr("winnow_replies_total{verdict=\"refused\",reason=\"oversized\"} 4"));
}

TEST(Desk, NobodyAnswersTheOrderOfAnother) {
  DeskHarness bench;
  bench.join_all();
  bench.begin();
  bench.ask(0, {0, 1});
  const v1::OrderId order = bench.task("ann").order();
  const Parcel parcel = bench.parcel_of_reply(trained(filled(bench.layout, 2)));
  EXPECT_EQ(text_of(bench.deliver("bob", order, parcel)), "not_asked: there is no order 1 for bob");
  EXPECT_EQ(text_of(bench.deliver("ann", order, parcel)), "accepted");
}

TEST(Desk, RefusesPiecesThatDoNotFit) {
  using Change = std::function<void(v1::Portion&)>;
  const std::vector<std::pair<Change, std::string>> cases{
      {[](v1::Portion& p) { p.set_model(3); }, "wrong_fields: a piece of model 3, there are 1"},
      {[](v1::Portion& p) { p.set_number(1ULL << 32U); },
       "oversized: piece 4294967296 of model 0, there are 3"},
      {[](v1::Portion& p) { p.mutable_data()->push_back('x'); },
       "oversized: piece 0 of 1048577 bytes, expected 1048576"},
      {[](v1::Portion& p) { p.mutable_data()->pop_back(); },
       "wrong_length: piece 0 of 1048575 bytes, expected 1048576"},
      {[](v1::Portion& p) { p.mutable_order()->set_nonce("n"); },
       "wrong_nonce: order ORDER has another nonce"}};
  DeskHarness bench;
  bench.join_all();
  bench.begin();
  const Parcel parcel = bench.parcel_of_reply(trained(filled(bench.layout, 2)));
  std::int64_t ask = 0;
  for (auto [change, expected] : cases) {
    const std::int64_t id = bench.ask(ask++, {0})[0];
    const v1::OrderId order = bench.task("ann").order();
    std::ignore = bench.desk->open(identity("ann"), DeskHarness::opening(order, parcel));
    v1::Portion portion = DeskHarness::portion(order, parcel.models[0].values, 0);
    change(portion);
    if (const std::size_t at = expected.find("ORDER"); at != std::string::npos) {
      expected.replace(at, 5, std::to_string(id));
    }
    EXPECT_EQ(text_of(bench.desk->put(identity("ann"), portion)), expected);
  }
}

TEST(Desk, AModelThatWasChangedOnTheWayIsSentAgain) {
  DeskHarness bench;
  bench.join_all();
  bench.begin();
  const std::int64_t id = bench.ask(0, {0})[0];
  const v1::OrderId order = bench.task("ann").order();
  const Parcel parcel = bench.parcel_of_reply(trained(filled(bench.layout, 2)));
  Parcel flipped = parcel;
  flipped.models[0].values[5] ^= 1;
  EXPECT_EQ(text_of(bench.deliver("ann", order, flipped)),
            "corrupted: model 0 was changed on the way: its digest differs (try again)");
  EXPECT_EQ(text_of(bench.deliver("ann", order, parcel)), "accepted");
  bench.ask(1, {0});
  const v1::OrderId second = bench.task("ann").order();
  Parcel again = bench.parcel_of_reply(trained(filled(bench.layout, 3)));
  again.models[0].values[5] ^= 1;
  EXPECT_THAT(text_of(bench.deliver("ann", second, again)), HasSubstr("corrupted"));
  bench.clock.advance(100);
  EXPECT_EQ(bench.desk->await(id + 1, nullptr).reason, "refused") << "it had its chance";
}

TEST(Desk, StrictOnesRefuseWhatIsNotFinite) {
  for (const bool strict : {true, false}) {
    DeskHarness bench([strict](DeskSetup& setup) { setup.strict = strict; });
    bench.join_all();
    bench.begin();
    State model = filled(bench.layout, 2);
    model.flat[599'999] = std::numeric_limits<float>::quiet_NaN();
    bench.ask(0, {0, 1});
    EXPECT_EQ(text_of(bench.deliver("ann", bench.task("ann").order(),
                                    bench.parcel_of_reply(trained(model)))),
              strict ? "not_finite: model 0 holds values that are not finite" : "accepted");
    EXPECT_EQ(text_of(bench.deliver(
                  "bob", bench.task("bob").order(),
                  bench.parcel_of_reply(trained(filled(bench.layout, 2), 40, std::nan(""))))),
              strict ? "not_finite: it holds numbers that are not finite" : "accepted");
  }
}

TEST(Desk, AModelFarFromTheOneSentIsRefusedOnceMediansAreKnown) {
  DeskHarness bench([](DeskSetup& setup) { setup.norm_band = 10; });
  bench.join_all();
  for (std::int64_t round = 0; round < 3; ++round) {
    bench.begin(round);
    const bool last = round == 2;
    bench.ask(0, {0, 1, 2});
    for (const char* name : {"ann", "bob", "cy"}) {
      const bool far = last && std::string(name) == "ann";
      EXPECT_THAT(text_of(bench.deliver(
                      name, bench.task(name).order(),
                      bench.parcel_of_reply(trained(filled(bench.layout, far ? 1001.0F : 2.0F))))),
                  far ? HasSubstr("norm_band: the model is 7.746e+05 from the one sent, the median "
                                  "of earlier rounds is 774.6")
                      : HasSubstr("accepted"));
    }
    bench.desk->settle(round + 1);
  }
}

TEST(Desk, WhatComesTooLateDoesNotCount) {
  DeskHarness bench;
  bench.join_all();
  bench.begin();
  const std::vector<std::int64_t> ids = bench.ask(0, {0, 1});
  const v1::OrderId order = bench.task("ann").order();
  EXPECT_FALSE(bench.poll("bob", 'p', 0, 2)->has_idle()) << "its task";
  bench.clock.advance(99);
  const Parcel parcel = bench.parcel_of_reply(trained(filled(bench.layout, 2)));
  std::ignore = bench.desk->open(identity("ann"), DeskHarness::opening(order, parcel));
  bench.clock.advance(1);
  EXPECT_EQ(text_of(bench.deliver("ann", order, parcel)), "late: order 1 went on without it");
  EXPECT_EQ(text_of(bench.desk->put(identity("ann"),
                                    DeskHarness::portion(order, parcel.models[0].values, 0))),
            "late: order 1 went on without it");
  for (const std::int64_t id : ids) {
    EXPECT_EQ(bench.desk->await(id, nullptr).reason, "silent");
  }
  const auto told = bench.poll("ann", 'p', 0, 1);
  ASSERT_EQ(told->settled_size(), 1);
  EXPECT_EQ(told->settled(0).verdict(), v1::ABSENT);
}

TEST(Desk, WhoLeavesIsAbsentAtOnce) {
  DeskHarness bench;
  bench.join_all();
  bench.begin();
  const std::vector<std::int64_t> ids = bench.ask(0, {0, 1});
  v1::Farewell farewell;
  farewell.set_process(process('p'));
  EXPECT_EQ(text_of(bench.desk->leave(identity("ann"), farewell)), "accepted");
  EXPECT_EQ(bench.desk->await(ids[0], nullptr).reason, "left");
  EXPECT_EQ(bench.desk->samples(), (std::vector<std::int64_t>{40, 40, 40})) << "drawn as before";
  EXPECT_EQ(text_of(bench.poll("ann")->refusal()), "not_enrolled: ann has left");
  const std::vector<std::int64_t> later = bench.ask(1, {0});
  EXPECT_EQ(bench.desk->await(later[0], nullptr).reason, "left");
  EXPECT_EQ(bench.desk->members()[0].status, "left");
  EXPECT_EQ(text_of(bench.desk->join(identity("ann"), hello())), "welcome") << "it may come back";
}

TEST(Desk, AMemberLeavesWhicheverProcessSaysSo) {
  DeskHarness bench;
  v1::Farewell farewell;
  farewell.set_process(process('q'));
  EXPECT_EQ(text_of(bench.desk->leave(identity("eve"), farewell)),
            "not_enrolled: eve is not among the members");
  EXPECT_EQ(text_of(bench.desk->leave(identity("cy"), farewell)), "accepted") << "before it came";
  EXPECT_EQ(text_of(bench.desk->join(identity("ann"), hello('p'))), "welcome");
  EXPECT_FALSE(bench.poll("ann", 'p'));
  const auto waiting = bench.last_poll;
  EXPECT_EQ(text_of(bench.desk->leave(identity("ann"), farewell)), "accepted");
  EXPECT_EQ(text_of((*waiting)->refusal()), "not_enrolled: it has left") << "the other one hears";
  EXPECT_EQ(text_of(bench.desk->leave(identity("ann"), farewell)), "accepted") << "again";
  EXPECT_EQ(bench.desk->samples()[0], 40);
  farewell.set_process("q");
  EXPECT_EQ(text_of(bench.desk->leave(identity("ann"), farewell)),
            "wrong_fields: process has 1 bytes, expected 16");
}

TEST(Desk, WhatTheMethodRefusesIsToldThoughItWasAccepted) {
  DeskHarness bench;
  bench.join_all();
  bench.begin();
  const std::int64_t id = bench.ask(0, {0, 1})[0];
  const v1::OrderId order = bench.task("ann").order();
  const Parcel parcel = bench.parcel_of_reply(trained(filled(bench.layout, 2)));
  EXPECT_EQ(text_of(bench.deliver("ann", order, parcel)), "accepted");
  EXPECT_EQ(bench.poll("ann", 'p', 0, 1)->settled(0).verdict(), v1::ACCEPTED);
  bench.desk->refuse_by_method(id, "not this one");
  for (const bool restart : {false, true}) {
    if (restart) {
      bench.reopen();
    }
    const auto told = bench.poll("ann", 'p', 1, 1);
    ASSERT_TRUE(told);
    ASSERT_EQ(told->settled_size(), 1) << restart;
    EXPECT_EQ(told->settled(0).verdict(), v1::REFUSED);
  }
  bench.begin();
  bench.ask(0, {0, 1});
  bench.ask(1, {0});
  const auto next = bench.poll("ann", 'p', 1);
  ASSERT_TRUE(next && next->has_task());
  ASSERT_EQ(next->settled_size(), 1) << "also without having asked";
  EXPECT_EQ(next->settled(0).verdict(), v1::REFUSED);
}

TEST(Spool, WhatCouldNotBeStoredIsTriedAgain) {
  DeskHarness bench;
  const std::string values(static_cast<std::size_t>(kPieceBytes), 'v');
  const std::unique_ptr<IncomingModel> model = bench.spool->receive(std::ssize(values));
  model->put(0, values);
  const std::string digest = model->digest();
  bench.spool->keep(*model, digest);
  EXPECT_NO_THROW(bench.spool->keep(*model, digest)) << "the folder was not synced, say";
  EXPECT_TRUE(bench.spool->holds(digest, std::ssize(values)));
  bench.spool->keep_only({});
  EXPECT_THAT(error_text([&] { bench.spool->keep(*model, digest); }), HasSubstr("cannot find"));
}

TEST(Desk, WhatATakenBackAttemptLearnedIsForgotten) {
  DeskHarness bench;
  bench.join_all();
  bench.begin();
  bench.ask(0, {0});
  const v1::OrderId order = bench.task("ann").order();
  const Parcel parcel = bench.parcel_of_reply(trained(filled(bench.layout, 2)));
  EXPECT_EQ(text_of(bench.deliver("ann", order, parcel)), "accepted");
  bench.desk->take_back();
  EXPECT_EQ(bench.spool->bytes(), 0);
  for (const bool restart : {false, true}) {
    if (restart) {
      bench.reopen();
    }
    auto told = bench.poll("ann", 'p', 1, 1);
    ASSERT_TRUE(told);
    EXPECT_EQ(told->attempt(), 2U);
    ASSERT_EQ(told->settled_size(), 1) << "though it has heard that it was accepted";
    EXPECT_EQ(told->settled(0).verdict(), v1::ABSENT);
  }
  bench.begin();
  bench.ask(0, {0});
  const auto next = bench.poll("ann", 'p', 1);
  EXPECT_EQ(next->task().order().attempt(), 2U);
  EXPECT_EQ(next->task().order().number(), 2U);
  EXPECT_EQ(next->settled_size(), 1);
  EXPECT_EQ(bench.poll("ann", 'p', 2)->settled_size(), 0) << "it knows of later ones";
}

TEST(Desk, SettledRoundsAreForgottenOnceEverybodyKnows) {
  DeskHarness bench;
  bench.join_all();
  for (std::int64_t round = 0; round < 20; ++round) {
    bench.begin(round);
    bench.ask(0, {0});
    const auto assignment = bench.poll("ann", 'p', static_cast<std::uint64_t>(round));
    EXPECT_EQ(assignment->committed_round(), round);
    EXPECT_EQ(assignment->settled_size(), 0);
    const Parcel parcel = bench.parcel_of_reply(trained(filled(bench.layout, 2)));
    EXPECT_EQ(text_of(bench.deliver("ann", assignment->task().order(), parcel)), "accepted");
    bench.desk->settle(round + 1);
    EXPECT_EQ(bench.spool->bytes(), 0);
    EXPECT_EQ(text_of(bench.deliver("ann", assignment->task().order(), parcel)), "accepted")
        << "a receipt may be lost even then";
  }
  EXPECT_LE(bench.journal->orders().size(), 16U);
  EXPECT_EQ(bench.desk->members()[0].row.rounds, 20);
  EXPECT_THAT(error_text([&] { bench.desk->settle(19); }),
              HasSubstr("the journal has 20 rounds that are done, the checkpoint 19"));
  EXPECT_THAT(error_text([&] { bench.desk->settle(22); }),
              HasSubstr("the checkpoint has 22 rounds, the journal knows of 20"));
}

TEST(Desk, EverybodyIsToldThatItIsOver) {
  DeskHarness bench;
  bench.join_all();
  EXPECT_FALSE(bench.poll("ann"));
  const auto waiting = bench.last_poll;
  bench.desk->finish("hash of the model");
  EXPECT_EQ((*waiting)->finished().model_hash(), "hash of the model");
  EXPECT_FALSE(bench.desk->all_told());
  EXPECT_TRUE(bench.poll("bob", 'p', 0, 7)->has_finished());
  EXPECT_TRUE(bench.poll("cy")->has_finished());
  EXPECT_FALSE(bench.desk->all_told()) << "bob was at work and may not have listened";
  EXPECT_TRUE(bench.poll("bob")->has_finished());
  EXPECT_TRUE(bench.poll("cy")->has_finished());
  EXPECT_TRUE(bench.desk->all_told());
}

TEST(Desk, TheStatusOfAMemberIsWhatIsHeardOfIt) {
  DeskHarness bench;
  const auto status = [&] { return bench.desk->members()[0].status; };
  EXPECT_EQ(status(), "enrolled");
  bench.join_all();
  EXPECT_EQ(status(), "present");
  bench.clock.advance(76);
  EXPECT_EQ(status(), "away");
  bench.begin();
  bench.ask(0, {0});
  std::ignore = bench.task("ann");
  EXPECT_EQ(status(), "working");
  bench.reopen();
  EXPECT_EQ(status(), "away") << "it has not come back yet";
}

// It would count like any other: the head holds how much a reply weighs.
TEST(Desk, AReplyThatWasChangedInTheJournalIsNoticed) {
  DeskHarness bench;
  bench.join_all();
  bench.begin();
  bench.ask(0, {0});
  const v1::OrderId order = bench.task("ann").order();
  const Parcel parcel = bench.parcel_of_reply(trained(filled(bench.layout, 2)));
  EXPECT_EQ(text_of(bench.deliver("ann", order, parcel)), "accepted");
  bench.reopen();
  for (const char* change :
       {"UPDATE orders SET steps = steps + 1", "UPDATE orders SET head = zeroblob(12)"}) {
    bench.desk.reset();
    bench.journal.reset();
    Database(bench.folder / "journal.sqlite").execute(change);
    EXPECT_EQ(error_text([&] { bench.reopen(); }),
              "the journal is damaged: order 1 has another reply than the one accepted | restore "
              "it from a copy, or start a new federation with another --out");
  }
}

}  // namespace
}  // namespace winnow::net
