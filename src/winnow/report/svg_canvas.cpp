#include "winnow/report/svg_canvas.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <map>

#include "winnow/report/drawn_text.h"

namespace winnow {
namespace {

constexpr double kLetter = 6.7;  // mean width at 12 pixels, on the safe side

std::string tick_text(double value) {
  const double rounded = std::abs(value) < 1e-12 ? 0.0 : value;
  return fmt::format("{:.4g}", rounded);
}

std::string shortened(std::string_view words, std::size_t most) {
  std::string cleaned = clean(words);
  if (length_of(cleaned) <= most) {
    return cleaned;
  }
  std::size_t end = 0;
  for (std::size_t taken = 0; taken + 1 < most; ++taken) {
    do {
      ++end;
    } while (end < cleaned.size() && (cleaned[end] & 0xc0) == 0x80);
  }
  return cleaned.substr(0, end) + "…";
}

}  // namespace

std::string_view ink::of_method(std::size_t number) {
  constexpr std::array<std::string_view, 8> kHues{"#1f62ac", "#c9551c", "#12806a", "#a8357f",
                                                  "#8a6a00", "#3193cf", "#7650bd", "#6a6f76"};
  return kHues.at(number % kHues.size());
}

void SvgCanvas::path(std::string_view d, std::string_view look) {
  if (!d.empty()) {
    fmt::format_to(std::back_inserter(body_), "<path d=\"{}\" {}/>\n", d, look);
  }
}

void SvgCanvas::rect(double x, double y, double width, double height, std::string_view look) {
  fmt::format_to(std::back_inserter(body_),
                 "<rect x=\"{:.2f}\" y=\"{:.2f}\" width=\"{:.2f}\" height=\"{:.2f}\" {}/>\n", x, y,
                 width, height, look);
}

void SvgCanvas::text(double x, double y, std::string_view words, const TextLook& look) {
  const std::string turn =
      look.turned ? fmt::format(" transform=\"rotate(-90 {:.1f} {:.1f})\"", x, y) : "";
  fmt::format_to(std::back_inserter(body_),
                 "<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\" font-size=\"{}\"{} "
                 "fill=\"{}\"{}>{}</text>\n",
                 x, y, look.anchor, look.size, look.bold ? " font-weight=\"bold\"" : "",
                 look.colour, turn, escaped(words));
}

void SvgCanvas::png(double x, double y, double width, double height, std::string_view base64) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=";
  if (base64.find_first_not_of(kDigits) == std::string_view::npos) {
    fmt::format_to(std::back_inserter(body_),
                   "<image x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" "
                   "style=\"image-rendering: pixelated\" href=\"data:image/png;base64,{}\"/>\n",
                   x, y, width, height, base64);
  }
}

void SvgCanvas::keys(double x, double y, const std::vector<Key>& keys) {
  for (const Key& key : keys) {
    rect(x, y - 9.0, 10.0, 10.0, fmt::format("fill=\"{}\"", key.colour));
    text(x + 15.0, y, key.words, {.anchor = "start"});
    x += 34.0 + kLetter * static_cast<double>(length_of(clean(key.words)));
  }
}

std::string SvgCanvas::finish(std::string_view title) const {
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:.0f} {1:.0f}\" "
      "width=\"{0:.0f}\" height=\"{1:.0f}\" role=\"img\" "
      "font-family=\"system-ui, 'Segoe UI', Roboto, 'Noto Sans', sans-serif\">\n"
      "<title>{2}</title>\n<rect width=\"{0:.0f}\" height=\"{1:.0f}\" fill=\"#ffffff\"/>\n{3}"
      "</svg>\n",
      width_, height_, escaped(title), body_);
}

Scale scale_around(const std::vector<double>& values, std::string title) {
  Scale scale{.title = std::move(title)};
  if (!values.empty()) {
    const auto [low, high] = std::ranges::minmax(values);
    const double room = high > low ? 0.05 * (high - low) : 0.5;
    scale.low = low - room;
    scale.high = high + room;
  }
  return scale;
}

std::vector<double> round_ticks(double low, double high, int count) {
  const double span = high - low;
  if (!(span > 0.0) || !std::isfinite(span)) {
    return {low};
  }
  const double power = std::pow(10.0, std::floor(std::log10(span / count)));
  double step = 10.0 * power;
  for (const double factor : {5.0, 2.0, 1.0}) {
    step = span / (factor * power) <= count ? factor * power : step;
  }
  std::vector<double> ticks;
  const double first = std::ceil(low / step - 1e-9);
  const double last = std::floor(high / step + 1e-9);
  for (int i = 0; i <= count && first + i <= last; ++i) {
    ticks.push_back((first + i) * step);
  }
  return ticks;
}

PlotPanel::PlotPanel(SvgCanvas& canvas, const Area& area, const Scale& x, const Scale& y,
                     std::string_view heading)
    : area_(area), x_(x), y_(y) {
  constexpr double kTickSpace = 62.0;
  canvas.text(area.left, area.top - 10.0, heading,
              {.anchor = "start", .size = 13.0, .bold = true, .colour = ink::kText});
  const auto ticks = [](const Scale& scale, int count) {
    return scale.ticks ? round_ticks(scale.low * scale.factor, scale.high * scale.factor, count)
                       : std::vector<double>();
  };
  for (const double tick : ticks(y_, 5)) {
    const double at = this->y(tick / y_.factor);
    canvas.path(fmt::format("M{:.1f} {:.1f}H{:.1f}", area.left, at, area.right),
                fmt::format("stroke=\"{}\"", ink::kGrid));
    canvas.text(area.left - 6.0, at + 4.0, tick_text(y_.both_ways ? std::abs(tick) : tick),
                {.anchor = "end"});
  }
  const int across = std::max(2, static_cast<int>((area.right - area.left) / kTickSpace));
  for (const double tick : ticks(x_, across)) {
    canvas.text(this->x(tick / x_.factor), area.bottom + 16.0, tick_text(tick));
  }
  canvas.path(fmt::format("M{:.1f} {:.1f}H{:.1f}", area.left, area.bottom, area.right),
              fmt::format("stroke=\"{}\"", ink::kMuted));
  canvas.text((area.left + area.right) / 2.0, area.bottom + 33.0, x.title);
  canvas.text(area.left - 40.0, (area.top + area.bottom) / 2.0, y.title, {.turned = true});
}

double PlotPanel::x(double value) const {
  return area_.left + (area_.right - area_.left) * (value - x_.low) / (x_.high - x_.low);
}

double PlotPanel::y(double value) const {
  return area_.bottom - (area_.bottom - area_.top) * (value - y_.low) / (y_.high - y_.low);
}

std::string PlotPanel::line(const std::vector<std::pair<double, double>>& points) const {
  std::string d;
  for (const auto& [x_value, y_value] : points) {
    fmt::format_to(std::back_inserter(d), "{}{:.1f} {:.1f}", d.empty() ? "M" : "L", x(x_value),
                   std::clamp(y(y_value), area_.top, area_.bottom));
  }
  return d;
}

std::string PlotPanel::bar(double x0, double y0, double x1, double y1) const {
  return y0 == y1 ? ""
                  : fmt::format("M{:.2f} {:.2f}H{:.2f}V{:.2f}H{:.2f}z", x(x0), y(y0), x(x1), y(y1),
                                x(x0));
}

std::string PlotPanel::dot(double x_value, double y_value, double radius) const {
  return fmt::format("M{0:.2f} {1:.2f}a{2} {2} 0 1 0 {3} 0a{2} {2} 0 1 0 -{3} 0",
                     x(x_value) - radius, y(y_value), radius, 2.0 * radius);
}

// One path for every colour and level instead of an element for every cell.
void draw_matrix(SvgCanvas& canvas, double left, double top, double side, const Matrix& matrix) {
  constexpr int kLevels = 10;
  constexpr std::size_t kLongestName = 12;
  const auto count = static_cast<double>(std::max<std::size_t>(1, matrix.names.size()));
  const double size = side / count;
  std::map<std::pair<bool, int>, std::string> paths;
  for (std::size_t row = 0; row < matrix.cells.size(); ++row) {
    for (std::size_t column = 0; column < matrix.cells[row].size(); ++column) {
      const Cell& cell = matrix.cells[row][column];
      const int level =
          cell.share > 0.0 ? std::max(1, static_cast<int>(std::lround(cell.share * kLevels))) : 0;
      if (level > 0) {
        fmt::format_to(std::back_inserter(paths[{cell.off, level}]),
                       "M{0:.2f} {1:.2f}h{2:.2f}v{2:.2f}h-{2:.2f}z",
                       left + static_cast<double>(column) * size,
                       top + static_cast<double>(row) * size, size);
      }
    }
  }
  for (const auto& [key, d] : paths) {
    canvas.path(
        d, fmt::format("fill=\"{}\" fill-opacity=\"{:.1f}\"", key.first ? ink::kNoisy : ink::kClean,
                       static_cast<double>(key.second) / kLevels));
  }
  canvas.rect(left, top, side, side, fmt::format("fill=\"none\" stroke=\"{}\"", ink::kGrid));
  std::size_t longest = 0;
  for (const std::string& name : matrix.names) {
    longest = std::max(longest, std::min(kLongestName, length_of(clean(name))));
  }
  const auto every = static_cast<std::size_t>(std::max(1.0, std::ceil(13.0 / size)));
  const bool flat = kLetter * static_cast<double>(longest) < size * static_cast<double>(every);
  for (std::size_t i = 0; i < matrix.names.size(); i += every) {
    const double middle = (static_cast<double>(i) + 0.5) * size;
    const std::string name = shortened(matrix.names[i], kLongestName);
    canvas.text(left - 5.0, top + middle + 4.0, name, {.anchor = "end", .size = 11.0});
    if (flat) {
      canvas.text(left + middle, top + side + 14.0, name, {.size = 11.0});
    } else {
      canvas.text(left + middle + 4.0, top + side + 6.0, name,
                  {.anchor = "end", .size = 11.0, .turned = true});
    }
  }
  const double room = flat ? 18.0 : 8.0 + 6.2 * static_cast<double>(longest);
  canvas.text(left, top - 10.0, matrix.heading,
              {.anchor = "start", .size = 13.0, .bold = true, .colour = ink::kText});
  canvas.text(left + side / 2.0, top + side + room + 14.0, matrix.column_title);
  canvas.text(left - 12.0 - 6.2 * static_cast<double>(longest), top + side / 2.0, matrix.row_title,
              {.turned = true});
}

}  // namespace winnow
