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

class ShareFit {
 public:
  explicit ShareFit(const JudgedLabels& labels)
      : labels_(labels),
        classes_(static_cast<std::size_t>(labels.classes)),
        models_(static_cast<std::size_t>(std::ranges::max(labels.model)) + 1),
        bias_(models_ * classes_) {
    result_.sharpness = kFirstSharpness;
    result_.flips.assign(classes_ * classes_,
                         kFirstRate / std::max(1.0, static_cast<double>(classes_ - 1)));
    for (std::size_t j = 0; j < classes_; ++j) {
      result_.flips[j * classes_ + j] = 1.0 - kFirstRate;
    }
    logs_.reserve(labels.p.size());
    for (const float p : labels.p) {
      logs_.push_back(math::log(std::clamp(static_cast<double>(p), kLeastProbability, 1.0)));
    }
  }

  WrongShare fit() {
    double before = -1e300;
    double likelihood = step();
    while (result_.steps < kMostShareSteps && std::abs(likelihood - before) >= kShareStill) {
      before = likelihood;
      likelihood = step();
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

  // The probabilities of the true class of a sample, before its label is looked at.
  void true_class(std::size_t sample, std::size_t model, std::vector<double>& q) const {
    const double* log_p = logs_.data() + sample * classes_;
    double most = -1e300;
    for (std::size_t j = 0; j < classes_; ++j) {
      q[j] = result_.sharpness * log_p[j] + bias_[model * classes_ + j];
      most = std::max(most, q[j]);
    }
    double sum = 0.0;
    for (double& share : q) {
      share = math::exp(share - most);
      sum += share;
    }
    std::ranges::for_each(q, [sum](double& share) { share /= sum; });
  }

  // Fills `known` with what the label adds, and returns the label's probability.
  double look_at_label(const std::vector<double>& q, std::size_t given,
                       std::vector<double>& known) const {
    double whole = 0.0;
    for (std::size_t j = 0; j < classes_; ++j) {
      known[j] = q[j] * result_.flips[j * classes_ + given];
      whole += known[j];
    }
    whole = std::max(whole, 1e-300);
    std::ranges::for_each(known, [whole](double& share) { share /= whole; });
    return whole;
  }

  // One step of expectation maximisation; returns the mean log-likelihood before it.
  double step() {
    std::vector<Sums> sums(models_, Sums(classes_));
    std::vector<double> joint(classes_ * classes_);
    std::vector<double> q(classes_);
    std::vector<double> known(classes_);
    double likelihood = 0.0;
    double right = 0.0;
    double slope = 0.0;  // of the likelihood, by sharpness
    double curvature = 0.0;
    for (std::size_t i = 0; i < labels_.given.size(); ++i) {
      const auto model = static_cast<std::size_t>(labels_.model[i]);
      const auto given = static_cast<std::size_t>(labels_.given[i]);
      true_class(i, model, q);
      likelihood += math::log(look_at_label(q, given, known));
      right += known[given];
      Sums& own = sums[model];
      double mean = 0.0;
      double square = 0.0;
      for (std::size_t j = 0; j < classes_; ++j) {
        const double log_p = logs_[i * classes_ + j];
        joint[j * classes_ + given] += known[j];
        own.seen[j] += known[j];
        own.due[j] += q[j];
        slope += (known[j] - q[j]) * log_p;
        mean += q[j] * log_p;
        square += q[j] * log_p * log_p;
      }
      curvature += square - mean * mean;
    }
    const auto count = static_cast<double>(labels_.given.size());
    result_.rate = 1.0 - right / count;
    ++result_.steps;
    if (curvature > 0.0) {
      result_.sharpness =
          std::clamp(result_.sharpness + slope / curvature, kLeastSharpness, kMostSharpness);
    }
    take(sums, joint);
    return likelihood / count;
  }

  void take(const std::vector<Sums>& sums, const std::vector<double>& joint) {
    for (std::size_t j = 0; j < classes_; ++j) {
      double row = 0.0;
      for (std::size_t i = 0; i < classes_; ++i) {
        row += joint[j * classes_ + i];
      }
      for (std::size_t i = 0; i < classes_ && row > 0.0; ++i) {
        result_.flips[j * classes_ + i] = joint[j * classes_ + i] / row;
      }
    }
    for (std::size_t m = 0; m < models_; ++m) {
      const Sums& own = sums[m];
      for (std::size_t j = 0; j < classes_; ++j) {
        // One sample more on either side: a class that hardly occurs has no factor of its own.
        bias_[m * classes_ + j] += math::log((own.seen[j] + 1.0) / (own.due[j] + 1.0));
      }
    }
  }

  const JudgedLabels& labels_;
  std::size_t classes_;
  std::size_t models_;
  std::vector<double> bias_;  // by model and class
  std::vector<double> logs_;
  WrongShare result_;
};

}  // namespace

// spec: audit 2
WrongShare fit_wrong_share(const JudgedLabels& labels) {
  return labels.given.empty() ? WrongShare{} : ShareFit(labels).fit();
}

}  // namespace winnow
