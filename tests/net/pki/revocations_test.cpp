#include "winnow/net/pki/revocations.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "run/small_run.h"
#include "testing/errors.h"

namespace winnow::revocations_test {

using ::testing::HasSubstr;

const std::string kOne(64, 'a');
const std::string kTwo(64, 'b');
const std::string kThree(64, 'c');

TEST(Revocations, AreReadAgainWhenTheFileChanges) {
  const TestFolder folder;
  const std::filesystem::path file = folder / "revoked.txt";
  write_file_whole(file, "");
  Revocations revocations(file);
  EXPECT_FALSE(revocations.contains(kOne));
  write_file_whole(file, kOne + " # hospital-a\n");
  EXPECT_TRUE(revocations.contains(kOne));
  // The same length, at once after the last look.
  write_file_whole(file, kTwo + " # hospital-a\n");
  EXPECT_FALSE(revocations.contains(kOne));
  EXPECT_TRUE(revocations.contains(kTwo));
  std::filesystem::last_write_time(
      file, std::filesystem::file_time_type::clock::now() - std::chrono::hours(1));
  EXPECT_TRUE(revocations.contains(kTwo));
  write_file_whole(file, kThree + "\n");
  EXPECT_TRUE(revocations.contains(kThree));
}

TEST(Revocations, AreWrittenAsOtherProgramsPrintThem) {
  const TestFolder folder;
  std::string colons;
  for (int i = 0; i < 32; ++i) {
    colons += i == 0 ? "AB" : ":AB";
  }
  write_file_whole(folder / "revoked.txt", "# list\n\n  " + colons + "  \r\n" + kTwo);
  Revocations revocations(folder / "revoked.txt");
  std::string plain;
  for (int i = 0; i < 32; ++i) {
    plain += "ab";
  }
  EXPECT_TRUE(revocations.contains(plain));
  EXPECT_TRUE(revocations.contains(colons));
  EXPECT_TRUE(revocations.contains(kTwo));
  EXPECT_FALSE(revocations.contains(""));
}

TEST(Revocations, AMissingOrDamagedFileIsRefusedAtTheStart) {
  const TestFolder folder;
  EXPECT_THAT(error_text([&] { Revocations(folder / "none.txt"); }),
              HasSubstr("none.txt: no such file | it has the SHA-256 fingerprint of a certificate "
                        "in each line; 'winnow pki revoke' writes it"));
  write_file_whole(folder / "bad.txt", kOne + "\nhospital-a\n");
  EXPECT_THAT(error_text([&] { Revocations(folder / "bad.txt"); }),
              HasSubstr("bad.txt: line 2 is no fingerprint"));
  EXPECT_FALSE(Revocations("").contains(kOne));
}

TEST(Revocations, StayWhereTheFileGoesOrIsDamagedLater) {
  const TestFolder folder;
  const std::filesystem::path file = folder / "revoked.txt";
  write_file_whole(file, kOne + "\n");
  Revocations revocations(file);
  EXPECT_EQ(revocations.problem(), "");
  std::filesystem::remove(file);
  EXPECT_TRUE(revocations.contains(kOne));
  EXPECT_THAT(revocations.problem(), HasSubstr("revoked.txt: no such file"));
  write_file_whole(file, kTwo + "\nabc\n");
  EXPECT_TRUE(revocations.contains(kOne));
  EXPECT_TRUE(revocations.contains(kTwo));
  EXPECT_THAT(revocations.problem(), HasSubstr("revoked.txt: line 2 is no fingerprint"));
  write_file_whole(file, kThree + "\n");
  EXPECT_FALSE(revocations.contains(kOne));
  EXPECT_EQ(revocations.problem(), "");
}

TEST(Revocations, CanBeAskedByManyThreads) {
  const TestFolder folder;
  const std::filesystem::path file = folder / "revoked.txt";
  write_file_whole(file, kOne + "\n");
  Revocations revocations(file);
  std::atomic<int> wrong = 0;
  std::vector<std::jthread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 50; ++i) {
        wrong += revocations.contains(kOne) ? 0 : 1;
      }
    });
  }
  for (int i = 0; i < 10; ++i) {
    write_file_whole(file, kOne + "\n" + std::string(static_cast<std::size_t>(i), '#') + "\n");
  }
  threads.clear();
  EXPECT_EQ(wrong, 0);
}

}  // namespace winnow::revocations_test
