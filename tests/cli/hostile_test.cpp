// Files, folders and circumstances that mean no good: every one ends in a documented exit code,
// with one clear line, and nothing outside is touched.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "cli/program.h"
#include "testing/script_files.h"
#include "winnow/run/directory_lock.h"
#include "winnow/run/runner.h"

namespace winnow::hostile_test {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

namespace fs = std::filesystem;

// One line that says what is wrong, at most one more that says what to do.
void expect_refusal(const Ended& ended, int code, const std::string& text) {
  EXPECT_EQ(ended.code, code) << ended.err;
  EXPECT_THAT(ended.err, AllOf(StartsWith("winnow: "), HasSubstr(text)));
  EXPECT_LE(lines(ended.err), 2U) << ended.err;
  EXPECT_EQ(ended.out, "");
}

std::string repeated(const std::string& text, int count) {
  std::string all;
  for (int i = 0; i < count; ++i) {
    all += text;
  }
  return all;
}

TEST(Hostile, ADeepExperimentIsRefused) {
  const Workshop shop;
  write_file_whole(shop / "key.toml", repeated("a.", 50'000) + "a = 1\n");
  expect_refusal(shop.call({"inspect", "key.toml"}), 3, "key.toml:1: a key has more than 32 parts");
  write_file_whole(shop / "row.toml",
                   "[[row]]\nname = \"x\"\nset = { \"" + repeated("a.", 50'000) + "a\" = 1 }\n");
  expect_refusal(shop.call({"sweep", "row.toml"}), 3, "a key has more than 32 parts");
}

TEST(Hostile, APipeIsNotWaitedFor) {
  const Workshop shop;
  ASSERT_EQ(::mkfifo((shop / "pipe.toml").c_str(), 0600), 0);
  ASSERT_EQ(::mkfifo((shop / "pipe.txt").c_str(), 0600), 0);
  ASSERT_EQ(::mkfifo((shop / "pipe.png").c_str(), 0600), 0);
  write_file_whole(shop / "list.txt", repeated("pipe.png 0\n", 10));
  const std::string text = ": it is not a regular file";
  expect_refusal(shop.call({"inspect", "pipe.toml"}), 3, "pipe.toml" + text);
  expect_refusal(shop.call({"run", "e.toml", "--set", "data.given_labels=pipe.txt"}), 4,
                 "pipe.txt" + text);
  expect_refusal(
      shop.call({"run", "e.toml", "--set", "data.name=image-list", "--set", "data.path=list.txt"}),
      4, "pipe.png" + text);
  expect_refusal(shop.call({"aggregate", "--method", "fedavg", "pipe.txt", "-o", "m.safetensors"}),
                 4, "pipe.txt" + text);
}

TEST(Hostile, ANameLeadsNowhereElse) {
  const Workshop shop;
  for (const std::string& name :
       {(shop / "out").string(), std::string("../out"), std::string(".out"), std::string("a/b")}) {
    expect_refusal(shop.call({"run", "e.toml", "-q", "--set", "name=" + name}), 3,
                   "expected the name of a folder");
  }
  EXPECT_THAT(names_in(shop / "."), ::testing::ElementsAre("e.toml"));
}

TEST(Hostile, ARunDirectoryWithLinksIsRefusedAndTheirTargetsAreLeftAlone) {
  const Workshop shop;
  fs::create_directories(shop / "run");
  fs::copy_file(shop / "e.toml", shop / "run/experiment.toml");
  write_file_whole(shop / "victim", "precious");
  fs::create_symlink(shop / "victim", shop / "run/events.jsonl");
  expect_refusal(shop.call({"resume", "run", "-q"}), 5,
                 "run/events.jsonl is a symbolic link: nothing is written through it");
  EXPECT_EQ(read_file(shop / "victim"), "precious");
}

TEST(Hostile, AReportReplacesALinkAndNotItsTarget) {
  const Workshop shop;
  shop.done({"run", "e.toml", "-q"});
  write_file_whole(shop / "victim", "precious");
  fs::create_symlink(shop / "victim", shop / "page.html");
  shop.done({"report", "runs/small", "-o", "page.html"});
  EXPECT_EQ(read_file(shop / "victim"), "precious");
  EXPECT_THAT(read_file(shop / "page.html"), StartsWith("<!doctype html>"));
}

TEST(Hostile, ASummaryOfOtherTypesIsDamaged) {
  const Workshop shop;
  shop.done({"run", "e.toml", "-q"});
  const Json good = parse_json(read_file(shop / "runs/small/summary.json"), "summary.json");
  for (const char* key : {"method", "seed", "best", "rounds", "model_hash"}) {
    Json bad = good;
    bad[key] = {{"a", "b"}};
    write_file_whole(shop / "runs/small/summary.json", bad.dump());
    const std::string text = fmt::format("runs/small/summary.json is damaged: {} is not a ", key);
    expect_refusal(shop.call({"table", "runs/small"}), 5, text);
    expect_refusal(shop.call({"resume", "runs/small"}), 5, text);
    expect_refusal(shop.call({"report", "runs/small"}), 5, text);
  }
}

TEST(Hostile, AModelOfARunDirectoryIsExecutedOnlyWhenTrusted) {
  const Workshop shop(
      "[model]\nname = \"torchscript\"\npath = \"net.pt\"\n[grid]\nseed = [1, 2]\n");
  write_script(shop / "net.pt", kLinearText, linear_state({4, 1, 28, 28}));
  shop.done({"sweep", "e.toml", "-q"});
  const std::string cell = "runs/small/fedavg_s1";
  const std::string text = "this run executes the TorchScript file " + (shop / "net.pt").string();
  expect_refusal(shop.call({"verify", cell}), 5, text);
  shop.done({"verify", cell, "--trust-model"});
  fs::remove(shop / (cell + "/summary.json"));
  expect_refusal(shop.call({"resume", cell}), 5, text);
  // The user has named the file to the sweep, and the cell's experiment is the one it makes.
  shop.done({"sweep", "e.toml", "-q"});
  fs::remove(shop / (cell + "/summary.json"));
  shop.done({"resume", cell, "-q", "--trust-model"});
}

TEST(Hostile, ASecondSweepIsKeptOut) {
  const Workshop shop("[grid]\nseed = [1, 2]\n");
  fs::create_directories(shop / "runs/small");
  const DirectoryLock lock(shop / "runs/small", "");
  expect_refusal(shop.call({"sweep", "e.toml", "-q"}), 5, "another sweep is running in runs/small");
}

TEST(Hostile, ASweepWritesThroughNoLink) {
  const Workshop shop("[grid]\nseed = [1, 2]\n");
  fs::create_directories(shop / "runs/small");
  fs::create_directories(shop / "other");
  fs::create_directory_symlink(shop / "other", shop / "runs/small/logs");
  expect_refusal(shop.call({"sweep", "e.toml", "-q"}), 5, "runs/small/logs is a symbolic link");
  EXPECT_THAT(names_in(shop / "other"), ::testing::IsEmpty());
}

TEST(Hostile, ManyClassesMakeNoLargeFiles) {
  const Workshop shop;
  shop.done({"run", "e.toml", "-q", "--set", "data.classes=2000", "--set", "data.samples=40",
             "--set", "rounds=1"});
  EXPECT_LT(fs::file_size(shop / "runs/small/findings.json"), 1000U);
}

TEST(Hostile, NoiseOnManyClassesTakesNoTableOfThem) {
  const Workshop shop("[[noise]]\nname = \"sparse_matrix\"\n");
  expect_refusal(
      shop.call({"run", "e.toml", "-q", "--set", "data.classes=1500", "--set", "data.samples=40"}),
      3, "noise.1: 1500 classes are more than 1000");
}

// A file of many bytes that takes no room on the disk.
void make_sparse(const fs::path& path, std::uintmax_t bytes) {
  write_file_whole(path, "{");
  fs::resize_file(path, bytes);
}

constexpr std::uintmax_t kHuge = std::uintmax_t{30} << 30;
constexpr const char* kLongLine = "line 1 has more than the 268435456 bytes allowed";
constexpr const char* kTooLarge = "it has 32212254720 bytes, more than the 67108864 allowed";

TEST(Hostile, HugeFilesInARunDirectoryAreRefusedUnread) {
  const Workshop shop("[grid]\nseed = [1]\n");
  shop.done({"sweep", "e.toml", "-q"});
  const std::string cell = "runs/small/fedavg_s1";
  const auto expect_unread = [&](const std::string& file, const char* text) {
    const std::string content = read_file(shop / file);
    make_sparse(shop / file, kHuge);
    expect_refusal(shop.call({"table", "runs/small", "--metric", "cost@50"}), 4,
                   "cannot read " + file + ": " + text);
    write_file_whole(shop / file, content);
  };
  expect_unread("runs/small/sweep.json", kTooLarge);
  expect_unread(cell + "/summary.json", kTooLarge);
  expect_unread(cell + "/events.jsonl", kLongLine);
  for (const std::string name : {"findings.json", "partition.json"}) {
    const std::string file = fmt::format("{}/{}", cell, name);
    const std::string content = read_file(shop / file);
    make_sparse(shop / file, kHuge);
    expect_refusal(shop.call({"report", "runs/small"}), 4,
                   "cannot read " + file + ": it has 32212254720 bytes, more than the 268435456");
    write_file_whole(shop / file, content);
  }
}

TEST(Hostile, HugeFilesThatAnExperimentNamesAreRefusedUnread) {
  const Workshop shop("[[noise]]\nname = \"transition_matrix\"\nfile = \"matrix.csv\"\n");
  make_sparse(shop / "absences.jsonl", kHuge);
  expect_refusal(
      shop.call({"run", "e.toml", "-q", "--absences", "absences.jsonl", "--set", "noise=[]"}), 4,
      fmt::format("cannot read {}: {}", (shop / "absences.jsonl").string(), kLongLine));
  make_sparse(shop / "matrix.csv", kHuge);
  expect_refusal(shop.call({"run", "e.toml", "-q"}), 4,
                 fmt::format("cannot read {}: {}", (shop / "matrix.csv").string(), kTooLarge));
}

TEST(Hostile, TooLittleMemoryIsNoBug) {
  const Workshop shop;
  expect_refusal(shop.call({"run", "e.toml", "--set", "data.size=512", "--set", "data.channels=16",
                            "--set", "data.samples=10000000"}),
                 5, "out of memory");
}

TEST(Hostile, FoldersWhoseNamesAreNoTextAreNamedOrWorkedIn) {
  const Workshop shop;
  const std::string name = "caf\xe9";
  fs::create_directories(shop / name);
  fs::copy_file(shop / "e.toml", shop / (name + "/e.toml"));
  Place inside = shop.place();
  inside.folder = shop / name;
  const Ended ended = winnow_program({"run", "e.toml", "-q"}, inside);
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_EQ(winnow_program({"report", "runs/small"}, inside).code, 0);
  expect_refusal(winnow_program({"run", "e.toml", "--set", "data.path=x"}, inside), 3,
                 "has a name that is not UTF-8");
  shop.done({"run", "e.toml", "-q", "--out", "out" + name});
  shop.done({"report", "out" + name});
  shop.done({"table", "out" + name});
}

// A pipe whose reader goes away as soon as the program has it.
class BrokenPipe {
 public:
  explicit BrokenPipe(fs::path path) : path_(std::move(path)) {
    EXPECT_EQ(::mkfifo(path_.c_str(), 0600), 0);
    reader_ = ::open(path_.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    EXPECT_GE(reader_, 0);
  }
  std::string path() const { return path_.string(); }
  void break_off() const { ::close(reader_); }

 private:
  fs::path path_;
  int reader_ = -1;
};

TEST(Hostile, ARunOutlivesWhoReadsItsProgress) {
  const Workshop shop;
  const BrokenPipe pipe(shop / "pipe");
  Place place = shop.place();
  place.errors = pipe.path();
  Process process({"run", "e.toml"}, place);
  pipe.break_off();
  EXPECT_EQ(process.wait().code, 0);
  EXPECT_FALSE(read_summary(shop / "runs/small").is_null());
}

TEST(Hostile, AReaderThatHasSeenEnoughIsNoError) {
  const Workshop shop;
  const BrokenPipe pipe(shop / "pipe");
  Place place = shop.place();
  place.output = pipe.path();
  Process process({"list", "methods"}, place);
  pipe.break_off();
  const Ended ended = process.wait();
  EXPECT_EQ(ended.code, 0);
  EXPECT_EQ(ended.err, "");
}

TEST(Hostile, NohupIsHonoured) {
  const Workshop shop;
  Place place = shop.place();
  place.ignored = SIGHUP;
  Process process({"run", "e.toml", "-q", "--set", "rounds=60"}, place);
  ASSERT_TRUE(wait_until([&] { return fs::exists(shop / "runs/small/events.jsonl"); }));
  process.send(SIGHUP);
  EXPECT_EQ(process.wait().code, 0);
}

}  // namespace winnow::hostile_test
