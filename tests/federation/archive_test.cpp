#include "winnow/federation/archive.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>

#include "testing/support.h"

namespace winnow::archive_test {

Archive bounded() {
  Archive archive;
  archive.bounds = {.samples = {3, 0, 5}, .classes = 4, .layout = state_of({1, 2}, {3}).layout};
  return archive;
}

TEST(Archive, ATensorIsWhatTheReaderExpects) {
  Archive archive = bounded();
  EXPECT_FALSE(archive.tensor("t", at::kFloat, {2}).defined());
  archive.tensors["t"] = at::ones({2, 3});
  EXPECT_TRUE(at::equal(archive.tensor("t", at::kFloat, {2, 3}), at::ones({2, 3})));
  EXPECT_EQ(error_text([&] {
              archive.tensor("t", at::kFloat, {3, 2});
            }),
            "tensor 't' is Float [2, 3], expected Float [3, 2]");
  EXPECT_EQ(error_text([&] {
              archive.tensor("t", at::kDouble, {2, 3});
            }),
            "tensor 't' is Float [2, 3], expected Double [2, 3]");
  archive.tensors["t"] = at::full({2}, std::nan(""));
  EXPECT_EQ(error_text([&] { archive.tensor("t", at::kFloat, {2}); }),
            "tensor 't' holds values that are not finite");
  EXPECT_EQ(error_kind([&] { archive.tensor("t", at::kFloat, {2}); }), ErrorKind::run);
}

TEST(Archive, AModelHasTheLayoutOfTheRun) {
  Archive archive = bounded();
  archive.tensors["p"] = at::ones({2}, at::kDouble);
  archive.tensors["m"] = at::ones({3});
  EXPECT_EQ(archive.parameters("p", at::kDouble).numel(), 2);
  EXPECT_EQ(archive.model("m").numel(), 3);
  EXPECT_EQ(error_text([&] { archive.model("p"); }),
            "tensor 'p' is Double [2], expected Float [3]");
  archive.bounds = {};
  EXPECT_EQ(archive.model("p").numel(), 2) << "what this process saved is trusted";
}

TEST(Archive, AColumnCostsNothingUntilItIsWritten) {
  ByClient<double> scores;
  for (std::int64_t client = 0; client < 2000; ++client) {
    scores[client] = 0.5;
  }
  Archive before;
  int written = 0;
  const auto write = [&written](double score) {
    ++written;
    return Json(score);
  };
  before.put_column("a/scores", scores, write);
  const auto changed = [&](const Archive& now) {
    std::vector<std::int64_t> clients;
    each_changed_client(before, now, [&](std::int64_t client) { clients.push_back(client); });
    return clients;
  };
  scores[7] = 1.0;
  scores[1999] = 0.5;  // as before
  scores.erase(600);
  scores[5000] = 0.0;
  Archive now;
  now.put_column("a/scores", scores, write);
  EXPECT_EQ(changed(now), (std::vector<std::int64_t>{7, 600, 5000}));
  EXPECT_EQ(changed(before), std::vector<std::int64_t>{});
  EXPECT_EQ(changed({}).size(), 2000U) << "all went";
  EXPECT_EQ(written, 0);
  EXPECT_EQ(before.column<double>("a/scores")->at(7), 0.5) << "a copy does not change";
  EXPECT_EQ(now.column<double>("a/scores")->at(7), 1.0);
  EXPECT_EQ(now.column<float>("a/scores"), nullptr);
  EXPECT_EQ(now.column<double>("scores"), nullptr);
  EXPECT_FALSE(now.columns.at("a/scores")->has(600));
  Archive filed;
  filed.take_entry("a/scores", 7, now.columns.at("a/scores")->value(7));
  filed.take_entry("a/models", 7, at::ones({2}));
  EXPECT_EQ(filed.values.dump(), R"({"a":{"scores":{"7":1.0}}})");
  EXPECT_TRUE(filed.tensors.contains("a/models/7"));
  filed.values["b"] = 5;
  EXPECT_EQ(error_text([&] { filed.take_entry("b/c", 1, Json(2)); }), "\"b/c\": expected a table");
}

TEST(Archive, ValuesByClientComeBack) {
  const Archive archive = bounded();
  const std::map<std::int64_t, double> numbers{{0, 0.1}, {2, -3.0}};
  const Json saved = Json::parse(save_by_client(numbers).dump());
  EXPECT_EQ(saved.dump(), R"({"0":0.1,"2":-3.0})");
  EXPECT_EQ(read_numbers(CheckedJson(saved, "n"), archive.bounds), numbers);
  EXPECT_TRUE(read_numbers(std::nullopt, archive.bounds).empty());
  const std::map<std::int64_t, std::optional<double>> known{{0, std::nullopt}, {2, 5.0}};
  const Json some = Json::parse(save_by_client(known).dump());
  EXPECT_EQ(read_known_numbers(CheckedJson(some, "n"), archive.bounds), known);
  const Json list = Json::parse("[2,0,2,1]");
  EXPECT_EQ(read_clients(CheckedJson(list, "l"), archive.bounds),
            (std::set<std::int64_t>{0, 1, 2}));
}

TEST(Archive, KeepsWhatThereIs) {
  Archive archive = bounded();
  archive.put("no tensor", {});
  archive.put_clients("nobody", {});
  EXPECT_TRUE(archive.empty()) << "nothing to keep, as checkpoints always had it";
  archive.put("tensor", at::ones({3}));
  archive.put_clients("somebody", {2, 0});
  archive.put_by_client("numbers", std::map<std::int64_t, double>{{0, 0.5}});
  archive.put_by_client("known", std::map<std::int64_t, std::optional<double>>{{2, std::nullopt}});
  archive.values["rounds"] = 7;
  archive.values["open"] = false;
  EXPECT_EQ(archive.values.dump(),
            R"({"somebody":[0,2],"numbers":{"0":0.5},"known":{"2":null},"rounds":7,"open":false})");
  EXPECT_EQ(archive.model("tensor").numel(), 3);
  EXPECT_FALSE(archive.model("no tensor").defined());
  EXPECT_EQ(archive.clients("somebody"), (std::set<std::int64_t>{0, 2}));
  EXPECT_TRUE(archive.clients("nobody").empty());
  EXPECT_EQ(archive.numbers("numbers"), (std::map<std::int64_t, double>{{0, 0.5}}));
  EXPECT_TRUE(archive.numbers("missing").empty());
  EXPECT_EQ(archive.known_numbers("known").at(2), std::nullopt);
  EXPECT_EQ(archive.by_client("numbers", [](const CheckedJson& each) { return each.number(); }),
            archive.numbers("numbers"));
  EXPECT_EQ(archive.count("rounds"), 7);
  EXPECT_EQ(archive.count("missing"), 0);
  EXPECT_EQ(archive.count("missing", 3), 3);
  EXPECT_FALSE(archive.truth("open", true));
  EXPECT_TRUE(archive.truth("missing", true));
}

TEST(Archive, ChecksWhatItIsAskedFor) {
  Archive archive = bounded();
  archive.values = {{"numbers", {{"2", 1.5}}},
                    {"strangers", {{"1", 1.0}}},
                    {"clients", {0, 3}},
                    {"rounds", -1},
                    {"open", "yes"}};
  EXPECT_EQ(error_text([&] { archive.numbers("numbers", 0.0, 1.0); }),
            "numbers.2 = 1.5: expected 0 to 1");
  EXPECT_EQ(error_text([&] { archive.numbers("strangers"); }),
            "strangers.1: expected the number of a client that holds samples");
  EXPECT_EQ(error_text([&] { archive.known_numbers("strangers"); }),
            "strangers.1: expected the number of a client that holds samples");
  EXPECT_EQ(error_text([&] { archive.clients("clients"); }),
            "clients[1] = 3: expected a whole number from 0 to 2");
  EXPECT_EQ(error_kind([&] { archive.count("rounds"); }), ErrorKind::run);
  EXPECT_EQ(error_kind([&] { archive.truth("open", true); }), ErrorKind::run);
}

TEST(Archive, StrangersAreRefused) {
  const Archive archive = bounded();
  for (const char* id :
       {"3", "999999999", "-1", "x", "", "01", "1", "2 ", "99999999999999999999"}) {
    const Json saved{{id, 1.0}};
    EXPECT_EQ(error_text([&] { read_numbers(CheckedJson(saved, "n"), archive.bounds); }),
              std::string("n.") + id + ": expected the number of a client that holds samples");
  }
  const Json saved{{"2", 1.5}};
  EXPECT_EQ(error_text([&] { read_numbers(CheckedJson(saved, "n"), archive.bounds, 0.0, 1.0); }),
            "n.2 = 1.5: expected 0 to 1");
  const Json list = Json::parse("[0,3]");
  EXPECT_EQ(error_text([&] { read_clients(CheckedJson(list, "l"), archive.bounds); }),
            "l[1] = 3: expected a whole number from 0 to 2");
}

TEST(Archive, WholeNumbersStayInTheirRange) {
  const at::Tensor labels = at::arange(4, at::kLong);
  EXPECT_NO_THROW(require_range(labels, "t", 0, 3));
  EXPECT_NO_THROW(require_range(at::empty({0}, at::kLong), "t", 0, 3));
  EXPECT_NO_THROW(require_range({}, "t", 0, 3)) << "there is none";
  EXPECT_EQ(error_text([&] { require_range(labels, "t", 0, 2); }),
            "tensor 't' holds 3, expected 0 to 2");
  EXPECT_EQ(error_text([&] { require_range(labels, "t", 1, 3); }),
            "tensor 't' holds 0, expected 1 to 3");
}

}  // namespace winnow::archive_test
