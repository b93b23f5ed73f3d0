#include "winnow/report/figures.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>
#include <set>

#include "winnow/base/csv.h"
#include "winnow/base/error.h"
#include "winnow/report/arena.h"
#include "winnow/report/figures_parts.h"
#include "winnow/report/partition_picture.h"

namespace winnow::figures {
namespace {

// What a curve is drawn of: a column of the history.
struct CurveKind {
  std::string file;
  std::string value;
  std::string axis;
  std::string title;
  std::string x_title;
  bool is_share = true;  // drawn in percent
};

struct Means {
  Points line;
  Points low;
  Points high;
  std::vector<double> deviations;
  std::vector<std::size_t> counts;  // runs at every point
};

double mean_of(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double deviation_of(const std::vector<double>& values) {
  if (values.size() < 2) {
    return 0.0;
  }
  const double mean = mean_of(values);
  double squares = 0.0;
  for (const double value : values) {
    squares += (value - mean) * (value - mean);
  }
  return std::sqrt(squares / static_cast<double>(values.size() - 1));
}

// Round by round over the runs that have a value there. Off the round axis only rounds with as many
// runs as any count: a mean over fewer could lie to the left of the one before.
Means means_over_runs(const std::vector<CheckedJson>& runs, const CurveKind& kind) {
  struct AtRound {
    std::vector<double> x;
    std::vector<double> y;
  };
  std::map<std::int64_t, AtRound> rounds;
  for (const CheckedJson& run : runs) {
    const auto history = run.find("history");
    const auto values = history ? history->find(kind.value) : std::nullopt;
    if (!values) {
      continue;
    }
    const std::vector<CheckedJson> round = history->at("round").elements();
    const std::vector<CheckedJson> axis = history->at(kind.axis).elements();
    const std::vector<CheckedJson> value = values->elements();
    for (std::size_t i = 0; i < std::min({round.size(), axis.size(), value.size()}); ++i) {
      if (!value[i].is_null()) {
        AtRound& at = rounds[round[i].count()];
        at.x.push_back(axis[i].number());
        at.y.push_back(value[i].number());
      }
    }
  }
  std::size_t most = 0;
  for (const auto& [round, at] : rounds) {
    most = std::max(most, at.y.size());
  }
  Means means;
  for (const auto& [round, at] : rounds) {
    if (kind.axis == "round" || at.y.size() == most) {
      const double x = mean_of(at.x);
      const double y = mean_of(at.y);
      const double spread = deviation_of(at.y);
      means.line.emplace_back(x, y);
      means.low.emplace_back(x, y - spread);
      means.high.emplace_back(x, y + spread);
      means.deviations.push_back(spread);
      means.counts.push_back(at.y.size());
    }
  }
  return means;
}

bool is_told(const CheckedJson& run) {
  const auto told = run.find("uses_ground_truth");
  return told && told->json() == true;
}

struct Method {
  std::string name;
  std::size_t number = 0;
  std::vector<CheckedJson> runs;
};

struct Label {
  double y = 0.0;
  std::string words;
  std::string_view colour;
};

// Downwards from the highest, then back up from the bottom where that is passed.
void move_apart(std::vector<Label>& labels, double bottom) {
  constexpr double kStep = 15.0;
  std::ranges::sort(labels, {}, &Label::y);
  for (std::size_t i = 1; i < labels.size(); ++i) {
    labels[i].y = std::max(labels[i].y, labels[i - 1].y + kStep);
  }
  double limit = bottom;
  for (auto label = labels.rbegin(); label != labels.rend(); ++label) {
    label->y = std::min(label->y, limit);
    limit = label->y - kStep;
  }
}

using Curves = std::vector<std::pair<const Method*, Means>>;

// Of the methods that have such values.
Curves curves_of(const std::vector<Method>& methods, const CurveKind& kind) {
  Curves curves;
  for (const Method& method : methods) {
    if (Means means = means_over_runs(method.runs, kind); !means.line.empty()) {
      curves.emplace_back(&method, std::move(means));
    }
  }
  return curves;
}

// Room for names of that many letters beside the plot.
double width_beside(const Curves& curves) {
  constexpr double kLetter = 7.0;
  std::size_t longest = 0;
  for (const auto& [method, means] : curves) {
    longest = std::max(longest, method->name.size());
  }
  return std::max(210.0, 20.0 + kLetter * static_cast<double>(longest));
}

std::string curve_picture(const Curves& curves, const CurveKind& kind) {
  std::vector<double> xs;
  std::vector<double> ys;
  for (const auto& [method, means] : curves) {
    for (const Points* points : {&means.low, &means.high}) {
      for (const auto& [x, y] : *points) {
        xs.push_back(x);
        ys.push_back(kind.is_share ? std::clamp(y, 0.0, 1.0) : y);
      }
    }
  }
  Scale x = scale_around(xs, kind.x_title);
  x.low = std::ranges::min(xs);
  x.high = std::max(std::ranges::max(xs), x.low + 1.0);
  Scale y = scale_around(ys, kind.title);
  y.factor = kind.is_share ? 100.0 : 1.0;
  const double legend = 40.0 + 15.0 * static_cast<double>(curves.size());
  SvgCanvas canvas(690.0 + width_beside(curves), std::max(430.0, legend));
  const PlotPanel panel(canvas, {70.0, 30.0, 690.0, 380.0}, x, y);
  std::vector<Label> labels;
  for (const auto& [method, means] : curves) {
    const std::string_view colour = ink::of_method(method->number);
    Points band = means.low;
    band.insert(band.end(), means.high.rbegin(), means.high.rend());
    canvas.path(panel.line(band) + "z", fmt::format("fill=\"{}\" fill-opacity=\"0.15\"", colour));
  }
  for (const auto& [method, means] : curves) {
    const std::string_view colour = ink::of_method(method->number);
    const bool told = std::ranges::any_of(method->runs, is_told);
    canvas.path(panel.line(means.line),
                fmt::format("fill=\"none\" stroke=\"{}\" stroke-width=\"2\"{}", colour,
                            told                  ? " stroke-dasharray=\"8 4\""
                            : method->number >= 8 ? " stroke-dasharray=\"2 3\""
                                                  : ""));
    labels.push_back({panel.y(means.line.back().second), method->name, colour});
  }
  move_apart(labels, std::max(panel.area().bottom, legend - 10.0));
  for (const Label& label : labels) {
    canvas.text(panel.area().right + 8.0, label.y + 4.0, label.words,
                {.anchor = "start", .colour = label.colour});
  }
  return canvas.finish(fmt::format("{} against {}", kind.title, kind.x_title));
}

// The points of a picture, as the page saves them.
std::string means_csv(const Curves& curves, const CurveKind& kind) {
  std::string text = fmt::format("method,{},{},deviation,runs\n", kind.axis, kind.value);
  for (const auto& [method, means] : curves) {
    for (std::size_t i = 0; i < means.line.size(); ++i) {
      const auto& [x, y] = means.line[i];
      const bool several = means.counts[i] > 1;
      text += fmt::format("{},{},{},{},{}\n", csv_field(method->name), x, y,
                          several ? fmt::format("{}", means.deviations[i]) : "", means.counts[i]);
    }
  }
  return text;
}

std::string curves_csv(const std::vector<CheckedJson>& runs) {
  constexpr std::array kColumns{"round",      "participations",  "bytes",
                                "seconds",    "accuracy",        "loss",
                                "train_loss", "label_precision", "label_recall"};
  std::string text = fmt::format("method,setting,seed,{}\n", fmt::join(kColumns, ","));
  for (const CheckedJson& run : runs) {
    const auto history = run.find("history");
    if (!history) {
      continue;
    }
    const std::size_t rounds = history->at("round").elements().size();
    std::vector<std::vector<CheckedJson>> columns;
    for (const char* name : kColumns) {
      const auto column = history->find(name);
      columns.push_back(column ? column->elements() : std::vector<CheckedJson>());
    }
    for (std::size_t i = 0; i < rounds; ++i) {
      text += fmt::format("{},{},{}", csv_field(run.at("row").text()),
                          csv_field(run.at("column").text()), csv_field(run.at("seed").text()));
      for (const std::vector<CheckedJson>& column : columns) {
        text += ',';
        if (i < column.size() && !column[i].is_null()) {
          text += fmt::format("{}", column[i].number());
        }
      }
      text += '\n';
    }
  }
  return text;
}

std::optional<double> known_number(const CheckedJson& json) {
  return json.is_null() ? std::nullopt : std::optional(json.number(0.0, 1.0));
}

Truth truth_of(const CheckedJson& partition) {
  Truth truth;
  for (const CheckedJson& name : partition.at("class_names").elements()) {
    truth.class_names.push_back(name.text());
  }
  for (const CheckedJson& client : partition.at("clients").elements()) {
    const CheckedJson noisy = client.at("noisy");
    const std::optional<double> wrong = known_number(client.at("wrong_share"));
    const std::optional<double> distorted = known_number(client.at("distorted_share"));
    truth.noisy.push_back(noisy.is_null() ? std::nullopt : std::optional(noisy.truth()));
    truth.noise.push_back(wrong ? std::optional(std::max(*wrong, distorted.value_or(0.0)))
                                : std::nullopt);
    std::vector<double>& held = truth.classes.emplace_back();
    for (const CheckedJson& count : client.at("true_classes").elements()) {
      held.push_back(static_cast<double>(count.count()));
    }
  }
  return truth;
}

std::vector<std::int64_t> counts_of(const CheckedJson& json) {
  std::vector<std::int64_t> counts;
  for (const CheckedJson& count : json.elements()) {
    counts.push_back(count.count());
  }
  return counts;
}

// As `winnow inspect --out` draws it.
std::string partition_file(const CheckedJson& partition, const Truth& truth) {
  Census picture{.title = partition.at("data").text(),
                 .class_names = truth.class_names,
                 .clients = {},
                 .truth_known = true,
                 .only_injected = partition.find("only_injected").has_value()};
  std::size_t id = 0;
  for (const CheckedJson& client : partition.at("clients").elements()) {
    const std::optional<bool> noisy = truth.noisy[id++];
    picture.truth_known = picture.truth_known && noisy.has_value();
    picture.clients.push_back(
        {.samples = client.at("samples").count(),
         .true_counts = counts_of(client.at("true_classes")),
         .given_counts = counts_of(client.at("given_classes")),
         .wrong_share = known_number(client.at("wrong_share")).value_or(0.0),
         .distorted_share = known_number(client.at("distorted_share")).value_or(0.0),
         .noisy = noisy.value_or(false)});
  }
  return partition_svg(picture);
}

// Letters, digits, '.', '_' and '-' of a name, which may be anything.
std::string file_part(const std::string& text) {
  constexpr std::size_t kLongest = 60;
  std::string part;
  for (const char c : text.substr(0, kLongest)) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '.' || c == '_' || c == '-';
    if (plain || (!part.empty() && part.back() != '-')) {
      part += plain ? c : '-';
    }
  }
  const std::size_t first = part.find_first_not_of(".-");
  const std::size_t last = part.find_last_not_of(".-");
  return first == std::string::npos ? "" : part.substr(first, last + 1 - first);
}

// run-METHOD-SETTING-sSEED, without a setting that has no name.
std::string run_folder(const CheckedJson& run) {
  const std::string setting = file_part(run.at("column").text());
  return fmt::format("run-{}{}{}-s{}", file_part(run.at("row").text()), setting.empty() ? "" : "-",
                     setting, file_part(run.at("seed").text()));
}

// Names that were not given before.
class FileNames {
 public:
  std::string unused(std::string name) {
    const std::string wanted = name;
    for (int number = 2; !taken_.insert(name).second; ++number) {
      name = fmt::format("{}-{}", wanted, number);
    }
    return name;
  }

 private:
  std::set<std::string> taken_;
};

std::vector<std::string> unique_texts(const std::vector<CheckedJson>& runs, const char* key) {
  std::vector<std::string> texts;
  for (const CheckedJson& run : runs) {
    const std::string text = run.at(key).text();
    if (std::ranges::find(texts, text) == texts.end()) {
      texts.push_back(text);
    }
  }
  return texts;
}

void add_curves(const std::vector<CheckedJson>& runs, std::vector<ReportFile>& files) {
  const std::vector<CurveKind> kinds{
      {"accuracy-rounds", "accuracy", "round", "test accuracy (%)", "round"},
      {"accuracy-participations", "accuracy", "participations", "test accuracy (%)",
       "participations"},
      {"train-loss-rounds", "train_loss", "round", "training loss", "round", false},
      {"train-loss-participations", "train_loss", "participations", "training loss",
       "participations", false},
      {"loss-rounds", "loss", "round", "test loss", "round", false},
      {"loss-participations", "loss", "participations", "test loss", "participations", false},
      {"label-precision", "label_precision", "round", "label precision (%)", "round"},
      {"label-recall", "label_recall", "round", "label recall (%)", "round"}};
  const std::vector<std::string> names = unique_texts(runs, "row");
  const std::vector<std::string> settings = unique_texts(runs, "column");
  FileNames folders;
  for (const std::string& setting : settings) {
    const std::string folder =
        settings.size() < 2 ? ""
                            : folders.unused(fmt::format("setting-{}", file_part(setting))) + "/";
    std::vector<Method> methods;
    for (std::size_t number = 0; number < names.size(); ++number) {
      Method method{names[number], number, {}};
      std::ranges::copy_if(runs, std::back_inserter(method.runs), [&](const CheckedJson& run) {
        return run.at("row").text() == names[number] && run.at("column").text() == setting;
      });
      methods.push_back(std::move(method));
    }
    for (const CurveKind& kind : kinds) {
      if (const Curves curves = curves_of(methods, kind); !curves.empty()) {
        files.push_back({fmt::format("{}{}.svg", folder, kind.file), curve_picture(curves, kind)});
        files.push_back({fmt::format("{}{}.csv", folder, kind.file), means_csv(curves, kind)});
      }
    }
  }
  files.push_back({"curves.csv", curves_csv(runs)});
}

void add_run(const CheckedJson& run, const std::string& folder, const CheckedJson& partitions,
             std::vector<ReportFile>& files) {
  Truth truth;
  if (const auto place = run.find("partition")) {
    const std::vector<CheckedJson> all = partitions.elements();
    const auto number = place->whole(0, std::ssize(all) - 1);
    const CheckedJson& partition = all[static_cast<std::size_t>(number)];
    truth = truth_of(partition);
    files.push_back({folder + "/partition.svg", partition_file(partition, truth)});
  }
  FileNames names;
  for (RunPicture& picture : run_pictures(run, truth)) {
    files.push_back({fmt::format("{}/{}.svg", folder, names.unused(file_part(picture.name))),
                     std::move(picture.svg)});
  }
}

}  // namespace
}  // namespace winnow::figures

namespace winnow {

std::vector<ReportFile> report_files(const Json& report) {
  using figures::FileNames;
  const CheckedJson all(report, "");
  const std::vector<CheckedJson> runs = all.at("runs").elements();
  std::vector<ReportFile> files;
  figures::add_curves(runs, files);
  if (const auto arena = all.find("arena")) {
    files.push_back({"arena.svg", arena_svg(arena->json())});
  }
  FileNames folders;
  for (const CheckedJson& run : runs) {
    if (!run.find("history")) {
      continue;  // not begun
    }
    const std::string folder = folders.unused(figures::run_folder(run));
    try {
      figures::add_run(run, folder, all.at("partitions"), files);
    } catch (const Error& error) {
      throw Error(ErrorKind::run, fmt::format("{}: {}", run.at("id").text(), error.what()));
    }
  }
  return files;
}

}  // namespace winnow
