// The forms of an arena: text, Markdown, CSV, JSON.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "winnow/base/csv.h"
#include "winnow/base/error.h"
#include "winnow/base/text.h"
#include "winnow/report/arena.h"
#include "winnow/report/table_model.h"

namespace winnow {
namespace arenas {
namespace {

// Lines of cells, the headings first.
struct Grid {
  std::vector<bool> is_number = {};  // by column: aligned right
  std::vector<std::vector<std::string>> lines = {};
};

std::string or_dash(const std::optional<double>& value, const char* form) {
  return value ? fmt::format(fmt::runtime(form), *value) : "-";
}

constexpr const char* kPoints = "{:+.2f}";

// A name as people see it.
std::string shown_name(const ArenaRow& row) {
  const bool marked = row.name.find(tables::kTruthMark) != std::string::npos;
  return row.uses_truth && !marked ? fmt::format("{} ({})", row.name, tables::kTruthMark)
                                   : row.name;
}

std::vector<std::string> fields_of(const ArenaRow& row) {
  std::vector<std::string> fields;
  if (row.reveals) {
    std::ranges::transform(*row.reveals, std::back_inserter(fields), &Revealed::field);
  }
  return fields;
}

std::string reveals_text(const ArenaRow& row) {
  if (!row.reveals) {
    return "-";
  }
  return row.reveals->empty() ? "nothing more" : join(fields_of(row), ", ");
}

Grid summary_grid(const Arena& arena) {
  Grid grid{{false, true, true, true, false, true, true, true, true, false},
            {{"method", "mean rank", "wins", fmt::format("worst against {}", arena.rule.reference),
              "where", "settings", "runs", "traffic", "wall time (s)", "reveals"}}};
  for (const ArenaRow& row : arena.rows) {
    grid.lines.push_back({shown_name(row), or_dash(row.rank, "{:.2f}"),
                          row.uses_truth ? "-" : fmt::format("{}", row.wins),
                          or_dash(row.worst, kPoints), row.worst ? row.worst_setting : "-",
                          fmt::format("{}", row.settings), fmt::format("{}", row.runs),
                          row.bytes ? human_bytes(*row.bytes) : "-", or_dash(row.seconds, "{:.1f}"),
                          reveals_text(row)});
  }
  return grid;
}

// The accuracy of the reference, and what others gain or lose against it.
Grid settings_grid(const Arena& arena) {
  Grid grid{{false}, {{"method"}}};
  for (const std::string& setting : arena.settings) {
    grid.is_number.push_back(true);
    grid.lines.front().push_back(setting);
  }
  for (const ArenaRow& row : arena.rows) {
    const bool is_reference = row.name == arena.rule.reference;
    std::vector<std::string>& line = grid.lines.emplace_back();
    line.push_back(is_reference ? fmt::format("{} (%)", row.name) : shown_name(row));
    for (const ArenaCell& cell : row.cells) {
      line.push_back(
          is_reference ? or_dash(cell.runs > 0 ? std::optional(cell.mean) : std::nullopt, "{:.2f}")
                       : or_dash(cell.difference, kPoints));
    }
  }
  return grid;
}

// What a reader has to know, a line each.
std::vector<std::string> notes(const Arena& arena, bool by_setting) {
  std::vector<std::string> lines;
  const std::string metric = tables::find_metric(arena.rule.metric).title;
  lines.push_back(
      by_setting
          ? fmt::format(
                "Points of test accuracy ({}) above or below {}, whose row has the accuracy.",
                metric, arena.rule.reference)
          : fmt::format(
                "Ranks are by test accuracy ({}), 1 is the best, over the settings in which a "
                "method has run; worst is in points against {}.",
                metric, arena.rule.reference));
  if (arena.missing == 0) {
    lines.push_back(fmt::format("All {} cells are there.", arena.cells));
  } else {
    lines.push_back(fmt::format("{} of {} cells are missing.", arena.missing, arena.cells));
  }
  if (!arena.not_begun.empty()) {
    lines.push_back(fmt::format("Without any result yet: {}.", join(arena.not_begun, ", ")));
  }
  return lines;
}

std::string text_of(const Grid& grid) {
  std::vector<std::size_t> widths(grid.is_number.size(), 0);
  for (const auto& line : grid.lines) {
    for (std::size_t i = 0; i < line.size(); ++i) {
      widths[i] = std::max(widths[i], tables::width_of(tables::one_line(line[i])));
    }
  }
  std::string text;
  const auto add = [&](const std::vector<std::string>& line) {
    std::string row;
    for (std::size_t i = 0; i < line.size(); ++i) {
      const std::string cell = tables::one_line(line[i]);
      const std::string padding(widths[i] - tables::width_of(cell), ' ');
      row += (i == 0 ? "" : "  ") + (grid.is_number[i] ? padding + cell : cell + padding);
    }
    text += row.substr(0, row.find_last_not_of(' ') + 1) + '\n';
  };
  for (std::size_t i = 0; i < grid.lines.size(); ++i) {
    add(grid.lines[i]);
    if (i == 0) {
      std::vector<std::string> rule;
      std::ranges::transform(widths, std::back_inserter(rule),
                             [](std::size_t width) { return std::string(width, '-'); });
      add(rule);
    }
  }
  return text;
}

std::string markdown_of(const Grid& grid) {
  std::string text;
  for (std::size_t i = 0; i < grid.lines.size(); ++i) {
    text += '|';
    for (const std::string& cell : grid.lines[i]) {
      text += fmt::format(" {} |", tables::markdown_escaped(cell));
    }
    text += '\n';
    if (i == 0) {
      text += '|';
      for (const bool number : grid.is_number) {
        text += number ? " ---: |" : " --- |";
      }
      text += '\n';
    }
  }
  return text;
}

std::string number(const std::optional<double>& value) {
  return tables::plain_number(value.has_value(), value.value_or(0.0));
}

std::string summary_csv(const Arena& arena) {
  std::string text =
      "method,uses_ground_truth,rank,wins,settings,runs,worst,worst_setting,bytes,seconds,"
      "reveals\n";
  for (const ArenaRow& row : arena.rows) {
    text +=
        fmt::format("{},{},{},{},{},{},{},{},{},{},{}\n", csv_field(tables::one_line(row.name)),
                    row.uses_truth ? "true" : "", number(row.rank),
                    row.uses_truth ? "" : fmt::format("{}", row.wins), row.settings, row.runs,
                    number(row.worst), csv_field(tables::one_line(row.worst_setting)),
                    number(row.bytes), number(row.seconds), csv_field(join(fields_of(row), " ")));
  }
  return text;
}

std::string settings_csv(const Arena& arena) {
  std::string text = "method,setting,runs,mean,difference,rank\n";
  for (const ArenaRow& row : arena.rows) {
    for (std::size_t i = 0; i < row.cells.size(); ++i) {
      const ArenaCell& cell = row.cells[i];
      text += fmt::format("{},{},{},{},{},{}\n", csv_field(tables::one_line(row.name)),
                          csv_field(tables::one_line(arena.settings[i])), cell.runs,
                          tables::plain_number(cell.runs > 0, cell.mean), number(cell.difference),
                          number(cell.rank));
    }
  }
  return text;
}

}  // namespace
}  // namespace arenas

const std::vector<std::string>& arena_formats() {
  static const std::vector<std::string> names{"text", "markdown", "csv", "json"};
  return names;
}

std::string render_arena(const Arena& arena, const ArenaLook& look) {
  if (std::ranges::count(arena_formats(), look.format) == 0) {
    throw Error(ErrorKind::usage, fmt::format("unknown format '{}'", look.format),
                suggestion(look.format, arena_formats()));
  }
  if (look.format == "json") {
    return arena_json(arena).dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
  }
  if (look.format == "csv") {
    return look.by_setting ? arenas::settings_csv(arena) : arenas::summary_csv(arena);
  }
  const arenas::Grid grid =
      look.by_setting ? arenas::settings_grid(arena) : arenas::summary_grid(arena);
  const std::vector<std::string> notes = arenas::notes(arena, look.by_setting);
  return look.format == "markdown"
             ? arenas::markdown_of(grid) + "\n" + tables::one_line(join(notes, " ")) + "\n"
             : arenas::text_of(grid) + join(notes, "\n") + "\n";
}

}  // namespace winnow
