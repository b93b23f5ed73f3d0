#include "winnow/method/system/winnow/geometry.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

namespace winnow::winnowing {
namespace {

constexpr std::size_t kFewest = 3;      // that can be told apart
constexpr double kIdle = 0.01;          // of the median length
constexpr double kNoDirection = 1e-12;  // length of a sum that points nowhere

double median(std::vector<double> values) {
  std::ranges::sort(values);
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2.0;
}

// Directions of the updates, and their sum over those that count.
class Compass {
 public:
  Compass(const State& global, std::span<const Move> moves, double against)
      : counts_(moves.size()) {
    const at::Tensor from = global.parameters().to(at::kDouble);
    for (std::size_t k = 0; k < moves.size(); ++k) {
      at::Tensor update = moves[k].model.parameters().to(from.options()) - from;
      const double length = update.norm().item<double>();
      lengths_.push_back(length);
      directions_.push_back(length > 0.0 ? update.div_(length).to(at::kFloat) : at::Tensor());
      counts_[k] = moves[k].course >= -against && length > 0.0;
    }
    sum_ = at::zeros_like(from);
    for (std::size_t k = 0; k < moves.size(); ++k) {
      if (counts_[k]) {
        sum_ += directions_[k];
      }
    }
  }

  const std::vector<double>& lengths() const { return lengths_; }

  // With the sum of the others that count.
  std::vector<double> cosines() const {
    const double square = sum_.dot(sum_).item<double>();
    std::vector<double> cosines(directions_.size(), 0.0);
    for (std::size_t k = 0; k < directions_.size(); ++k) {
      if (!directions_[k].defined()) {
        continue;
      }
      const double along = directions_[k].to(at::kDouble).dot(sum_).item<double>();
      const double own = counts_[k] ? 1.0 : 0.0;
      const double others = std::sqrt(std::max(0.0, square - 2.0 * own * along + own));
      cosines[k] = others > kNoDirection ? std::clamp((along - own) / others, -1.0, 1.0) : 0.0;
    }
    return cosines;
  }

  void leave_out(std::size_t k) {
    if (counts_[k]) {
      sum_ -= directions_[k];
      counts_[k] = false;
    }
  }

 private:
  std::vector<double> lengths_;
  std::vector<at::Tensor> directions_;  // float, length 1; undefined: it did not move
  std::vector<bool> counts_;
  at::Tensor sum_;  // double
};

}  // namespace

bool out_of_proportion(double length, double samples, double median_length, double median_samples,
                       double reach) {
  const double more = median_samples > 0.0 ? std::max(1.0, samples / median_samples) : 1.0;
  return median_length > 0.0 &&
         (length > reach * more * median_length || length <= kIdle * median_length);
}

double next_course(double course, double cosine, double share) {
  return (1.0 - share) * course + share * cosine;
}

// spec: winnow 3
std::vector<Bearing> bearings(const State& global, std::span<const Move> moves,
                              const Options& options) {
  Compass compass(global, moves, options.against);
  std::vector<Bearing> bearings(moves.size());
  std::vector<double> samples;
  for (const Move& move : moves) {
    samples.push_back(move.samples);
  }
  std::vector<bool> against(moves.size(), false);
  std::vector<double> cosines = compass.cosines();
  for (bool more = true; more;) {
    more = false;
    for (std::size_t k = 0; k < moves.size(); ++k) {
      const double course = next_course(moves[k].course, cosines[k], options.course);
      if (!against[k] && course < -options.against) {
        against[k] = true;
        compass.leave_out(k);
        more = true;
      }
    }
    if (more) {
      cosines = compass.cosines();
    }
  }
  const auto many = static_cast<std::size_t>(std::ranges::count(against, true));
  const bool told_apart = moves.size() >= kFewest && 2 * many <= moves.size();
  const double usual_length = moves.empty() ? 0.0 : median(compass.lengths());
  const double usual_samples = moves.empty() ? 0.0 : median(samples);
  for (std::size_t k = 0; k < moves.size(); ++k) {
    bearings[k].cosine = cosines[k];
    bearings[k].length = compass.lengths()[k];
    bearings[k].course =
        told_apart ? next_course(moves[k].course, cosines[k], options.course) : moves[k].course;
    bearings[k].struck =
        (told_apart && against[k]) ||
        (moves.size() >= kFewest && out_of_proportion(bearings[k].length, samples[k], usual_length,
                                                      usual_samples, options.reach));
  }
  return bearings;
}

}  // namespace winnow::winnowing
