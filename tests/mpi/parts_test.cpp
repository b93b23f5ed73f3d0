// The small parts of the engine mpi.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "testing/errors.h"
#include "winnow/mpi/bytes.h"
#include "winnow/mpi/protocol.h"
#include "winnow/mpi/segments.h"
#include "winnow/mpi/shelf.h"

namespace winnow::mpi_parts_test {

TEST(PlaceInTree, EveryReceiverHearsOnceAndFromSomebodyWhoKnows) {
  for (int count = 0; count <= 20; ++count) {
    std::vector<int> receivers;
    for (int i = 0; i < count; ++i) {
      receivers.push_back(2 * i + 3);
    }
    std::map<int, int> parent_of;
    std::vector<int> everybody = receivers;
    everybody.insert(everybody.begin(), 0);
    for (const int rank : everybody) {
      for (const int child : place_in_tree(receivers, rank).children) {
        EXPECT_TRUE(parent_of.emplace(child, rank).second) << child << " of " << count;
      }
    }
    EXPECT_EQ(parent_of.size(), receivers.size());
    for (const int rank : receivers) {
      EXPECT_EQ(place_in_tree(receivers, rank).parent, parent_of.at(rank));
      int above = rank;
      int steps = 0;
      for (; above != 0; above = parent_of.at(above)) {
        ++steps;
      }
      EXPECT_LE(1 << (steps - 1), count) << "no deeper than the logarithm";
    }
  }
}

TEST(Bytes, ComeBackAsTheyWere) {
  Trace trace;
  trace.labels = Labels{3, 1, 2};
  trace.suspected = std::vector<bool>{true, false};
  ByteWriter writer;
  writer.put(std::int64_t{-5}).text("text").list(std::vector<double>{0.5, -0.0});
  put(writer, trace);
  const std::string bytes = writer.take();
  ByteReader reader(bytes);
  EXPECT_EQ(reader.get<std::int64_t>(), -5);
  EXPECT_EQ(reader.text(), "text");
  EXPECT_EQ(reader.list<double>(), (std::vector<double>{0.5, -0.0}));
  const Trace read = get_trace(reader);
  EXPECT_EQ(read.labels, trace.labels);
  EXPECT_EQ(read.last_labels, std::nullopt);
  EXPECT_EQ(read.suspected, trace.suspected);
  EXPECT_EQ(error_text([&] { reader.get<char>(); }), "a message between ranks is cut short");
}

TEST(Shelf, ForgetsWhatWasUsedLongestAgo) {
  Shelf shelf;
  shelf.put("a", Shelf::kLimit / 2, {});
  shelf.put("b", Shelf::kLimit / 2, {});
  EXPECT_TRUE(shelf.use("a"));
  shelf.put("c", Shelf::kLimit / 2, {});
  EXPECT_TRUE(shelf.use("a"));
  EXPECT_FALSE(shelf.use("b"));
  shelf.put("large", 2 * Shelf::kLimit, {});
  EXPECT_TRUE(shelf.use("large")) << "one is always held";
  EXPECT_FALSE(shelf.use("a"));
  shelf.clear();
  EXPECT_FALSE(shelf.use("large"));
}

TEST(Segments, CoverAModelOnceAndAreAligned) {
  for (const std::int64_t values : {0, 1, 15, 16, 17, 61'706, 11'181'642}) {
    for (const int ranks : {1, 2, 3, 7, 64}) {
      std::int64_t end = 0;
      for (int rank = 0; rank < ranks; ++rank) {
        const Stretch segment = segment_of(values, rank, ranks);
        EXPECT_EQ(segment.begin, end);
        EXPECT_EQ(segment.begin % 16, 0);
        EXPECT_LE(std::abs(segment.size() - values / ranks), 32);
        end = segment.end;
      }
      EXPECT_EQ(end, values);
    }
  }
}

TEST(FoldPlan, ComesBackAsItWas) {
  FoldPlan plan{.form = SumForm::fixed,
                .rules = {{Weighting::equal, Weighting::samples}},
                .items = {{.owner = 2, .samples = 4'000'000'000, .counts = 1}, {.owner = 0}}};
  ByteWriter writer;
  put(writer, plan);
  const std::string bytes = writer.take();
  ByteReader reader(bytes);
  const FoldPlan read = get_fold_plan(reader);
  EXPECT_EQ(read.form, SumForm::fixed);
  EXPECT_EQ(read.rules, plan.rules);
  ASSERT_EQ(read.items.size(), 2U);
  EXPECT_EQ(read.items[0].owner, 2);
  EXPECT_EQ(read.items[0].samples, 4'000'000'000U);
  EXPECT_EQ(read.items[0].counts, 1U);
  EXPECT_EQ(read.items[1].counts, 0U);
}

TEST(Answers, CarryFailuresOver) {
  const auto thrown = [](const auto& what) {
    try {
      throw what;
    } catch (...) {
      return failure_answer();
    }
  };
  const auto read = [](const std::string& answer) {
    return error_text([&] {
      ByteReader reader(answer);
      check_answer(reader, "rank 3 (here)");
    });
  };
  EXPECT_EQ(read(thrown(Error(ErrorKind::data, "no such file", "look"))),
            "rank 3 (here): no such file | look");
  EXPECT_EQ(read(thrown(std::bad_alloc())),
            "rank 3 (here): out of memory | use fewer --lanes or more nodes");
  EXPECT_THAT(read(thrown(std::runtime_error("odd\nmore"))),
              ::testing::StartsWith("rank 3 (here): internal error: odd | this is a bug"));
  const std::string interrupted = thrown(Interrupted());
  ByteReader reader(interrupted);
  EXPECT_THROW(check_answer(reader, "rank 3"), Interrupted);
}

}  // namespace winnow::mpi_parts_test
