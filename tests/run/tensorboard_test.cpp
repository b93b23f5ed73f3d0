#include "winnow/run/tensorboard.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <fstream>
#include <map>

#include "run/small_run.h"
#include "winnow/run/runner.h"

namespace winnow::tensorboard_test {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Key;
using ::testing::Not;
using ::testing::Pair;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;

namespace fs = std::filesystem;

// Takes values off the front of some bytes; what is not there is a failure of the test.
class Taker {
 public:
  explicit Taker(std::string_view bytes) : bytes_(bytes) {}

  bool empty() const { return bytes_.empty(); }
  std::string_view take(std::size_t count) {
    if (count > bytes_.size()) {
      ADD_FAILURE() << "only " << bytes_.size() << " bytes where " << count << " were announced";
      count = bytes_.size();
    }
    const std::string_view taken = bytes_.substr(0, count);
    bytes_.remove_prefix(count);
    return taken;
  }
  std::uint64_t little_endian(std::size_t count) {
    std::uint64_t value = 0;
    std::size_t shift = 0;
    for (const char byte : take(count)) {
      value |= std::uint64_t{static_cast<std::uint8_t>(byte)} << shift;
      shift += 8;
    }
    return value;
  }
  std::uint64_t varint() {
    std::uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const std::uint64_t byte = little_endian(1);
      value |= (byte & 0x7F) << shift;
      if (byte < 0x80) {
        break;
      }
    }
    return value;
  }

 private:
  std::string_view bytes_;
};

// The fields of a protocol buffer by number; numbers as their bits.
struct Field {
  std::uint64_t number = 0;
  std::uint64_t bits = 0;
  std::string_view bytes = {};
};
std::vector<Field> fields_of(std::string_view message) {
  std::vector<Field> fields;
  Taker taker(message);
  while (!taker.empty()) {
    const std::uint64_t key = taker.varint();
    Field field{key >> 3};
    switch (key & 7) {
      case 0:
        field.bits = taker.varint();
        break;
      case 1:
        field.bits = taker.little_endian(8);
        break;
      case 2:
        field.bytes = taker.take(taker.varint());
        break;
      case 5:
        field.bits = taker.little_endian(4);
        break;
      default:
        ADD_FAILURE() << "wire type " << (key & 7);
        return fields;
    }
    fields.push_back(field);
  }
  return fields;
}

struct Event {
  double wall_time = 0.0;
  std::uint64_t step = 0;
  std::string version = {};
  std::map<std::string, float> scalars = {};

  bool operator==(const Event&) const = default;
};

Event parse_event(std::string_view payload) {
  Event event;
  for (const Field& field : fields_of(payload)) {
    if (field.number == 1) {
      event.wall_time = std::bit_cast<double>(field.bits);
    } else if (field.number == 2) {
      event.step = field.bits;
    } else if (field.number == 3) {
      event.version = field.bytes;
    } else if (field.number == 5) {
      for (const Field& value : fields_of(field.bytes)) {
        const std::vector<Field> parts = fields_of(value.bytes);
        EXPECT_EQ(parts.size(), 2U);
        event.scalars[std::string(parts[0].bytes)] =
            std::bit_cast<float>(static_cast<std::uint32_t>(parts[1].bits));
      }
    } else {
      ADD_FAILURE() << "field " << field.number;
    }
  }
  return event;
}

// As the reader of TensorFlow unmasks it.
std::uint32_t unmasked(std::uint64_t stored) {
  return std::rotl(static_cast<std::uint32_t>(stored) - 0xA282EAD8U, 15);
}

std::vector<Event> parse_file(const std::string& bytes) {
  std::vector<Event> events;
  Taker taker(bytes);
  while (!taker.empty()) {
    const std::string_view length = taker.take(8);
    EXPECT_EQ(unmasked(taker.little_endian(4)), crc32c(length));
    const std::string_view payload = taker.take(Taker(length).little_endian(8));
    EXPECT_EQ(unmasked(taker.little_endian(4)), crc32c(payload));
    events.push_back(parse_event(payload));
  }
  return events;
}

std::vector<Event> events_in(const fs::path& directory) {
  return parse_file(read_file(directory / kTensorBoardFile));
}

std::vector<Event> without_times(std::vector<Event> events) {
  for (Event& event : events) {
    event.wall_time = 0.0;
  }
  return events;
}

// Runs to the end, or until the given training (two to a round).
void start(const Experiment& experiment, const fs::path& directory, int stop_in_training = 0) {
  RunObserver silence;
  std::atomic<bool> stop{false};
  std::atomic<int> trainings{0};
  const Registry registry = methods([&](std::int64_t, std::int64_t) {
    if (++trainings == stop_in_training) {
      stop = true;
    }
  });
  start_run(experiment, registry, on_cpu(), directory, &stop, silence);
}

void resume(const fs::path& directory) {
  RunObserver silence;
  resume_run(directory, methods(), on_cpu(), nullptr, silence);
}

// RFC 3720, B.4, and the check value of the catalogue of CRCs.
TEST(TensorBoard, Crc32cHasItsPublishedValues) {
  EXPECT_EQ(crc32c(""), 0x00000000U);
  EXPECT_EQ(crc32c("123456789"), 0xE3069283U);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8A9136AAU);
  EXPECT_EQ(crc32c(std::string(32, '\xFF')), 0x62A8AB43U);
  std::string rising;
  for (char byte = 0; byte < 32; ++byte) {
    rising += byte;
  }
  EXPECT_EQ(crc32c(rising), 0x46DD794EU);
  EXPECT_EQ(crc32c(std::string(rising.rbegin(), rising.rend())), 0x113FDB5CU);
}

// The first record as TensorFlow's own writer leaves it, but for the time in bytes 13 to 20.
TEST(TensorBoard, TheFirstRecordIsTheVersion) {
  const std::string header = tensorboard_header();
  EXPECT_EQ(header.size(), 40U);
  EXPECT_EQ(header.substr(0, 13), std::string("\x18\0\0\0\0\0\0\0\xA3\x7F\x4B\x22\x09", 13));
  EXPECT_EQ(header.substr(21, 15),
            "\x1A\x0D"
            "brain.Event:2");
  EXPECT_THAT(parse_file(header), ElementsAre(Event{0.0, 0, "brain.Event:2", {}}));
}

TEST(TensorBoard, ARecordHasTheseBytes) {
  const Json round{{"round", 300}, {"seconds", 2.0}, {"accuracy", 0.5}};
  const std::string payload(
      "\x09\0\0\0\0\0\0\0\x40"  // wall_time 2.0
      "\x10\xAC\x02"            // step 300
      "\x2A\x11"                // summary of 17 bytes
      "\x0A\x0F"                // value of 15 bytes
      "\x0A\x08"                // tag of 8 bytes
      "accuracy"                //
      "\x15\x00\x00\x00\x3F",
      9 + 3 + 2 + 2 + 2 + 8 + 5);
  const std::string record = tensorboard_round(round);
  ASSERT_EQ(record.size(), 8 + 4 + payload.size() + 4);
  EXPECT_EQ(record.substr(12, payload.size()), payload);
  EXPECT_EQ(record, tensorboard_record(payload));
  EXPECT_EQ(record[0], static_cast<char>(payload.size()));
  EXPECT_THAT(parse_file(record), ElementsAre(Event{2.0, 300, "", {{"accuracy", 0.5F}}}));
}

TEST(TensorBoard, WhatWasNotMeasuredIsLeftOut) {
  const Json round{{"round", 1},
                   {"seconds", 0.25},
                   {"accuracy", nullptr},
                   {"participations", 7},
                   {"hash", "abc"},
                   {"loss", nullptr},
                   {"detection", {{"flagged", 2}, {"flag_precision", 0.5}, {"flag_recall", 1.0}}},
                   {"stage", "warm"}};
  const std::vector<Event> events = parse_file(tensorboard_round(round));
  ASSERT_THAT(events, SizeIs(1));
  EXPECT_THAT(events[0].scalars,
              UnorderedElementsAre(Pair("participations", 7), Pair("flag_precision", 0.5),
                                   Pair("flag_recall", 1)));
  const Json undefined{{"round", 1},
                       {"seconds", 0.0},
                       {"detection", {{"flag_precision", 0.0}, {"flag_recall", nullptr}}}};
  EXPECT_THAT(parse_file(tensorboard_round(undefined)).at(0).scalars,
              UnorderedElementsAre(Pair("flag_precision", 0)));
  // A note that happens to have the name is no measurement.
  const Json noted{{"round", 1}, {"seconds", 0.0}, {"detection", "off"}, {"label_recall", "none"}};
  EXPECT_THAT(parse_file(tensorboard_round(noted)).at(0).scalars, SizeIs(0));
}

TEST(TensorBoard, ARunHasOneEventForEachRound) {
  const TestFolder folder;
  start(small({"rounds=12", "eval_every=12"}), folder / "run");
  const std::vector<Event> events = events_in(folder / "run");
  const History history = read_history(folder / "run");
  ASSERT_EQ(events.size(), history.size() + 1);
  for (std::size_t i = 0; i < history.size(); ++i) {
    const Event& event = events[i + 1];
    const RoundRecord& record = history[i];
    EXPECT_EQ(event.step, i + 1);
    EXPECT_EQ(event.wall_time, record.seconds);
    EXPECT_EQ(event.scalars.contains("accuracy"), record.accuracy.has_value());
    EXPECT_EQ(event.scalars.at("participations"),
              static_cast<float>(record.traffic.participations));
    EXPECT_EQ(event.scalars.at("bytes_up"), static_cast<float>(record.traffic.bytes_up));
    EXPECT_EQ(event.scalars.at("bytes_down"), static_cast<float>(record.traffic.bytes_down));
    EXPECT_EQ(event.scalars.at("client_steps"), static_cast<float>(record.traffic.client_steps));
    EXPECT_EQ(event.scalars.at("train_loss"), static_cast<float>(record.train_loss.value()));
    EXPECT_EQ(event.scalars.at("forward_passes"),
              static_cast<float>(record.traffic.passes.forward));
  }
  EXPECT_EQ(events.back().scalars.at("accuracy"), static_cast<float>(*history.back().accuracy));
  EXPECT_EQ(events.back().scalars.at("loss"), static_cast<float>(*history.back().loss));
  EXPECT_THAT(events.back().scalars, Not(Contains(Key(HasSubstr("flag_")))));
}

TEST(TensorBoard, AResumedRunHasTheFileOfAnUndisturbedOne) {
  const TestFolder folder;
  const Experiment experiment = small({"method.name=remembering"});
  start(experiment, folder / "calm");
  const std::vector<Event> expected = without_times(events_in(folder / "calm"));
  EXPECT_THAT(expected, SizeIs(5));
  for (const int training : {1, 6, 8}) {
    const fs::path directory = folder / std::to_string(training);
    start(experiment, directory, training);
    // As if it had been killed later: rounds behind the checkpoint, the last one only half.
    const std::string lost = tensorboard_round({{"round", 4}, {"seconds", 1.0}});
    std::ofstream(directory / kTensorBoardFile, std::ios::app | std::ios::binary)
        << lost << lost.substr(0, 9);
    resume(directory);
    EXPECT_EQ(without_times(events_in(directory)), expected) << "stopped in training " << training;
  }
}

TEST(TensorBoard, AFileThatIsGoneIsWrittenAgainByteForByte) {
  const TestFolder folder;
  start(small(), folder / "run");
  const std::string bytes = read_file(folder / "run" / kTensorBoardFile);
  fs::remove(folder / "run/summary.json");
  fs::remove(folder / "run" / kTensorBoardFile);
  resume(folder / "run");
  EXPECT_EQ(read_file(folder / "run" / kTensorBoardFile), bytes);
}

TEST(TensorBoard, APlaceThatCannotBeWrittenIsNamed) {
  const TestFolder folder;
  EXPECT_EQ(error_text([&] { TensorBoardWriter(folder / "no/file", {}); }),
            "cannot write " + (folder / "no/file").string() + ": No such file or directory");
}

}  // namespace winnow::tensorboard_test
