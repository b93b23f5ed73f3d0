#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "testing/errors.h"
#include "winnow/base/error.h"
#include "winnow/base/files.h"
#include "winnow/base/params.h"
#include "winnow/base/sha256.h"
#include "winnow/base/text.h"

namespace winnow::base_test {

using ::testing::HasSubstr;

TEST(Sha256, MatchesThePublishedVectors) {
  EXPECT_EQ(sha256_hex(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256_hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256_hex("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(sha256_hex(std::string(1000000, 'a')),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256, DoesNotDependOnHowTheInputIsCut) {
  const std::string text(300, 'x');
  for (const std::size_t cut : {1UL, 55UL, 63UL, 64UL, 65UL, 128UL, 299UL}) {
    Sha256 hash;
    hash.update(text.substr(0, cut));
    hash.update(text.substr(cut));
    EXPECT_EQ(hash.hex(), sha256_hex(text)) << cut;
  }
}

TEST(Text, NearestFindsTheMeantWordAndStaysSilentOtherwise) {
  const std::vector<std::string> known{"momentum", "weight_decay", "lr", "batch_size"};
  EXPECT_EQ(nearest("momentun", known), "momentum");
  EXPECT_EQ(nearest("batchsize", known), "batch_size");
  EXPECT_EQ(nearest("zebra_crossing", known), "");
  EXPECT_EQ(suggestion("momentun", known), "did you mean 'momentum'?");
  EXPECT_EQ(nearest("Batch-Size", known), "batch_size") << "case and hyphens do not count";
  EXPECT_EQ(nearest("decay", known), "weight_decay") << "a part of a word";
  EXPECT_EQ(nearest("mu", known), "") << "two letters, both of them others";
}

TEST(Text, ManyNamesAreNotListedInAHint) {
  std::vector<std::string> known{"first_of_many", "second_of_many"};
  EXPECT_EQ(suggestion("zebra", known, "winnow list x"), "known: first_of_many, second_of_many");
  known.resize(13, "another_of_many");
  EXPECT_EQ(suggestion("zebra", known, "winnow list x"), "'winnow list x' shows them all");
}

TEST(Text, WordsOfOthersStandForOurs) {
  const std::vector<Synonym> words{{"learning_rate", "lr"}};
  EXPECT_EQ(meant("LearningRate", words), "lr");
  EXPECT_EQ(meant("momentum", words), "momentum");
}

TEST(Text, NumbersForPeople) {
  EXPECT_EQ(percent_text(0.68774), "68.77%");
  EXPECT_EQ(percent_text(1.0), "100.00%");
  EXPECT_EQ(human_bytes(12), "12 B");
  EXPECT_EQ(human_bytes(462632), "462.6 kB");
  EXPECT_EQ(human_seconds(3.21), "3.2s");
  EXPECT_EQ(human_seconds(65), "1m 05s");
  EXPECT_EQ(human_seconds(7322), "2h 02m");
}

struct Options {
  double lr = 0.01;
  std::int64_t epochs = 5;
  bool augment = false;
  std::string form = "norm";
  std::vector<double> mean{0.5};
};

Params declare(Options& options) {
  Params params;
  params.add("lr", options.lr, "learning rate").above(0);
  params.add("epochs", options.epochs, "local epochs").range(1, 1000);
  params.add("augment", options.augment, "crop and flip");
  params.add("form", options.form, "form of the term").choices({"norm", "squared"});
  params.add("mean", options.mean, "per channel").range(0, 1);
  return params;
}

TEST(Params, ReadsWhatIsGivenAndKeepsTheRest) {
  Options options;
  Params params = declare(options);
  params.read(Json::parse(R"({"lr": 1, "form": "squared", "mean": [0.1, 0.2]})"), "train");
  EXPECT_DOUBLE_EQ(options.lr, 1.0);
  EXPECT_EQ(options.form, "squared");
  EXPECT_EQ(options.epochs, 5);
  EXPECT_EQ(params.values().dump(),
            R"({"lr":1.0,"epochs":5,"augment":false,"form":"squared","mean":[0.1,0.2]})");
  EXPECT_EQ(params.find("lr")->default_value(), 0.01);
}

TEST(Params, PrintsRangesInFull) {
  double number = 0.5;
  Params params;
  const auto text = [&](double low, double high) {
    return params.add("n", number, "a number").range(low, high).range_text();
  };
  EXPECT_EQ(text(0.001, 1e6), "0.001 to 1,000,000");
  EXPECT_EQ(text(1, 1234567), "1 to 1,234,567");
  EXPECT_EQ(text(-65536, 4096), "-65,536 to 4096");
  EXPECT_EQ(text(100000, 1e300), "100,000 to 1e+300");
  EXPECT_EQ(params.add("n", number, "a number").at_least(1).range_text(), ">= 1");
}

TEST(Params, ReadsAValueOfAnEnumerationByItsName) {
  enum class Fuse { kept, all };
  Fuse fuse = Fuse::all;
  Params params;
  params.add("fuse", fuse, {{"kept", Fuse::kept}, {"all", Fuse::all}}, "which models").source("us");
  const Param& declared = params.all().front();
  EXPECT_EQ(declared.type(), "text");
  EXPECT_EQ(declared.range_text(), "kept | all");
  EXPECT_EQ(declared.default_value(), Json("all"));
  params.read({{"fuse", "kept"}}, "method");
  EXPECT_EQ(fuse, Fuse::kept);
  EXPECT_EQ(params.values(), (Json{{"fuse", "kept"}}));
  EXPECT_EQ(declared.default_value(), Json("all"));
  EXPECT_EQ(error_text([&] {
              params.read({{"fuse", "some"}}, "method");
            }),
            "method.fuse = \"some\": expected one of kept, all | which models");
  EXPECT_EQ(error_text([&] {
              params.read({{"fuse", 1}}, "method");
            }),
            "method.fuse = 1: expected a text in quotes | which models");
  EXPECT_EQ(fuse, Fuse::kept) << "what is refused changes nothing";
}

TEST(Params, RejectsWrongValuesByName) {
  Options options;
  Params params = declare(options);
  const auto read = [&](const char* text) {
    return error_text([&] { params.read(Json::parse(text), "train"); });
  };
  EXPECT_THAT(read(R"({"lr": "fast"})"), HasSubstr("train.lr = \"fast\": expected a number"));
  EXPECT_THAT(read(R"({"lr": 0})"), HasSubstr("train.lr = 0: expected a number > 0"));
  EXPECT_THAT(read(R"({"epochs": 2.5})"), HasSubstr("train.epochs = 2.5: expected a whole number"));
  EXPECT_THAT(read(R"({"epochs": 0})"), HasSubstr("expected a whole number from 1 to 1000"));
  EXPECT_THAT(read(R"({"form": "cube"})"), HasSubstr("expected one of norm, squared"));
  EXPECT_THAT(read(R"({"mean": [2]})"), HasSubstr("train.mean = [2]"));
  EXPECT_THAT(read(R"({"epoch": 2})"),
              HasSubstr("unknown key 'train.epoch' | did you mean 'epochs'?"));
  EXPECT_THAT(read("[1]"), HasSubstr("train: expected a table"));
}

TEST(Files, WholeWriteReplacesTheOldFileAndLeavesNothingBehind) {
  const auto folder = std::filesystem::temp_directory_path() / "winnow_files_test";
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  write_file_whole(folder / "a.txt", "one");
  write_file_whole(folder / "a.txt", "two");
  EXPECT_EQ(read_file(folder / "a.txt"), "two");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder), {}), 1);
  std::filesystem::remove_all(folder);
}

TEST(Files, AFullDiskIsOneClearLine) {
  if (!std::filesystem::exists("/dev/full")) {
    GTEST_SKIP() << "no /dev/full here";
  }
  const std::string text = error_text([&] {
    AppendingFile full("/dev/full", 0);
    full.write_line("line");
  });
  EXPECT_THAT(text, ::testing::AnyOf(HasSubstr("No space left on device"),
                                     HasSubstr("cannot write /dev/full")));
}

TEST(Files, AMissingFileIsNamed) {
  EXPECT_THAT(error_text([] { read_file("/nonexistent/file"); }),
              HasSubstr("cannot read /nonexistent/file: no such file"));
}

TEST(Files, AppendingFileContinuesAfterTheKeptBytes) {
  const auto path = std::filesystem::temp_directory_path() / "winnow_lines_test.jsonl";
  std::filesystem::remove(path);
  {
    AppendingFile writer(path, 0);
    writer.write_line("one");
    writer.write_line("two");
  }
  {
    AppendingFile writer(path, 4);
    writer.write_line("three");
    EXPECT_EQ(writer.size(), 10U);
  }
  EXPECT_EQ(read_file(path), "one\nthree\n");
  std::filesystem::remove(path);
}

}  // namespace winnow::base_test
