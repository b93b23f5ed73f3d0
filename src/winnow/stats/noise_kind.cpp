#include "winnow/stats/noise_kind.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "winnow/base/math.h"

namespace winnow {
namespace {

constexpr double kLeastShare = 0.01;  // of a row of the confusion, spread over all cells
constexpr std::int64_t kEnoughCounts = 30;
constexpr double kSharedCounts = 10.0;  // that the confusion of all models weighs in one's
constexpr int kMostSteps = 60;
constexpr double kStill = 1e-7;

// A cell of a client's counts that is not empty.
struct Cell {
  std::size_t given = 0;
  std::size_t counted = 0;
  double count = 0.0;
};

std::vector<Cell> cells_of(const JointCounts& counts) {
  std::vector<Cell> cells;
  for (std::int64_t i = 0; i < counts.classes(); ++i) {
    for (std::int64_t j = 0; j < counts.classes(); ++j) {
      if (counts.at(i, j) > 0) {
        cells.push_back({static_cast<std::size_t>(i), static_cast<std::size_t>(j),
                         static_cast<double>(counts.at(i, j))});
      }
    }
  }
  return cells;
}

// One kind of noise fitted to a client by expectation maximisation over the true classes.
class Fitting {
 public:
  Fitting(const std::vector<Cell>& cells, const Confusion& honest)
      : cells_(cells),
        honest_(honest),
        classes_(static_cast<std::size_t>(honest.classes)),
        mix_(classes_),
        flips_(classes_ * classes_),
        expected_(classes_ * classes_) {
    total_ = std::accumulate(cells.begin(), cells.end(), 0.0,
                             [](double sum, const Cell& cell) { return sum + cell.count; });
  }

  KindFit fit(NoiseKind kind, const std::vector<std::size_t>& successors) {
    start(kind);
    double before = -std::numeric_limits<double>::infinity();
    double likelihood = expect();
    for (int step = 0; step < kMostSteps && likelihood - before > kStill * total_; ++step) {
      before = likelihood;
      maximise(kind, successors);
      likelihood = expect();
    }
    KindFit fit{.log_likelihood = likelihood};
    for (std::size_t j = 0; j < classes_; ++j) {
      fit.rate += mix_[j] * (1.0 - flips_[j * classes_ + j]);
    }
    const double trust = honest_.counts / std::max(honest_.counts + total_, 1.0);
    // Before anything is seen, none is as likely as the four other kinds together.
    const double prior = kind == NoiseKind::none ? 0.0 : 2.0 * math::log(4.0);
    fit.bic = -2.0 * trust * likelihood + penalty(kind) + prior;
    return fit;
  }

  // As the last fit left them.
  const std::vector<double>& mix() const { return mix_; }
  const std::vector<double>& flips() const { return flips_; }

  // The likeliest other class of each, after a fit of the free kind.
  std::vector<std::size_t> successors() const {
    std::vector<std::size_t> best(classes_);
    for (std::size_t j = 0; j < classes_; ++j) {
      best[j] = (j + 1) % classes_;
      for (std::size_t i = 0; i < classes_; ++i) {
        if (i != j && expected_[j * classes_ + i] > expected_[j * classes_ + best[j]]) {
          best[j] = i;
        }
      }
    }
    return best;
  }

 private:
  void start(NoiseKind kind) {
    // The given labels say most of the mix; every class stays possible.
    std::ranges::fill(mix_, 1.0 / static_cast<double>(classes_));
    for (const Cell& cell : cells_) {
      mix_[cell.given] += cell.count;
      mix_[cell.counted] += cell.count;
    }
    const double sum = std::accumulate(mix_.begin(), mix_.end(), 0.0);
    std::ranges::for_each(mix_, [sum](double& share) { share /= sum; });
    const double wrong = kind == NoiseKind::none ? 0.0 : 0.3;
    const auto others = static_cast<double>(std::max<std::size_t>(classes_ - 1, 1));
    for (std::size_t j = 0; j < classes_; ++j) {
      for (std::size_t i = 0; i < classes_; ++i) {
        flips_[j * classes_ + i] = i == j ? 1.0 - wrong : wrong / others;
      }
    }
  }

  // Fills expected_[true][given] and returns the log-likelihood.
  double expect() {
    std::ranges::fill(expected_, 0.0);
    double likelihood = 0.0;
    std::vector<double> parts(classes_);
    for (const Cell& cell : cells_) {
      double sum = 0.0;
      for (std::size_t j = 0; j < classes_; ++j) {
        parts[j] =
            mix_[j] * flips_[j * classes_ + cell.given] * honest_.rows[j * classes_ + cell.counted];
        sum += parts[j];
      }
      likelihood += cell.count * math::log(std::max(sum, 1e-300));
      for (std::size_t j = 0; j < classes_ && sum > 0.0; ++j) {
        expected_[j * classes_ + cell.given] += cell.count * parts[j] / sum;
      }
    }
    return likelihood;
  }

  void maximise(NoiseKind kind, const std::vector<std::size_t>& successors) {
    std::vector<double> held(classes_);
    std::vector<double> given(classes_);
    double wrong = 0.0;
    for (std::size_t j = 0; j < classes_; ++j) {
      for (std::size_t i = 0; i < classes_; ++i) {
        held[j] += expected_[j * classes_ + i];
        given[i] += expected_[j * classes_ + i];
        wrong += i == j ? 0.0 : expected_[j * classes_ + i];
      }
    }
    const double rate = wrong / std::max(total_, 1.0);
    const auto others = static_cast<double>(std::max<std::size_t>(classes_ - 1, 1));
    for (std::size_t j = 0; j < classes_; ++j) {
      mix_[j] = held[j] / std::max(total_, 1.0);
      for (std::size_t i = 0; i < classes_; ++i) {
        double& flip = flips_[j * classes_ + i];
        switch (kind) {
          case NoiseKind::none:
            flip = i == j ? 1.0 : 0.0;
            break;
          case NoiseKind::symmetric:
            flip = i == j ? 1.0 - rate : rate / others;
            break;
          case NoiseKind::pair:
            flip = i == j ? 1.0 - rate : (i == successors[j] ? rate : 0.0);
            break;
          case NoiseKind::class_dependent:
            if (held[j] > 0.0) {
              flip = expected_[j * classes_ + i] / held[j];
            }
            break;
          case NoiseKind::random_labels:
            flip = given[i] / std::max(total_, 1.0);
            break;
        }
      }
    }
  }

  // What a kind pays for being able to say more.
  double penalty(NoiseKind kind) const {
    const double one = math::log(std::max(total_, 2.0));
    double present = 0.0;
    double cells = 0.0;
    for (std::size_t j = 0; j < classes_; ++j) {
      present += mix_[j] * total_ >= 1.0 ? 1.0 : 0.0;
      for (std::size_t i = 0; i < classes_; ++i) {
        // A flip that explains less than one count pays its part: many small ones would be free.
        cells += i != j ? std::min(1.0, expected_[j * classes_ + i]) : 0.0;
      }
    }
    switch (kind) {
      case NoiseKind::none:
        return 0.0;
      case NoiseKind::symmetric:
        return one;
      case NoiseKind::pair:  // a rate, and for each class which other one
        return one + 2.0 * present * math::log(std::max(static_cast<double>(classes_ - 1), 1.0));
      case NoiseKind::class_dependent:
        return one * std::max(cells, 1.0);
      default:
        return one * static_cast<double>(classes_ - 1);
    }
  }

  const std::vector<Cell>& cells_;
  const Confusion& honest_;
  std::size_t classes_;
  double total_ = 0.0;
  std::vector<double> mix_;       // true classes of the client
  std::vector<double> flips_;     // [true][given]
  std::vector<double> expected_;  // counts by [true][given]
};

double beside_diagonal(const JointCounts& counts, std::int64_t row) {
  return static_cast<double>(counts.row(row) - counts.at(row, row));
}

// Clients from the cleanest on by the rows of the other classes than `row`; those without any last.
std::vector<std::size_t> ranked_without(std::span<const JointCounts> clients,
                                        const JointCounts& all, std::int64_t row) {
  std::vector<double> excess(clients.size());
  for (std::size_t c = 0; c < clients.size(); ++c) {
    double seen = 0.0;
    double due = 0.0;
    for (std::int64_t i = 0; i < all.classes(); ++i) {
      const auto whole = static_cast<double>(all.row(i));
      if (i != row && whole > 0.0) {
        seen += beside_diagonal(clients[c], i);
        due += static_cast<double>(clients[c].row(i)) * beside_diagonal(all, i) / whole;
      }
    }
    // Half a count on either side keeps clients with little evidence in the middle.
    excess[c] = (seen + 0.5) / (due + 0.5);
  }
  std::vector<std::size_t> order(clients.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t c) { return excess[c]; });
  return order;
}

}  // namespace

std::string_view kind_name(NoiseKind kind) {
  switch (kind) {
    case NoiseKind::symmetric:
      return "symmetric";
    case NoiseKind::pair:
      return "pair";
    case NoiseKind::class_dependent:
      return "class-dependent";
    case NoiseKind::random_labels:
      return "random labels";
    default:
      return "none";
  }
}

// spec: audit 3
Confusion honest_confusion(std::span<const JointCounts> clients) {
  const std::int64_t classes = clients.empty() ? 0 : clients.front().classes();
  JointCounts all(classes);
  for (const JointCounts& counts : clients) {
    all += counts;
  }
  Confusion confusion{classes, std::vector<double>(static_cast<std::size_t>(classes * classes))};
  const std::size_t third = (clients.size() + 2) / 3;
  for (std::int64_t i = 0; i < classes; ++i) {
    std::vector<double> row(static_cast<std::size_t>(classes));
    double sum = 0.0;
    std::size_t taken = 0;
    for (const std::size_t c : ranked_without(clients, all, i)) {
      if (taken >= third && sum >= static_cast<double>(kEnoughCounts)) {
        break;
      }
      taken += clients[c].row(i) > 0 ? 1 : 0;
      for (std::int64_t j = 0; j < classes; ++j) {
        row[static_cast<std::size_t>(j)] += static_cast<double>(clients[c].at(i, j));
        sum += static_cast<double>(clients[c].at(i, j));
      }
    }
    confusion.counts += sum;
    // One count more for every other class: a confusion that a few clients happen not to show is
    // not impossible, and the first client that shows it is not noisy for it.
    const double right = row[static_cast<std::size_t>(i)];
    const double others = sum - right + static_cast<double>(classes - 1);
    for (std::int64_t j = 0; j < classes; ++j) {
      double seen = i == j ? 1.0 : 0.0;
      if (sum > 0.0) {
        seen = i == j ? right / sum
                      : (sum - right) / sum * (row[static_cast<std::size_t>(j)] + 1.0) / others;
      }
      confusion.rows[static_cast<std::size_t>(i * classes + j)] =
          (1.0 - kLeastShare) * seen + kLeastShare / static_cast<double>(classes);
    }
  }
  return confusion;
}

// spec: audit 3
Confusion model_confusion(const Confusion& of_all, const JointCounts& counts) {
  Confusion confusion = of_all;
  for (std::int64_t i = 0; i < of_all.classes; ++i) {
    const double sum = static_cast<double>(counts.row(i)) + kSharedCounts;
    for (std::int64_t j = 0; j < of_all.classes; ++j) {
      double& share = confusion.rows[static_cast<std::size_t>(i * of_all.classes + j)];
      share = (static_cast<double>(counts.at(i, j)) + kSharedCounts * share) / sum;
    }
  }
  return confusion;
}

// spec: audit 3
KindFinding find_kind(const JointCounts& counts, const Confusion& honest) {
  const std::vector<Cell> cells = cells_of(counts);
  Fitting fitting(cells, honest);
  KindFinding finding;
  double least = std::numeric_limits<double>::infinity();
  const auto fit = [&](NoiseKind kind, const std::vector<std::size_t>& successors = {}) {
    KindFit& one = finding.fits[static_cast<std::size_t>(kind)];
    one = fitting.fit(kind, successors);
    if (one.bic < least) {
      least = one.bic;
      finding.mix = fitting.mix();
      finding.flips = fitting.flips();
    }
  };
  fit(NoiseKind::class_dependent);
  const std::vector<std::size_t> successors = fitting.successors();
  fit(NoiseKind::none);
  fit(NoiseKind::symmetric);
  fit(NoiseKind::pair, successors);
  fit(NoiseKind::random_labels);
  const double best = std::ranges::min(finding.fits, {}, &KindFit::bic).bic;
  double sum = 0.0;
  for (KindFit& one : finding.fits) {
    one.weight = math::exp(-(one.bic - best) / 2.0);
    sum += one.weight;
  }
  for (KindFit& one : finding.fits) {
    one.weight /= sum;
  }
  for (const KindFit& one : finding.fits) {
    finding.expected_rate += one.weight * one.rate;
  }
  const auto chosen = std::ranges::find(finding.fits, best, &KindFit::bic);
  finding.kind = kNoiseKinds[static_cast<std::size_t>(chosen - finding.fits.begin())];
  finding.rate = finding.kind == NoiseKind::none ? 0.0 : chosen->rate;
  return finding;
}

}  // namespace winnow
