#include "winnow/judge/quality.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "winnow/base/error.h"

namespace winnow {
namespace {

std::optional<double> share(std::int64_t part, std::size_t whole) {
  if (whole == 0) {
    return std::nullopt;
  }
  return static_cast<double>(part) / static_cast<double>(whole);
}

Json or_nothing(const std::optional<double>& value) {
  return value ? Json(*value) : Json(nullptr);
}

void require_same_size(std::size_t a, std::size_t b) {
  if (a != b) {
    throw Error(ErrorKind::internal, "labels that belong together differ in number");
  }
}

}  // namespace

Detection detect(const std::set<std::int64_t>& flagged, const std::set<std::int64_t>& noisy,
                 std::int64_t clients) {
  std::int64_t both = 0;
  for (const std::int64_t client : flagged) {
    both += noisy.contains(client) ? 1 : 0;
  }
  const auto missed = static_cast<std::int64_t>(flagged.size() + noisy.size()) - 2 * both;
  return {std::ssize(flagged), share(both, flagged.size()), share(both, noisy.size()),
          share(clients - missed, static_cast<std::size_t>(clients)).value_or(1.0)};
}

double noise_level_error(std::span<const double> estimated, std::span<const double> real) {
  require_same_size(estimated.size(), real.size());
  double sum = 0.0;
  for (std::size_t i = 0; i < real.size(); ++i) {
    sum += std::abs(estimated[i] - real[i]);
  }
  return real.empty() ? 0.0 : sum / static_cast<double>(real.size());
}

Relabelling& Relabelling::operator+=(const Relabelling& other) {
  wrong_to_right += other.wrong_to_right;
  wrong_to_wrong += other.wrong_to_wrong;
  right_to_wrong += other.right_to_wrong;
  return *this;
}

Relabelling relabelling(std::span<const std::int64_t> before, std::span<const std::int64_t> after,
                        std::span<const std::int64_t> truth) {
  require_same_size(before.size(), truth.size());
  require_same_size(after.size(), truth.size());
  Relabelling counts;
  for (std::size_t i = 0; i < truth.size(); ++i) {
    if (before[i] == after[i]) {
      continue;
    }
    if (before[i] == truth[i]) {
      ++counts.right_to_wrong;
    } else if (after[i] == truth[i]) {
      ++counts.wrong_to_right;
    } else {
      ++counts.wrong_to_wrong;
    }
  }
  return counts;
}

std::vector<std::vector<std::int64_t>> confusion(std::span<const std::int64_t> given,
                                                 std::span<const std::int64_t> truth,
                                                 std::int64_t classes) {
  require_same_size(given.size(), truth.size());
  const auto size = static_cast<std::size_t>(classes);
  std::vector<std::vector<std::int64_t>> counts(size, std::vector<std::int64_t>(size));
  for (std::size_t i = 0; i < truth.size(); ++i) {
    ++counts[static_cast<std::size_t>(given[i])][static_cast<std::size_t>(truth[i])];
  }
  return counts;
}

double wrong_share(std::span<const std::int64_t> given, std::span<const std::int64_t> truth) {
  require_same_size(given.size(), truth.size());
  std::int64_t wrong = 0;
  for (std::size_t i = 0; i < truth.size(); ++i) {
    wrong += given[i] != truth[i] ? 1 : 0;
  }
  return truth.empty() ? 0.0 : static_cast<double>(wrong) / static_cast<double>(truth.size());
}

Selection selection(const std::vector<bool>& selected, const std::vector<bool>& right) {
  require_same_size(selected.size(), right.size());
  std::int64_t chosen = 0;
  std::int64_t correct = 0;
  std::int64_t both = 0;
  for (std::size_t i = 0; i < right.size(); ++i) {
    chosen += selected[i] ? 1 : 0;
    correct += right[i] ? 1 : 0;
    both += selected[i] && right[i] ? 1 : 0;
  }
  const auto part = static_cast<double>(both);
  return {part / static_cast<double>(std::max<std::int64_t>(1, chosen)),
          part / static_cast<double>(std::max<std::int64_t>(1, correct))};
}

Json to_json(const Detection& detection) {
  return {{"flagged", detection.flagged},
          {"flag_precision", or_nothing(detection.precision)},
          {"flag_recall", or_nothing(detection.recall)},
          {"flag_accuracy", detection.accuracy}};
}

std::string flag_quality_key(const std::string& key) {
  for (const char* old : {"precision", "recall", "accuracy"}) {
    if (key == old) {
      return fmt::format("flag_{}", key);
    }
  }
  return key;
}

void rename_flag_quality(Json& holder) {
  if (!holder.is_object() || !holder.contains("detection") || !holder["detection"].is_object()) {
    return;
  }
  Json renamed = Json::object();
  for (const auto& [key, value] : holder["detection"].items()) {
    renamed[flag_quality_key(key)] = value;
  }
  holder["detection"] = std::move(renamed);
}

Json to_json(const Relabelling& relabelling) {
  return {{"wrong_to_right", relabelling.wrong_to_right},
          {"wrong_to_wrong", relabelling.wrong_to_wrong},
          {"right_to_wrong", relabelling.right_to_wrong}};
}

}  // namespace winnow
