#include "winnow/federation/exchange.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <map>
#include <utility>

#include "winnow/base/error.h"
#include "winnow/base/text.h"

namespace winnow {
namespace {

struct TypeFacts {
  const char* name;
  std::int64_t bytes;  // of one value; of a model, of one of its values
};

TypeFacts facts(FieldType type) {
  constexpr std::array<TypeFacts, 8> kFacts{{{"u8", 1},
                                             {"u32", 4},
                                             {"u64", 8},
                                             {"f64", 8},
                                             {"f64", 8},
                                             {"f32", 4},
                                             {"model", 4},
                                             {"models", 4}}};
  return kFacts.at(static_cast<std::size_t>(type));
}

bool is_list(FieldType type) {
  return type == FieldType::f64s || type == FieldType::f32s || type == FieldType::states;
}

// A length in a product: "C", "(k + 1)".
std::string factor(const std::string& said) {
  return said.find(' ') == std::string::npos ? said : "(" + said + ")";
}

FieldRule scalar(std::string name, FieldType type, std::string tells) {
  return {.name = std::move(name), .type = type, .tells = std::move(tells)};
}

FieldRule list(std::string name, FieldType type, std::string tells, Length length) {
  return {.name = std::move(name),
          .type = type,
          .tells = std::move(tells),
          .length = std::move(length)};
}

void check_fields(const Message& message, const std::vector<FieldRule>& rules) {
  const auto& fields = message.fields();
  for (std::size_t i = 0; i < std::max(fields.size(), rules.size()); ++i) {
    if (i >= rules.size()) {
      throw Error(ErrorKind::peer, fmt::format("message '{}': field '{}' is one too many",
                                               message.kind(), fields[i].first));
    }
    if (i >= fields.size() || fields[i].first != rules[i].name) {
      throw Error(
          ErrorKind::peer,
          fmt::format("message '{}': field {} is {}, expected '{}'", message.kind(), i + 1,
                      i >= fields.size() ? "missing" : "'" + fields[i].first + "'", rules[i].name));
    }
    if (fields[i].second.index() != static_cast<std::size_t>(rules[i].type)) {
      throw Error(ErrorKind::peer, fmt::format("message '{}': field '{}' is not of type {}",
                                               message.kind(), rules[i].name, rules[i].shape()));
    }
  }
}

bool uses(const std::vector<Exchange>& exchanges, const std::function<bool(const FieldRule&)>& is) {
  return std::ranges::any_of(exchanges, [&](const Exchange& exchange) {
    return std::ranges::any_of(exchange.asks, is) || std::ranges::any_of(exchange.answers, is);
  });
}

}  // namespace

Length Length::exactly(std::int64_t count, std::string said) {
  return count > 0 ? Length{count, count, std::move(said)} : Length{0, kUnknown, std::move(said)};
}

Length Length::up_to(std::int64_t count, std::string said) {
  return {0, count > 0 ? count : kUnknown, std::move(said)};
}

FieldRule FieldRule::between(double lowest, double highest) const {
  FieldRule rule = *this;
  rule.low = lowest;
  rule.high = highest;
  return rule;
}

FieldRule FieldRule::at_least(double lowest) const {
  return between(lowest, std::numeric_limits<double>::infinity());
}

FieldRule FieldRule::any_number() const {
  FieldRule rule = *this;
  rule.unbounded = true;
  return rule;
}

FieldRule FieldRule::counting(Counts what) const {
  FieldRule rule = *this;
  rule.counts = what;
  return rule;
}

FieldRule FieldRule::finite_or_not() const {
  FieldRule rule = *this;
  rule.finite = false;
  return rule;
}

FieldRule FieldRule::summed(Weighting parameters, Weighting buffers) const {
  FieldRule rule = *this;
  rule.sum = {parameters, buffers};
  return rule;
}

std::string FieldRule::shape() const {
  return is_list(type) ? fmt::format("{} {}", factor(length.said), facts(type).name)
                       : facts(type).name;
}

std::string FieldRule::range() const {
  if (counts == Counts::samples) {
    return "all its samples";
  }
  if (counts == Counts::some_samples) {
    return "at most its samples";
  }
  if (std::isinf(high)) {
    const char* none = unbounded ? "any number" : "";
    return std::isinf(low) ? none : fmt::format("at least {:g}", low);
  }
  return fmt::format("{:g} to {:g}", low, high);
}

namespace field {

FieldRule flag(std::string name, std::string tells) {
  return scalar(std::move(name), FieldType::u8, std::move(tells));
}

FieldRule whole(std::string name, std::string tells) {
  return scalar(std::move(name), FieldType::u32, std::move(tells));
}

FieldRule number(std::string name, std::string tells) {
  return scalar(std::move(name), FieldType::f64, std::move(tells));
}

FieldRule numbers(std::string name, std::string tells, Length length) {
  return list(std::move(name), FieldType::f64s, std::move(tells), std::move(length));
}

FieldRule floats(std::string name, std::string tells, Length length) {
  return list(std::move(name), FieldType::f32s, std::move(tells), std::move(length));
}

FieldRule model(std::string name, std::string tells) {
  return scalar(std::move(name), FieldType::state, std::move(tells));
}

FieldRule models(std::string name, std::string tells, Length length) {
  return list(std::move(name), FieldType::states, std::move(tells), std::move(length));
}

FieldRule round() {
  return whole("round", "the number of the round");
}

FieldRule global_model() {
  return model("model", "the global model");
}

FieldRule trained_model() {
  return model("model", "its model after training, which reveals something about its samples");
}

FieldRule samples() {
  return whole("samples", "how many samples it has").counting(Counts::samples);
}

FieldRule relabelled() {
  return whole("relabelled", "how many of its labels it changed").counting(Counts::some_samples);
}

}  // namespace field

const Exchange& exchange_of(const std::string& task, const std::vector<Exchange>& exchanges) {
  const auto found = std::ranges::find(exchanges, task, &Exchange::task);
  if (found != exchanges.end()) {
    return *found;
  }
  if (std::ranges::count(exchanges, task, &Exchange::reply) > 0) {
    throw Error(ErrorKind::peer, fmt::format("message '{}' is a reply, expected a task", task));
  }
  throw Error(ErrorKind::peer, fmt::format("unknown task '{}'", task));
}

void check_task(const Message& task, const std::vector<Exchange>& exchanges) {
  check_fields(task, exchange_of(task.kind(), exchanges).asks);
}

void check_reply(const Message& reply, const Message& task,
                 const std::vector<Exchange>& exchanges) {
  const Exchange& exchange = exchange_of(task.kind(), exchanges);
  if (reply.kind() != exchange.reply) {
    throw Error(ErrorKind::peer, fmt::format("task '{}' was answered with '{}', expected '{}'",
                                             task.kind(), reply.kind(), exchange.reply));
  }
  check_fields(reply, exchange.answers);
}

std::string payload(const std::vector<FieldRule>& fields) {
  std::int64_t fixed = 0;
  std::int64_t per_value = 0;
  std::map<std::string, std::int64_t> lists;
  std::vector<std::string> parts;
  for (const FieldRule& field : fields) {
    if (field.type == FieldType::state) {
      per_value += facts(field.type).bytes;
    } else if (is_list(field.type)) {
      const std::string of = factor(field.length.said);
      lists[field.type == FieldType::states ? of + " P" : of] += facts(field.type).bytes;
    } else {
      fixed += facts(field.type).bytes;
    }
  }
  for (const auto& [count, bytes] : lists) {
    parts.push_back(fmt::format("{} {}", bytes, count));
  }
  if (per_value > 0) {
    parts.insert(parts.begin(), fmt::format("{} P", per_value));
  }
  if (fixed > 0 || parts.empty()) {
    parts.insert(parts.begin(), std::to_string(fixed));
  }
  return join(parts, " + ");
}

std::string letters(const std::vector<Exchange>& exchanges) {
  std::vector<std::string> known;
  if (uses(exchanges, [](const FieldRule& field) {
        return field.type == FieldType::state || field.type == FieldType::states;
      })) {
    known.emplace_back("P: number of values in a model (parameters, running statistics, counters)");
  }
  constexpr std::array<std::pair<char, const char*>, 5> kMeanings{
      {{'C', "number of classes"},
       {'d', "number of features that the head takes"},
       {'k', "number of neighbours"},
       {'b', "number of images in a public batch"},
       {'n', "number of the client's samples"}}};
  for (const auto& [letter, meaning] : kMeanings) {
    if (uses(exchanges, [letter = letter](const FieldRule& field) {
          return field.length.said.find(letter) != std::string::npos;
        })) {
      known.push_back(fmt::format("{}: {}", letter, meaning));
    }
  }
  return join(known, ", ");
}

}  // namespace winnow
