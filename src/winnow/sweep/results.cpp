#include "winnow/sweep/results.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <set>

#include "winnow/base/csv.h"
#include "winnow/base/error.h"
#include "winnow/base/files.h"
#include "winnow/base/text.h"
#include "winnow/judge/quality.h"
#include "winnow/sweep/paper.h"

namespace winnow {
namespace {

enum class ResultKind { number, text, truth };

struct ResultField {
  std::string name;
  ResultKind kind = ResultKind::number;
};

const std::vector<ResultField>& text_fields() {
  static const std::vector<ResultField> fields{{"uses_ground_truth", ResultKind::truth},
                                               {"device", ResultKind::text},
                                               {"precision", ResultKind::text},
                                               {"arithmetic", ResultKind::text},
                                               {"version", ResultKind::text},
                                               {"experiment_hash", ResultKind::text},
                                               {"model_hash", ResultKind::text}};
  return fields;
}

// Of what a table shows and of what else is worth keeping.
std::vector<ResultField> number_fields(const std::vector<std::string>& costs) {
  std::vector<ResultField> fields;
  for (const std::string& key : table_keys()) {
    fields.push_back({key.substr(1), ResultKind::number});
  }
  for (const char* key :
       {"rounds", "selection/label_precision", "selection/label_recall", "relabel/wrong_to_right",
        "relabel/right_to_wrong", "noise/wrong_labels", "noise/noisy_clients"}) {
    fields.push_back({key, ResultKind::number});
  }
  for (const std::string& cost : costs) {
    fields.push_back({cost, ResultKind::number});
  }
  return fields;
}

Json::json_pointer pointer_to(const std::string& name) {
  return Json::json_pointer(fmt::format("/{}", name));
}

// The name that a column of the header has today.
std::string column_today(const std::string& name) {
  constexpr std::string_view kDetection = "detection/";
  return name.starts_with(kDetection)
             ? fmt::format("{}{}", kDetection, flag_quality_key(name.substr(kDetection.size())))
             : name;
}

std::string field_text(const Json& summary, const ResultField& field) {
  const Json::json_pointer pointer = pointer_to(field.name);
  if (!summary.contains(pointer)) {
    return "";
  }
  const Json& value = summary.at(pointer);
  switch (field.kind) {
    case ResultKind::number:
      return value.is_number() ? value.dump() : "";
    case ResultKind::text:
      return value.is_string() ? csv_field(value.get<std::string>()) : "";
    case ResultKind::truth:
      break;
  }
  return value == true ? "true" : "";
}

// A number as JSON has it; nothing for anything else.
Json number_of(const std::string& text) {
  const Json value = parse_json_or_null(text);
  return value.is_number() ? value : Json(nullptr);
}

class ResultsReader {
 public:
  explicit ResultsReader(const std::filesystem::path& file) : file_(file) {}

  std::vector<ResultLine> read() {
    std::error_code failed;
    if (const auto size = std::filesystem::file_size(file_, failed);
        !failed && size > kLargestResults) {
      fail(fmt::format("has {} bytes, more than the {} of a results file", size, kLargestResults));
    }
    std::vector<std::string> texts = split(read_file(file_), '\n');
    std::vector<ResultLine> lines;
    for (std::string& text : texts) {
      ++number_;
      if (!text.empty() && text.back() == '\r') {
        text.pop_back();
      }
      if (number_ == 1) {
        read_header(split_csv(text));
      } else if (!text.empty()) {
        lines.push_back(read_line(split_csv(text)));
      }
    }
    return lines;
  }

 private:
  [[noreturn]] void fail(const std::string& why) const {
    throw Error(ErrorKind::run, fmt::format("{}:{}: {}", file_.string(), number_, why),
                "winnow table SWEEP --format runs writes such a file");
  }

  void read_header(const std::vector<std::string>& names) {
    header_ = names;
    for (const char* name : {"row", "column", "seed", "cell"}) {
      if (std::ranges::count(header_, name) != 1) {
        fail(fmt::format("expected a header with a column '{}'", name));
      }
    }
    for (const std::string& name : header_) {
      const bool plain = !name.empty() && name.front() != '/' && name.back() != '/' &&
                         name.find("//") == std::string::npos &&
                         name.find('~') == std::string::npos;
      if (!plain || name.size() > 100 || std::ranges::count(header_, name) != 1) {
        fail(fmt::format("the header's column {} is not the name of a value, or is there twice",
                         Json(printable(name)).dump()));
      }
    }
  }

  ResultLine read_line(const std::vector<std::string>& fields) const {
    if (fields.size() != header_.size()) {
      fail(fmt::format("{} fields, but the header has {}", fields.size(), header_.size()));
    }
    ResultLine line;
    line.summary = Json::object();
    for (std::size_t i = 0; i < fields.size(); ++i) {
      const std::string& name = header_[i];
      if (name == "row") {
        line.row = printable(fields[i]);
      } else if (name == "column") {
        line.column = printable(fields[i]);
      } else if (name == "cell") {
        line.cell = fields[i];
      } else if (name == "seed") {
        const Json seed = number_of(fields[i]);
        if (!seed.is_number_unsigned()) {
          fail(fmt::format("seed = '{}': expected a count", printable(fields[i])));
        }
        line.seed = seed.get<std::uint64_t>();
      } else {
        take(name, fields[i], line.summary);
      }
    }
    return line;
  }

  void take(const std::string& name, const std::string& text, Json& summary) const {
    if (text.empty()) {
      return;
    }
    const auto known = std::ranges::find(text_fields(), name, &ResultField::name);
    Json value;
    if (known == text_fields().end()) {
      value = number_of(text);
      if (value.is_null()) {
        fail(fmt::format("{} = '{}': expected a number", name, printable(text)));
      }
    } else {
      value = known->kind == ResultKind::truth ? Json(text == "true") : Json(printable(text));
    }
    try {
      summary[pointer_to(column_today(name))] = std::move(value);
    } catch (const Json::exception&) {
      fail(fmt::format("the columns '{}' and one it lies in are both there", name));
    }
  }

  std::filesystem::path file_;
  std::vector<std::string> header_;
  std::size_t number_ = 0;
};

std::string precision_of(const ResultLine& line) {
  return line.summary.value("precision", "");
}

// The one that most results of a file are in; the first of equally frequent ones.
std::string usual_precision(const std::vector<const ResultLine*>& lines) {
  std::vector<std::pair<std::string, std::size_t>> counts;
  for (const ResultLine* line : lines) {
    const std::string name = precision_of(*line);
    auto found = std::ranges::find(counts, name, &std::pair<std::string, std::size_t>::first);
    if (found == counts.end()) {
      counts.emplace_back(name, 0);
      found = counts.end() - 1;
    }
    ++found->second;
  }
  const auto most =
      std::ranges::max_element(counts, {}, &std::pair<std::string, std::size_t>::second);
  return most == counts.end() ? "" : most->first;
}

bool is_of(const ResultLine& line, const SweepRun& run) {
  return line.row == run.row && line.column == run.column && line.seed == run.seed &&
         line.cell == run.cell;
}

}  // namespace

std::string write_results(const std::vector<ResultLine>& lines,
                          const std::vector<std::string>& costs) {
  std::vector<ResultField> fields = number_fields(costs);
  fields.insert(fields.end(), text_fields().begin(), text_fields().end());
  std::string text = "row,column,seed,cell";
  for (const ResultField& field : fields) {
    text += fmt::format(",{}", field.name);
  }
  text += '\n';
  for (const ResultLine& line : lines) {
    text += fmt::format("{},{},{},{}", csv_field(line.row), csv_field(line.column), line.seed,
                        line.cell);
    for (const ResultField& field : fields) {
      text += fmt::format(",{}", field_text(line.summary, field));
    }
    text += '\n';
  }
  return text;
}

std::vector<ResultLine> read_results(const std::filesystem::path& file) {
  return ResultsReader(file).read();
}

bool has_result(const std::vector<ResultLine>& lines, const SweepRun& run) {
  return std::ranges::any_of(lines, [&](const ResultLine& line) { return is_of(line, run); });
}

std::vector<RunResult> join_results(const Sweep& sweep, const std::vector<ResultLine>& lines) {
  std::vector<const ResultLine*> current;
  for (const SweepRun& run : sweep.runs) {
    for (const ResultLine& line : lines) {
      if (is_of(line, run)) {
        current.push_back(&line);
      }
    }
  }
  const std::string usual = usual_precision(current);
  std::vector<RunResult> results;
  std::vector<RunResult> others;
  for (const SweepRun& run : sweep.runs) {
    RunResult result{
        run.row, run.column, run.seed, nullptr,
        published_for(sweep.paper.is_null() ? Json::array() : sweep.paper, run.row, run.column)};
    std::set<std::string> seen;
    for (const ResultLine* line : current) {
      const std::string precision = precision_of(*line);
      if (!is_of(*line, run)) {
        continue;
      }
      if (!seen.insert(precision).second) {
        throw Error(ErrorKind::run,
                    fmt::format("two results of '{}' / '{}', seed {}, in {}", run.row, run.column,
                                run.seed, precision),
                    "a mean over seeds must not count one twice: leave one of them out");
      }
      if (precision == usual) {
        result.summary = line->summary;
      } else {
        RunResult other = result;
        other.row = fmt::format("{} ({})", run.row, precision);
        other.summary = line->summary;
        others.push_back(std::move(other));
      }
    }
    results.push_back(std::move(result));
  }
  results.insert(results.end(), others.begin(), others.end());
  return results;
}

}  // namespace winnow
