// Label noise whose numbers come from the user: a transition matrix, or labels given by people.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <memory>
#include <numeric>
#include <utility>

#include "winnow/base/error.h"
#include "winnow/base/files.h"
#include "winnow/data/label_file.h"
#include "winnow/noise/label/label_noise_rules.h"

namespace winnow {
namespace {

constexpr double kRowTolerance = 1e-6;
constexpr std::uintmax_t kLargestMatrix = std::uintmax_t{64} << 20;  // the file of one

// The numbers of one line, separated by blanks, commas or semicolons.
std::vector<double> parse_row(std::string_view line, const std::string& where) {
  constexpr std::string_view kSeparators = " \t\r,;";
  std::vector<double> row;
  for (;;) {
    const std::size_t start = line.find_first_not_of(kSeparators);
    if (start == std::string_view::npos) {
      return row;
    }
    line.remove_prefix(start);
    const std::string_view word = line.substr(0, line.find_first_of(kSeparators));
    double value = 0.0;
    const auto [end, fault] = std::from_chars(word.data(), word.data() + word.size(), value);
    if (fault != std::errc() || end != word.data() + word.size()) {
      throw Error(ErrorKind::data, fmt::format("{}: '{}' is not a number", where, word));
    }
    row.push_back(value);
    line.remove_prefix(word.size());
  }
}

std::vector<double> read_matrix(const std::filesystem::path& path, std::int64_t classes) {
  const std::string text = read_file(path, kLargestMatrix);
  std::vector<double> matrix;
  std::string_view left = text;
  for (std::int64_t line = 1; !left.empty(); ++line) {
    const std::size_t end = left.find('\n');
    const std::string where = fmt::format("{} line {}", path.string(), line);
    const auto row = parse_row(left.substr(0, end), where);
    left.remove_prefix(end == std::string_view::npos ? left.size() : end + 1);
    if (!row.empty() && row.size() != label_index(classes)) {
      throw Error(ErrorKind::data,
                  fmt::format("{}: {} numbers, expected one for each of {} classes", where,
                              row.size(), classes));
    }
    matrix.insert(matrix.end(), row.begin(), row.end());
  }
  return matrix;
}

void check_matrix(const std::vector<double>& matrix, std::int64_t classes, ErrorKind kind,
                  const std::string& where) {
  if (matrix.size() != label_index(classes * classes)) {
    throw Error(kind, fmt::format("{}: {} numbers, expected {} rows of {}", where, matrix.size(),
                                  classes, classes));
  }
  for (std::int64_t y = 0; y < classes; ++y) {
    const auto row = std::span(matrix).subspan(label_index(y * classes), label_index(classes));
    for (const double value : row) {
      if (!(value >= 0.0 && value <= 1.0)) {
        throw Error(kind, fmt::format("{}: row {} holds {}, expected numbers from 0 to 1", where, y,
                                      value));
      }
    }
    const double sum = std::accumulate(row.begin(), row.end(), 0.0);
    if (std::abs(sum - 1.0) > kRowTolerance) {
      throw Error(kind, fmt::format("{}: row {} sums to {:.7g}, expected 1", where, y, sum),
                  "row y holds the chances that true class y is given each label");
    }
  }
}

std::vector<double> load_matrix(const TransitionMatrix& options, const LabelNoiseContext& context) {
  if (options.file.empty()) {
    check_matrix(options.matrix, context.classes, ErrorKind::experiment, context.where + ".matrix");
    return options.matrix;
  }
  auto matrix = read_matrix(options.file, context.classes);
  check_matrix(matrix, context.classes, ErrorKind::data, options.file);
  return matrix;
}

// An exact share rho of the clients, ascending.
std::vector<std::int64_t> choose_share(double rho, const LabelNoiseContext& context,
                                       Stream& stream) {
  const auto count = exact_share(rho, std::ssize(context.clients));
  return choose_clients(context.clients, count, stream);
}

// The same corruption for an exact share rho of the clients, the others untouched.
ClientNoises corrupt_share(double rho, const LabelNoiseContext& context, Stream& stream,
                           double level, const CorruptLabels& corrupt) {
  const auto noisy = choose_share(rho, context, stream);
  ClientNoises noises;
  for (const std::int64_t k : context.clients) {
    const bool chosen = std::ranges::binary_search(noisy, k);
    noises.push_back({k, chosen ? level : 0.0, false, chosen ? corrupt : CorruptLabels()});
  }
  return noises;
}

// Takes the human label for exactly floor(level * n) samples at random places.
CorruptLabels take_exactly(std::shared_ptr<const Labels> human, double level) {
  return [human = std::move(human), level](std::span<const std::int64_t> samples,
                                           std::span<std::int64_t> labels, Stream& stream) {
    const std::int64_t size = std::ssize(labels);
    const std::int64_t count = exact_share(level, size);
    for (const std::int64_t place : stream.sample(size, count)) {
      labels[label_index(place)] = (*human)[label_index(samples[label_index(place)])];
    }
    return count;
  };
}

// Takes the human label for each sample with this chance.
CorruptLabels take_some(std::shared_ptr<const Labels> human, double level) {
  return [human = std::move(human), level](std::span<const std::int64_t> samples,
                                           std::span<std::int64_t> labels, Stream& stream) {
    std::int64_t count = 0;
    for (std::size_t i = 0; i < labels.size(); ++i) {
      if (stream.bernoulli(level)) {
        labels[i] = (*human)[label_index(samples[i])];
        ++count;
      }
    }
    return count;
  };
}

}  // namespace

// The level is the mean chance of a wrong label over the classes.
ClientNoises TransitionMatrix::plan(const LabelNoiseContext& context, Stream& stream) const {
  const std::int64_t classes = context.classes;
  const auto matrix = std::make_shared<const std::vector<double>>(load_matrix(*this, context));
  double level = 0.0;
  for (std::int64_t y = 0; y < classes; ++y) {
    level += (1.0 - (*matrix)[label_index(y * classes + y)]) / static_cast<double>(classes);
  }
  const CorruptLabels corrupt = [matrix, classes](std::span<const std::int64_t>,
                                                  std::span<std::int64_t> labels, Stream& draws) {
    return draw_from_matrix(draws, labels, *matrix, classes);
  };
  return corrupt_share(rho, context, stream, level, corrupt);
}

// spec: input-noise 1.11, table VI: a noisy client takes the human labels for all its samples. With
// a level of its own for each client it is a reading of Fed-NCL's CIFAR-10N run (2.7).
ClientNoises HumanLabels::plan(const LabelNoiseContext& context, Stream& stream) const {
  if (!std::filesystem::exists(file)) {
    throw Error(
        ErrorKind::data, fmt::format("{}.file = \"{}\": no such file", context.where, file),
        "put it there or into data/; docs/noise.md shows how to make those of CIFAR-10N and "
        "CIFAR-100N");
  }
  const auto human =
      std::make_shared<const Labels>(read_label_file(file, context.samples, context.classes));
  if (levels == "same") {
    return corrupt_share(rho, context, stream, level, take_exactly(human, level));
  }
  // For every client of the federation, so that a block for some of them draws the same for these.
  std::vector<double> drawn(label_index(context.federation));
  std::ranges::generate(drawn, [&] { return std::clamp(mean + std * stream.normal(), 0.0, 1.0); });
  const auto noisy = choose_share(rho, context, stream);
  ClientNoises noises;
  for (const std::int64_t k : context.clients) {
    const bool chosen = std::ranges::binary_search(noisy, k);
    const double level = chosen ? drawn[label_index(k)] : 0.0;
    noises.push_back({k, level, false, chosen ? take_some(human, level) : CorruptLabels()});
  }
  return noises;
}

}  // namespace winnow
