#include "winnow/run/metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace winnow {
namespace {

Json number_or_null(const std::optional<double>& value) {
  return value && std::isfinite(*value) ? Json(*value) : Json(nullptr);
}

std::optional<double> optional_number(const Json& json, const char* key) {
  const auto found = json.find(key);
  if (found == json.end() || found->is_null()) {
    return std::nullopt;
  }
  return found->get<double>();
}

std::string csv_number(const std::optional<double>& value) {
  return value && std::isfinite(*value) ? fmt::format("{}", *value) : "";
}

}  // namespace

Json RoundRecord::to_json() const {
  return {{"round", round},
          {"accuracy", number_or_null(accuracy)},
          {"loss", number_or_null(loss)},
          {"participations", traffic.participations},
          {"bytes_up", traffic.bytes_up},
          {"bytes_down", traffic.bytes_down},
          {"client_steps", traffic.client_steps},
          {"train_seconds", traffic.train_seconds},
          {"seconds", seconds},
          {"hash", hash}};
}

RoundRecord RoundRecord::from_json(const Json& json) {
  RoundRecord record;
  record.round = json.at("round").get<std::int64_t>();
  record.accuracy = optional_number(json, "accuracy");
  record.loss = optional_number(json, "loss");
  record.traffic.participations = json.at("participations").get<std::int64_t>();
  record.traffic.bytes_up = json.at("bytes_up").get<std::int64_t>();
  record.traffic.bytes_down = json.at("bytes_down").get<std::int64_t>();
  record.traffic.client_steps = json.at("client_steps").get<std::int64_t>();
  record.traffic.train_seconds = json.at("train_seconds").get<double>();
  record.seconds = json.at("seconds").get<double>();
  record.hash = json.at("hash").get<std::string>();
  return record;
}

Accuracies accuracies(const History& history) {
  std::vector<double> values;
  for (const RoundRecord& record : history) {
    if (record.accuracy) {
      values.push_back(*record.accuracy);
    }
  }
  if (values.empty()) {
    return {};
  }
  const std::size_t tail = std::min<std::size_t>(10, values.size());
  double sum = 0.0;
  for (std::size_t i = values.size() - tail; i < values.size(); ++i) {
    sum += values[i];
  }
  return {std::ranges::max(values), values.back(), sum / static_cast<double>(tail)};
}

std::optional<std::int64_t> targeted_cost(const History& history, double target) {
  for (const RoundRecord& record : history) {
    if (record.accuracy && *record.accuracy >= target) {
      return record.traffic.participations;
    }
  }
  return std::nullopt;
}

std::string metrics_csv(const History& history) {
  std::string text =
      "round,accuracy,loss,participations,bytes_up,bytes_down,client_steps,seconds\n";
  for (const RoundRecord& record : history) {
    text +=
        fmt::format("{},{},{},{},{},{},{},{:.3f}\n", record.round, csv_number(record.accuracy),
                    csv_number(record.loss), record.traffic.participations, record.traffic.bytes_up,
                    record.traffic.bytes_down, record.traffic.client_steps, record.seconds);
  }
  return text;
}

}  // namespace winnow
