#include "winnow/experiment/relabel.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <unordered_map>
#include <unordered_set>

#include "winnow/base/csv.h"
#include "winnow/base/error.h"
#include "winnow/base/text.h"
#include "winnow/data/list_file.h"

namespace winnow {
namespace {

constexpr std::size_t kRelabelColumns = 6;

[[noreturn]] void reject_relabel(const std::string& what, const std::string& hint = "") {
  throw Error(ErrorKind::data, what, hint);
}

// Samples by name.
class SampleIndex {
 public:
  explicit SampleIndex(const DataSet& data) : count_(data.train.size()) {
    for (std::size_t i = 0; i < data.names.size(); ++i) {
      const auto [place, fresh] = places_.emplace(data.names[i], static_cast<std::int64_t>(i));
      if (!fresh) {
        place->second = -1;  // which of them is meant nobody can say
      }
    }
    named_ = !data.names.empty();
    tests_.insert(data.test_names.begin(), data.test_names.end());
  }

  bool is_tested_on(const std::string& name) const { return tests_.contains(name); }

  std::int64_t find(const std::string& name, const std::string& where) const {
    if (named_) {
      const auto found = places_.find(name);
      if (found == places_.end()) {
        reject_relabel(fmt::format("{}: there is no sample '{}'", where, name),
                       "the file is of other data; names are as in samples.csv of the audit");
      }
      if (found->second < 0) {
        reject_relabel(fmt::format("{}: several samples are called '{}'", where, name));
      }
      return found->second;
    }
    std::int64_t number = -1;
    const char* const last = name.data() + name.size();
    const auto [end, error] = std::from_chars(name.data(), last, number);
    if (error != std::errc{} || end != last || number < 0 || number >= count_) {
      reject_relabel(fmt::format("{}: '{}' is no sample, expected a number from 0 to {}", where,
                                 name, count_ - 1));
    }
    return number;
  }

 private:
  std::int64_t count_;
  bool named_ = false;
  std::unordered_map<std::string, std::int64_t> places_;
  std::unordered_set<std::string> tests_;
};

std::int64_t class_of(const std::string& name, const DataSet& data, const std::string& where) {
  const auto found = std::ranges::find(data.class_names, name);
  if (found == data.class_names.end()) {
    reject_relabel(fmt::format("{}: class '{}' is unknown", where, name),
                   suggestion(name, data.class_names));
  }
  return found - data.class_names.begin();
}

}  // namespace

std::map<std::int64_t, std::int64_t> read_relabel(const std::filesystem::path& file,
                                                  const DataSet& data) {
  const SampleIndex index(data);
  std::map<std::int64_t, std::int64_t> labels;
  std::map<std::int64_t, std::int64_t> lines;
  bool first = true;
  for_each_line(file, [&](std::string_view line, std::int64_t number) {
    const std::string where = fmt::format("{} line {}", file.string(), number);
    if (first) {
      first = false;
      if (line != kRelabelHeader) {
        reject_relabel(fmt::format("{}: expected the header {}", where, kRelabelHeader),
                       "winnow audit writes such a file: relabel.csv");
      }
      return;
    }
    const std::vector<std::string> fields = split_csv(std::string(line));
    if (fields.size() != kRelabelColumns) {
      reject_relabel(
          fmt::format("{}: {} fields, expected {}", where, fields.size(), kRelabelColumns));
    }
    if (index.is_tested_on(fields[0])) {
      return;
    }
    const std::int64_t sample = index.find(fields[0], where);
    const std::int64_t label = class_of(fields[3], data, where);
    if (const auto [before, fresh] = lines.emplace(sample, number); !fresh) {
      reject_relabel(
          fmt::format("{}: '{}' is already on line {}", where, fields[0], before->second));
    }
    const std::string_view accept = trim(fields[5]);
    if (accept != "yes" && accept != "no" && !accept.empty()) {
      reject_relabel(fmt::format("{}: accept = '{}', expected yes, no or nothing", where, accept));
    }
    if (accept == "yes") {
      labels.emplace(sample, label);
    }
  });
  if (first) {
    reject_relabel(fmt::format("{}: the file is empty", file.string()));
  }
  return labels;
}

void apply_relabel(const std::map<std::int64_t, std::int64_t>& labels, const Assignment& assign,
                   GivenLabels& given) {
  for (std::size_t client = 0; client < assign.size(); ++client) {
    for (std::size_t i = 0; i < assign[client].size(); ++i) {
      if (const auto found = labels.find(assign[client][i]); found != labels.end()) {
        given[client][i] = found->second;
      }
    }
  }
}

}  // namespace winnow
