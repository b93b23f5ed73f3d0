// Exchanges: the tasks of a method, each with the reply that answers it. Every field has a type, a
// length, a range (a number of a reply says so where it has none) and a sentence that says what it
// tells. Both sides know them, so that a message needs no names on a wire, and whatever does not
// fit is refused before it counts.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "winnow/federation/message.h"

namespace winnow {

// How many values a list has, or models. `said` is that in the letters of the docs: C classes, d
// features that the head takes, k neighbours, b images of a public batch, n samples of the client.
struct Length {
  static constexpr std::int64_t kUnknown = std::numeric_limits<std::int64_t>::max();
  static constexpr std::int64_t kSamples = -1;  // as `most`: as many as the client has samples

  std::int64_t least = 1;
  std::int64_t most = 1;
  std::string said = {};

  // Of exactly, or at most, `count` values. A count of 0 means that the setting does not say, as in
  // a description: any number.
  static Length exactly(std::int64_t count, std::string said);
  static Length up_to(std::int64_t count, std::string said);
  static Length up_to_samples() { return {0, kSamples, "n"}; }
};

// What a number of a reply counts, and therefore cannot exceed.
enum class Counts {
  nothing,
  samples,       // all samples that the client has: exactly as many as it told when it joined
  some_samples,  // some of them, so at most as many
};

// What a client's model weighs in a mean.
enum class Weighting {
  samples,  // as much as it has samples: the reply's number of them
  equal,    // as much as any other
};

// How a model of a reply goes into a sum over all clients of the ask.
struct SumRule {
  Weighting parameters = Weighting::samples;
  Weighting buffers = Weighting::samples;  // running statistics and counters

  bool operator==(const SumRule&) const = default;
};

// One field of a message.
struct FieldRule {
  std::string name;
  FieldType type = FieldType::u32;
  // In a reply what it tells about the client, in a task what it tells the client: "its share of
  // labels that it considers wrong".
  std::string tells;
  Length length = {};
  double low = -std::numeric_limits<double>::infinity();  // of every number
  double high = std::numeric_limits<double>::infinity();
  Counts counts = Counts::nothing;
  bool unbounded = false;  // said in so many words: no finite number is impossible
  // Whether a value that is not finite spoils the message. Where it does not, the method knows what
  // to make of one.
  bool finite = true;
  // Of a model in a reply: what the server needs of it is the sum over all clients (see Sums).
  std::optional<SumRule> sum = {};

  FieldRule between(double lowest, double highest) const;
  FieldRule at_least(double lowest) const;
  FieldRule any_number() const;
  FieldRule counting(Counts what) const;
  FieldRule finite_or_not() const;
  FieldRule summed(Weighting parameters, Weighting buffers = Weighting::samples) const;
  // "u32", "model", "C f64", "k models".
  std::string shape() const;
  // "0 to 1", "at least 0", "any number", or nothing.
  std::string range() const;
};

namespace field {

FieldRule flag(std::string name, std::string tells);    // u8
FieldRule whole(std::string name, std::string tells);   // u32
FieldRule number(std::string name, std::string tells);  // f64
FieldRule numbers(std::string name, std::string tells, Length length);
FieldRule floats(std::string name, std::string tells, Length length);
FieldRule model(std::string name, std::string tells);
FieldRule models(std::string name, std::string tells, Length length);

// What many methods have: of tasks,
FieldRule round();
FieldRule global_model();
// and of replies.
FieldRule trained_model();
FieldRule samples();
FieldRule relabelled();

}  // namespace field

struct Exchange {
  std::string task;
  std::vector<FieldRule> asks;
  std::string reply;
  std::vector<FieldRule> answers;
};

// The exchange that begins with that task; throws Error(kind peer) when there is none.
const Exchange& exchange_of(const std::string& task, const std::vector<Exchange>& exchanges);

// Throw Error(kind peer) unless the message has exactly the fields of the exchange, in order and by
// type; of a task that something answers, and of a reply as the task asks for.
void check_task(const Message& task, const std::vector<Exchange>& exchanges);
void check_reply(const Message& reply, const Message& task, const std::vector<Exchange>& exchanges);

// The payload of a message with these fields: "4 + 4 P", P being the number of values of a model.
std::string payload(const std::vector<FieldRule>& fields);

// What the letters in lengths and payloads stand for: "P values of a model (...), C classes".
std::string letters(const std::vector<Exchange>& exchanges);

}  // namespace winnow
