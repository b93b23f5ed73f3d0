// The differences of an arena as a picture.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "winnow/base/checked_json.h"
#include "winnow/report/arena.h"
#include "winnow/report/drawn_text.h"
#include "winnow/report/svg_canvas.h"

namespace winnow {
namespace arenas {
namespace {

constexpr double kWide = 50.0;  // of a cell
constexpr double kTall = 20.0;
constexpr double kGlyph = 6.6;  // width of a letter
constexpr double kTop = 40.0;
constexpr double kGap = 8.0;  // between ranked methods and bounds

struct Row {
  std::string name;
  bool bound = false;
  std::vector<std::optional<double>> values = {};
};

std::vector<Row> rows_of(const CheckedJson& arena, std::size_t settings) {
  std::vector<Row> rows;
  for (const CheckedJson& method : arena.at("methods").elements()) {
    Row row{method.at("name").text(), method.at("uses_ground_truth").truth(), {}};
    const std::vector<CheckedJson> cells = method.at("cells").elements();
    for (std::size_t i = 0; i < settings; ++i) {
      std::optional<double> value;
      if (i < cells.size() && !cells[i].is_null() && !cells[i].at("difference").is_null()) {
        value = cells[i].at("difference").number(-100.0, 100.0);
      }
      row.values.push_back(value);
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

// Small differences are the usual ones: the root makes them visible.
double depth(double points, double largest) {
  return largest > 0.0 ? 0.9 * std::sqrt(std::abs(points) / largest) : 0.0;
}

double room_for(std::size_t letters) {
  return 12.0 + kGlyph * static_cast<double>(letters);
}

void draw_row(SvgCanvas& canvas, const Row& row, double left, double y, double largest) {
  canvas.text(left - 8.0, y + 14.0, row.name,
              {.anchor = "end", .size = 11.5, .colour = row.bound ? ink::kMuted : ink::kText});
  for (std::size_t i = 0; i < row.values.size(); ++i) {
    const double x = left + kWide * static_cast<double>(i);
    const double share = row.values[i] ? depth(*row.values[i], largest) : 0.0;
    if (share > 0.0) {
      canvas.rect(x, y, kWide, kTall,
                  fmt::format("fill=\"{}\" fill-opacity=\"{:.2f}\"",
                              *row.values[i] < 0.0 ? ink::kNoisy : ink::kClean, share));
    }
    const std::string words = row.values[i] ? fmt::format("{:+.1f}", *row.values[i]) : "-";
    canvas.text(x + kWide / 2.0, y + 14.0, words,
                {.size = 11.0, .colour = share > 0.6 ? "#ffffff" : ink::kText});
  }
}

}  // namespace
}  // namespace arenas

std::string arena_svg(const Json& arena) {
  const CheckedJson all(arena, "arena");
  const std::string reference = all.at("reference").text();
  std::vector<std::string> settings;
  std::size_t longest_setting = 0;
  for (const CheckedJson& setting : all.at("settings").elements()) {
    settings.push_back(setting.text());
    longest_setting = std::max(longest_setting, length_of(clean(settings.back())));
  }
  const std::vector<arenas::Row> rows = arenas::rows_of(all, settings.size());
  std::size_t longest_name = 0;
  double largest = 0.0;
  for (const arenas::Row& row : rows) {
    longest_name = std::max(longest_name, length_of(clean(row.name)));
    for (const auto& value : row.values) {
      largest = std::max(largest, std::abs(value.value_or(0.0)));
    }
  }
  const double left = arenas::room_for(longest_name);
  const double height = arenas::kTop + arenas::kTall * static_cast<double>(rows.size()) +
                        arenas::kGap + arenas::room_for(longest_setting) + 24.0;
  const double across = arenas::kWide * static_cast<double>(settings.size());
  const std::string title = fmt::format("Points above (blue) or below (orange) {}", reference);
  SvgCanvas canvas(std::max(left + across + 16.0, arenas::room_for(title.size()) + 16.0), height);
  canvas.text(8.0, 22.0, title,
              {.anchor = "start", .size = 13.0, .bold = true, .colour = ink::kText});
  double y = arenas::kTop;
  bool bounds = false;
  for (const arenas::Row& row : rows) {
    y += row.bound && !bounds ? arenas::kGap : 0.0;
    bounds = bounds || row.bound;
    arenas::draw_row(canvas, row, left, y, largest);
    y += arenas::kTall;
  }
  canvas.rect(left, arenas::kTop, across, y - arenas::kTop,
              fmt::format("fill=\"none\" stroke=\"{}\"", ink::kGrid));
  for (std::size_t i = 0; i < settings.size(); ++i) {
    canvas.text(left + arenas::kWide * (static_cast<double>(i) + 0.5) + 4.0, y + 8.0, settings[i],
                {.anchor = "end", .size = 11.5, .turned = true});
  }
  return canvas.finish(
      fmt::format("Methods against settings: points above or below {}", reference));
}

}  // namespace winnow
