#include "winnow/report/figures_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numbers>
#include <numeric>

#include "winnow/base/error.h"
#include "winnow/base/text.h"

namespace winnow::figures {
namespace {

std::int64_t client_number(const std::string& digits, const CheckedJson& value) {
  std::int64_t client = -1;
  const char* end = digits.data() + digits.size();
  const auto [rest, failed] = std::from_chars(digits.data(), end, client);
  if (failed != std::errc() || rest != end || client < 0) {
    throw Error(ErrorKind::run, fmt::format("{}: expected the number of a client", value.name()));
  }
  return client;
}

double normal_density(double x, double mean, double variance) {
  return std::exp(-(x - mean) * (x - mean) / (2.0 * variance)) /
         std::sqrt(2.0 * std::numbers::pi * variance);
}

struct Component {
  double mean = 0.0;
  double variance = 1.0;
  double weight = 0.0;
};

std::vector<Component> mixture_of(const CheckedJson& score) {
  std::vector<Component> components;
  if (const auto mixture = score.find("mixture")) {
    const auto means = mixture->at("means").elements();
    const auto variances = mixture->at("variances").elements();
    const auto weights = mixture->at("weights").elements();
    for (std::size_t k = 0; k < std::min({means.size(), variances.size(), weights.size()}); ++k) {
      components.push_back(
          {means[k].number(), variances[k].number(1e-300), weights[k].number(0.0, 1.0)});
    }
  }
  return components;
}

}  // namespace

std::optional<bool> Truth::is_noisy(std::int64_t client) const {
  const auto place = static_cast<std::size_t>(client);
  return place < noisy.size() ? noisy[place] : std::nullopt;
}

std::optional<double> Truth::noise_of(std::int64_t client) const {
  const auto place = static_cast<std::size_t>(client);
  return place < noise.size() ? noise[place] : std::nullopt;
}

std::vector<Group> groups_of(const ByClient& values, const Truth& truth) {
  std::vector<Group> groups{{ink::kClean, "truly clean", {}},
                            {ink::kNoisy, "truly noisy", {}},
                            {ink::kClean, "clients", {}}};
  for (const auto& [client, value] : values) {
    const std::optional<bool> noisy = truth.is_noisy(client);
    groups[noisy ? (*noisy ? 1 : 0) : 2].values.push_back(value);
  }
  std::erase_if(groups, [](const Group& group) { return group.values.empty(); });
  return groups;
}

std::vector<SvgCanvas::Key> keys_of(const std::vector<Group>& groups) {
  std::vector<SvgCanvas::Key> keys;
  for (const Group& group : groups) {
    keys.push_back({group.colour, group.words});
  }
  return keys;
}

ByClient numbers_by_client(const CheckedJson& json) {
  ByClient values;
  for (const auto& [digits, value] : json.members()) {
    if (!value.is_null()) {
      values[client_number(digits, value)] = value.number();
    }
  }
  return values;
}

std::vector<std::vector<double>> square_of(const CheckedJson& json) {
  std::vector<std::vector<double>> rows;
  const std::vector<CheckedJson> all = json.elements();
  for (const CheckedJson& row : all) {
    std::vector<double>& numbers = rows.emplace_back();
    for (const CheckedJson& value : row.elements()) {
      numbers.push_back(value.number());
    }
    if (numbers.size() != all.size()) {
      throw Error(ErrorKind::run, fmt::format("{}: expected {} numbers", row.name(), all.size()));
    }
  }
  return rows;
}

void draw_histogram(SvgCanvas& canvas, const PlotPanel::Area& area,
                    const std::vector<Group>& groups, const CheckedJson& score,
                    const std::string& x_title, const std::string& heading) {
  std::vector<double> all;
  for (const Group& group : groups) {
    all.insert(all.end(), group.values.begin(), group.values.end());
  }
  if (all.empty()) {
    return;
  }
  const auto [low, high] = std::ranges::minmax(all);
  const auto bins = static_cast<std::size_t>(
      std::clamp(std::ceil(2.0 * std::sqrt(static_cast<double>(all.size()))), 8.0, 40.0));
  const double width = high > low ? (high - low) / static_cast<double>(bins) : 1.0;
  std::vector<std::vector<double>> tops(groups.size() + 1, std::vector<double>(bins));
  for (std::size_t g = 0; g < groups.size(); ++g) {
    tops[g + 1] = tops[g];
    for (const double value : groups[g].values) {
      const double place = (value - low) / width;  // not a number where the range overflows
      const double inside = place >= 0.0 ? std::min(place, static_cast<double>(bins - 1)) : 0.0;
      tops[g + 1][static_cast<std::size_t>(inside)] += 1.0;
    }
  }
  const double most = std::ranges::max(tops.back());
  const double end = low + width * static_cast<double>(bins);
  const std::vector<Component> mixture = mixture_of(score);
  const auto height = [&](const Component& component, double x) {
    return static_cast<double>(all.size()) * width * component.weight *
           normal_density(x, component.mean, component.variance);
  };
  // Room for the mixture's peaks, unless they would press the bars flat.
  double top = most;
  for (const Component& component : mixture) {
    top = std::max(top, std::min(1.6 * most, height(component, component.mean)));
  }
  const PlotPanel panel(canvas, area, {.low = low, .high = end, .title = x_title},
                        {.low = 0.0, .high = top, .title = "clients"}, heading);
  for (std::size_t g = 0; g < groups.size(); ++g) {
    std::string d;
    for (std::size_t bin = 0; bin < bins; ++bin) {
      const double from = low + width * static_cast<double>(bin);
      d += panel.bar(from + 0.06 * width, tops[g][bin], from + 0.94 * width, tops[g + 1][bin]);
    }
    canvas.path(d, fmt::format("fill=\"{}\" fill-opacity=\"0.75\"", groups[g].colour));
  }
  constexpr int kPlaces = 160;
  for (const Component& component : mixture) {
    Points points;
    for (int i = 0; i <= kPlaces; ++i) {
      const double x = low + (end - low) * i / kPlaces;
      points.emplace_back(x, height(component, x));
    }
    canvas.path(panel.line(points), fmt::format("fill=\"none\" stroke=\"{}\" stroke-width=\"1.5\" "
                                                "stroke-dasharray=\"5 4\"",
                                                ink::kText));
  }
}

Matrix confusion_matrix(const std::vector<std::vector<double>>& counts,
                        const std::vector<std::string>& names, const std::string& heading) {
  Matrix matrix{.row_title = "true class", .column_title = "label"};
  double right = 0.0;
  double all = 0.0;
  for (std::size_t row = 0; row < counts.size(); ++row) {
    const double total = std::accumulate(counts[row].begin(), counts[row].end(), 0.0);
    matrix.names.push_back(row < names.size() ? names[row] : std::to_string(row));
    std::vector<Cell>& cells = matrix.cells.emplace_back();
    for (std::size_t column = 0; column < counts[row].size(); ++column) {
      const double share = std::clamp(counts[row][column] / std::max(1.0, total), 0.0, 1.0);
      // Wrong labels are few beside the right ones: the root makes them visible.
      cells.push_back(row == column ? Cell{share, false} : Cell{0.9 * std::sqrt(share), true});
    }
    right += counts[row][row];
    all += total;
  }
  matrix.heading = fmt::format("{}: {} right", heading, percent_text(right / std::max(1.0, all)));
  return matrix;
}

Points density_of(const std::vector<double>& values, double low, double high, int count) {
  std::vector<double> sorted = values;
  std::ranges::sort(sorted);
  const auto quarter = [&](double share) {
    return sorted[static_cast<std::size_t>(share * static_cast<double>(sorted.size() - 1))];
  };
  const auto size = static_cast<double>(values.size());
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / size;
  double squares = 0.0;
  for (const double value : values) {
    squares += (value - mean) * (value - mean);
  }
  const double deviation = size > 1.0 ? std::sqrt(squares / (size - 1.0)) : 0.0;
  const double range = (quarter(0.75) - quarter(0.25)) / 1.34;
  const double typical = range > 0.0 ? std::min(deviation, range) : deviation;
  const double width = std::max({0.9 * typical * std::pow(size, -0.2), (high - low) / 200.0, 1e-9});
  Points points;
  for (int i = 0; i < count; ++i) {
    const double x = low + (high - low) * i / (count - 1);
    double sum = 0.0;
    for (const double value : values) {
      sum += normal_density(x, value, width * width);
    }
    points.emplace_back(x, sum / size);
  }
  return points;
}

}  // namespace winnow::figures
