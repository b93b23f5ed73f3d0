#include "winnow/data/list_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstddef>

#include "winnow/base/csv.h"
#include "winnow/base/error.h"
#include "winnow/data/data_set.h"
#include "winnow/data/image_files.h"

namespace winnow {
namespace {

constexpr std::string_view kSeparators = " \t,";
constexpr std::string_view kPathColumn = "path";
constexpr std::string_view kLabelColumn = "label";
constexpr std::string_view kClientColumn = "client";

[[noreturn]] void reject_list(const std::string& what, const std::string& hint = "") {
  throw Error(ErrorKind::data, what, hint);
}

// Whether the whole text is a number of any kind.
bool is_number(std::string_view text) {
  const std::size_t digit = text.find_first_not_of("+-.");
  if (digit == std::string_view::npos || text[digit] < '0' || text[digit] > '9') {
    return false;  // nor is "nan" or "inf": a class may be named so
  }
  if (text.front() == '+') {
    text.remove_prefix(1);
  }
  double ignored = 0.0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), ignored);
  return error != std::errc::invalid_argument && end == text.data() + text.size();
}

std::vector<std::string> fields_of(std::string_view line, const std::string& where) {
  if (std::ranges::count(line, '"') % 2 != 0) {
    reject_list(fmt::format("{}: a quote is not closed", where),
                "a quoted field ends on its line; a quote inside it is written twice");
  }
  std::vector<std::string> fields = split_csv(std::string(line));
  for (std::string& field : fields) {
    field = trim(field);
  }
  return fields;
}

// The columns of a table by the first line of the file.
class TableHeader {
 public:
  // A line is a header when it names one of the two columns and holds no number.
  static bool is_one(std::string_view line) {
    if (std::ranges::count(line, '"') % 2 != 0) {
      return false;
    }
    const std::vector<std::string> fields = fields_of(line, "");
    const bool names = std::ranges::any_of(fields, [](const std::string& field) {
      return field == kPathColumn || field == kLabelColumn;
    });
    return fields.size() > 1 && names && std::ranges::none_of(fields, is_number);
  }

  TableHeader(std::string_view line, const std::string& where, bool with_clients)
      : fields_(fields_of(line, where)) {
    path_ = place_of(kPathColumn, where);
    label_ = place_of(kLabelColumn, where);
    used_ = {path_, label_};
    if (with_clients) {
      client_ = place_of(kClientColumn, where);
      used_.push_back(*client_);
    }
  }

  ListRow row(std::string_view line, std::int64_t number, const std::string& where) const {
    std::vector<std::string> fields = fields_of(line, where);
    if (fields.size() != fields_.size()) {
      reject_list(fmt::format("{}: {} fields, but the first line names {} columns", where,
                              fields.size(), fields_.size()),
                  "a field with a comma in it is written in quotes");
    }
    for (const std::size_t place : used_) {
      if (fields[place].empty()) {
        reject_list(fmt::format("{}: the column '{}' is empty", where, fields_[place]));
      }
    }
    ListRow row{std::move(fields[path_]), std::move(fields[label_]), number};
    if (client_) {
      row.client = std::move(fields[*client_]);
    }
    return row;
  }

  std::vector<std::string> unused() const {
    std::vector<std::string> unused;
    for (std::size_t i = 0; i < fields_.size(); ++i) {
      if (std::ranges::find(used_, i) == used_.end()) {
        unused.push_back(fields_[i]);
      }
    }
    return unused;
  }

 private:
  std::size_t place_of(std::string_view column, const std::string& where) const {
    const auto count = std::ranges::count(fields_, column);
    if (count != 1) {
      reject_list(fmt::format("{}: {} column '{}'; the columns are {}", where,
                              count == 0 ? "no" : "more than one", column, join(fields_, ", ")),
                  column == kClientColumn
                      ? "a list of clients has the columns path, label and client, once each"
                      : "a list with a header has the columns path and label, once each");
    }
    return static_cast<std::size_t>(std::ranges::find(fields_, column) - fields_.begin());
  }

  std::vector<std::string> fields_;
  std::size_t path_ = 0;
  std::size_t label_ = 0;
  std::optional<std::size_t> client_;
  std::vector<std::size_t> used_;
};

// Looks at the last letters only: lines may be long.
bool ends_in_image_name(std::string_view text) {
  constexpr std::size_t kEnough = 6;  // "a.jpeg"
  return is_image_name(text.substr(text.size() - std::min(kEnough, text.size())));
}

// Where the label is parted from the path.
std::size_t parting(std::string_view line) {
  for (std::size_t at = line.find_last_of(kSeparators); at != std::string_view::npos && at > 0;
       at = line.find_last_of(kSeparators, at - 1)) {
    if (ends_in_image_name(line.substr(0, at))) {
      return at;
    }
  }
  return line.find_last_of(kSeparators);
}

ListRow plain_row(std::string_view line, std::int64_t number, const std::string& where) {
  const std::size_t at = parting(line);
  std::string_view file = trim(line.substr(0, at));
  std::string_view label = at == std::string_view::npos ? "" : trim(line.substr(at + 1));
  // "a.png , cat" and "a.png, cat": the blank was found first.
  if (label.starts_with(',')) {
    label = trim(label.substr(1));
  } else if (file.ends_with(',')) {
    file = trim(file.substr(0, file.size() - 1));
  }
  if (file.empty() || label.empty()) {
    reject_list(fmt::format("{}: '{}': expected 'path label' or 'path,label'", where, line));
  }
  return {std::string(file), std::string(label), number, {}};
}

}  // namespace

std::string ListFile::where(const ListRow& row) const {
  return fmt::format("{} line {}", name, row.line);
}

ListFile read_list_file(const std::filesystem::path& path, bool with_clients) {
  ListFile list{.name = path.string()};
  std::optional<TableHeader> header;
  bool first = true;
  for_each_line(path, [&](std::string_view line, std::int64_t number) {
    const std::string where = fmt::format("{} line {}", list.name, number);
    if (first && TableHeader::is_one(line)) {
      header.emplace(line, where, with_clients);
      list.unused_columns = header->unused();
    } else if (with_clients && !header) {
      reject_list(
          fmt::format("{}: expected a header with the columns path, label and client", where),
          "for example path,label,client");
    } else {
      list.rows.push_back(header ? header->row(line, number, where)
                                 : plain_row(line, number, where));
    }
    first = false;
  });
  if (list.rows.empty()) {
    reject_list(fmt::format("{}: lists no image", list.name));
  }
  return list;
}

std::optional<std::int64_t> label_number(const ListFile& list, const ListRow& row) {
  if (!is_number(row.label)) {
    return std::nullopt;
  }
  std::int64_t number = -1;
  const char* const end = row.label.data() + row.label.size();
  const auto [stop, error] = std::from_chars(row.label.data(), end, number);
  if (error == std::errc::invalid_argument || stop != end) {
    reject_list(fmt::format("{}: label {} is not a whole number", list.where(row), row.label),
                "classes are whole numbers from 0, or names");
  }
  if (error != std::errc{} || number < 0 || number >= kMostClasses) {
    reject_list(
        fmt::format("{}: label {} is outside 0..{}", list.where(row), row.label, kMostClasses - 1));
  }
  return number;
}

}  // namespace winnow
