// Text files that name images and their labels, one per line.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "winnow/base/files.h"
#include "winnow/base/text.h"

namespace winnow {

// Calls `use(line, number)` for every line that is neither empty nor a comment. A byte order mark
// at the start is not part of the first line.
template <typename Use>
void for_each_line(const std::filesystem::path& file, Use use) {
  constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
  std::string content = read_file(file);
  if (content.starts_with(kByteOrderMark)) {
    content.erase(0, kByteOrderMark.size());
  }
  std::int64_t number = 0;
  for (const std::string& raw : split(content, '\n')) {
    ++number;
    const std::string_view line = trim(raw);
    if (!line.empty() && line.front() != '#') {
      use(line, number);
    }
  }
}

// One image of a list, as text. No field is empty, but for the client of a list without that
// column.
struct ListRow {
  std::string file;
  std::string label;
  std::int64_t line = 0;
  std::string client = {};
};

struct ListFile {
  std::string name;  // of the file, for messages
  std::vector<ListRow> rows = {};
  std::vector<std::string> unused_columns = {};  // of a table, in its order

  std::string where(const ListRow& row) const;  // "train.txt line 3"
};

// Reads a list in one of two forms:
// - a table: the first line names the columns, `path` and `label` among them, in any order; the
//   fields of a line are separated by commas and may be quoted;
// - lines `path label` or `path,label`. The label follows the last blank, tab or comma that stands
//   behind .png, .jpg or .jpeg, so that it may hold blanks; without such a name it is what follows
//   the last blank, tab or comma.
// `with_clients`: it must be a table, with a column `client` that says who holds the image.
// Throws Error(kind data) naming the line.
ListFile read_list_file(const std::filesystem::path& path, bool with_clients = false);

// The label as a class number, or nothing where it is a name. Throws Error(kind data) for numbers
// that no class can have: 10000, -1, 1.5.
std::optional<std::int64_t> label_number(const ListFile& list, const ListRow& row);

}  // namespace winnow
