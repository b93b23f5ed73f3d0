// What the pictures of report_files() are put together from.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "winnow/base/checked_json.h"
#include "winnow/report/svg_canvas.h"

namespace winnow::figures {

using ByClient = std::map<std::int64_t, double>;
using Points = std::vector<std::pair<double, double>>;

// What is known of the clients of a run; nothing where the truth is not.
struct Truth {
  std::vector<std::optional<bool>> noisy = {};
  std::vector<std::optional<double>> noise = {};  // share of noisy samples
  std::vector<std::vector<double>> classes = {};  // samples of every true class
  std::vector<std::string> class_names = {};

  std::optional<bool> is_noisy(std::int64_t client) const;
  std::optional<double> noise_of(std::int64_t client) const;
};

// Values that belong together, in one colour.
struct Group {
  std::string_view colour;
  std::string words;
  std::vector<double> values;
};
// Of truly clean, truly noisy and other clients, without empty ones.
std::vector<Group> groups_of(const ByClient& values, const Truth& truth);
std::vector<SvgCanvas::Key> keys_of(const std::vector<Group>& groups);

ByClient numbers_by_client(const CheckedJson& json);
std::vector<std::vector<double>> square_of(const CheckedJson& json);

// A histogram of the groups on top of each other, with the two components of a mixture where
// `score` has one.
void draw_histogram(SvgCanvas& canvas, const PlotPanel::Area& area,
                    const std::vector<Group>& groups, const CheckedJson& score,
                    const std::string& x_title, const std::string& heading);

// Counts [true][label] as shares of the true class.
Matrix confusion_matrix(const std::vector<std::vector<double>>& counts,
                        const std::vector<std::string>& names, const std::string& heading);

// Normal distributions around the values, as wide as Silverman's rule says, at `count` places from
// `low` to `high`.
Points density_of(const std::vector<double>& values, double low, double high, int count);

// One picture for everything that a run has data for.
struct RunPicture {
  std::string name;  // may be anything
  std::string svg;
};
std::vector<RunPicture> run_pictures(const CheckedJson& run, const Truth& truth);

}  // namespace winnow::figures
