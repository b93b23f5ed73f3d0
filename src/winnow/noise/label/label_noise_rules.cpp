#include "winnow/noise/label/label_noise_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "winnow/base/error.h"

namespace winnow {
namespace {

constexpr std::int64_t kReleasedLabels = 10;  // FedCorr's released code draws from 0..9 always

std::int64_t count_of(std::span<const std::int64_t> labels) {
  return std::ssize(labels);
}

std::int64_t uniform_label(Stream& stream, std::int64_t classes) {
  return static_cast<std::int64_t>(stream.below(static_cast<std::uint64_t>(classes)));
}

// A value for every client of the federation, so that restricting a block to some clients leaves
// the values of those as they were.
template <typename Draw>
std::vector<double> draw_all(const LabelNoiseContext& context, Draw draw) {
  std::vector<double> values(label_index(context.federation));
  std::ranges::generate(values, draw);
  return values;
}

CorruptLabels redraw(double level, std::int64_t classes) {
  return [=](std::span<const std::int64_t>, std::span<std::int64_t> labels, Stream& stream) {
    return redraw_some(stream, labels, level, classes);
  };
}

CorruptLabels redraw_exactly(double level, std::int64_t classes) {
  return [=](std::span<const std::int64_t>, std::span<std::int64_t> labels, Stream& stream) {
    const std::int64_t count = std::llround(level * static_cast<double>(labels.size()));
    return redraw_count(stream, labels, count, classes);
  };
}

// Only the row of one label is in memory: data from others may have many classes.
CorruptLabels draw_symmetric(double mu, std::int64_t classes) {
  return [=](std::span<const std::int64_t>, std::span<std::int64_t> labels, Stream& stream) {
    std::int64_t changed = 0;
    for (std::int64_t& label : labels) {
      const auto drawn =
          static_cast<std::int64_t>(stream.categorical(symmetric_row(label, classes, mu)));
      changed += drawn != label ? 1 : 0;
      label = drawn;
    }
    return changed;
  };
}

CorruptLabels draw_rows(std::shared_ptr<const std::vector<double>> matrix, std::int64_t classes) {
  return [matrix = std::move(matrix), classes](std::span<const std::int64_t>,
                                               std::span<std::int64_t> labels, Stream& stream) {
    return draw_from_matrix(stream, labels, *matrix, classes);
  };
}

constexpr int kMatrixAttempts = 10000;

// How many of the other classes each class never flips to: int(classes (classes - 1) sparsity) in
// all, scattered at random, at most classes - 2 of one class.
std::vector<std::int64_t> scattered_zeros(Stream& stream, std::int64_t classes, double sparsity) {
  std::vector<std::int64_t> zeros(label_index(classes), 0);
  const std::int64_t most = std::max<std::int64_t>(classes - 2, 0);
  const std::int64_t all = exact_share(sparsity, classes * (classes - 1));
  for (std::int64_t left = std::min(all, classes * most); left > 0;) {
    std::int64_t& own = zeros[stream.below(zeros.size())];
    if (own < most) {
      ++own;
      --left;
    }
  }
  return zeros;
}

bool keeps_origins(std::span<const double> matrix, std::int64_t classes) {
  for (std::int64_t i = 0; i < classes; ++i) {
    double given = 0.0;
    for (std::int64_t y = 0; y < classes; ++y) {
      given += matrix[label_index(y * classes + i)] / static_cast<double>(classes);
    }
    if (!(given < matrix[label_index(i * classes + i)])) {
      return false;
    }
  }
  return true;
}

// Flips exactly floor(rate * n) labels: to another class, or to the one before.
CorruptLabels flip_exactly(double rate, bool to_previous, std::int64_t classes) {
  return [=](std::span<const std::int64_t>, std::span<std::int64_t> labels, Stream& stream) {
    const std::int64_t count = exact_share(rate, count_of(labels));
    for (const std::int64_t place : stream.sample(count_of(labels), count)) {
      std::int64_t& label = labels[label_index(place)];
      label = to_previous ? pairflip(label, classes) : other_label(stream, label, classes);
    }
    return count;
  };
}

// The ramp over the clients [first, end) of the context.
void add_ramp(ClientNoises& noises, const LabelNoiseContext& context, std::string_view type,
              double low, double high, std::size_t first, std::size_t end) {
  for (std::size_t at = first; at < end; ++at) {
    const double rate = type == "clean"
                            ? 0.0
                            : ramp_rate(low, high, static_cast<std::int64_t>(at - first),
                                        static_cast<std::int64_t>(end - first));
    noises.push_back({context.clients[at], rate, false,
                      flip_exactly(rate, type == "pairflip", context.classes)});
  }
}

}  // namespace

double fedcorr_level(bool chosen, double tau, double u) {
  return chosen ? tau + (1.0 - tau) * u : 0.0;
}

double ramp_rate(double low, double high, std::int64_t i, std::int64_t group) {
  return low + static_cast<double>(i) * (high - low) / static_cast<double>(group);
}

std::int64_t pairflip(std::int64_t label, std::int64_t classes) {
  return (label + classes - 1) % classes;
}

std::int64_t other_label(Stream& stream, std::int64_t label, std::int64_t classes) {
  const std::int64_t drawn = uniform_label(stream, classes - 1);
  return drawn < label ? drawn : drawn + 1;
}

std::int64_t redraw_some(Stream& stream, std::span<std::int64_t> labels, double level,
                         std::int64_t classes) {
  std::int64_t picked = 0;
  for (std::int64_t& label : labels) {
    if (stream.bernoulli(level)) {
      label = uniform_label(stream, classes);
      ++picked;
    }
  }
  return picked;
}

std::int64_t redraw_count(Stream& stream, std::span<std::int64_t> labels, std::int64_t count,
                          std::int64_t classes) {
  for (const std::int64_t place : stream.sample(count_of(labels), count)) {
    labels[label_index(place)] = uniform_label(stream, classes);
  }
  return count;
}

std::vector<double> symmetric_row(std::int64_t label, std::int64_t classes, double mu) {
  std::vector<double> row(label_index(classes), mu / static_cast<double>(classes - 1));
  row[label_index(label)] = 1.0 - mu;
  return row;
}

std::optional<std::vector<double>> sparse_matrix(Stream& stream, std::int64_t classes,
                                                 double amount, double sparsity) {
  const auto size = static_cast<double>(classes);
  for (int attempt = 0; attempt < kMatrixAttempts; ++attempt) {
    std::vector<double> noise = stream.dirichlet(1.0, label_index(classes));
    for (double& own : noise) {
      own *= amount * size;
    }
    if (*std::ranges::max_element(noise) >= 1.0) {
      continue;
    }
    std::vector<double> matrix(label_index(classes * classes), 0.0);
    const std::vector<std::int64_t> zeros = scattered_zeros(stream, classes, sparsity);
    for (std::int64_t y = 0; y < classes; ++y) {
      const std::int64_t targets = classes - 1 - zeros[label_index(y)];
      const std::vector<double> shares = stream.dirichlet(1.0, label_index(targets));
      std::size_t next = 0;
      for (const std::int64_t place : stream.sample(classes - 1, targets)) {
        const std::int64_t given = place < y ? place : place + 1;
        matrix[label_index(y * classes + given)] = noise[label_index(y)] * shares[next++];
      }
      matrix[label_index(y * classes + y)] = 1.0 - noise[label_index(y)];
    }
    if (keeps_origins(matrix, classes)) {
      return matrix;
    }
  }
  return std::nullopt;
}

std::int64_t draw_from_matrix(Stream& stream, std::span<std::int64_t> labels,
                              std::span<const double> matrix, std::int64_t classes) {
  std::int64_t changed = 0;
  for (std::int64_t& label : labels) {
    const auto row = matrix.subspan(label_index(label * classes), label_index(classes));
    const auto drawn = static_cast<std::int64_t>(stream.categorical(row));
    changed += drawn != label ? 1 : 0;
    label = drawn;
  }
  return changed;
}

// spec: partitions L1: first every client's choice, then every client's level.
ClientNoises FedCorrLabels::plan(const LabelNoiseContext& context, Stream& stream) const {
  if (labels_0_9 && context.classes < kReleasedLabels) {
    throw Error(ErrorKind::experiment,
                fmt::format("{}.labels_0_9 needs at least 10 classes, the data set has {}",
                            context.where, context.classes),
                "leave labels_0_9 out");
  }
  const std::int64_t labels = labels_0_9 ? kReleasedLabels : context.classes;
  const auto chosen = draw_all(context, [&] { return stream.bernoulli(rho) ? 1.0 : 0.0; });
  const auto u = draw_all(context, [&] { return stream.uniform(); });
  ClientNoises noises;
  for (const std::int64_t k : context.clients) {
    const bool noisy = chosen[label_index(k)] > 0.0;
    const double level = fedcorr_level(noisy, tau, u[label_index(k)]);
    ClientNoise noise{k, level, noisy, {}};
    if (noisy) {
      noise.corrupt = exact_count ? redraw_exactly(level, labels) : redraw(level, labels);
    }
    noises.push_back(std::move(noise));
  }
  return noises;
}

// spec: partitions L2
ClientNoises ClipFLLabels::plan(const LabelNoiseContext& context, Stream& stream) const {
  const auto count = exact_share(rho, std::ssize(context.clients));
  const auto noisy = choose_clients(context.clients, count, stream);
  ClientNoises noises;
  for (const std::int64_t k : context.clients) {
    const bool corrupt = std::ranges::binary_search(noisy, k);
    noises.push_back({k, corrupt ? mu : 0.0, false,
                      corrupt ? draw_symmetric(mu, context.classes) : CorruptLabels()});
  }
  return noises;
}

// spec: rivals 5.6: one matrix for all noisy clients.
ClientNoises SparseMatrix::plan(const LabelNoiseContext& context, Stream& stream) const {
  if (context.classes > kMostMatrixClasses) {
    throw Error(ErrorKind::experiment,
                fmt::format("{}: {} classes are more than {}, the most that a random matrix is "
                            "drawn for",
                            context.where, context.classes, kMostMatrixClasses),
                "give a matrix of your own with transition_matrix, or use another noise");
  }
  auto drawn = sparse_matrix(stream, context.classes, amount, sparsity);
  if (!drawn) {
    throw Error(ErrorKind::experiment,
                fmt::format("{}: no matrix with amount {} and sparsity {} was found", context.where,
                            amount, sparsity),
                "lower one of them");
  }
  const auto matrix = std::make_shared<const std::vector<double>>(std::move(*drawn));
  const auto noisy =
      choose_clients(context.clients, exact_share(rho, std::ssize(context.clients)), stream);
  ClientNoises noises;
  for (const std::int64_t k : context.clients) {
    const bool corrupt = std::ranges::binary_search(noisy, k);
    noises.push_back({k, corrupt ? amount : 0.0, false,
                      corrupt ? draw_rows(matrix, context.classes) : CorruptLabels()});
  }
  return noises;
}

// spec: partitions L3
ClientNoises FedRNLabels::plan(const LabelNoiseContext& context, Stream& /*stream*/) const {
  ClientNoises noises;
  const std::size_t all = context.clients.size();
  if (type != "mixed") {
    add_ramp(noises, context, type, low, high, 0, all);
    return noises;
  }
  add_ramp(noises, context, "symmetric", low, high, 0, all / 2);
  add_ramp(noises, context, "pairflip", low2, high2, all / 2, all);
  return noises;
}

// spec: input-noise 2.7. `p` is the chance that a client is clean.
ClientNoises FedNCLBernoulli::plan(const LabelNoiseContext& context, Stream& stream) const {
  const auto level = draw_all(context, [&] { return stream.bernoulli(1.0 - p) ? 1.0 : 0.0; });
  ClientNoises noises;
  for (const std::int64_t k : context.clients) {
    noises.push_back(
        {k, level[label_index(k)], false, redraw(level[label_index(k)], context.classes)});
  }
  return noises;
}

// spec: input-noise 2.7. Values outside 0..1 act as 0 or 1, they are not drawn again.
ClientNoises FedNCLGaussian::plan(const LabelNoiseContext& context, Stream& stream) const {
  const auto level =
      draw_all(context, [&] { return std::clamp(mean + std * stream.normal(), 0.0, 1.0); });
  ClientNoises noises;
  for (const std::int64_t k : context.clients) {
    noises.push_back(
        {k, level[label_index(k)], false, redraw(level[label_index(k)], context.classes)});
  }
  return noises;
}

}  // namespace winnow
