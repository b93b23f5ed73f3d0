#include "winnow/noise/ledger.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <limits>

#include "testing/errors.h"
#include "winnow/base/error.h"
#include "winnow/base/files.h"
#include "winnow/base/sha256.h"

namespace winnow::ledger_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Ledger small_ledger() {
  Ledger ledger(18446744073709551615ULL, 100, 4);
  ledger.add(LedgerClient{0, 0, "clipfl_labels", 0.1, 2, 2, 25, true});
  ledger.add(LedgerClient{1, 0, "clipfl_labels", 0.0, 0, 0, 25, false});
  ledger.add(LedgerClient{3, 1, "distort", 1.0 / 3.0, 1, 0, 25, true});
  ledger.add(LedgerSample{0, 17, 0, "label", 3, 7, 0});
  ledger.add(LedgerSample{0, 4, 0, "label", 0, 9, 0});
  ledger.add(LedgerSample{3, 99, 1, "contrast", -1, -1, 5});
  return ledger;
}

TEST(Ledger, IsWrittenAsCompactLines) {
  EXPECT_EQ(small_ledger().text(),
            R"({"winnow_ledger":1,"seed":18446744073709551615,"samples":100,"clients":4}
{"client":0,"block":0,"name":"clipfl_labels","level":0.1,"picked":2,"wrong":2,"samples":25,"noisy":true}
{"client":1,"block":0,"name":"clipfl_labels","level":0,"picked":0,"wrong":0,"samples":25,"noisy":false}
{"client":3,"block":1,"name":"distort","level":0.3333333333333333,"picked":1,"wrong":0,"samples":25,"noisy":true}
{"sample":17,"client":0,"block":0,"kind":"label","from":3,"to":7}
{"sample":4,"client":0,"block":0,"kind":"label","from":0,"to":9}
{"sample":99,"client":3,"block":1,"kind":"contrast","severity":5}
)");
}

TEST(Ledger, ReadsBackWhatItWrote) {
  const auto folder = std::filesystem::temp_directory_path() / "winnow_ledger_test";
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  const Ledger ledger = small_ledger();
  ledger.write(folder / "ledger.jsonl");
  const Ledger back = Ledger::read(folder / "ledger.jsonl");
  EXPECT_EQ(back.seed(), ledger.seed());
  EXPECT_EQ(back.clients(), ledger.clients());
  EXPECT_EQ(back.samples(), ledger.samples());
  EXPECT_EQ(back.hash(), ledger.hash());
  EXPECT_EQ(back.hash(), sha256_hex(read_file(folder / "ledger.jsonl")));
  std::filesystem::remove_all(folder);
}

TEST(Ledger, ANegativeZeroIsAZero) {
  const Ledger ledger = Ledger::parse(
      "{\"winnow_ledger\":1,\"seed\":1,\"samples\":4,\"clients\":1}\n"
      "{\"client\":0,\"block\":0,\"name\":\"x\",\"level\":-0e-308,\"picked\":0,\"wrong\":0,"
      "\"samples\":4,\"noisy\":false}\n",
      "ledger.jsonl");
  EXPECT_THAT(ledger.text(), testing::HasSubstr("\"level\":0,"));
  EXPECT_EQ(Ledger::parse(ledger.text(), "again").text(), ledger.text());
}

TEST(Ledger, KnowsTheNoisyClients) {
  const Ledger ledger = small_ledger();
  EXPECT_TRUE(ledger.is_noisy(0));
  EXPECT_FALSE(ledger.is_noisy(1));
  EXPECT_FALSE(ledger.is_noisy(2));
  EXPECT_THAT(ledger.noisy_clients(), ElementsAre(0, 3));
  EXPECT_DOUBLE_EQ(ledger.clients()[0].wrong_share(), 0.08);
  EXPECT_DOUBLE_EQ(LedgerClient{}.wrong_share(), 0.0);
}

TEST(Ledger, BringsAllClientsTogether) {
  Ledger ledger(3, 100, 3);
  ledger.add(LedgerClient{0, 0, "fedcorr_labels", 0.5, 6, 5, 10, true});
  ledger.add(LedgerClient{1, 0, "fedcorr_labels", 0.0, 0, 0, 30, false});
  ledger.add(LedgerClient{1, 1, "human_labels", 0.2, 4, 4, 30, true});
  ledger.add(LedgerSample{0, 17, 0, "label", 3, 7, 0});
  ledger.add(LedgerSample{1, 4, 1, "label", 0, 9, 0});
  const Ledger one = ledger.of_one_client(50);
  EXPECT_THAT(one.clients(), ElementsAre(LedgerClient{0, 0, "fedcorr_labels", 0.1, 6, 5, 50, true},
                                         LedgerClient{0, 1, "human_labels", 0.12, 4, 9, 50, true}))
      << "wrong labels of an earlier block are still wrong";
  EXPECT_THAT(one.samples(), ElementsAre(LedgerSample{0, 17, 0, "label", 3, 7, 0},
                                         LedgerSample{0, 4, 1, "label", 0, 9, 0}));
  EXPECT_TRUE(one.is_noisy(0));
  EXPECT_EQ(one.seed(), 3U);
  EXPECT_EQ(Ledger::parse(one.text(), "text").hash(), one.hash());
  EXPECT_FALSE(Ledger(3, 100, 3).of_one_client(0).is_noisy(0));
}

TEST(Ledger, TheHashChangesWithOneValue) {
  Ledger other = small_ledger();
  const std::string before = other.hash();
  other.add(LedgerSample{3, 98, 1, "contrast", -1, -1, 5});
  EXPECT_NE(other.hash(), before);
}

TEST(Ledger, GivenLabelsStandBeforeTheFirstBlock) {
  Ledger ledger(1, 10, 2);
  ledger.add(LedgerClient{1, kGivenLabelsBlock, "given_labels", 1.0, 5, 1, 5, true});
  ledger.add(LedgerClient{0, 0, "clipfl_labels", 0.0, 0, 0, 5, false});
  ledger.add(LedgerSample{1, 7, kGivenLabelsBlock, "label", 0, 1, 0});
  const Ledger read = Ledger::parse(ledger.text(), "ledger.jsonl");
  EXPECT_EQ(read.clients(), ledger.clients());
  EXPECT_EQ(read.samples(), ledger.samples());
  EXPECT_THAT(read.noisy_clients(), ElementsAre(1));
  EXPECT_THAT(error_text([] {
                Ledger(1, 10, 2).add(LedgerSample{0, 1, -2, "label", 0, 1, 0});
              }),
              HasSubstr("block -2 is out of order"));
}

TEST(Ledger, RefusesEntriesThatDoNotFit) {
  Ledger ledger = small_ledger();
  EXPECT_THAT(error_text([&] {
                ledger.add(LedgerSample{4, 1, 1, "label", 0, 1, 0});
              }),
              HasSubstr("noise ledger: client 4 is not one of the 4 clients"));
  EXPECT_THAT(error_text([&] {
                ledger.add(LedgerSample{0, 100, 1, "label", 0, 1, 0});
              }),
              HasSubstr("sample 100 is not one of the 100 samples"));
  EXPECT_THAT(error_text([&] {
                ledger.add(LedgerSample{0, 1, 1, "label", 0, -1, 0});
              }),
              HasSubstr("sample 1 has only one of the old and the new label"));
  EXPECT_THAT(error_text([&] {
                ledger.add(LedgerSample{0, 1, 0, "label", 0, 1, 0});
              }),
              HasSubstr("block 0 is out of order"));
  EXPECT_THAT(error_text([&] {
                ledger.add(LedgerClient{0, 1, "x", 0.1, 30, 0, 25, true});
              }),
              HasSubstr("client 0 holds 25 samples, but 30 are picked and 0 wrong"));
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THAT(error_text([&] {
                ledger.add(LedgerClient{0, 1, "x", nan, 0, 0, 25, true});
              }),
              HasSubstr("the level of client 0 is not a number"));
}

TEST(Ledger, DamageIsNamedByItsLine) {
  const std::string header = R"({"winnow_ledger":1,"seed":1,"samples":10,"clients":2})"
                             "\n";
  const std::string client =
      R"({"client":0,"block":0,"name":"x","level":0.5,"picked":1,"wrong":1,"samples":5,"noisy":true})"
      "\n";
  const std::string sample = R"({"sample":3,"client":0,"block":0,"kind":"label","from":1,"to":2})"
                             "\n";
  const auto parse = [](const std::string& text) {
    return error_text([&] { Ledger::parse(text, "l.jsonl"); });
  };
  EXPECT_EQ(parse(header + client + sample), "no error");
  EXPECT_THAT(parse(""), HasSubstr("l.jsonl line 1: the line is cut off"));
  EXPECT_THAT(parse("hello\n"), HasSubstr("l.jsonl line 1: expected a JSON object"));
  EXPECT_THAT(parse("[1]\n"), HasSubstr("l.jsonl line 1: expected a JSON object"));
  EXPECT_THAT(parse(R"({"winnow_ledger":2,"seed":1,"samples":10,"clients":2})"
                    "\n"),
              HasSubstr("line 1: winnow_ledger = 2: expected a whole number from 1 to 1"));
  EXPECT_THAT(parse(R"({"winnow_ledger":1,"samples":10,"clients":2})"
                    "\n"),
              HasSubstr("line 1: key 'seed' is missing"));
  EXPECT_THAT(parse(header + client.substr(0, 40)), HasSubstr("line 2: the line is cut off"));
  EXPECT_THAT(parse(header + client + sample + sample.substr(0, 20) + "\n"),
              HasSubstr("line 4: expected a JSON object"));
  EXPECT_THAT(parse(header + sample + client),
              HasSubstr("line 3: a client after the first sample"));
  EXPECT_THAT(parse(header + "\n"), HasSubstr("line 2: expected a JSON object"));
  const auto replaced = [&](std::string line, const std::string& from, const std::string& to) {
    return parse(header + line.replace(line.find(from), from.size(), to));
  };
  EXPECT_THAT(replaced(sample, "\"sample\":3", "\"sample\":10"),
              HasSubstr("line 2: sample 10 is not one of the 10 samples"));
  EXPECT_THAT(replaced(sample, "\"client\":0", "\"client\":2"),
              HasSubstr("line 2: client 2 is not one of the 2 clients"));
  EXPECT_THAT(replaced(sample, "\"to\":2", "\"to\":18446744073709551615"),
              HasSubstr("line 2: to = 18446744073709551615: expected a whole number from 0"));
  EXPECT_THAT(replaced(sample, ",\"to\":2", ""), HasSubstr("line 2: key 'to' is missing"));
  EXPECT_THAT(replaced(sample, "\"kind\":\"label\"", "\"kind\":7"),
              HasSubstr("line 2: kind = 7: expected a text"));
  EXPECT_THAT(replaced(sample, "\"to\":2", "\"to\":2,\"extra\":1"),
              HasSubstr("line 2: unknown key 'extra'"));
  EXPECT_THAT(replaced(client, "true", "1"),
              HasSubstr("line 2: noisy = 1: expected true or false"));
  EXPECT_THAT(replaced(client, "0.5", "1e999"), HasSubstr("line 2: "));
  EXPECT_THAT(replaced(client, "\"wrong\":1", "\"wrong\":6"),
              HasSubstr("line 2: client 0 holds 5 samples, but 1 are picked and 6 wrong"));
}

TEST(Ledger, FiftyThousandEntriesReadBackTheSame) {
  Ledger ledger(1, 50000, 100);
  for (std::int64_t i = 0; i < 50000; ++i) {
    ledger.add(LedgerSample{i / 500, i, 0, "label", i % 10, (i + 1) % 10, 0});
  }
  const auto path = std::filesystem::temp_directory_path() / "winnow_ledger_size_test.jsonl";
  ledger.write(path);
  EXPECT_EQ(Ledger::read(path).samples(), ledger.samples());
  std::filesystem::remove(path);
}

TEST(WrongLabels, MarksWhatDiffersFromTheTruth) {
  const std::vector<std::int64_t> truth{5, 6, 7, 8};
  const std::vector<std::int64_t> samples{3, 0, 2};
  EXPECT_THAT(wrong_labels(std::vector<std::int64_t>{8, 6, 7}, samples, truth),
              ElementsAre(false, true, false));
  EXPECT_THAT(error_text([&] { wrong_labels(truth, samples, truth); }),
              HasSubstr("4 given labels for 3 samples"));
}

}  // namespace winnow::ledger_test
