#include "winnow/net/serve/metrics.h"

#include <fmt/format.h>

#include <utility>

namespace winnow::net {
namespace {

std::string with_labels(const std::string& name, const std::string& labels) {
  return labels.empty() ? name : fmt::format("{}{{{}}}", name, labels);
}

std::string with_bound(const std::string& labels, const std::string& bound) {
  return fmt::format("{}{}le=\"{}\"", labels, labels.empty() ? "" : ",", bound);
}

}  // namespace

std::string label(const std::string& name, const std::string& value) {
  std::string escaped;
  for (const char c : value) {
    if (c == '\n') {
      escaped += "\\n";
      continue;
    }
    if (c == '"' || c == '\\') {
      escaped += '\\';
    }
    escaped += c;
  }
  return fmt::format("{}=\"{}\"", name, escaped);
}

void Metrics::counter(const std::string& name, const std::string& help) {
  const std::lock_guard lock(mutex_);
  families_[name] = {"counter", help};
}

void Metrics::gauge(const std::string& name, const std::string& help) {
  const std::lock_guard lock(mutex_);
  families_[name] = {"gauge", help};
}

void Metrics::histogram(const std::string& name, const std::string& help,
                        std::vector<double> bounds) {
  const std::lock_guard lock(mutex_);
  families_[name] = {"histogram", help, std::move(bounds)};
}

void Metrics::add(const std::string& name, const std::string& labels, double value) {
  const std::lock_guard lock(mutex_);
  families_.at(name).values[labels] += value;
}

void Metrics::set(const std::string& name, const std::string& labels, double value) {
  const std::lock_guard lock(mutex_);
  families_.at(name).values[labels] = value;
}

void Metrics::clear(const std::string& name) {
  const std::lock_guard lock(mutex_);
  families_.at(name).values.clear();
}

void Metrics::observe(const std::string& name, const std::string& labels, double value) {
  const std::lock_guard lock(mutex_);
  Family& family = families_.at(name);
  Histogram& histogram = family.histograms[labels];
  histogram.counts.resize(family.bounds.size());
  for (std::size_t i = 0; i < family.bounds.size(); ++i) {
    histogram.counts[i] += value <= family.bounds[i] ? 1 : 0;
  }
  histogram.sum += value;
  ++histogram.all;
}

std::string Metrics::text() const {
  const std::lock_guard lock(mutex_);
  std::string text;
  for (const auto& [name, family] : families_) {
    text += fmt::format("# HELP {} {}\n# TYPE {} {}\n", name, family.help, name, family.type);
    for (const auto& [labels, value] : family.values) {
      text += fmt::format("{} {}\n", with_labels(name, labels), value);
    }
    for (const auto& [labels, histogram] : family.histograms) {
      const std::string bucket = name + "_bucket";
      for (std::size_t i = 0; i < family.bounds.size(); ++i) {
        text += fmt::format(
            "{} {}\n", with_labels(bucket, with_bound(labels, fmt::format("{}", family.bounds[i]))),
            histogram.counts[i]);
      }
      text +=
          fmt::format("{} {}\n", with_labels(bucket, with_bound(labels, "+Inf")), histogram.all);
      text += fmt::format("{} {}\n", with_labels(name + "_sum", labels), histogram.sum);
      text += fmt::format("{} {}\n", with_labels(name + "_count", labels), histogram.all);
    }
  }
  return text;
}

void declare_server_metrics(Metrics& metrics) {
  const std::vector<double> seconds{0.1, 0.5, 1, 5, 10, 30, 60, 300, 600, 1800};
  metrics.gauge("winnow_round", "completed rounds");
  metrics.gauge("winnow_members", "members by status");
  metrics.counter("winnow_replies_total", "verdicts on replies, by reason");
  metrics.counter("winnow_bytes_total", "bytes of models and heads, by direction");
  metrics.histogram("winnow_round_seconds", "duration of rounds", seconds);
  metrics.histogram("winnow_task_seconds", "time from a task to its accepted reply, by kind",
                    seconds);
  metrics.gauge("winnow_spool_bytes", "bytes of stored replies whose round is not complete yet");
  metrics.histogram("winnow_journal_sync_seconds", "duration of durable writes to the journal",
                    {0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5});
  metrics.gauge("winnow_certificate_expiry_seconds",
                "when certificates expire, in seconds since 1970, by name");
  metrics.gauge("winnow_last_commit_timestamp_seconds",
                "when the last round was completed, in seconds since 1970");
}

}  // namespace winnow::net
