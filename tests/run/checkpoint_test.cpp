#include "winnow/run/checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "run/small_run.h"
#include "winnow/base/sha256.h"
#include "winnow/model/safetensors.h"

namespace winnow::checkpoint_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

namespace fs = std::filesystem;

Checkpoint sample_checkpoint(std::int64_t rounds = 3) {
  Checkpoint checkpoint;
  checkpoint.experiment_hash = "experiment";
  checkpoint.rounds_done = rounds;
  checkpoint.global = state_of({1.5F, -2.0F, 3.25F}, {0.5F}, {7.0F});
  checkpoint.method.values = {{"stage", 2}, {"flagged", {1, 4}}};
  checkpoint.method.tensors["sum/of/all"] = at::arange(4, at::kDouble);
  ClientMemory relabelled;
  relabelled.trace.labels = Labels{3, 1, 2};
  relabelled.own.tensors["a/b"] = at::ones({2, 2});
  relabelled.own.values = {{"times", 5}};
  checkpoint.clients[12] = relabelled;
  ClientMemory values_only;
  values_only.base.values = {{"x", 0.25}};
  checkpoint.clients[0] = values_only;
  ClientMemory emptied;
  emptied.trace.labels = Labels{};
  checkpoint.clients[7] = emptied;
  checkpoint.traffic = {30, 100, 200, 300, 1.25, {5000, 4000}};
  checkpoint.history = Json::array({{{"round", 1}, {"loss", nullptr}}});
  checkpoint.events_size = 1234;
  checkpoint.wall_seconds = 9.5;
  return checkpoint;
}

std::string load_error(const fs::path& folder, const std::string& hash = "experiment",
                       LayoutPtr layout = sample_checkpoint().global.layout) {
  return error_text([&] { load_checkpoint(folder, hash, layout); });
}

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) {
    names.push_back(entry.path().filename().string());
  }
  std::ranges::sort(names);
  return names;
}

fs::path file_of(const fs::path& folder) {
  return folder / names_in(folder).at(0);
}

TEST(Checkpoint, OlderOnesThatADeadProcessLeftAreRemoved) {
  const TestFolder folder;
  keep_newest_checkpoint(folder / "nothing");
  save_checkpoint(folder.path(), sample_checkpoint(3));
  const std::string bytes = read_file(file_of(folder.path()));
  save_checkpoint(folder.path(), sample_checkpoint(4));
  write_file_whole(folder / "round-000000003.safetensors", bytes);
  keep_newest_checkpoint(folder.path());
  EXPECT_EQ(names_in(folder.path()), std::vector<std::string>{"round-000000004.safetensors"});
}

TEST(Checkpoint, ComesBackAsItWasSaved) {
  const TestFolder folder;
  const Checkpoint saved = sample_checkpoint();
  save_checkpoint(folder.path(), saved);
  const auto loaded = load_checkpoint(folder.path(), "experiment", saved.global.layout);
  ASSERT_TRUE(loaded.has_value());
  EXPECT_EQ(loaded->rounds_done, 3);
  EXPECT_EQ(hash(loaded->global), hash(saved.global));
  EXPECT_EQ(loaded->method.values, saved.method.values);
  ASSERT_EQ(loaded->method.tensors.size(), 1U);
  EXPECT_TRUE(at::equal(loaded->method.tensors.at("sum/of/all"), at::arange(4, at::kDouble)));
  ASSERT_EQ(loaded->clients.size(), 3U);
  const ClientMemory& client = loaded->clients.at(12);
  EXPECT_EQ(client.trace.labels, (Labels{3, 1, 2}));
  EXPECT_EQ(client.own.values, saved.clients.at(12).own.values);
  EXPECT_TRUE(at::equal(client.own.tensors.at("a/b"), at::ones({2, 2})));
  EXPECT_EQ(loaded->clients.at(0).trace.labels, std::nullopt);
  EXPECT_EQ(loaded->clients.at(0).base.values.at("x"), 0.25);
  EXPECT_EQ(loaded->clients.at(7).trace.labels, Labels{});
  EXPECT_EQ(loaded->traffic.participations, 30);
  EXPECT_EQ(loaded->traffic.bytes_down, 100);
  EXPECT_EQ(loaded->traffic.bytes_up, 200);
  EXPECT_EQ(loaded->traffic.client_steps, 300);
  EXPECT_EQ(loaded->traffic.train_seconds, 1.25);
  EXPECT_EQ(loaded->traffic.passes.forward, 5000);
  EXPECT_EQ(loaded->traffic.passes.backward, 4000);
  EXPECT_EQ(loaded->history, saved.history);
  EXPECT_EQ(loaded->events_size, 1234U);
  EXPECT_EQ(loaded->wall_seconds, 9.5);
}

// As rank 0 writes it when two others hold memory.
class CheckpointInParts : public ::testing::Test {
 protected:
  CheckpointInParts() {
    Checkpoint whole = sample_checkpoint();
    for (const std::int64_t rank : {1, 2}) {
      const std::int64_t client = rank == 1 ? 12 : 7;
      whole.parts.push_back(
          save_part(folder_.path(), 3, rank, {{client, std::move(whole.clients.at(client))}}));
      whole.clients.erase(client);
    }
    save_checkpoint(folder_.path(), whole);
  }

  fs::path part(int rank) const {
    return folder_ / ("round-000000003.part-" + std::to_string(rank) + ".safetensors");
  }

  TestFolder folder_;
};

TEST_F(CheckpointInParts, ComesBackWhole) {
  const auto loaded =
      load_checkpoint(folder_.path(), "experiment", sample_checkpoint().global.layout);
  ASSERT_EQ(loaded->clients.size(), 3U);
  EXPECT_EQ(loaded->clients.at(12).trace.labels, (Labels{3, 1, 2}));
  EXPECT_EQ(loaded->clients.at(12).own.values.at("times"), 5);
  EXPECT_TRUE(at::equal(loaded->clients.at(12).own.tensors.at("a/b"), at::ones({2, 2})));
  EXPECT_EQ(loaded->clients.at(7).trace.labels, Labels{});
  // Its parts stay with it, those of others go.
  write_file_whole(folder_ / "round-000000009.part-1.safetensors", "of a job that was killed");
  keep_newest_checkpoint(folder_.path());
  EXPECT_EQ(names_in(folder_.path()).size(), 3U);
  save_checkpoint(folder_.path(), sample_checkpoint(4));
  EXPECT_THAT(names_in(folder_.path()), ElementsAre("round-000000004.safetensors"));
}

TEST_F(CheckpointInParts, IsDamagedWithoutThemOrWithOthers) {
  const std::string bytes = read_file(part(2));
  write_file_whole(part(2), read_file(part(1)));
  EXPECT_THAT(load_error(folder_.path()),
              HasSubstr("is damaged: round-000000003.part-2.safetensors does not have the hash it "
                        "was saved with"));
  fs::remove(part(2));
  EXPECT_THAT(load_error(folder_.path()), HasSubstr("round-000000003.part-2.safetensors"));
  EXPECT_THAT(error_text([&] {
                Checkpoint checkpoint = sample_checkpoint();
                checkpoint.parts.push_back({"round-000000003.part-2.safetensors", "hash"});
                save_checkpoint(folder_.path(), checkpoint);
              }),
              HasSubstr("cannot be seen here | put the run directory on a file system that all "
                        "nodes share"));
}

TEST_F(CheckpointInParts, RefusesForgedNamesAndClientsThatAreThereTwice) {
  const auto forged = [this](const std::string& name) {
    Checkpoint checkpoint = sample_checkpoint();
    write_file_whole(folder_ / "outside", encode_memories(sample_checkpoint().clients));
    checkpoint.parts.push_back({name, sha256_hex(read_file(folder_ / name))});
    save_checkpoint(folder_.path(), checkpoint);
    return load_error(folder_.path());
  };
  EXPECT_THAT(forged("outside"), HasSubstr("\"outside\" cannot be a part of it"));
  EXPECT_THAT(forged("round-000000003.part-1.safetensors"),
              HasSubstr("client 12 is in two of its parts"));
}

TEST(Checkpoint, IsNothingWhereThereIsNone) {
  const TestFolder folder;
  const LayoutPtr layout = sample_checkpoint().global.layout;
  EXPECT_EQ(load_checkpoint(folder.path(), "experiment", layout), std::nullopt);
  EXPECT_EQ(load_checkpoint(folder / "not there", "experiment", layout), std::nullopt);
}

TEST(Checkpoint, TheNewestIsKeptAndOlderOnesAreRemoved) {
  const TestFolder folder;
  save_checkpoint(folder / "c", sample_checkpoint(9));
  save_checkpoint(folder / "c", sample_checkpoint(10));
  EXPECT_THAT(names_in(folder / "c"), ElementsAre("round-000000010.safetensors"));
  // Killed between writing the new one and removing the old one: the newest counts.
  save_checkpoint(folder / "d", sample_checkpoint(9));
  fs::copy_file(folder / "d/round-000000009.safetensors", folder / "c/round-000000009.safetensors");
  EXPECT_EQ(
      load_checkpoint(folder / "c", "experiment", sample_checkpoint().global.layout)->rounds_done,
      10);
}

TEST(Checkpoint, AHalfWrittenFileOfAKilledProcessIsIgnoredAndThenRemoved) {
  const TestFolder folder;
  write_file_whole(temporary_beside(folder / "round-000000099.safetensors"), "half");
  EXPECT_EQ(load_checkpoint(folder.path(), "experiment", sample_checkpoint().global.layout),
            std::nullopt);
  save_checkpoint(folder.path(), sample_checkpoint());
  EXPECT_THAT(names_in(folder.path()), ElementsAre("round-000000003.safetensors"));
}

TEST(Checkpoint, ADamagedFileIsRefusedByName) {
  const TestFolder folder;
  save_checkpoint(folder.path(), sample_checkpoint());
  const fs::path path = file_of(folder.path());
  const std::string bytes = read_file(path);
  const std::string start = "checkpoint " + path.string() + " is damaged: ";
  for (const std::size_t keep :
       {std::size_t{0}, std::size_t{7}, bytes.size() / 2, bytes.size() - 1}) {
    write_file_whole(path, bytes.substr(0, keep));
    EXPECT_THAT(load_error(folder.path()), HasSubstr(start)) << keep;
    EXPECT_THAT(
        load_error(folder.path()),
        HasSubstr("| delete the file to resume from an earlier checkpoint, or from the beginning"))
        << keep;
  }
  write_file_whole(path, "not a checkpoint at all");
  EXPECT_EQ(error_kind([&] {
              load_checkpoint(folder.path(), "experiment", sample_checkpoint().global.layout);
            }),
            ErrorKind::run);
}

// A bit of any part: the file is refused, and the part named.
TEST(Checkpoint, EveryPartHasAHash) {
  const TestFolder folder;
  save_checkpoint(folder.path(), sample_checkpoint());
  const fs::path path = file_of(folder.path());
  const TensorFile good = load_tensors(path);
  ASSERT_EQ(good.tensors.size(), 5U);
  for (const auto& [name, tensor] : good.tensors) {
    TensorFile file = good;
    const std::string part = "is damaged: part \"" + name + "\" ";
    if (tensor.numel() > 0) {
      file.tensors[name] = tensor + 1;
      save_tensors(path, file);
      EXPECT_THAT(load_error(folder.path()),
                  HasSubstr(part + "does not have the hash it was saved with"));
    }
    file.tensors[name] = tensor.unsqueeze(0);
    save_tensors(path, file);
    EXPECT_THAT(load_error(folder.path()), HasSubstr(part + "does not have the hash"));
    file.tensors.erase(name);
    save_tensors(path, file);
    EXPECT_THAT(load_error(folder.path()), HasSubstr(part + "is missing"));
  }
  TensorFile file = good;
  file.tensors["client/12/more"] = at::ones({1});
  save_tensors(path, file);
  EXPECT_THAT(load_error(folder.path()),
              HasSubstr("part \"client/12/more\" does not have the hash"));
  file = good;
  std::swap(file.tensors["client/12/labels"], file.tensors["client/7/labels"]);
  save_tensors(path, file);
  EXPECT_THAT(load_error(folder.path()),
              HasSubstr("part \"client/12/labels\" does not have the hash"));
  for (const char* key : {"winnow_checkpoint", "winnow_parts", "winnow_sha256"}) {
    file = good;
    std::string& text = file.metadata.at(key);
    text.replace(text.find_last_of("0123456789"), 1, "a");
    save_tensors(path, file);
    EXPECT_THAT(load_error(folder.path()), HasSubstr("is damaged: its metadata")) << key;
    file.metadata.erase(key);
    save_tensors(path, file);
    EXPECT_THAT(load_error(folder.path()), HasSubstr(std::string("is damaged: it has no ") + key));
  }
}

// A forged file has hashes that fit. Every fault it can have ends in one line.
TEST(Checkpoint, ContentThatDoesNotFitIsRefusedInOneLine) {
  const TestFolder folder;
  save_checkpoint(folder.path(), sample_checkpoint());
  const fs::path path = file_of(folder.path());
  const TensorFile good = load_tensors(path);
  const auto with = [&](const std::function<void(TensorFile&, Json&)>& change) {
    TensorFile file = good;
    Json json = Json::parse(file.metadata.at("winnow_checkpoint"));
    change(file, json);
    file.metadata["winnow_checkpoint"] = json.dump();
    seal_checkpoint(file);
    save_tensors(path, file);
    const std::string text = load_error(folder.path());
    EXPECT_EQ(text.find('\n'), std::string::npos) << text;
    return text;
  };
  EXPECT_EQ(with([](TensorFile&, Json&) {}), "no error");
  EXPECT_THAT(with([](TensorFile& file, Json&) { file.tensors.erase("global"); }),
              HasSubstr("its model does not fit the experiment's"));
  EXPECT_THAT(with([](TensorFile& file, Json&) {
                file.tensors["global"] = file.tensors["global"].to(at::kDouble);
              }),
              HasSubstr("its model does not fit the experiment's"));
  EXPECT_THAT(with([](TensorFile& file, Json&) {
                file.tensors["global"] = file.tensors["global"].view({1, -1});
              }),
              HasSubstr("its model does not fit the experiment's"));
  EXPECT_THAT(
      with([](TensorFile& file, Json&) { file.tensors["client/12/labels"] = at::ones({3}); }),
      HasSubstr("tensor \"client/12/labels\" does not hold labels"));
  EXPECT_THAT(with([](TensorFile& file, Json&) { file.tensors["client/99/x"] = at::ones({3}); }),
              HasSubstr("tensor \"client/99/x\" belongs to nobody"));
  EXPECT_THAT(
      with([](TensorFile& file, Json&) { file.tensors["client/x/labels"] = at::ones({3}); }),
      HasSubstr("tensor \"client/x/labels\": expected the number of a client"));
  EXPECT_THAT(with([](TensorFile& file, Json&) { file.tensors["other"] = at::ones({3}); }),
              HasSubstr("tensor \"other\" belongs to nobody"));
  EXPECT_THAT(with([](TensorFile&, Json& json) { json.erase("traffic"); }),
              HasSubstr("is damaged: traffic is missing"));
  EXPECT_THAT(with([](TensorFile&, Json& json) { json["traffic"]["bytes_up"] = -1; }),
              HasSubstr("traffic.bytes_up = -1: expected a whole number from 0 to "));
  EXPECT_THAT(with([](TensorFile&, Json& json) { json["clients"]["x"] = Json::object(); }),
              HasSubstr("clients.x: expected the number of a client"));
  EXPECT_THAT(with([](TensorFile&, Json& json) { json["clients"]["12"] = 1; }),
              HasSubstr("clients.12 = 1: expected a table"));
  EXPECT_THAT(with([](TensorFile&, Json& json) { json["method"] = 1; }),
              HasSubstr("method = 1: expected a table"));
  EXPECT_THAT(with([](TensorFile&, Json& json) { json["history"] = "none"; }),
              HasSubstr("history = \"none\": expected a list"));
  EXPECT_THAT(with([](TensorFile&, Json& json) { json["version"] = "2"; }),
              HasSubstr("version = \"2\": expected a whole number"));
  TensorFile bare = good;
  bare.metadata.clear();
  save_tensors(path, bare);
  EXPECT_THAT(load_error(folder.path()), HasSubstr("is damaged: it has no winnow_checkpoint"));
}

// Version 1 had a hash of the global model alone.
TEST(Checkpoint, AnotherVersionIsRefusedInOneLine) {
  const TestFolder folder;
  save_checkpoint(folder.path(), sample_checkpoint());
  const fs::path path = file_of(folder.path());
  TensorFile file = load_tensors(path);
  Json json = Json::parse(file.metadata.at("winnow_checkpoint"));
  json["version"] = 1;
  file.metadata = {{"winnow_checkpoint", json.dump()}};
  save_tensors(path, file);
  EXPECT_EQ(
      load_error(folder.path()),
      "checkpoint " + path.string() +
          " was made by an older Winnow: format 1, this program reads 3 and 4 | resume the run "
          "with the version that "
          "started it, or delete the file to start from the beginning");
}

TEST(Checkpoint, AnotherExperimentIsRefused) {
  const TestFolder folder;
  save_checkpoint(folder.path(), sample_checkpoint());
  const std::string expected = "checkpoint " + file_of(folder.path()).string() +
                               " was made under another experiment | restore the run's "
                               "experiment.toml, or start a new run with 'winnow run'";
  EXPECT_EQ(load_error(folder.path(), "other"), expected);
  // Also when the other experiment has another model: the cause is named, not the consequence.
  EXPECT_EQ(load_error(folder.path(), "other", state_of({1.0F}).layout), expected);
}

TEST(Checkpoint, AModelOfAnotherLayoutIsRefused) {
  const TestFolder folder;
  save_checkpoint(folder.path(), sample_checkpoint());
  EXPECT_THAT(load_error(folder.path(), "experiment", state_of({1.0F, 2.0F}).layout),
              HasSubstr("its model does not fit the experiment's"));
}

TEST(Checkpoint, AFolderThatCannotBeWrittenIsOneClearLine) {
  const TestFolder folder;
  write_file_whole(folder / "file", "");
  EXPECT_THAT(error_text([&] { save_checkpoint(folder / "file", sample_checkpoint()); }),
              HasSubstr("cannot write " + (folder / "file").string()));
}

}  // namespace winnow::checkpoint_test
