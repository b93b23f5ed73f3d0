// Files in places that somebody else has prepared.
#include "winnow/base/files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "testing/errors.h"

namespace winnow::files_test {

using ::testing::EndsWith;
using ::testing::HasSubstr;

namespace fs = std::filesystem;

class HostileFolder : public ::testing::Test {
 protected:
  HostileFolder() {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    write_file_whole(victim_, "precious");
  }
  ~HostileFolder() override { fs::remove_all(folder_); }

  fs::path folder_ =
      fs::temp_directory_path() / ("winnow_hostile_folder_" + std::to_string(::getpid()));
  fs::path victim_ = folder_ / "victim";
};

TEST_F(HostileFolder, ATreeIsRemovedAndLinksInItAreNotFollowed) {
  const fs::path tree = folder_ / "tree";
  fs::create_directories(tree / "a/b");
  write_file_whole(tree / "a/b/file", "x");
  fs::create_symlink(victim_, tree / "a/link");
  fs::create_symlink(folder_, tree / "folder");
  std::error_code failed;
  remove_tree(tree, failed);
  EXPECT_FALSE(failed) << failed.message();
  EXPECT_FALSE(fs::exists(tree));
  EXPECT_EQ(read_file(victim_), "precious");
  remove_tree(tree, failed);
  EXPECT_FALSE(failed) << "nothing is there";
}

TEST_F(HostileFolder, WhatIsNoRegularFileIsRefusedWithoutWaiting) {
  ASSERT_EQ(::mkfifo((folder_ / "pipe").c_str(), 0600), 0);
  for (const fs::path& path : {folder_ / "pipe", fs::path("/dev/zero"), folder_}) {
    EXPECT_EQ(error_text([&] { read_file(path); }),
              "cannot read " + path.string() + ": it is not a regular file");
  }
  EXPECT_THAT(error_text([&] { AppendingFile(folder_ / "pipe", 0); }), HasSubstr("cannot write"));
}

TEST_F(HostileFolder, ALinkThatLeadsToItselfIsNamed) {
  fs::create_symlink("loop", folder_ / "loop");
  EXPECT_THAT(error_text([&] { read_file(folder_ / "loop"); }),
              EndsWith("loop: Too many levels of symbolic links"));
}

TEST_F(HostileFolder, ALimitIsCheckedBeforeReading) {
  EXPECT_EQ(read_file(victim_, 8), "precious");
  EXPECT_EQ(error_text([&] { read_file(victim_, 7); }),
            "cannot read " + victim_.string() + ": it has 8 bytes, more than the 7 allowed");
}

TEST_F(HostileFolder, LinesComeOneByOneAndNoneIsTooLong) {
  const auto lines = [](const fs::path& path, std::uintmax_t most, std::size_t longest) {
    std::vector<std::string> all;
    read_lines(
        path, [&](std::string_view line) { all.emplace_back(line); }, most, longest);
    return all;
  };
  const std::string wide(200'000, 'w');  // more than is read at once
  const fs::path log = folder_ / "log";
  write_file_whole(log, "one\n\n" + wide + "\nunfinished");
  EXPECT_EQ(lines(log, 1 << 30, wide.size()), (std::vector<std::string>{"one", "", wide}));
  EXPECT_EQ(lines(log, 4, 3), (std::vector<std::string>{"one"}));
  EXPECT_EQ(lines(log, 3, 3), std::vector<std::string>());
  EXPECT_EQ(lines(log, 0, 3), std::vector<std::string>());
  EXPECT_EQ(error_text([&] { lines(log, 1 << 30, wide.size() - 1); }),
            "cannot read " + log.string() + ": line 3 has more than the 199999 bytes allowed");
  fs::resize_file(log, std::uintmax_t{1} << 40);  // of zeros that take no room
  EXPECT_EQ(error_text([&] { lines(log, 1ULL << 50, 1 << 20); }),
            "cannot read " + log.string() + ": line 4 has more than the 1048576 bytes allowed");
}

TEST_F(HostileFolder, AWholeFileReplacesALinkAndLeavesItsTargetAlone) {
  fs::create_symlink(victim_, folder_ / "link");
  write_file_whole(folder_ / "link", "new");
  EXPECT_EQ(read_file(victim_), "precious");
  EXPECT_EQ(read_file(folder_ / "link"), "new");
  EXPECT_FALSE(fs::is_symlink(folder_ / "link"));
}

TEST_F(HostileFolder, NothingIsAppendedThroughALink) {
  fs::create_symlink(victim_, folder_ / "link");
  EXPECT_EQ(error_text([&] { AppendingFile(folder_ / "link", 0).write_line("x"); }),
            "cannot write " + (folder_ / "link").string() +
                ": it is a symbolic link | put the file itself there, or remove the link");
  EXPECT_EQ(read_file(victim_), "precious");
}

TEST_F(HostileFolder, AnAppendingFileKnowsWhenItIsGone) {
  fs::create_directories(folder_ / "run");
  const AppendingFile file(folder_ / "run/log", 0);
  EXPECT_TRUE(file.in_place());
  fs::rename(folder_ / "run", folder_ / "elsewhere");
  EXPECT_FALSE(file.in_place());
  fs::create_directories(folder_ / "run");
  write_file_whole(folder_ / "run/log", "");
  EXPECT_FALSE(file.in_place()) << "another file of this name";
}

TEST(Leftovers, OnlyNamesOfOurOwnMakingAreTaken) {
  const fs::path made = temporary_beside("folder/summary.json");
  EXPECT_EQ(made.parent_path(), "folder");
  EXPECT_TRUE(is_leftover(made));
  EXPECT_NE(made, temporary_beside("folder/summary.json")) << "nobody can guess the name";
  for (const char* name : {"notes.tmp", "summary.json.4711.tmp", "summary.json.winnow-.tmp",
                           "a.winnow-0123456789abcdeg.tmp", "a.winnow-0123456789abcdef.tmp.txt",
                           ".winnow-0123456789abcdef.tmp", ""}) {
    EXPECT_FALSE(is_leftover(name)) << name;
  }
}

TEST(PlainNames, AreNamesOfOneVisibleFile) {
  for (const char* name : {"a", "fedavg on CIFAR-10, seed 1", "caf\xc3\xa9", "a.b", "a..b", "~"}) {
    EXPECT_TRUE(is_plain_name(name)) << name;
  }
  for (const std::string& name :
       {std::string(), std::string("."), std::string(".."), std::string(".hidden"),
        std::string("a/b"), std::string("/tmp/x"), std::string("../x"), std::string("a\0b", 3),
        std::string("a\nb"), std::string("a\x1b[2J"), std::string("a\x7f"), std::string("\xff"),
        std::string(201, 'a')}) {
    EXPECT_FALSE(is_plain_name(name)) << name;
  }
}

TEST(Errors, CommandNoTerminalAndAreNotCutShort) {
  const Error error(ErrorKind::data, std::string("a\0b \x1b[2J c\x7f", 11), "d\re");
  EXPECT_STREQ(error.what(), "a\\x00b \\x1b[2J c\\x7f");
  EXPECT_EQ(error.hint(), "d\\x0de");
  EXPECT_EQ(printable("caf\xc3\xa9\n\t"), "caf\xc3\xa9\n\t");
}

}  // namespace winnow::files_test
