#include "winnow/stats/wrong_share.h"

#include <algorithm>
#include <cmath>

#include "winnow/base/math.h"

namespace winnow {
namespace {

constexpr double kLeastProbability = 1e-7;
constexpr double kFirstSharpness = 1.5;  // label smoothing and few rounds leave models unsure
constexpr double kLeastSharpness = 0.2;
constexpr double kMostSharpness = 8.0;
constexpr double kFirstRate = 0.3;
constexpr std::int64_t kMostShareSteps = 300;
constexpr double kShareStill = 1e-6;  // of the mean log-likelihood

double log_of(float p) {
  return math::log(std::clamp(static_cast<double>(p), kLeastProbability, 1.0));
}

// The probabilities of the true class of a sample before its label is looked at, in place: `q` has
// sharpened logarithms of them with the model's factors.
void normalise(std::span<double> q) {
  const double most = std::ranges::max(q);
  double sum = 0.0;
  for (double& share : q) {
    share = math::exp(share - most);
    sum += share;
  }
  std::ranges::for_each(q, [sum](double& share) { share /= sum; });
}

// Fills `known` with what the label adds, and returns the label's probability.
double look_at_label(std::span<const double> q, std::span<const double> flips, std::size_t given,
                     std::span<double> known) {
  const std::size_t classes = q.size();
  double whole = 0.0;
  for (std::size_t j = 0; j < classes; ++j) {
    known[j] = q[j] * flips[j * classes + given];
    whole += known[j];
  }
  whole = std::max(whole, 1e-300);
  std::ranges::for_each(known, [whole](double& share) { share /= whole; });
  return whole;
}

class ShareFit {
 public:
  ShareFit(const JudgedLabels& labels, const std::atomic<bool>* stop)
      : labels_(labels),
        stop_(stop),
        classes_(static_cast<std::size_t>(labels.classes)),
        models_(static_cast<std::size_t>(std::ranges::max(labels.model)) + 1) {
    result_.sharpness = kFirstSharpness;
    result_.bias.assign(models_ * classes_, 0.0);
    result_.flips.assign(classes_ * classes_,
                         kFirstRate / std::max(1.0, static_cast<double>(classes_ - 1)));
    for (std::size_t j = 0; j < classes_; ++j) {
      result_.flips[j * classes_ + j] = 1.0 - kFirstRate;
    }
    logs_.reserve(labels.p.size());
    for (const float p : labels.p) {
      logs_.push_back(static_cast<float>(log_of(p)));
    }
  }

  WrongShare fit() {
    double before = -1e300;
    double likelihood = look();
    while (result_.steps < kMostShareSteps && std::abs(likelihood - before) >= kShareStill &&
           !stopped()) {
      take();
      before = likelihood;
      likelihood = look();
    }
    return std::move(result_);
  }

 private:
  // What a step sums up over the samples of one model.
  struct Sums {
    explicit Sums(std::size_t classes) : seen(classes), due(classes) {}

    std::vector<double> seen;  // by true class, given the label
    std::vector<double> due;   // the same without knowing it
  };

  bool stopped() const { return stop_ != nullptr && stop_->load(); }

  // The half of a step that looks at the samples; returns the mean log-likelihood.
  double look() {
    sums_.assign(models_, Sums(classes_));
    joint_.assign(classes_ * classes_, 0.0);
    slope_ = 0.0;
    curvature_ = 0.0;
    std::vector<double> q(classes_);
    std::vector<double> known(classes_);
    double likelihood = 0.0;
    double right = 0.0;
    double count = 0.0;
    for (std::size_t i = 0; i < labels_.given.size(); ++i) {
      if (labels_.judged != nullptr && !(*labels_.judged)[i]) {
        continue;
      }
      count += 1.0;
      const auto model = static_cast<std::size_t>(labels_.model[i]);
      const auto given = static_cast<std::size_t>(labels_.given[i]);
      const std::span logs = std::span(logs_).subspan(i * classes_, classes_);
      for (std::size_t j = 0; j < classes_; ++j) {
        q[j] =
            result_.sharpness * static_cast<double>(logs[j]) + result_.bias[model * classes_ + j];
      }
      normalise(q);
      likelihood += math::log(look_at_label(q, result_.flips, given, known));
      right += known[given];
      Sums& own = sums_[model];
      double mean = 0.0;
      double square = 0.0;
      for (std::size_t j = 0; j < classes_; ++j) {
        const auto log_p = static_cast<double>(logs[j]);
        joint_[j * classes_ + given] += known[j];
        own.seen[j] += known[j];
        own.due[j] += q[j];
        slope_ += (known[j] - q[j]) * log_p;
        mean += q[j] * log_p;
        square += q[j] * log_p * log_p;
      }
      curvature_ += square - mean * mean;
    }
    ++result_.steps;
    result_.rate = count > 0.0 ? 1.0 - right / count : 0.0;
    return count > 0.0 ? likelihood / count : 0.0;
  }

  // The half that fits to what was seen.
  void take() {
    if (curvature_ > 0.0) {
      result_.sharpness =
          std::clamp(result_.sharpness + slope_ / curvature_, kLeastSharpness, kMostSharpness);
    }
    for (std::size_t j = 0; j < classes_; ++j) {
      double row = 0.0;
      for (std::size_t i = 0; i < classes_; ++i) {
        row += joint_[j * classes_ + i];
      }
      for (std::size_t i = 0; i < classes_ && row > 0.0; ++i) {
        result_.flips[j * classes_ + i] = joint_[j * classes_ + i] / row;
      }
    }
    for (std::size_t m = 0; m < models_; ++m) {
      const Sums& own = sums_[m];
      for (std::size_t j = 0; j < classes_; ++j) {
        // One sample more on either side: a class that hardly occurs has no factor of its own.
        result_.bias[m * classes_ + j] += math::log((own.seen[j] + 1.0) / (own.due[j] + 1.0));
      }
    }
  }

  const JudgedLabels& labels_;
  const std::atomic<bool>* stop_;
  std::size_t classes_;
  std::size_t models_;
  std::vector<float> logs_;  // half of what doubles take: there is one for each sample and class
  std::vector<Sums> sums_;   // by model
  std::vector<double> joint_;
  double slope_ = 0.0;  // of the likelihood, by sharpness
  double curvature_ = 0.0;
  WrongShare result_;
};

}  // namespace

std::vector<double> WrongShare::true_class(std::span<const float> p, std::int64_t given,
                                           std::int64_t model) const {
  std::vector<double> known(p.size());
  std::vector<double> q(p.size());
  for (std::size_t j = 0; j < q.size(); ++j) {
    // As the fit has it, to the last bit.
    q[j] = sharpness * static_cast<double>(static_cast<float>(log_of(p[j]))) +
           bias[static_cast<std::size_t>(model) * q.size() + j];
  }
  normalise(q);
  look_at_label(q, flips, static_cast<std::size_t>(given), known);
  return known;
}

// spec: audit 2
WrongShare fit_wrong_share(const JudgedLabels& labels, const std::atomic<bool>* stop) {
  return labels.given.empty() ? WrongShare{} : ShareFit(labels, stop).fit();
}

}  // namespace winnow
