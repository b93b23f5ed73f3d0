#include "winnow/net/join/keep.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "run/small_run.h"
#include "winnow/base/files.h"

namespace winnow::member::keep_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

namespace fs = std::filesystem;

OrderName order(std::uint64_t number, std::uint32_t round, std::uint32_t attempt = 1) {
  return {number, round, attempt, 0, std::string(16, static_cast<char>(number))};
}

ClientMemory remembering(double value) {
  ClientMemory memory;
  memory.own.tensors["control"] = at::full({3}, value, at::kFloat);
  memory.own.values["times"] = value;
  memory.trace.labels = Labels{1, 0, 2};
  return memory;
}

// What the keep would begin the next task with; -1: nothing.
double remembered(const Keep& keep) {
  const ClientMemory memory = keep.memory();
  return memory.empty() ? -1.0 : memory.own.values.at("times").get<double>();
}

Outgoing reply(const std::string& text) {
  return {{"head " + text, {{std::string(64, 'a'), std::string(64, 'b'), "values " + text}}},
          7,
          {100, 50},
          std::string(64, 'c')};
}

std::set<std::string> files_in(const fs::path& folder) {
  std::set<std::string> names;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) {
      names.insert(entry.path().lexically_relative(folder).string());
    }
  }
  return names;
}

TEST(Keep, BeginsWithNothingAndFindsEverythingAgain) {
  const TestFolder folder;
  {
    Keep keep(folder / "state");
    EXPECT_EQ(keep.charter(), "");
    EXPECT_EQ(keep.client(), std::nullopt);
    EXPECT_EQ(remembered(keep), -1.0);
    keep.agree("fed", std::string(64, '1'));
    keep.become(3);
    keep.add(order(5, 0), reply("five"), remembering(1));
  }
  const Keep keep(folder / "state");
  EXPECT_EQ(keep.charter(), std::string(64, '1'));
  EXPECT_EQ(keep.client(), 3);
  EXPECT_EQ(remembered(keep), 1.0);
  EXPECT_TRUE(keep.answered(order(5, 0)));
  EXPECT_FALSE(keep.answered(order(5, 0, 2)));
  EXPECT_EQ(keep.undecided(), 5U);
  EXPECT_EQ(keep.newest(), 5U);
  const Outgoing found = keep.outgoing(order(5, 0));
  EXPECT_EQ(found.reply.head, "head five");
  EXPECT_EQ(found.reply.models.at(0).values, "values five");
  EXPECT_EQ(found.steps, 7);
  EXPECT_EQ(found.passes.backward, 50);
  EXPECT_EQ(found.own_model, std::string(64, 'c'));
  EXPECT_THAT(*keep.memory().trace.labels, ElementsAre(1, 0, 2));
}

TEST(Keep, AcceptedLinksBecomeTheMemoryOnceTheirRoundIsDone) {
  const TestFolder folder;
  Keep keep(folder.path());
  keep.add(order(1, 0), reply("a"), remembering(1));
  keep.learn(0, 1, {{1, Fate::accepted}});
  EXPECT_EQ(keep.undecided(), std::nullopt);
  keep.add(order(2, 0), reply("b"), remembering(2));
  EXPECT_EQ(remembered(keep), 2.0);
  keep.learn(1, 1, {{2, Fate::accepted}});
  EXPECT_EQ(remembered(keep), 2.0);
  EXPECT_EQ(keep.committed_round(), 1);
  EXPECT_EQ(keep.settled_up_to(), 2U);
  EXPECT_EQ(files_in(folder.path()), (std::set<std::string>{"memory-2.safetensors", "state.json"}));
}

TEST(Keep, ALinkThatDoesNotCountGoesWithAllThatWereBuiltOnIt) {
  for (const Fate fate : {Fate::refused, Fate::absent}) {
    const TestFolder folder;
    Keep keep(folder.path());
    keep.add(order(1, 0), reply("a"), remembering(1));
    keep.learn(1, 1, {{1, Fate::accepted}});
    keep.add(order(2, 1), reply("b"), remembering(2));
    keep.settle(2, Fate::accepted);
    keep.add(order(3, 1), reply("c"), remembering(3));
    // The server may still change its mind about what it accepted.
    keep.learn(1, 1, {{2, fate}});
    EXPECT_EQ(remembered(keep), 1.0);
    EXPECT_FALSE(keep.answered(order(2, 1)));
    EXPECT_FALSE(keep.answered(order(3, 1)));
    EXPECT_EQ(files_in(folder.path()).count("outbox/3.parcel"), 0U);
  }
}

TEST(Keep, AReplyThatIsRefusedAtDeliveryDropsItsLink) {
  const TestFolder folder;
  Keep keep(folder.path());
  keep.add(order(1, 0), reply("a"), remembering(1));
  keep.settle(1, Fate::refused);
  EXPECT_EQ(remembered(keep), -1.0);
  // Told by a receipt, it is told again by an assignment.
  EXPECT_EQ(keep.settled_up_to(), 0U);
  keep.learn(0, 1, {{1, Fate::refused}});
  EXPECT_EQ(keep.settled_up_to(), 1U);
}

TEST(Keep, AnotherAttemptDropsTheChain) {
  const TestFolder folder;
  Keep keep(folder.path());
  keep.add(order(1, 0), reply("a"), remembering(1));
  keep.learn(1, 1, {{1, Fate::accepted}});
  keep.add(order(2, 1, 1), reply("b"), remembering(2));
  keep.learn(1, 1, {{2, Fate::accepted}});
  EXPECT_EQ(remembered(keep), 2.0);
  keep.learn(1, 2, {});
  EXPECT_EQ(remembered(keep), 1.0);
  keep.add(order(3, 1, 2), reply("c"), remembering(3));
  keep.learn(2, 1, {{3, Fate::accepted}});
  EXPECT_EQ(remembered(keep), 3.0);
}

TEST(Keep, ARoundThatWentOnWithoutItsReplyLeavesNoMemoryOfIt) {
  const TestFolder folder;
  Keep keep(folder.path());
  keep.add(order(1, 0), reply("a"), remembering(1));
  keep.learn(1, 1, {});
  EXPECT_EQ(remembered(keep), -1.0);
}

TEST(Keep, AnEmptiedMemoryIsAChangeToo) {
  const TestFolder folder;
  Keep keep(folder.path());
  keep.add(order(1, 0), reply("a"), remembering(1));
  keep.learn(1, 1, {{1, Fate::accepted}});
  keep.add(order(2, 1), reply("b"), {});
  keep.learn(2, 1, {{2, Fate::accepted}});
  EXPECT_EQ(remembered(keep), -1.0);
  EXPECT_EQ(files_in(folder.path()), (std::set<std::string>{"state.json"}));
}

TEST(Keep, AnotherCharterBeginsAnew) {
  const TestFolder folder;
  Keep keep(folder.path());
  keep.agree("fed", std::string(64, '1'));
  keep.become(2);
  keep.add(order(1, 0), reply("a"), remembering(1));
  keep.agree("fed", std::string(64, '1'));
  EXPECT_EQ(remembered(keep), 1.0);
  keep.agree("fed", std::string(64, '2'));
  EXPECT_EQ(remembered(keep), -1.0);
  EXPECT_EQ(keep.client(), std::nullopt);
}

TEST(Keep, KnowsAServerThatHasGoneBackAndOneThatTakesItForAnother) {
  const TestFolder folder;
  Keep keep(folder.path());
  keep.learn(4, 1, {});
  EXPECT_EQ(error_text([&] { keep.learn(3, 1, {}); }),
            "the server has 3 rounds, this member has seen 4 | if the federation begins anew, "
            "remove this member's state folder");
  keep.become(1);
  EXPECT_THAT(error_text([&] { keep.become(2); }),
              StartsWith("the server calls this member client 2, it was client 1 before"));
}

// Every change ends, in turn, at every step on the disk; what is found then is the state before it
// or the one after, never a mixture.
TEST(Keep, ACrashAtAnyStepLeavesTheStateBeforeOrTheOneAfter) {
  struct Crash {};
  for (int last = 1; last < 40; ++last) {
    const TestFolder folder;
    int steps = 0;
    bool crashed = false;
    // What memory and newest order are after each change that was completed.
    std::vector<std::pair<double, std::uint64_t>> states{{-1.0, 0}};
    try {
      Keep keep(folder.path(), [&](const std::string& /*step*/) {
        if (++steps == last) {
          throw Crash();
        }
      });
      const auto done = [&] { states.emplace_back(remembered(keep), keep.newest()); };
      keep.add(order(1, 0), reply("a"), remembering(1));
      done();
      keep.settle(1, Fate::accepted);
      done();
      keep.add(order(2, 0), reply("b"), remembering(2));
      done();
      keep.learn(0, 1, {{2, Fate::absent}});
      done();
      keep.learn(1, 1, {});
      done();
      keep.add(order(3, 1), reply("c"), remembering(3));
      done();
      keep.learn(2, 1, {{3, Fate::accepted}});
      done();
    } catch (const Crash&) {
      crashed = true;
    }
    const Keep found(folder.path());
    const std::pair<double, std::uint64_t> now{remembered(found), found.newest()};
    const std::vector<std::pair<double, std::uint64_t>> all{{-1, 0}, {1, 1}, {1, 1}, {2, 2},
                                                            {1, 2},  {1, 2}, {3, 3}, {3, 3}};
    ASSERT_LE(states.size(), all.size());
    for (std::size_t i = 0; i < states.size(); ++i) {
      EXPECT_EQ(states[i], all[i]);
    }
    const auto& before = all[states.size() - 1];
    const auto& after = all[std::min(states.size(), all.size() - 1)];
    EXPECT_TRUE(now == before || now == after) << "crash at step " << last;
    // And it goes on from there.
    for (const std::string& name : files_in(folder.path())) {
      EXPECT_THAT(name, ::testing::Not(HasSubstr(".tmp")));
    }
    if (!crashed) {
      EXPECT_GT(last, 10);
      return;
    }
  }
  FAIL() << "more steps than expected";
}

TEST(Keep, RemovesWhatACrashHasLeftAndNothingElse) {
  const TestFolder folder;
  { Keep keep(folder.path()); }
  write_file_whole(folder / "memory-9.safetensors", "left");
  write_file_whole(folder.path() / "outbox" / "9.parcel", "left");
  write_file_whole(folder / "notes.txt", "mine");
  const Keep keep(folder.path());
  EXPECT_EQ(files_in(folder.path()), (std::set<std::string>{"notes.txt"}));
}

TEST(Keep, RefusesDamagedFilesByName) {
  const auto made = [](const TestFolder& folder) {
    Keep keep(folder.path());
    keep.add(order(1, 0), reply("a"), remembering(1));
  };
  const auto text = [](const TestFolder& folder) {
    return error_text([&] { Keep keep(folder.path()); });
  };
  const auto flip = [](const fs::path& file) {
    std::string bytes = read_file(file);
    bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
    write_file_whole(file, bytes);
  };
  {
    const TestFolder folder;
    made(folder);
    flip(folder / "memory-1.safetensors");
    EXPECT_THAT(text(folder), HasSubstr("memory-1.safetensors is damaged: it does not have the "
                                        "hash it was saved with | restore the folder"));
  }
  {
    const TestFolder folder;
    made(folder);
    flip(folder.path() / "outbox" / "1.parcel");
    EXPECT_THAT(text(folder), HasSubstr("1.parcel is damaged"));
  }
  {
    const TestFolder folder;
    made(folder);
    fs::remove(folder / "memory-1.safetensors");
    EXPECT_THAT(text(folder), HasSubstr("memory-1.safetensors is damaged"));
    EXPECT_EQ(error_kind([&] { Keep keep(folder.path()); }), ErrorKind::run);
  }
  for (const char* state :
       {"", "{}", "[]", "{\"winnow_member\": 2}", "{\"winnow_member\": 1, \"federation\": 7}",
        "{\"winnow_member\": 1, \"federation\": \"\", \"charter\": \"\", \"client\": -4}"}) {
    const TestFolder folder;
    write_file_whole(folder / "state.json", state);
    EXPECT_THAT(text(folder), HasSubstr("state.json is damaged: ")) << state;
  }
  {
    const TestFolder folder;
    made(folder);
    std::string state = read_file(folder / "state.json");
    const std::size_t place = state.find("\"nonce\"");
    ASSERT_NE(place, std::string::npos);
    write_file_whole(folder / "state.json", state.substr(0, place));
    EXPECT_THAT(text(folder), HasSubstr("state.json is damaged: "));
  }
}

TEST(Keep, AFullDiskChangesNothing) {
  const TestFolder folder;
  bool full = false;
  Keep keep(folder.path(), [&](const std::string& step) {
    if (full && step == "outbox") {
      throw Error(ErrorKind::run, "no space left on device");
    }
  });
  keep.add(order(1, 0), reply("a"), remembering(1));
  keep.settle(1, Fate::accepted);
  full = true;
  EXPECT_EQ(error_text([&] { keep.add(order(2, 0), reply("b"), remembering(2)); }),
            "no space left on device");
  EXPECT_EQ(remembered(keep), 1.0);
  EXPECT_FALSE(keep.answered(order(2, 0)));
  full = false;
  keep.add(order(2, 0), reply("b"), remembering(2));
  EXPECT_EQ(remembered(keep), 2.0);
}

}  // namespace winnow::member::keep_test
