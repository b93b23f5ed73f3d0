#include "winnow/federation/codec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "testing/support.h"

namespace winnow::codec_test {

using ::testing::ElementsAre;

std::vector<Exchange> all_types() {
  return {{"ping", {}, "pong", {}},
          {"ask",
           {field::flag("a", "a"), field::whole("b", "b"),
            FieldRule{.name = "c", .type = FieldType::u64, .tells = "c"}, field::number("d", "d"),
            field::numbers("e", "e", Length::up_to(3, "C")),
            field::floats("f", "f", Length::exactly(2, "C")), field::model("g", "g"),
            field::models("h", "h", {0, 2, "k"})},
           "answer",
           {field::numbers("i", "i", Length::up_to_samples())}}};
}

State one_model() {
  return state_of({1, -0.0F, std::numeric_limits<float>::quiet_NaN()}, {4}, {5});
}
State other_model() {
  return state_of({7, 8, 9}, {10}, {11});
}

Known known_of(const State& state, std::int64_t samples = 4) {
  return {.layouts = {state.layout}, .samples = samples};
}

Message full_task() {
  return Message("ask")
      .set("a", std::uint8_t{200})
      .set("b", std::uint32_t{4000000000U})
      .set("c", std::uint64_t{1} << 63U)
      .set("d", -std::numeric_limits<double>::infinity())
      .set("e", std::vector<double>{1.5, std::numeric_limits<double>::quiet_NaN()})
      .set("f", std::vector<float>{0.1F, -0.0F})
      .set("g", one_model())
      .set("h", std::vector<State>{other_model(), one_model()});
}

std::string text_of(const std::function<void()>& act) {
  EXPECT_EQ(error_kind(act), ErrorKind::peer);
  return error_text(act);
}

TEST(Codec, GivesEveryTypeBackBitForBit) {
  const Message task = full_task();
  const std::string bytes = bytes_of(pack_task(task, all_types()));
  const Message again = unpack_task(parcel_of(bytes), all_types(), known_of(one_model()));
  EXPECT_NO_THROW(check_task(again, all_types()));
  EXPECT_EQ(again.bytes(), task.bytes());
  EXPECT_EQ(again.get<std::uint8_t>("a"), 200);
  EXPECT_EQ(again.get<std::uint32_t>("b"), 4000000000U);
  EXPECT_EQ(again.get<std::uint64_t>("c"), std::uint64_t{1} << 63U);
  EXPECT_EQ(again.get<double>("d"), -std::numeric_limits<double>::infinity());
  EXPECT_TRUE(std::isnan(again.get<std::vector<double>>("e").at(1)));
  EXPECT_THAT(again.get<std::vector<float>>("f"), ElementsAre(0.1F, 0.0F));
  EXPECT_TRUE(std::signbit(again.get<std::vector<float>>("f").at(1)));
  EXPECT_EQ(hash(again.get<State>("g")), hash(one_model()));
  EXPECT_EQ(hash(again.get<std::vector<State>>("h").at(0)), hash(other_model()));
  EXPECT_EQ(hash(again.get<std::vector<State>>("h").at(1)), hash(one_model()));
  EXPECT_EQ(bytes_of(pack_task(again, all_types())), bytes);
}

TEST(Codec, AModelTravelsOnceAndNotToWhoHoldsIt) {
  const Parcel whole = pack_task(full_task(), all_types());
  ASSERT_EQ(whole.models.size(), 2U) << "the same model twice is one";
  EXPECT_EQ(whole.models[0].values.size(), 20U);
  const std::string held = hash(one_model());
  const Parcel lean = pack_task(full_task(), all_types(),
                                [&](const std::string& digest) { return digest == held; });
  EXPECT_TRUE(lean.models[0].values.empty());
  EXPECT_EQ(lean.models[1].values.size(), 20U);
  Known known = known_of(one_model());
  EXPECT_EQ(text_of([&] { return unpack_task(lean, all_types(), known); }),
            "a task: field 'g' is a model that is not held here");
  known.model = [&](const std::string& digest) {
    return digest == held ? std::optional(one_model()) : std::nullopt;
  };
  EXPECT_EQ(hash(unpack_task(lean, all_types(), known).get<State>("g")), held);
}

TEST(Codec, RefusesToPackWhatDoesNotFit) {
  EXPECT_EQ(text_of([] { return pack_task(Message("pong"), all_types()); }),
            "message 'pong' is a reply, expected a task");
  EXPECT_EQ(text_of([] { return pack_reply(Message("ping"), "ping", all_types()); }),
            "task 'ping' was answered with 'ping', expected 'pong'");
}

// A head with its start and what follows it.
Parcel answer(std::string_view fields, std::uint8_t direction = 1, std::uint8_t exchange = 1) {
  Parcel parcel{"WN1"};
  parcel.head += std::string{static_cast<char>(direction), static_cast<char>(exchange), '\0'};
  parcel.head += fields;
  return parcel;
}

TEST(Codec, NamesWhatIsWrongWithAHead) {
  const auto text = [](const Parcel& parcel) {
    return text_of([&] { return unpack_reply(parcel, "ask", all_types(), known_of(one_model())); });
  };
  using std::string_literals::operator""s;
  EXPECT_EQ(text({""}), "a reply to 'ask': the start needs 3 bytes, there are 0");
  EXPECT_EQ(text({"WN2\1\1\0"s}), "a reply to 'ask': it does not begin with WN1");
  EXPECT_EQ(text({"WN1"}), "a reply to 'ask': the direction needs 1 bytes, there are 0");
  EXPECT_EQ(text(answer("", 0)), "a reply to 'ask': it is no reply");
  EXPECT_EQ(text({"WN1\1\1"}), "a reply to 'ask': the exchange needs 2 bytes, there are 1");
  EXPECT_EQ(text(answer("", 1, 2)), "a reply to 'ask': it is of exchange 2, there are 2");
  EXPECT_EQ(text(answer("", 1, 0)), "a reply to 'ask': it answers 'ping'");
  EXPECT_EQ(text(answer("\1")), "a reply to 'ask': field 'i' needs 4 bytes, there are 1");
  EXPECT_EQ(text(answer("\5\0\0\0"s)), "a reply to 'ask': field 'i' has 5 values, expected 0 to 4");
  EXPECT_EQ(text(answer("\xff\xff\xff\xff"s)),
            "a reply to 'ask': field 'i' has 4294967295 values, expected 0 to 4");
  EXPECT_EQ(text(answer("\2\0\0\0abcdefgh"s)),
            "a reply to 'ask': field 'i' needs 16 bytes, there are 8");
  EXPECT_EQ(text(answer("\0\0\0\0xy"s)), "a reply to 'ask': 2 bytes too many");
  Parcel spare = answer("\0\0\0\0"s);
  spare.models.push_back({hash(one_model()), one_model().layout->digest()});
  EXPECT_EQ(text(spare), "a reply to 'ask': 1 models, of which 0 belong to a field");
  EXPECT_EQ(text_of([&] { return unpack_task(answer(""), all_types(), {}); }),
            "a task: it is no task");
}

// The length of a list is known before a byte of it is touched, so that no number in a head makes
// the receiver allocate.
TEST(Codec, ALengthBeyondAllMemoryIsOnlyANumber) {
  const std::vector<Exchange> unbounded{
      {"ask", {}, "answer", {field::numbers("i", "i", Length::exactly(0, "C"))}}};
  Parcel parcel = answer(std::string("\xff\xff\xff\xff", 4), 1, 0);
  EXPECT_EQ(text_of([&] { return unpack_reply(parcel, "ask", unbounded, {}); }),
            "a reply to 'ask': field 'i' needs 34359738360 bytes, there are 0");
}

TEST(Codec, NamesWhatIsWrongWithAModel) {
  const Parcel whole = pack_task(full_task(), all_types());
  const auto text = [&](const std::function<void(Parcel&)>& change) {
    Parcel parcel = whole;
    change(parcel);
    return text_of([&] { return unpack_task(parcel, all_types(), known_of(one_model())); });
  };
  EXPECT_EQ(text([](Parcel& parcel) { parcel.models.clear(); }),
            "a task: field 'g' is model 0, there are 0");
  EXPECT_EQ(text([](Parcel& parcel) { parcel.models[0].layout[0] = '?'; }),
            "a task: field 'g' has the layout of another network");
  EXPECT_EQ(text([](Parcel& parcel) { parcel.models[0].values.pop_back(); }),
            "a task: field 'g' has 19 bytes, expected 20");
  EXPECT_EQ(text([](Parcel& parcel) { parcel.models[1].values[3] ^= 1; }),
            "a task: field 'h' was changed on the way: its digest differs");
  EXPECT_EQ(text([](Parcel& parcel) { parcel.models[0].values.clear(); }),
            "a task: field 'g' is a model that is not held here");
}

TEST(Codec, NamesWhatIsWrongWithAParcel) {
  const std::string bytes = bytes_of(pack_task(full_task(), all_types()));
  const auto text = [](const std::string& parcel) {
    return text_of([&] { return parcel_of(parcel); });
  };
  EXPECT_EQ(text(""), "a parcel: the length of the head needs 4 bytes, there are 0");
  EXPECT_EQ(text("\xff\xff\xff\x7f"), "a parcel: the head needs 2147483647 bytes, there are 0");
  EXPECT_EQ(text(bytes + "!"), "a parcel: 1 bytes too many");
  EXPECT_EQ(text(bytes.substr(0, bytes.size() - 1)),
            "a parcel: model 1 needs 20 bytes, there are 19");
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_EQ(error_kind([&] { return parcel_of(bytes.substr(0, size)); }), ErrorKind::peer)
        << size;
  }
}

}  // namespace winnow::codec_test
