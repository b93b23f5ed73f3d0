#include "winnow/run/metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>

#include "winnow/base/checked_json.h"

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
  Json json{{"round", round},
            {"accuracy", number_or_null(accuracy)},
            {"loss", number_or_null(loss)},
            {"train_loss", number_or_null(train_loss)},
            {"participations", traffic.participations},
            {"bytes_up", traffic.bytes_up},
            {"bytes_down", traffic.bytes_down},
            {"client_steps", traffic.client_steps},
            {"forward_passes", traffic.passes.forward},
            {"backward_passes", traffic.passes.backward},
            {"train_seconds", traffic.train_seconds},
            {"seconds", seconds},
            {"hash", hash}};
  if (label_precision && label_recall) {
    json["label_precision"] = *label_precision;
    json["label_recall"] = *label_recall;
  }
  if (top5) {
    json["top5"] = *top5;
  }
  for (const auto& [name, value] : {std::pair("macro_precision", macro_precision),
                                    {"macro_recall", macro_recall},
                                    {"macro_f1", macro_f1}}) {
    if (value) {
      json[name] = *value;
    }
  }
  return json;
}

RoundRecord RoundRecord::from_json(const Json& json) {
  const CheckedJson checked(json, "");
  const auto count = [&checked](const char* name) { return checked.at(name).count(); };
  RoundRecord record;
  record.round = count("round");
  record.accuracy = optional_number(json, "accuracy");
  record.loss = optional_number(json, "loss");
  record.train_loss = optional_number(json, "train_loss");
  record.label_precision = optional_number(json, "label_precision");
  record.label_recall = optional_number(json, "label_recall");
  record.top5 = optional_number(json, "top5");
  record.macro_precision = optional_number(json, "macro_precision");
  record.macro_recall = optional_number(json, "macro_recall");
  record.macro_f1 = optional_number(json, "macro_f1");
  record.traffic.participations = count("participations");
  record.traffic.bytes_up = count("bytes_up");
  record.traffic.bytes_down = count("bytes_down");
  record.traffic.client_steps = count("client_steps");
  // Older runs did not count them.
  const auto passes = [&checked](const char* name) {
    const auto found = checked.find(name);
    return found ? found->count() : 0;
  };
  record.traffic.passes = {passes("forward_passes"), passes("backward_passes")};
  record.traffic.train_seconds = checked.at("train_seconds").number(0.0);
  record.seconds = checked.at("seconds").number(0.0);
  record.hash = checked.at("hash").text();
  return record;
}

std::optional<double> mean_of_last_values(const History& history,
                                          std::optional<double> RoundRecord::*value) {
  double sum = 0.0;
  std::int64_t count = 0;
  for (auto record = history.rbegin(); record != history.rend() && count < kLastRounds; ++record) {
    if (const std::optional<double>& found = (*record).*value) {
      sum += *found;
      ++count;
    }
  }
  return count == 0 ? std::nullopt : std::optional(sum / static_cast<double>(count));
}

Accuracies accuracies(const History& history) {
  Accuracies result;
  for (const RoundRecord& record : history) {
    if (record.accuracy) {
      result.best = std::max(result.best, *record.accuracy);
      result.last = *record.accuracy;
    }
    if (record.top5) {
      result.top5 = std::max(result.top5.value_or(0.0), *record.top5);
    }
  }
  const auto rounds = std::min(kLastRounds, std::ssize(history));
  if (std::all_of(history.end() - rounds, history.end(),
                  [](const RoundRecord& record) { return record.accuracy.has_value(); })) {
    result.last10 = mean_of_last_values(history, &RoundRecord::accuracy);
  }
  return result;
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
  return "round,accuracy,loss,participations,bytes_up,bytes_down,client_steps,seconds,"
         "label_precision,label_recall,top5,train_loss,forward_passes,backward_passes,"
         "macro_precision,macro_recall,macro_f1\n" +
         metrics_lines(history, 0);
}

std::string metrics_lines(const History& history, std::size_t first) {
  std::string text;
  for (const RoundRecord& record : std::span(history).subspan(first)) {
    text += fmt::format(
        "{},{},{},{},{},{},{},{:.3f},{},{},{},{},{},{},{},{},{}\n", record.round,
        csv_number(record.accuracy), csv_number(record.loss), record.traffic.participations,
        record.traffic.bytes_up, record.traffic.bytes_down, record.traffic.client_steps,
        record.seconds, csv_number(record.label_precision), csv_number(record.label_recall),
        csv_number(record.top5), csv_number(record.train_loss), record.traffic.passes.forward,
        record.traffic.passes.backward, csv_number(record.macro_precision),
        csv_number(record.macro_recall), csv_number(record.macro_f1));
  }
  return text;
}

}  // namespace winnow
