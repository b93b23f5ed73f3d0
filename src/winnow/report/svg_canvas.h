// A picture in SVG that needs nothing from outside, and panels with axes on it.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace winnow {

// The colours of the report page on paper.
namespace ink {
inline constexpr std::string_view kText = "#1b1e22";
inline constexpr std::string_view kMuted = "#5c636b";
inline constexpr std::string_view kGrid = "#e3e5e3";
inline constexpr std::string_view kClean = "#2a6fb0";
inline constexpr std::string_view kNoisy = "#c4571b";
inline constexpr std::string_view kDistorted = "#7a55b5";
inline constexpr std::string_view kGood = "#17735f";
// The colour of the n-th method, as on the page.
std::string_view of_method(std::size_t number);
}  // namespace ink

struct TextLook {
  std::string_view anchor = "middle";
  double size = 12.0;
  bool bold = false;
  bool turned = false;  // upwards
  std::string_view colour = ink::kMuted;
};

// Texts may be anything; all other strings are of this program.
class SvgCanvas {
 public:
  SvgCanvas(double width, double height) : width_(width), height_(height) {}

  double width() const { return width_; }
  // `look` are attributes: fill="..." stroke="...".
  void path(std::string_view d, std::string_view look);
  void rect(double x, double y, double width, double height, std::string_view look);
  void text(double x, double y, std::string_view words, const TextLook& look = {});
  // A PNG file in base64; nothing is drawn when it is not that.
  void png(double x, double y, double width, double height, std::string_view base64);
  // Squares with the words beside them, in a line from (x, y).
  struct Key {
    std::string_view colour;
    std::string words;
  };
  void keys(double x, double y, const std::vector<Key>& keys);
  // The whole file; `title` says what it shows.
  std::string finish(std::string_view title) const;

 private:
  double width_;
  double height_;
  std::string body_;
};

struct Scale {
  double low = 0.0;
  double high = 1.0;
  std::string title = {};
  double factor = 1.0;  // that ticks are shown multiplied by: 100 for percent
  bool ticks = true;
  bool both_ways = false;  // ticks below 0 are shown without their sign
};

// From `low` to `high`, with some room and never empty.
Scale scale_around(const std::vector<double>& values, std::string title);

// About `count` round numbers from low to high.
std::vector<double> round_ticks(double low, double high, int count);

// A part of a canvas with two axes, drawn when it is made.
class PlotPanel {
 public:
  struct Area {
    double left = 0.0;
    double top = 0.0;
    double right = 0.0;
    double bottom = 0.0;
  };
  PlotPanel(SvgCanvas& canvas, const Area& area, const Scale& x, const Scale& y,
            std::string_view heading = {});

  double x(double value) const;
  double y(double value) const;
  const Area& area() const { return area_; }
  // "M x y L x y ..." through the points, which lie inside the area.
  std::string line(const std::vector<std::pair<double, double>>& points) const;
  // A closed bar from (x0, y0) to (x1, y1) in values.
  std::string bar(double x0, double y0, double x1, double y1) const;
  // A circle of `radius` pixels around a point.
  std::string dot(double x, double y, double radius) const;

 private:
  Area area_;
  Scale x_;
  Scale y_;
};

// A matrix of shares as squares: deeper colours for larger values.
struct Cell {
  double share = 0.0;  // 0 to 1
  bool off = false;    // drawn in the other colour
};
struct Matrix {
  std::vector<std::string> names = {};  // of rows and columns alike
  std::vector<std::vector<Cell>> cells = {};
  std::string row_title = {};
  std::string column_title = {};
  std::string heading = {};
};
// A square of `side` pixels without names and titles, which need 40 more at the left and below.
void draw_matrix(SvgCanvas& canvas, double left, double top, double side, const Matrix& matrix);

}  // namespace winnow
