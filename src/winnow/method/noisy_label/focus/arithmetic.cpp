#include "winnow/method/noisy_label/focus/arithmetic.h"

#include <algorithm>
#include <numeric>

#include "winnow/base/math.h"

namespace winnow::focus {
namespace {

void divide(std::vector<double>& values, double by) {
  for (double& value : values) {
    value /= by;
  }
}

}  // namespace

std::vector<double> credibility(std::span<const double> mutual, double alpha) {
  if (mutual.empty()) {
    return {};
  }
  const double largest = *std::ranges::max_element(mutual);
  std::vector<double> shares;
  shares.reserve(mutual.size());
  for (const double loss : mutual) {
    shares.push_back(math::exp(alpha * (loss - largest)));
  }
  divide(shares, std::accumulate(shares.begin(), shares.end(), 0.0));
  for (double& share : shares) {
    share = 1.0 - share;
  }
  return shares;
}

std::vector<double> credited_samples(std::span<const double> samples,
                                     std::span<const double> credibility) {
  std::vector<double> weights(samples.begin(), samples.end());
  const double most =
      credibility.empty() ? 0.0 : *std::max_element(credibility.begin(), credibility.end());
  if (!(most > 0.0)) {
    return weights;
  }
  for (std::size_t k = 0; k < weights.size(); ++k) {
    weights[k] *= credibility[k] / most;
  }
  if (std::accumulate(weights.begin(), weights.end(), 0.0) > 0.0) {
    return weights;
  }
  return {samples.begin(), samples.end()};
}

std::vector<double> credit_weights(std::span<const double> samples,
                                   std::span<const double> credibility) {
  std::vector<double> weights = credited_samples(samples, credibility);
  const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
  if (total > 0.0) {
    divide(weights, total);
  }
  return weights;
}

std::vector<double> losses_before(std::span<const std::int64_t> clients,
                                  const std::map<std::int64_t, double>& known) {
  double sum = 0.0;
  double count = 0.0;
  for (const std::int64_t client : clients) {
    if (const auto found = known.find(client); found != known.end()) {
      sum += found->second;
      ++count;
    }
  }
  const double mean = count > 0.0 ? sum / count : 0.0;
  std::vector<double> losses;
  losses.reserve(clients.size());
  for (const std::int64_t client : clients) {
    const auto found = known.find(client);
    losses.push_back(found != known.end() ? found->second : mean);
  }
  return losses;
}

}  // namespace winnow::focus
