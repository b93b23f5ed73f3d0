#include "winnow/audit/condition.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string_view>

#include "winnow/base/error.h"
#include "winnow/base/text.h"

namespace winnow {

const std::vector<std::string>& condition_names() {
  static const std::vector<std::string> names{"label_noise",     "label_issues", "input_noise",
                                              "outliers",        "duplicates",   "noisy_clients",
                                              "hostile_clients", "not_judged"};
  return names;
}

double condition_value(const Audit& audit, const std::string& name) {
  const auto share_of_samples = [&](const auto& is) {
    return static_cast<double>(std::ranges::count_if(audit.findings.samples, is)) /
           std::max(1.0, static_cast<double>(audit.findings.samples.size()));
  };
  const auto share_of_clients = [&](const auto& is) {
    return static_cast<double>(std::ranges::count_if(audit.findings.clients, is)) /
           std::max(1.0, static_cast<double>(audit.findings.clients.size()));
  };
  if (name == "label_noise") {
    return audit.findings.noise_rate;
  }
  if (name == "label_issues") {
    return share_of_samples([](const SampleFinding& s) { return s.is_label_issue; });
  }
  if (name == "input_noise") {
    return share_of_samples([](const SampleFinding& s) { return s.is_input_noise_issue; });
  }
  if (name == "outliers") {
    return share_of_samples([](const SampleFinding& s) { return s.is_outlier_issue; });
  }
  if (name == "duplicates") {
    return share_of_samples([](const SampleFinding& s) { return s.is_near_duplicate_issue; });
  }
  if (name == "noisy_clients") {
    return share_of_clients([](const ClientFinding& c) {
      return c.verdict != Verdict::nothing_wrong && c.verdict != Verdict::rare_but_honest;
    });
  }
  if (name == "hostile_clients") {
    return share_of_clients([](const ClientFinding& c) { return c.verdict == Verdict::hostile; });
  }
  return share_of_samples([](const SampleFinding& s) { return !s.judged; });
}

bool Condition::holds(double value) const {
  if (comparison == ">") {
    return value > bound;
  }
  if (comparison == ">=") {
    return value >= bound;
  }
  return comparison == "<" ? value < bound : value <= bound;
}

Condition parse_condition(const std::string& text) {
  const std::size_t at = text.find_first_of("<>");
  const auto refuse = [&](const std::string& hint) {
    throw Error(ErrorKind::usage,
                fmt::format("--fail-on '{}': expected a name, a comparison and a share", text),
                hint);
  };
  if (at == std::string::npos) {
    refuse("for example --fail-on 'label_noise > 5%'");
  }
  const std::size_t length = at + 1 < text.size() && text[at + 1] == '=' ? 2 : 1;
  Condition condition{std::string(trim(text.substr(0, at))), text.substr(at, length)};
  if (std::ranges::find(condition_names(), condition.name) == condition_names().end()) {
    refuse(suggestion(condition.name, condition_names()));
  }
  std::string_view bound = trim(std::string_view(text).substr(at + length));
  const bool percent = bound.ends_with('%');
  if (percent) {
    bound = trim(bound.substr(0, bound.size() - 1));
  }
  const auto [end, error] =
      std::from_chars(bound.data(), bound.data() + bound.size(), condition.bound);
  if (error != std::errc{} || end != bound.data() + bound.size() ||
      !std::isfinite(condition.bound)) {
    refuse("for example --fail-on 'label_noise > 5%'");
  }
  condition.bound /= percent ? 100.0 : 1.0;
  return condition;
}

}  // namespace winnow
