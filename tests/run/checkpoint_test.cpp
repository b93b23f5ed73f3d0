#include "winnow/run/checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "run/checkpoint_pieces.h"
#include "run/small_run.h"
#include "winnow/base/random.h"
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
  checkpoint.events_size = 1234;
  checkpoint.events_hash = "of the log";
  checkpoint.wall_seconds = 9.5;
  return checkpoint;
}

std::string load_error(const fs::path& folder, const std::string& hash = "experiment",
                       LayoutPtr layout = sample_checkpoint().global.layout) {
  return error_text([&] { return load_checkpoint(folder, hash, layout); });
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
  return head_in(folder);
}

constexpr const char* kFirstSegment = "clients-0-000001.segment";

TEST(Checkpoint, OlderOnesThatADeadProcessLeftAreRemoved) {
  const TestFolder folder;
  save_checkpoint(folder.path(), sample_checkpoint(3));
  const std::string bytes = read_file(file_of(folder.path()));
  save_checkpoint(folder.path(), sample_checkpoint(4));
  write_file_whole(folder / "round-000000003.safetensors", bytes);
  write_file_whole(folder / "clients-0-000007.segment", "of a process that died");
  const auto loaded =
      load_checkpoint(folder.path(), "experiment", sample_checkpoint().global.layout);
  EXPECT_EQ(loaded->rounds_done, 4);
  keep_only_checkpoint(*loaded);
  EXPECT_THAT(names_in(folder.path()),
              ElementsAre("clients-0-000002.segment", "round-000000004.safetensors"));
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
  EXPECT_EQ(loaded->events_size, 1234U);
  EXPECT_EQ(loaded->events_hash, "of the log");
  EXPECT_EQ(loaded->wall_seconds, 9.5);
}

// What the server keeps of clients is with them, and what is equal is there once.
TEST(Checkpoint, ColumnsComeBackAsValuesAndTensorsByClient) {
  const TestFolder folder;
  Checkpoint saved = sample_checkpoint();
  const at::Tensor model = at::rand({1000});
  saved.clients[12].own.tensors["local"] = model;
  saved.method.put_column("model", ByClient<at::Tensor>{{12, model.clone()}, {3, at::ones({2})}},
                          [](const at::Tensor& flat) { return flat; });
  saved.method.put_column("base/loss", ByClient<double>{{7, 0.5}, {12, 0.1}});
  save_checkpoint(folder.path(), saved);
  EXPECT_LT(fs::file_size(folder / kFirstSegment), 1000U * 4 * 2) << "1,000 floats, once";
  const auto loaded = load_checkpoint(folder.path(), "experiment", saved.global.layout);
  EXPECT_TRUE(at::equal(loaded->method.tensors.at("model/12"), model));
  EXPECT_TRUE(at::equal(loaded->clients.at(12).own.tensors.at("local"), model));
  EXPECT_TRUE(at::equal(loaded->method.tensors.at("model/3"), at::ones({2})));
  EXPECT_EQ(loaded->method.values.at("base").at("loss").dump(), R"({"7":0.5,"12":0.1})");
  EXPECT_FALSE(loaded->clients.contains(3)) << "it remembers nothing";
}

// A run whose clients change a few at a time, as a Session writes it.
class Growing {
 public:
  explicit Growing(const fs::path& folder, std::uintmax_t segment_bytes = 4096)
      : folder_(folder), writer_(folder, segment_bytes) {}

  void change(std::int64_t client, int times) {
    ClientMemory memory;
    if (times > 0) {
      memory.own.values["times"] = times;
      memory.own.tensors["t"] = at::full({64}, times);
    }
    append(client, memory);
  }
  void append(std::int64_t client, const ClientMemory& memory) {
    writer_.log().append(client, encode_record(client, {.memory = memory, .server = ServerEntry{}}),
                         true);
  }
  void save(std::int64_t round) { writer_.save(head(round)); }
  static Checkpoint head(std::int64_t round) {
    Checkpoint head = sample_checkpoint(round);
    head.clients.clear();
    return head;
  }
  // What a new process finds, by client; it goes on from there.
  std::map<std::int64_t, int> resume() {
    const auto loaded = load_checkpoint(folder_, "experiment", sample_checkpoint().global.layout);
    std::map<std::int64_t, int> times;
    for (const auto& [client, memory] : loaded->clients) {
      times[client] = memory.own.values.at("times");
      EXPECT_EQ(memory.own.tensors.at("t")[63].item<float>(), times[client]);
    }
    keep_only_checkpoint(*loaded);
    writer_ = CheckpointWriter(folder_, 4096);
    EXPECT_TRUE(writer_.adopt(*loaded));
    return times;
  }
  std::uintmax_t bytes() const {
    std::uintmax_t sum = 0;
    for (const auto& entry : fs::directory_iterator(folder_)) {
      sum += is_segment(entry.path()) ? entry.file_size() : 0;
    }
    return sum;
  }

 private:
  fs::path folder_;
  CheckpointWriter writer_;
};

TEST(Segments, OnlyWhatChangedIsWritten) {
  const TestFolder folder;
  Growing run(folder.path(), kSegmentBytes);
  for (std::int64_t client = 0; client < 100; ++client) {
    run.change(client, 1);
  }
  run.save(1);
  const std::uintmax_t all = run.bytes();
  const std::uintmax_t head = fs::file_size(file_of(folder.path()));
  run.change(17, 2);
  run.save(2);
  EXPECT_LT(run.bytes() - all, all / 50);
  EXPECT_EQ(fs::file_size(file_of(folder.path())), head) << "the head does not grow with clients";
  run.save(3);
  EXPECT_THAT(names_in(folder.path()), ElementsAre(kFirstSegment, "round-000000003.safetensors"));
}

TEST(Segments, TheLastWordCountsAndDeadBytesGo) {
  const TestFolder folder;
  Growing run(folder.path());
  std::map<std::int64_t, int> expected;
  Stream stream(3, "segments");
  std::uintmax_t most = 0;
  for (int round = 1; round <= 200; ++round) {
    for (int i = 0; i < 3; ++i) {
      const auto client = static_cast<std::int64_t>(stream.below(20));
      const bool forgets = stream.below(8) == 0;
      run.change(client, forgets ? 0 : round);
      expected.erase(client);
      if (!forgets) {
        expected[client] = round;
      }
    }
    run.save(round);
    most = std::max(most, run.bytes());
    if (round % 7 == 0) {
      ASSERT_EQ(run.resume(), expected) << round;
    }
  }
  EXPECT_EQ(run.resume(), expected);
  // 20 records of some 600 bytes are alive: as much again may be dead, and a segment.
  EXPECT_LT(most, 2U * 20 * 700 + 3 * 4096);
}

TEST(Segments, ANameThatCouldNotBeReadIsNeverGiven) {
  const TestFolder folder;
  const std::string last = "clients-0-1000000000000.segment";
  write_file_whole(folder.path() / last, "");
  SegmentLog log(folder.path());
  EXPECT_THAT(error_text([&] { log.append(0, "payload", true); }),
              HasSubstr("has a segment " + last + ", and no higher number is possible"));
  EXPECT_THAT(names_in(folder.path()), ElementsAre(last));
}

// Killed at any step of a save: what the last head names is there, whatever follows it.
TEST(Segments, WhatADeadProcessAppendedDoesNotCount) {
  const TestFolder folder;
  Growing run(folder.path(), kSegmentBytes);
  run.change(1, 1);
  run.change(2, 1);
  run.save(1);
  const std::string head = read_file(file_of(folder.path()));
  const std::string segment = read_file(folder / kFirstSegment);
  for (const std::size_t more : {1U, 15U, 80U, 200U}) {
    // The next record was on its way when it died.
    write_file_whole(folder / kFirstSegment, segment + segment.substr(0, more));
    EXPECT_EQ(run.resume(), (std::map<std::int64_t, int>{{1, 1}, {2, 1}}));
    run.change(2, 2);
    run.save(2);
    EXPECT_EQ(run.resume(), (std::map<std::int64_t, int>{{1, 1}, {2, 2}}));
    fs::remove(file_of(folder.path()));
    write_file_whole(folder / "round-000000001.safetensors", head);
    EXPECT_EQ(run.resume(), (std::map<std::int64_t, int>{{1, 1}, {2, 1}}))
        << "the new head was not there yet";
  }
}

TEST(Segments, AreRefusedByNameWhereTheyAreDamaged) {
  const TestFolder folder;
  save_checkpoint(folder.path(), sample_checkpoint());
  const fs::path path = folder / kFirstSegment;
  const std::string good = read_file(path);
  for (std::size_t place = 0; place < good.size(); place += 37) {
    std::string bytes = good;
    bytes[place] = static_cast<char>(bytes[place] ^ 4);
    write_file_whole(path, bytes);
    EXPECT_THAT(load_error(folder.path()), HasSubstr("is damaged: ")) << place;
    EXPECT_THAT(load_error(folder.path()), HasSubstr(kFirstSegment)) << place;
  }
  write_file_whole(path, good.substr(0, good.size() - 1));
  EXPECT_THAT(load_error(folder.path()),
              HasSubstr(fmt::format("{} has {} bytes, expected {}", kFirstSegment, good.size() - 1,
                                    good.size())));
  fs::remove(path);
  EXPECT_THAT(load_error(folder.path()), HasSubstr("clients-0-000001.segment: no such file"));
  // Whole records that are another client's, or in another order.
  TensorFile head = load_tensors(file_of(folder.path()));
  Json json = Json::parse(head.metadata.at("winnow_checkpoint"));
  const auto with_part = [&](const Json& part) {
    json["parts"] = Json::array({part});
    head.metadata["winnow_checkpoint"] = json.dump();
    seal_checkpoint(head);
    save_tensors(file_of(folder.path()), head);
    return load_error(folder.path());
  };
  SegmentLog log(folder.path());
  log.append(12, encode_record(12, {.memory = ClientMemory{}}), true);
  const MemoryPart part = log.settle().at(0);
  EXPECT_EQ(with_part({{"file", part.file}, {"bytes", part.bytes}, {"sha256", part.hash}}),
            "no error");
  EXPECT_THAT(with_part({{"file", part.file}, {"bytes", part.bytes}, {"sha256", "other"}}),
              HasSubstr(part.file + " does not have the hash it was saved with"));
  EXPECT_THAT(with_part({{"file", part.file}, {"bytes", part.bytes - 1}, {"sha256", part.hash}}),
              HasSubstr(part.file + " ends in the middle of a record"));
  for (const char* name :
       {"../outside", "/etc/passwd", "outside", "clients-0-1.segment/x", "clients--1-1.segment",
        "clients-0-.segment", "clients-0-9223372036854775807.segment"}) {
    EXPECT_THAT(with_part({{"file", name}, {"bytes", 8}, {"sha256", ""}}),
                HasSubstr(fmt::format("\"{}\" cannot be a part of it", name)));
  }
  SegmentLog other(folder / "other");
  ClientMemory memory;
  memory.own.values["x"] = 1;
  other.append(13, encode_record(12, {.memory = memory}), true);
  const MemoryPart forged = other.settle().at(0);
  fs::copy_file(folder / "other" / forged.file, folder / "clients-0-000009.segment");
  EXPECT_THAT(
      with_part(
          {{"file", "clients-0-000009.segment"}, {"bytes", forged.bytes}, {"sha256", forged.hash}}),
      HasSubstr("client 13 in clients-0-000009.segment is of another client too"));
}

TEST(Segments, OfAnotherProcessMustBeSeen) {
  const TestFolder folder;
  SegmentLog rank(folder.path(), 2);
  ClientMemory memory;
  memory.own.values["times"] = 5;
  rank.append(40, encode_record(40, {.memory = memory}), true);
  Checkpoint head = sample_checkpoint();
  head.parts = rank.settle();
  EXPECT_EQ(head.parts.at(0).file, "clients-2-000001.segment");
  save_checkpoint(folder.path(), head);
  const auto loaded = load_checkpoint(folder.path(), "experiment", head.global.layout);
  EXPECT_EQ(loaded->clients.size(), 4U);
  EXPECT_EQ(loaded->clients.at(40).own.values.at("times"), 5);
  head.parts.at(0).file = "clients-3-000001.segment";
  EXPECT_THAT(error_text([&] { save_checkpoint(folder.path(), head); }),
              HasSubstr("cannot be seen here | put the run directory on a file system that all "
                        "nodes share"));
}

// Written by older versions: everything in one file, and the clients of other ranks in parts.
class OlderCheckpoint : public ::testing::Test {
 protected:
  OlderCheckpoint() {
    const Checkpoint whole = sample_checkpoint();
    save_checkpoint(folder_.path(), whole);
    const fs::path path = file_of(folder_.path());
    file_ = take_apart(folder_.path());
    Json json = Json::parse(file_.metadata.at("winnow_checkpoint"));
    json["version"] = 4;
    json["history"] = Json::array({{{"round", 1}, {"loss", nullptr}}});
    json["clients"].erase("12");
    std::erase_if(file_.tensors,
                  [](const auto& item) { return item.first.starts_with("client/12/"); });
    const std::string bytes = encode_memories({{12, whole.clients.at(12)}});
    write_file_whole(folder_ / kPart, bytes);
    json["parts"] = Json::array({{{"file", kPart}, {"sha256", sha256_hex(bytes)}}});
    write(json);
    json_ = json;
  }
  void write(const Json& json) {
    file_.metadata["winnow_checkpoint"] = json.dump();
    seal_checkpoint(file_);
    save_tensors(file_of(folder_.path()), file_);
  }

  static constexpr const char* kPart = "round-000000003.part-1.safetensors";
  TestFolder folder_;
  TensorFile file_;
  Json json_;
};

TEST_F(OlderCheckpoint, IsReadAndWrittenAnew) {
  const auto loaded =
      load_checkpoint(folder_.path(), "experiment", sample_checkpoint().global.layout);
  ASSERT_EQ(loaded->clients.size(), 3U);
  EXPECT_EQ(loaded->clients.at(12).trace.labels, (Labels{3, 1, 2}));
  EXPECT_EQ(loaded->clients.at(0).base.values.at("x"), 0.25);
  EXPECT_TRUE(loaded->has_history);
  EXPECT_EQ(loaded->history.size(), 1U);
  CheckpointWriter writer(folder_.path());
  EXPECT_FALSE(writer.adopt(*loaded));
  save_checkpoint(folder_.path(), sample_checkpoint(4));
  EXPECT_EQ(names_in(folder_.path()).size(), 2U) << "a segment and the head";
}

TEST_F(OlderCheckpoint, IsDamagedWithoutItsPartsOrWithOthers) {
  const std::string bytes = read_file(folder_ / kPart);
  write_file_whole(folder_ / kPart, bytes + "x");
  EXPECT_THAT(load_error(folder_.path()),
              HasSubstr("is damaged: round-000000003.part-1.safetensors does not have the hash it "
                        "was saved with"));
  fs::remove(folder_ / kPart);
  EXPECT_THAT(load_error(folder_.path()), HasSubstr("round-000000003.part-1.safetensors"));
  write_file_whole(folder_ / kPart, bytes);
  write_file_whole(folder_ / "outside", bytes);
  Json json = json_;
  json["parts"][0]["file"] = "outside";
  write(json);
  EXPECT_THAT(load_error(folder_.path()), HasSubstr("\"outside\" cannot be a part of it"));
  json = json_;
  json["parts"].push_back(json["parts"][0]);
  write(json);
  EXPECT_THAT(load_error(folder_.path()), HasSubstr("client 12 is in two of its parts"));
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
  EXPECT_THAT(names_in(folder / "c"),
              ElementsAre("clients-0-000002.segment", "round-000000010.safetensors"));
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
  EXPECT_THAT(names_in(folder.path()), ElementsAre(kFirstSegment, "round-000000003.safetensors"));
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
              return load_checkpoint(folder.path(), "experiment",
                                     sample_checkpoint().global.layout);
            }),
            ErrorKind::run);
}

// A bit of any part: the file is refused, and the part named.
TEST(Checkpoint, EveryPartHasAHash) {
  const TestFolder folder;
  save_checkpoint(folder.path(), sample_checkpoint());
  const fs::path path = file_of(folder.path());
  const TensorFile good = load_tensors(path);
  ASSERT_EQ(good.tensors.size(), 2U);
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
  const TensorFile good = take_apart(folder.path());
  const auto with = [&](const std::function<void(TensorFile&, Json&)>& change) {
    TensorFile file = good;
    Json json = Json::parse(file.metadata.at("winnow_checkpoint"));
    change(file, json);
    file.metadata["winnow_checkpoint"] = json.dump();
    put_together(folder.path(), file);
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
  EXPECT_THAT(with([](TensorFile&, Json& json) { json["events_sha256"] = 5; }),
              HasSubstr("events_sha256 = 5: expected a text"));
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
          " was made by an older Winnow: format 1, this program reads 3 to 5 | resume the run "
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
