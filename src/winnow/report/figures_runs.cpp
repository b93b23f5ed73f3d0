// The pictures of one run.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "winnow/report/drawn_text.h"
#include "winnow/report/figures_parts.h"

namespace winnow::figures {
namespace {

constexpr double kPlotHeight = 240.0;

std::string score_title(const std::string& name) {
  static const std::map<std::string, std::string> titles{
      {"lid", "LID"},
      {"lid_cumulative", "Cumulative LID"},
      {"ncs", "NCS"},
      {"gradient_norm", "Gradient norm"},
      {"expertise", "Expertise"},
      {"local_accuracy", "Test accuracy of the client's own model"},
      {"local_accuracy_own", "Test accuracy of the client's own model, on its classes"}};
  const auto found = titles.find(name);
  if (found != titles.end()) {
    return found->second;
  }
  std::string words = name;
  std::ranges::replace(words, '_', ' ');
  return words;
}

// The distribution of a score, and every client's score against its noise.
std::string score_picture(const std::string& title, const CheckedJson& score, const Truth& truth) {
  const ByClient values = numbers_by_client(score.at("by_client"));
  const std::vector<Group> groups = groups_of(values, truth);
  SvgCanvas canvas(880.0, 350.0);
  draw_histogram(canvas, {60.0, 60.0, 420.0, 60.0 + kPlotHeight}, groups, score, title,
                 "Distribution");
  std::vector<double> all;
  std::map<std::string_view, std::string> dots;
  for (const auto& [client, value] : values) {
    all.push_back(value);
  }
  const Scale y = scale_around(all, "score");
  const PlotPanel panel(canvas, {510.0, 60.0, 865.0, 60.0 + kPlotHeight},
                        {.low = -0.02, .high = 1.02, .title = "noisy samples (%)", .factor = 100.0},
                        y, "Against the noise of the client");
  for (const auto& [client, value] : values) {
    if (const auto noise = truth.noise_of(client)) {
      dots[truth.is_noisy(client).value_or(false) ? ink::kNoisy : ink::kClean] +=
          panel.dot(*noise, value, 3.2);
    }
  }
  for (const auto& [colour, d] : dots) {
    canvas.path(d, fmt::format("fill=\"{}\" fill-opacity=\"0.75\"", colour));
  }
  canvas.keys(60.0, 20.0, keys_of(groups));
  return canvas.finish(title);
}

std::string series_picture(const std::string& title, const CheckedJson& series,
                           const Truth& truth) {
  const std::vector<CheckedJson> times = series.elements();
  constexpr std::size_t kAcross = 5;
  constexpr double kWide = 230.0;
  constexpr double kTall = 210.0;
  const std::size_t columns = std::max<std::size_t>(1, std::min(kAcross, times.size()));
  const std::size_t rows = (times.size() + columns - 1) / columns;
  SvgCanvas canvas(kWide * static_cast<double>(columns) + 20.0,
                   40.0 + kTall * static_cast<double>(rows));
  for (std::size_t time = 0; time < times.size(); ++time) {
    const std::vector<Group> groups =
        groups_of(numbers_by_client(times[time].at("by_client")), truth);
    const double left = kWide * static_cast<double>(time % columns) + 55.0;
    const std::size_t row = time / columns;
    const double top = 60.0 + kTall * static_cast<double>(row);
    draw_histogram(canvas, {left, top, left + kWide - 70.0, top + kTall - 80.0}, groups,
                   times[time], title, fmt::format("Iteration {}", time + 1));
    if (time == 0) {
      canvas.keys(55.0, 20.0, keys_of(groups));
    }
  }
  return canvas.finish(title);
}

// Clients by their first level, the largest first.
std::vector<std::int64_t> by_level(const ByClient& levels) {
  std::vector<std::int64_t> clients;
  for (const auto& [client, level] : levels) {
    clients.push_back(client);
  }
  std::ranges::stable_sort(clients, std::ranges::greater(),
                           [&](std::int64_t client) { return levels.at(client); });
  return clients;
}

ByClient estimates_of(const CheckedJson& run) {
  ByClient estimates;
  const auto findings = run.find("findings");
  const auto levels = findings ? findings->find("noise_levels") : std::nullopt;
  if (levels) {
    Json flat = Json::object();
    for (const auto& [client, level] : levels->members()) {
      flat[client] = level.at("estimated").json();
    }
    estimates = numbers_by_client(CheckedJson(flat, levels->name()));
  }
  return estimates;
}

struct NamedLevels {
  std::string words;
  ByClient levels;
};

// The first as bars, the others as lines across them, the estimates as rings.
std::string levels_picture(const std::vector<NamedLevels>& times, const ByClient& estimates,
                           const std::string& title) {
  constexpr std::array<std::string_view, 3> kColours{ink::kNoisy, ink::kGood, ink::kText};
  const std::vector<std::int64_t> clients = by_level(times.front().levels);
  SvgCanvas canvas(900.0, 340.0);
  const PlotPanel panel(canvas, {60.0, 50.0, 885.0, 50.0 + kPlotHeight},
                        {.low = 0.0,
                         .high = std::max(1.0, static_cast<double>(clients.size())),
                         .title = "clients, the noisiest first",
                         .ticks = false},
                        {.title = "wrong or distorted samples (%)", .factor = 100.0});
  std::vector<SvgCanvas::Key> keys;
  for (std::size_t time = 0; time < std::min(times.size(), kColours.size()); ++time) {
    std::string d;
    for (std::size_t i = 0; i < clients.size(); ++i) {
      const auto level = times[time].levels.find(clients[i]);
      const double from = static_cast<double>(i) + 0.14;
      if (level != times[time].levels.end()) {
        d += time == 0 ? panel.bar(from, 0.0, from + 0.72, level->second)
                       : panel.line({{from, level->second}, {from + 0.72, level->second}});
      }
    }
    canvas.path(d, time == 0
                       ? fmt::format("fill=\"{}\" fill-opacity=\"0.6\"", kColours[time])
                       : fmt::format("fill=\"none\" stroke=\"{}\" stroke-width=\"2.5\"{}",
                                     kColours[time], time > 1 ? " stroke-dasharray=\"3 2\"" : ""));
    keys.push_back({kColours[time], times[time].words});
  }
  std::string rings;
  for (std::size_t i = 0; i < clients.size(); ++i) {
    if (const auto level = estimates.find(clients[i]); level != estimates.end()) {
      rings += panel.dot(static_cast<double>(i) + 0.5, level->second, 3.0);
    }
  }
  if (!rings.empty()) {
    canvas.path(rings,
                fmt::format("fill=\"#ffffff\" stroke=\"{}\" stroke-width=\"1.5\"", ink::kText));
    keys.push_back({ink::kMuted, "estimated by the method (rings)"});
  }
  canvas.keys(60.0, 20.0, keys);
  return canvas.finish(title);
}

std::string time_words(const CheckedJson& time) {
  const std::string name = time.at("name").text();
  return name == "start" ? "at the start" : "after " + name;
}

std::string splits_picture(const CheckedJson& splits, const std::string& when) {
  std::vector<std::string> clients;
  std::vector<std::array<double, 4>> counts;
  for (const auto& [client, split] : splits.members()) {
    const std::vector<CheckedJson> numbers = split.elements();
    clients.push_back(client);
    std::array<double, 4>& own = counts.emplace_back();
    for (std::size_t k = 0; k < std::min(own.size(), numbers.size()); ++k) {
      own.at(k) = static_cast<double>(numbers[k].count());
    }
  }
  double highest = 1.0;
  double deepest = 0.0;
  for (const auto& [found, false_alarms, missed, left_alone] : counts) {
    highest = std::max(highest, found + missed);
    deepest = std::max(deepest, false_alarms);
  }
  SvgCanvas canvas(900.0, 340.0);
  const PlotPanel panel(canvas, {60.0, 50.0, 885.0, 50.0 + kPlotHeight},
                        {.low = 0.0,
                         .high = static_cast<double>(clients.size()),
                         .title = "clients that the method took for noisy",
                         .ticks = false},
                        {.low = -std::max(deepest, 0.08 * highest),
                         .high = highest,
                         .title = "samples (downwards: right ones)",
                         .both_ways = true});
  std::string found_bars;
  std::string missed_bars;
  std::string false_bars;
  const auto every = std::max<std::size_t>(1, clients.size() / 30);
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const auto& [found, false_alarms, missed, left_alone] = counts[i];
    const double from = static_cast<double>(i) + 0.14;
    found_bars += panel.bar(from, 0.0, from + 0.72, found);
    missed_bars += panel.bar(from, found, from + 0.72, found + missed);
    false_bars += panel.bar(from, 0.0, from + 0.72, -false_alarms);
    if (i % every == 0) {
      canvas.text(panel.x(from + 0.36), panel.area().bottom + 16.0, clients[i]);
    }
  }
  const auto filled = [](std::string_view colour) {
    return fmt::format("fill=\"{}\" fill-opacity=\"0.75\"", colour);
  };
  canvas.path(found_bars, filled(ink::kGood));
  canvas.path(missed_bars, filled(ink::kNoisy));
  canvas.path(false_bars, filled(ink::kDistorted));
  canvas.path(panel.line({{0.0, 0.0}, {static_cast<double>(clients.size()), 0.0}}),
              fmt::format("stroke=\"{}\"", ink::kMuted));
  canvas.keys(60.0, 20.0,
              {{ink::kGood, "wrong and found"},
               {ink::kNoisy, "wrong and missed"},
               {ink::kDistorted, "right, but suspected"}});
  return canvas.finish("Wrong labels that clients found, " + when);
}

// Clients below each other, times beside each other.
std::string client_confusions_picture(const std::vector<CheckedJson>& times) {
  constexpr double kSide = 210.0;
  constexpr double kStep = 300.0;
  std::vector<std::string> clients;
  for (const auto& [client, square] : times.front().at("confusions").members()) {
    clients.push_back(client);
  }
  SvgCanvas canvas(kStep * static_cast<double>(times.size()) + 20.0,
                   kStep * static_cast<double>(clients.size()) + 20.0);
  for (std::size_t row = 0; row < clients.size(); ++row) {
    for (std::size_t column = 0; column < times.size(); ++column) {
      const auto confusions = times[column].find("confusions");
      const auto square = confusions ? confusions->find(clients[row]) : std::nullopt;
      if (square) {
        draw_matrix(
            canvas, 60.0 + kStep * static_cast<double>(column),
            35.0 + kStep * static_cast<double>(row), kSide,
            confusion_matrix(square_of(*square), {},
                             fmt::format("Client {} {}", clients[row], time_words(times[column]))));
      }
    }
  }
  return canvas.finish("Labels of some clients against the truth");
}

std::string confusion_picture(const CheckedJson& confusion, const Truth& truth) {
  constexpr double kSide = 380.0;
  const auto after = confusion.find("after");
  SvgCanvas canvas(after ? 1040.0 : 520.0, 560.0);
  draw_matrix(
      canvas, 110.0, 50.0, kSide,
      confusion_matrix(square_of(confusion.at("before")), truth.class_names, "Given labels"));
  if (after) {
    draw_matrix(canvas, 630.0, 50.0, kSide,
                confusion_matrix(square_of(*after), truth.class_names, "After repair"));
  }
  return canvas.finish("Labels against the truth");
}

// By the two classes that clients hold most of.
std::vector<std::size_t> order_by_class(const std::vector<std::int64_t>& clients,
                                        const Truth& truth) {
  std::vector<std::vector<std::size_t>> largest;
  for (const std::int64_t client : clients) {
    const auto id = static_cast<std::size_t>(client);
    const std::vector<double> held =
        id < truth.classes.size() ? truth.classes[id] : std::vector<double>();
    std::vector<std::size_t> classes(held.size());
    std::iota(classes.begin(), classes.end(), std::size_t{0});
    std::ranges::stable_sort(classes, std::ranges::greater(),
                             [&](std::size_t c) { return held[c]; });
    if (classes.size() > 2) {
      classes.erase(classes.begin() + 2, classes.end());
    }
    largest.push_back(std::move(classes));
  }
  std::vector<std::size_t> order(clients.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t place) { return largest[place]; });
  return order;
}

std::string likeness_picture(const CheckedJson& likeness, const Truth& truth) {
  std::vector<std::int64_t> clients;
  for (const CheckedJson& client : likeness.at("clients").elements()) {
    clients.push_back(client.count());
  }
  const std::vector<std::vector<double>> values = square_of(likeness.at("values"));
  const std::size_t count = std::min(clients.size(), values.size());
  double least = 1.0;
  for (std::size_t i = 0; i < count; ++i) {
    for (std::size_t j = 0; j < count; ++j) {
      least = i == j ? least : std::min(least, values[i][j]);
    }
  }
  clients.resize(count);
  const std::vector<std::size_t> order = order_by_class(clients, truth);
  Matrix matrix{.row_title = "client",
                .column_title = "client, by the two classes that it holds most of",
                .heading = fmt::format("Cosine of the {} for one random image: white {:.2f}, "
                                       "deepest 1",
                                       likeness.at("of").text(), least)};
  for (const std::size_t row : order) {
    matrix.names.push_back(std::to_string(clients[row]));
    std::vector<Cell>& cells = matrix.cells.emplace_back();
    for (const std::size_t column : order) {
      const double share = least < 1.0 ? (values[row][column] - least) / (1.0 - least) : 1.0;
      cells.push_back({std::clamp(share, 0.0, 1.0), false});
    }
  }
  SvgCanvas canvas(720.0, 720.0);
  draw_matrix(canvas, 70.0, 40.0, 620.0, matrix);
  return canvas.finish("How alike clients are");
}

std::string density_picture(const CheckedJson& by_client, const Truth& truth) {
  std::vector<Group> groups{{ink::kClean, "truly clean", {}},
                            {ink::kNoisy, "truly noisy", {}},
                            {ink::kClean, "clients", {}}};
  std::vector<double> all;
  for (const auto& [digits, norms] : by_client.members()) {
    const Json one{{digits, 0.0}};
    const std::int64_t client =
        numbers_by_client(CheckedJson(one, by_client.name())).begin()->first;
    const std::optional<bool> noisy = truth.is_noisy(client);
    Group& group = groups[noisy ? (*noisy ? 1 : 0) : 2];
    for (const CheckedJson& norm : norms.elements()) {
      group.values.push_back(norm.number());
      all.push_back(group.values.back());
    }
  }
  std::erase_if(groups, [](const Group& group) { return group.values.empty(); });
  constexpr int kPlaces = 240;
  const Scale x = scale_around(all, "gradient norm of a batch");
  std::vector<Points> curves;
  double most = 0.0;
  for (const Group& group : groups) {
    curves.push_back(density_of(group.values, x.low, x.high, kPlaces));
    for (const auto& [place, value] : curves.back()) {
      most = std::max(most, value);
    }
  }
  SvgCanvas canvas(760.0, 340.0);
  const PlotPanel panel(canvas, {70.0, 50.0, 745.0, 50.0 + kPlotHeight}, x,
                        {.high = most > 0.0 ? 1.05 * most : 1.0, .title = "density"});
  for (std::size_t i = 0; i < groups.size(); ++i) {
    const std::string line = panel.line(curves[i]);
    canvas.path(fmt::format("{}V{:.1f}H{:.1f}z", line, panel.area().bottom, panel.area().left),
                fmt::format("fill=\"{}\" fill-opacity=\"0.16\"", groups[i].colour));
    canvas.path(line,
                fmt::format("fill=\"none\" stroke=\"{}\" stroke-width=\"2\"{}", groups[i].colour,
                            groups[i].colour == ink::kNoisy ? " stroke-dasharray=\"7 3\"" : ""));
  }
  canvas.keys(70.0, 20.0, keys_of(groups));
  return canvas.finish("Density of gradient norms");
}

std::string images_picture(const CheckedJson& images) {
  constexpr double kTile = 84.0;
  constexpr double kGap = 12.0;
  SvgCanvas canvas(660.0, 390.0);
  double left = 20.0;
  for (const auto& [name, heading] :
       {std::pair{"flagged", "Clients taken for noisy"}, {"others", "The other clients"}}) {
    canvas.text(left, 24.0, heading,
                {.anchor = "start", .size = 13.0, .bold = true, .colour = ink::kText});
    std::size_t number = 0;
    for (const CheckedJson& image : images.at(name).elements()) {
      const double x = left + (kTile + kGap) * static_cast<double>(number % 3);
      const std::size_t row = number / 3;
      const double y = 44.0 + (kTile + kGap) * static_cast<double>(row);
      const CheckedJson noisy = image.at("noisy");
      const bool is_noisy = !noisy.is_null() && noisy.truth();
      canvas.png(x, y, kTile, kTile, image.at("png").text());
      canvas.rect(x - 2.0, y - 2.0, kTile + 4.0, kTile + 4.0,
                  fmt::format("fill=\"none\" stroke-width=\"3\" stroke=\"{}\"{}",
                              noisy.is_null() ? ink::kMuted
                              : is_noisy      ? ink::kNoisy
                                              : ink::kClean,
                              is_noisy ? " stroke-dasharray=\"8 4\"" : ""));
      ++number;
    }
    left += 3.0 * kTile + 2.0 * kGap + 60.0;
  }
  canvas.keys(
      20.0, 370.0,
      {{ink::kClean, "truly clean"}, {ink::kNoisy, "distorted or wrongly labelled (dashed)"}});
  return canvas.finish("Images of the two groups");
}

// The noise that clients have, whoever trains on it.
std::vector<NamedLevels> true_noise(const Truth& truth) {
  NamedLevels levels{"noisy samples", {}};
  for (std::size_t client = 0; client < truth.noise.size(); ++client) {
    if (truth.noise[client]) {
      levels.levels[static_cast<std::int64_t>(client)] = *truth.noise[client];
    }
  }
  return {levels};
}

void add_labels(const CheckedJson& run, std::vector<RunPicture>& pictures) {
  const auto labels = run.find("labels");
  if (!labels || labels->elements().empty()) {
    return;
  }
  const std::vector<CheckedJson> times = labels->elements();
  std::vector<NamedLevels> levels;
  for (const CheckedJson& time : times) {
    levels.push_back({time_words(time), numbers_by_client(time.at("levels"))});
  }
  pictures.push_back(
      {"stages", levels_picture(levels, estimates_of(run), "Wrong labels of every client")});
  for (const CheckedJson& time : times) {
    if (!time.at("splits").members().empty()) {
      pictures.push_back({"found", splits_picture(time.at("splits"), time_words(time))});
      break;
    }
  }
  if (times.front().find("confusions")) {
    pictures.push_back({"confusion-clients", client_confusions_picture(times)});
  }
}

void add_findings(const CheckedJson& findings, const Truth& truth,
                  std::vector<RunPicture>& pictures) {
  if (const auto scores = findings.find("scores")) {
    for (const auto& [name, score] : scores->members()) {
      pictures.push_back({"score-" + name, score_picture(score_title(name), score, truth)});
    }
  }
  if (const auto series = findings.find("series")) {
    for (const auto& [name, times] : series->members()) {
      pictures.push_back({"series-" + name, series_picture(score_title(name), times, truth)});
    }
  }
  if (const auto likeness = findings.find("likeness")) {
    pictures.push_back({"likeness", likeness_picture(*likeness, truth)});
  }
  if (const auto confusion = findings.find("confusion")) {
    pictures.push_back({"confusion", confusion_picture(*confusion, truth)});
  }
}

}  // namespace

std::vector<RunPicture> run_pictures(const CheckedJson& run, const Truth& truth) {
  std::vector<RunPicture> pictures;
  if (std::vector<NamedLevels> noise = true_noise(truth); !noise.front().levels.empty()) {
    pictures.push_back({"noise", levels_picture(noise, estimates_of(run), "Noise of clients")});
  }
  if (const auto findings = run.find("findings")) {
    add_findings(*findings, truth, pictures);
  }
  add_labels(run, pictures);
  if (const auto norms = run.find("norms")) {
    pictures.push_back({"density", density_picture(norms->at("by_client"), truth)});
  }
  if (const auto images = run.find("images")) {
    pictures.push_back({"images", images_picture(*images)});
  }
  return pictures;
}

}  // namespace winnow::figures
