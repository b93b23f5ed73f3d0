// Counters, gauges and histograms in Prometheus' text format.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace winnow::net {

// Labels as they are written: `verdict="accepted",reason="none"`, or nothing.
std::string label(const std::string& name, const std::string& value);

// May be used by several threads.
class Metrics {
 public:
  // Each family is declared once, before it is used.
  void counter(const std::string& name, const std::string& help);
  void gauge(const std::string& name, const std::string& help);
  void histogram(const std::string& name, const std::string& help, std::vector<double> bounds);

  void add(const std::string& name, const std::string& labels = "", double value = 1.0);
  void set(const std::string& name, const std::string& labels, double value);
  // Forgets all values of a family.
  void clear(const std::string& name);
  void observe(const std::string& name, const std::string& labels, double value);

  std::string text() const;

 private:
  struct Histogram {
    std::vector<std::uint64_t> counts;
    double sum = 0.0;
    std::uint64_t all = 0;
  };
  struct Family {
    std::string type;
    std::string help;
    std::vector<double> bounds = {};
    std::map<std::string, double> values = {};
    std::map<std::string, Histogram> histograms = {};
  };

  mutable std::mutex mutex_;
  std::map<std::string, Family> families_;
};

// All families that a server has.
void declare_server_metrics(Metrics& metrics);

}  // namespace winnow::net
