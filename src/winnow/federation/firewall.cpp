#include "winnow/federation/firewall.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>

#include "winnow/base/error.h"
#include "winnow/federation/aggregation.h"

namespace winnow {
namespace {

// Calls `visit` with every number of a field, as long as it returns true; models are none.
bool each_number(const Field& field, const std::function<bool(double)>& visit) {
  struct Visitor {
    const std::function<bool(double)>& visit;

    bool operator()(std::uint8_t value) const { return visit(value); }
    bool operator()(std::uint32_t value) const { return visit(value); }
    bool operator()(std::uint64_t value) const { return visit(static_cast<double>(value)); }
    bool operator()(double value) const { return visit(value); }
    bool operator()(const std::vector<double>& values) const {
      return std::ranges::all_of(values, visit);
    }
    bool operator()(const std::vector<float>& values) const {
      return std::ranges::all_of(values, [this](float value) { return visit(value); });
    }
    bool operator()(const State& /*model*/) const { return true; }
    bool operator()(const std::vector<State>& /*models*/) const { return true; }
  };
  return std::visit(Visitor{visit}, field);
}

std::optional<std::int64_t> length_of(const Field& field) {
  if (const auto* numbers = std::get_if<std::vector<double>>(&field)) {
    return std::ssize(*numbers);
  }
  if (const auto* numbers = std::get_if<std::vector<float>>(&field)) {
    return std::ssize(*numbers);
  }
  if (const auto* models = std::get_if<std::vector<State>>(&field)) {
    return std::ssize(*models);
  }
  return std::nullopt;
}

bool models_are_finite(const Field& field) {
  if (const State* model = std::get_if<State>(&field)) {
    return all_finite(*model);
  }
  const auto* models = std::get_if<std::vector<State>>(&field);
  return models == nullptr ||
         std::ranges::all_of(*models, [](const State& model) { return all_finite(model); });
}

bool inside(double value, const FieldRule& rule) {
  return value >= rule.low && value <= rule.high;
}

std::optional<Refusal> judge_length(const Field& field, const FieldRule& rule,
                                    std::int64_t samples) {
  const std::optional<std::int64_t> length = length_of(field);
  const std::int64_t most = rule.length.most == Length::kSamples ? samples : rule.length.most;
  if (!length || (*length >= rule.length.least && *length <= most)) {
    return std::nullopt;
  }
  return Refusal{
      Reason::wrong_length,
      fmt::format("field '{}' has {} values, expected {}", rule.name, *length,
                  rule.length.least == most ? fmt::format("{}", most)
                                            : fmt::format("{} to {}", rule.length.least, most))};
}

std::optional<Refusal> judge_numbers(const Field& field, const FieldRule& rule,
                                     std::int64_t samples) {
  std::optional<Refusal> refusal;
  each_number(field, [&](double value) {
    const auto held = static_cast<double>(samples);
    if (std::isfinite(value) && !inside(value, rule)) {
      refusal = {Reason::out_of_range,
                 fmt::format("{} = {}, expected {}", rule.name, value, rule.range())};
    } else if ((rule.counts == Counts::samples && value != held) ||
               (rule.counts == Counts::some_samples && value > held)) {
      refusal = {Reason::wrong_samples,
                 fmt::format("{} = {}, expected {} {}", rule.name, value,
                             rule.counts == Counts::samples ? "its" : "at most its", samples)};
    }
    return !refusal;
  });
  return refusal;
}

}  // namespace

std::string name_of(Reason reason) {
  constexpr std::array<const char*, 6> kNames{"wrong_kind",   "wrong_fields",  "wrong_length",
                                              "out_of_range", "wrong_samples", "wrong_layout"};
  return kNames.at(static_cast<std::size_t>(reason));
}

std::optional<Refusal> judge(const Message& reply, const Message& task, std::int64_t samples,
                             const std::vector<Exchange>& exchanges) {
  const Exchange& exchange = exchange_of(task.kind(), exchanges);
  try {
    check_reply(reply, task, exchanges);
  } catch (const Error& error) {
    return Refusal{reply.kind() == exchange.reply ? Reason::wrong_fields : Reason::wrong_kind,
                   error.what()};
  }
  for (std::size_t i = 0; i < exchange.answers.size(); ++i) {
    const FieldRule& rule = exchange.answers[i];
    const Field& field = reply.fields()[i].second;
    if (auto refusal = judge_length(field, rule, samples)) {
      return refusal;
    }
    if (auto refusal = judge_numbers(field, rule, samples)) {
      return refusal;
    }
  }
  return std::nullopt;
}

bool usable(const Message& reply, const std::vector<FieldRule>& rules) {
  return std::ranges::all_of(reply.fields(), [&](const auto& entry) {
    const auto rule = std::ranges::find(rules, entry.first, &FieldRule::name);
    if (rule == rules.end()) {
      return true;
    }
    return (!rule->finite || models_are_finite(entry.second)) &&
           each_number(entry.second, [&](double value) {
             return std::isfinite(value) ? inside(value, *rule) : !rule->finite;
           });
  });
}

bool usable(const Message& reply, const std::vector<Exchange>& exchanges) {
  const auto exchange = std::ranges::find(exchanges, reply.kind(), &Exchange::reply);
  return exchange == exchanges.end() || usable(reply, exchange->answers);
}

}  // namespace winnow
