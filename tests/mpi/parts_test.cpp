// The small parts of the engine mpi.
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <map>
#include <set>

#include "run/small_run.h"
#include "testing/errors.h"
#include "winnow/mpi/bytes.h"
#include "winnow/mpi/protocol.h"
#include "winnow/mpi/segments.h"
#include "winnow/mpi/shared_world.h"
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

// Unlike a new one in every field.
World some_world() {
  const auto images = [](std::int64_t count) {
    return at::arange(count * 12).to(at::kByte).view({count, 3, 2, 2});
  };
  World world{.data = {.name = "some",
                       .train = {images(5), {0, 1, 2, 1, 0}},
                       .test = {images(2), {2, 0}},
                       .validation = {images(1), {1}},
                       .given = {0, 1, 2, 2, 0},
                       .classes = 3,
                       .class_names = {"a", "b", "c"},
                       .normalisation = {{0.1, 0.2, 0.3}, {0.4, 0.5, 0.6}},
                       .test_drawn = true,
                       .augment = true,
                       .crop = 1,
                       .owners = {0, 0, 1, 1, 1},
                       .client_names = {"x", "y"},
                       .names = {"1.png", "2.png", "3.png", "4.png", "5.png"},
                       .test_names = {"6.png", "7.png"},
                       .unused_columns = {"age"}},
              .clients = {{{0, 1}, {0, 2}}, {{}, {}}},
              .ledger = Ledger(7, 5, 2),
              .public_images = images(3),
              .truth_known = false,
              .only_injected = true,
              .test_unchecked = true,
              .validation_unchecked = true,
              .validation_elsewhere = 9};
  world.ledger.add(LedgerClient{0, 0, "symmetric", 1.0 / 3.0, 1, 1, 2, true});
  world.ledger.add(LedgerSample{.client = 0, .sample = 1, .from = 1, .to = 2});
  return world;
}

TEST(SharedWorld, IsTheSameWorldElsewhere) {
  const World world = some_world();
  std::optional<SharedWorld> shared = SharedWorld::of(world);
  ASSERT_TRUE(shared);
  const std::string address = shared->address();
  const std::optional<World> there = SharedWorld::at(address);
  const std::optional<World> again = SharedWorld::at(address);
  ASSERT_TRUE(there);
  ASSERT_TRUE(again);
  shared.reset();
  EXPECT_FALSE(SharedWorld::at(address)) << "nobody offers it any more";
  for (const World* other : {&*there, &*again}) {
    const DataSet& data = other->data;
    const auto expect_samples = [](const Samples& samples, const Samples& expected) {
      EXPECT_TRUE(samples.images.equal(expected.images));
      EXPECT_EQ(samples.labels, expected.labels);
    };
    EXPECT_EQ(data.name, world.data.name);
    expect_samples(data.train, world.data.train);
    expect_samples(data.test, world.data.test);
    expect_samples(data.validation, world.data.validation);
    EXPECT_EQ(data.given, world.data.given);
    EXPECT_EQ(data.classes, world.data.classes);
    EXPECT_EQ(data.class_names, world.data.class_names);
    EXPECT_EQ(data.normalisation.mean, world.data.normalisation.mean);
    EXPECT_EQ(data.normalisation.std, world.data.normalisation.std);
    EXPECT_TRUE(data.test_drawn && data.augment);
    EXPECT_EQ(data.crop, world.data.crop);
    EXPECT_EQ(data.owners, world.data.owners);
    EXPECT_EQ(data.client_names, world.data.client_names);
    EXPECT_EQ(data.names, world.data.names);
    EXPECT_EQ(data.test_names, world.data.test_names);
    EXPECT_EQ(data.unused_columns, world.data.unused_columns);
    ASSERT_EQ(other->clients.size(), 2U);
    EXPECT_EQ(other->clients[0].samples, world.clients[0].samples);
    EXPECT_EQ(other->clients[0].given, world.clients[0].given);
    EXPECT_TRUE(other->clients[1].samples.empty());
    EXPECT_EQ(other->ledger.text(), world.ledger.text());
    EXPECT_EQ(other->ledger.noisy_clients(), world.ledger.noisy_clients());
    EXPECT_TRUE(other->public_images.equal(world.public_images));
    EXPECT_TRUE(other->only_injected && other->test_unchecked && other->validation_unchecked);
    EXPECT_FALSE(other->truth_known);
    EXPECT_EQ(other->validation_elsewhere, 9);
  }
}

TEST(SharedWorld, WithoutValidationAndPublicImagesHasNone) {
  World world = some_world();
  world.data.validation = {};
  world.public_images = at::Tensor();
  const std::optional<SharedWorld> shared = SharedWorld::of(world);
  ASSERT_TRUE(shared);
  const std::optional<World> there = SharedWorld::at(shared->address());
  ASSERT_TRUE(there);
  EXPECT_FALSE(there->data.validation.images.defined());
  EXPECT_FALSE(there->public_images.defined());
  EXPECT_TRUE(there->data.test.images.equal(world.data.test.images));
}

// Of another process, as a rank in a container of its own sees it.
TEST(SharedWorld, IsNotFoundWhereTheMemoryIsAnother) {
  const World world = some_world();
  const std::optional<SharedWorld> one = SharedWorld::of(world);
  const std::optional<SharedWorld> other = SharedWorld::of(world);
  ASSERT_TRUE(one && other);
  // The file of one with the key of the other; both have the same length.
  const std::string first = one->address();
  const std::string second = other->address();
  ByteReader reader(first);
  ByteReader key(second);
  const std::string file = reader.text();
  key.text();
  const auto mixed =
      ByteWriter().text(file).put(key.get<std::uint64_t>()).put(key.get<std::size_t>()).take();
  EXPECT_TRUE(SharedWorld::at(first));
  EXPECT_FALSE(SharedWorld::at(mixed));
  reader.get<std::uint64_t>();
  const auto size = reader.get<std::size_t>();
  for (const char* place : {"/nowhere", "/dev/null", "/proc/self/exe"}) {
    EXPECT_FALSE(SharedWorld::at(ByteWriter().text(place).put(std::uint64_t{0}).put(size).take()));
  }
}

TEST(SharedWorld, IsNoOrdinaryFileAndNoPipe) {
  const TestFolder folder;
  const std::optional<SharedWorld> shared = SharedWorld::of(some_world());
  ASSERT_TRUE(shared);
  const std::string address = shared->address();
  ByteReader reader(address);
  const std::string memory = reader.text();
  const auto key = reader.get<std::uint64_t>();
  const auto size = reader.get<std::size_t>();
  const auto at = [&](const std::filesystem::path& place) {
    return SharedWorld::at(ByteWriter().text(place.string()).put(key).put(size).take());
  };
  EXPECT_TRUE(at(memory));
  // Every byte of it, but anybody could change them while they are read.
  std::filesystem::copy_file(memory, folder / "copy");
  ASSERT_EQ(std::filesystem::file_size(folder / "copy"), size);
  EXPECT_FALSE(at(folder / "copy"));
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  EXPECT_FALSE(at(folder / "pipe")) << "nor does it wait for somebody to write";
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
