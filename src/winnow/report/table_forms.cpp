// The forms of a result table: text, Markdown, LaTeX, CSV, JSON.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <utility>

#include "winnow/base/csv.h"
#include "winnow/base/json.h"
#include "winnow/report/table_model.h"

namespace winnow::tables {
namespace {

std::size_t widest(const std::vector<std::string>& lines) {
  std::size_t width = 0;
  for (const std::string& line : lines) {
    width = std::max(width, width_of(line));
  }
  return width;
}

// The lines of one column of a text table, header first, all of one width.
std::vector<std::string> text_column(const Column& column, bool colour) {
  const bool marked = !colour && std::ranges::any_of(column.cells, &Cell::best);
  const std::string unmarked = marked ? " " : "";
  std::vector<std::string> lines{one_line(column.heading()) + unmarked};
  for (const Cell& cell : column.cells) {
    lines.push_back(cell_text(cell, column) + (marked && cell.best ? "*" : unmarked));
  }
  const std::size_t width = widest(lines);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const std::string padding(width - width_of(lines[i]), ' ');
    const bool bold = colour && i > 0 && column.cells[i - 1].best;
    lines[i] = padding + (bold ? "\x1b[1m" + lines[i] + "\x1b[0m" : lines[i]);
  }
  lines.insert(lines.begin() + 1, std::string(width, '-'));
  return lines;
}

// How LaTeX spells a character. A row that starts with [ or * would be taken for an argument of the
// line end before it.
std::string latex_spelling(char c) {
  constexpr std::string_view kBackslashed = "&%$#_{}";
  constexpr std::string_view kBraced = "[*";
  constexpr std::array<std::pair<char, const char*>, 6> kNamed{{{'\\', "backslash"},
                                                                {'~', "asciitilde"},
                                                                {'^', "asciicircum"},
                                                                {'<', "less"},
                                                                {'>', "greater"},
                                                                {'|', "bar"}}};
  if (kBackslashed.find(c) != std::string_view::npos) {
    return {'\\', c};
  }
  if (kBraced.find(c) != std::string_view::npos) {
    return {'{', c, '}'};
  }
  for (const auto& [character, name] : kNamed) {
    if (c == character) {
      return fmt::format("\\text{}{{}}", name);
    }
  }
  return {c};
}

std::string latex_escaped(std::string_view label) {
  constexpr std::string_view kPlusMinus = "±";
  const std::string line = one_line(label);
  std::string text;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (line.compare(i, kPlusMinus.size(), kPlusMinus) == 0) {
      text += "$\\pm$";
      i += kPlusMinus.size() - 1;
    } else {
      text += latex_spelling(line[i]);
    }
  }
  return text;
}

// What a column is called in the long forms, where every line stands for itself.
std::string long_name(const Column& column) {
  switch (column.kind) {
    case ColumnKind::paper:
      return fmt::format("{} paper", column.metric.name);
    case ColumnKind::difference:
      return fmt::format("{} difference", column.metric.name);
    case ColumnKind::ours:
      break;
  }
  return column.metric.name;
}

}  // namespace

std::size_t width_of(std::string_view text) {
  return static_cast<std::size_t>(std::ranges::count_if(
      text, [](char c) { return (static_cast<unsigned char>(c) & 0xc0U) != 0x80U; }));
}

std::string markdown_escaped(std::string_view label) {
  constexpr std::string_view kSpecial = "\\|*`<";
  std::string text;
  for (const char c : one_line(label)) {
    if (kSpecial.find(c) != std::string_view::npos) {
      text += '\\';
    }
    text += c;
  }
  return text;
}

std::string plain_number(bool present, double value) {
  if (!present || !std::isfinite(value)) {
    return "";
  }
  std::string text = fmt::format("{:.6f}", value);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') {
    text.pop_back();
  }
  return text;
}

std::string render_text(const Table& table, bool colour) {
  std::vector<std::string> lines{one_line(table.rows_title)};
  std::ranges::transform(table.rows, std::back_inserter(lines), one_line);
  const std::size_t width = widest(lines);
  for (std::string& line : lines) {
    line.append(width - width_of(line), ' ');
  }
  lines.insert(lines.begin() + 1, std::string(width, '-'));
  for (const Column& column : table.columns) {
    const std::vector<std::string> parts = text_column(column, colour);
    for (std::size_t i = 0; i < lines.size(); ++i) {
      lines[i] += "  " + parts[i];
    }
  }
  std::string text;
  for (const std::string& line : lines) {
    text += line.substr(0, line.find_last_not_of(' ') + 1) + '\n';
  }
  const bool marked = std::ranges::any_of(table.columns, [](const Column& column) {
    return std::ranges::any_of(column.cells, &Cell::best);
  });
  if (marked) {
    text += colour ? "bold: best of its column\n" : "* best of its column\n";
  }
  return text;
}

std::string render_markdown(const Table& table) {
  std::string text = fmt::format("| {} |", markdown_escaped(table.rows_title));
  std::string rule = "| --- |";
  for (const Column& column : table.columns) {
    text += fmt::format(" {} |", markdown_escaped(column.heading()));
    rule += " ---: |";
  }
  text += '\n' + rule + '\n';
  for (std::size_t r = 0; r < table.rows.size(); ++r) {
    text += fmt::format("| {} |", markdown_escaped(table.rows[r]));
    for (const Column& column : table.columns) {
      const std::string value = cell_text(column.cells[r], column);
      text += column.cells[r].best ? fmt::format(" **{}** |", value) : fmt::format(" {} |", value);
    }
    text += '\n';
  }
  return text;
}

std::string render_latex(const Table& table) {
  std::string text =
      fmt::format("\\begin{{tabular}}{{l{}}}\n\\toprule\n{}",
                  std::string(table.columns.size(), 'r'), latex_escaped(table.rows_title));
  for (const Column& column : table.columns) {
    text += " & " + latex_escaped(column.heading());
  }
  text += " \\\\\n\\midrule\n";
  for (std::size_t r = 0; r < table.rows.size(); ++r) {
    text += latex_escaped(table.rows[r]);
    for (const Column& column : table.columns) {
      const std::string value = latex_escaped(cell_text(column.cells[r], column));
      text += column.cells[r].best ? fmt::format(" & \\textbf{{{}}}", value) : " & " + value;
    }
    text += " \\\\\n";
  }
  return text + "\\bottomrule\n\\end{tabular}\n";
}

std::string render_csv(const Table& table) {
  std::string text = "row,column,metric,mean,std,runs,unfinished\n";
  for (std::size_t r = 0; r < table.rows.size(); ++r) {
    for (const Column& column : table.columns) {
      const Cell& cell = column.cells[r];
      text += fmt::format(
          "{},{},{},{},{},{},{}\n", csv_field(table.rows[r]), csv_field(column.label),
          long_name(column), plain_number(cell.runs > 0, cell.mean),
          plain_number(cell.runs > 1, cell.deviation), cell.runs, cell.asked - cell.finished);
    }
  }
  return text;
}

std::string render_json(const Table& table) {
  const auto number = [](const std::string& text) {
    return text.empty() ? Json(nullptr) : parse_json(text, "a number of a table");
  };
  Json lines = Json::array();
  for (std::size_t r = 0; r < table.rows.size(); ++r) {
    for (const Column& column : table.columns) {
      const Cell& cell = column.cells[r];
      lines.push_back({{"row", table.rows[r]},
                       {"column", column.label},
                       {"metric", long_name(column)},
                       {"mean", number(plain_number(cell.runs > 0, cell.mean))},
                       {"std", number(plain_number(cell.runs > 1, cell.deviation))},
                       {"runs", cell.runs},
                       {"unfinished", cell.asked - cell.finished}});
    }
  }
  return lines.dump(2, ' ', false, Json::error_handler_t::replace) + '\n';
}

}  // namespace winnow::tables
