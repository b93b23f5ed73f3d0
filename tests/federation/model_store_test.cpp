#include "winnow/federation/model_store.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <fstream>

#include "testing/support.h"

namespace winnow::model_store_test {

namespace fs = std::filesystem;

constexpr std::int64_t kModel = 3 * 4;  // bytes of the models below

State model(float value) {
  return state_of({value, value + 1, value + 2});
}

std::vector<float> stored(const ModelStore& store, std::int64_t client) {
  return values_of(store.get(client, model(0).layout));
}

// Model files that this process has mapped.
int mappings() {
  std::ifstream maps("/proc/self/maps");
  int count = 0;
  for (std::string line; std::getline(maps, line);) {
    count += line.find("winnow-model-") != std::string::npos ? 1 : 0;
  }
  return count;
}

// An empty folder that is removed at the end.
struct Folder {
  Folder() : path(fs::temp_directory_path() / fmt::format("model-store-{}", ::getpid())) {
    fs::create_directory(path);
  }
  ~Folder() { fs::remove_all(path); }
  fs::path path;
};

// No file may grow beyond this while it lives: what a full disk looks like.
struct FileSizeLimit {
  explicit FileSizeLimit(rlim_t bytes) : old_handler(std::signal(SIGXFSZ, SIG_IGN)) {
    getrlimit(RLIMIT_FSIZE, &old);
    const rlimit small{bytes, old.rlim_max};
    setrlimit(RLIMIT_FSIZE, &small);
  }
  ~FileSizeLimit() {
    setrlimit(RLIMIT_FSIZE, &old);
    std::signal(SIGXFSZ, old_handler);
  }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;

  rlimit old{};
  void (*old_handler)(int);
};

TEST(ModelStore, KeepsTheLastModelOfEachClient) {
  ModelStore store;
  EXPECT_FALSE(store.has(4));
  EXPECT_TRUE(store.clients().empty());
  store.put(4, model(1));
  store.put(2, model(5));
  store.put(4, model(7));
  EXPECT_TRUE(store.has(4));
  EXPECT_EQ(store.clients(), (std::vector<std::int64_t>{2, 4}));
  EXPECT_EQ(stored(store, 4), (std::vector<float>{7, 8, 9}));
  EXPECT_EQ(stored(store, 2), (std::vector<float>{5, 6, 7}));
}

TEST(ModelStore, SharesWhatFitsIntoMemory) {
  ModelStore store({.limit = 2 * kModel});
  const State first = model(1);
  store.put(0, first);
  store.put(1, model(2));
  EXPECT_EQ(store.bytes_in_memory(), 2 * kModel);
  EXPECT_EQ(store.get(0, first.layout).flat.data_ptr(), first.flat.data_ptr());
  store.put(0, model(3));
  EXPECT_EQ(store.bytes_in_memory(), 2 * kModel) << "the old copy does not count";
  EXPECT_EQ(mappings(), 0);
}

TEST(ModelStore, MapsWhatIsBeyondTheLimit) {
  ModelStore store({.limit = 2 * kModel});
  for (const std::int64_t client : {0, 1, 2, 3}) {
    store.put(client, model(static_cast<float>(client)));
  }
  EXPECT_EQ(store.bytes_in_memory(), 2 * kModel);
  EXPECT_EQ(mappings(), 2);
  for (const std::int64_t client : {0, 1, 2, 3}) {
    const auto value = static_cast<float>(client);
    EXPECT_EQ(stored(store, client), (std::vector<float>{value, value + 1, value + 2}));
  }
  store.put(2, model(9));
  EXPECT_EQ(mappings(), 2) << "the old mapping went away";
}

TEST(ModelStore, MapsTheSameBits) {
  const State odd = state_of({-0.0F, 1e-42F, 3.4e38F, 0.1F});
  ModelStore store({.limit = 0});
  store.put(0, odd);
  EXPECT_EQ(hash(store.get(0, odd.layout)), hash(odd));
  EXPECT_NE(store.get(0, odd.layout).flat.data_ptr(), odd.flat.data_ptr());
}

TEST(ModelStore, NeverChangesAModelItHandedOut) {
  ModelStore store({.limit = 0});
  const LayoutPtr layout = model(0).layout;
  store.put(0, model(1));
  Archive saved;
  store.save(saved, "m");
  {
    const State held = store.get(0, layout);
    store.put(0, model(5));
    EXPECT_EQ(values_of(held), (std::vector<float>{1, 2, 3}));
    EXPECT_EQ(mappings(), 2);
  }
  EXPECT_EQ(values_of(saved.columns.at("m")->tensor(0)), (std::vector<float>{1, 2, 3}));
  saved = {};
  EXPECT_EQ(mappings(), 1) << "the last user is gone";
}

TEST(ModelStore, LeavesNothingBehind) {
  const Folder folder;
  {
    ModelStore store({.limit = 0, .folder = folder.path});
    store.put(0, model(1));
    store.put(1, model(2));
    EXPECT_EQ(mappings(), 2);
    EXPECT_TRUE(fs::is_empty(folder.path)) << "the files have no name";
  }
  EXPECT_EQ(mappings(), 0);
}

TEST(ModelStore, SavesAndLoads) {
  ModelStore store({.limit = kModel});
  store.put(3, model(1));
  store.put(12, model(4));
  Archive archive;
  archive.tensors["other"] = at::zeros({2});
  archive.tensors["zoo"] = at::zeros({2});
  store.save(archive, "model");
  EXPECT_EQ(archive.columns.size(), 1U);
  archive = out_of_a_file(archive);
  EXPECT_EQ(archive.tensors.size(), 4U);

  ModelStore second({.limit = kModel});
  second.put(7, model(9));
  second.load(archive, "model");
  EXPECT_EQ(second.clients(), (std::vector<std::int64_t>{3, 12}));
  EXPECT_EQ(stored(second, 3), (std::vector<float>{1, 2, 3}));
  EXPECT_EQ(stored(second, 12), (std::vector<float>{4, 5, 6}));
  EXPECT_EQ(second.bytes_in_memory(), kModel);
  second.load(Archive{}, "model");
  EXPECT_TRUE(second.clients().empty());
  EXPECT_EQ(second.bytes_in_memory(), 0);
}

TEST(ModelStore, LoadsWithinItsOwnLimit) {
  ModelStore store;
  for (const std::int64_t client : {0, 1, 2}) {
    store.put(client, model(static_cast<float>(client)));
  }
  Archive archive;
  store.save(archive, "model");
  ModelStore small({.limit = kModel});
  small.load(archive, "model");
  EXPECT_EQ(small.bytes_in_memory(), kModel);
  EXPECT_EQ(mappings(), 2);
  EXPECT_EQ(stored(small, 2), (std::vector<float>{2, 3, 4}));
}

TEST(ModelStore, TakesBackARoundWithoutTheDisk) {
  ModelStore store({.limit = kModel});
  for (const std::int64_t client : {0, 1, 2}) {
    store.put(client, model(static_cast<float>(client)));
  }
  Archive before;
  store.save(before, "model");
  store.put(1, model(8));
  const FileSizeLimit full(4);
  EXPECT_EQ(error_kind([&] { store.put(2, model(9)); }), ErrorKind::run);
  store.load(before, "model");
  EXPECT_EQ(stored(store, 1), (std::vector<float>{1, 2, 3}));
  EXPECT_EQ(stored(store, 2), (std::vector<float>{2, 3, 4}));
  EXPECT_EQ(store.bytes_in_memory(), kModel);
}

TEST(ModelStore, SaysThatTheDiskIsFullAndKeepsTheOldModel) {
  const Folder folder;
  ModelStore store({.limit = 0, .folder = folder.path});
  store.put(0, model(1));
  const FileSizeLimit full(4);
  EXPECT_EQ(error_text([&] { store.put(0, model(2)); }),
            fmt::format("cannot store a client's model in {}: File too large | choose a folder on "
                        "a disk with room for one model per client, or allow the stored models "
                        "more memory",
                        folder.path.string()));
  EXPECT_EQ(stored(store, 0), (std::vector<float>{1, 2, 3}));
  EXPECT_TRUE(fs::is_empty(folder.path));
}

TEST(ModelStore, SaysThatTheFolderCannotBeWritten) {
  ModelStore store({.limit = 0, .folder = "/no/such/folder"});
  EXPECT_EQ(error_text([&] { store.put(0, model(1)); }),
            "cannot store a client's model in /no/such/folder: No such file or directory | choose "
            "a folder on a disk with room for one model per client, or allow the stored models "
            "more memory");
  EXPECT_EQ(error_kind([&] { store.put(0, model(1)); }), ErrorKind::run);
  EXPECT_FALSE(store.has(0));
  EXPECT_EQ(store.bytes_in_memory(), 0);
}

TEST(ModelStore, RefusesWhatItDoesNotHave) {
  ModelStore store;
  store.put(0, model(1));
  EXPECT_EQ(error_text([&] { store.get(3, model(0).layout); }), "no model of client 3 is stored");
  EXPECT_EQ(error_kind([&] { store.get(3, model(0).layout); }), ErrorKind::internal);
  EXPECT_EQ(error_text([&] { store.get(0, state_of({1}).layout); }),
            "the stored model of client 0 has 3 values, expected 1");
  Archive archive;
  archive.tensors["model/x"] = at::zeros({3});
  EXPECT_EQ(error_text([&] { store.load(archive, "model"); }),
            "tensor 'model/x': expected the number of a client that holds samples");
  // What comes from a file has to fit the run.
  archive.tensors = {{"model/0", at::zeros({3})}};
  archive.bounds = {.samples = {4, 0}, .layout = model(0).layout};
  store.load(archive, "model");
  EXPECT_EQ(store.clients(), std::vector<std::int64_t>{0});
  archive.tensors = {{"model/1", at::zeros({3})}};
  EXPECT_EQ(error_text([&] { store.load(archive, "model"); }),
            "tensor 'model/1': expected the number of a client that holds samples");
  archive.tensors = {{"model/0", at::zeros({4})}};
  EXPECT_EQ(error_text([&] { store.load(archive, "model"); }),
            "tensor 'model/0' is Float [4], expected Float [3]");
}

}  // namespace winnow::model_store_test
