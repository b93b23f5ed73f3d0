#include "winnow/method/system/fedrn/arithmetic.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "winnow/base/math.h"
#include "winnow/stats/min_max.h"

namespace winnow::fedrn {
namespace {

constexpr double kSmallestNorm = 1e-8;

// What the cosine is taken of.
std::vector<double> signature(const std::vector<float>& output, Similarity similarity) {
  std::vector<double> values(output.begin(), output.end());
  if (similarity == Similarity::logits || values.empty()) {
    return values;
  }
  const double largest = std::ranges::max(values);
  double sum = 0.0;
  for (double& value : values) {
    value = math::exp(value - largest);
    sum += value;
  }
  for (double& value : values) {
    value /= sum;
  }
  return values;
}

double norm(std::span<const double> values) {
  return std::sqrt(std::inner_product(values.begin(), values.end(), values.begin(), 0.0));
}

// Of every known client to the target, in the order of the map.
std::vector<double> similarities(const Profiles& profiles, const Profile& target,
                                 Similarity similarity) {
  const std::vector<double> own = signature(target.output, similarity);
  std::vector<double> cosines;
  cosines.reserve(profiles.size());
  for (const auto& [client, profile] : profiles) {
    cosines.push_back(cosine(own, signature(profile.output, similarity)));
  }
  return min_max(std::move(cosines));
}

}  // namespace

double cosine(std::span<const double> a, std::span<const double> b) {
  const double product = std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
  return product / (std::max(norm(a), kSmallestNorm) * std::max(norm(b), kSmallestNorm));
}

Reliability reliability(const Profiles& profiles, std::int64_t target, double alpha,
                        Similarity similarity) {
  std::vector<double> expertise;
  expertise.reserve(profiles.size());
  for (const auto& [client, profile] : profiles) {
    expertise.push_back(profile.expertise);
  }
  expertise = min_max(std::move(expertise));
  const auto own = profiles.find(target);
  const std::vector<double> similar = own == profiles.end()
                                          ? std::vector<double>(profiles.size(), 1.0)
                                          : similarities(profiles, own->second, similarity);
  Reliability result;
  std::size_t place = 0;
  for (const auto& [client, profile] : profiles) {
    if (client == target) {
      result.self = alpha * expertise[place] + (1.0 - alpha);
    } else {
      result.others[client] = alpha * expertise[place] + (1.0 - alpha) * similar[place];
    }
    ++place;
  }
  return result;
}

Likeness likeness(const Profiles& profiles, Similarity similarity, std::size_t most) {
  Likeness result{.of = similarity == Similarity::softmax ? "softmax" : "logits",
                  .known = std::ssize(profiles)};
  const std::size_t count = std::min(most, profiles.size());
  std::vector<std::vector<double>> signatures;
  std::size_t place = 0;
  for (const auto& [client, profile] : profiles) {
    const std::size_t next = signatures.size();
    const std::size_t wanted = count < 2 ? 0 : next * (profiles.size() - 1) / (count - 1);
    if (next < count && place == wanted) {
      result.clients.push_back(client);
      signatures.push_back(signature(profile.output, similarity));
    }
    ++place;
  }
  for (const std::vector<double>& one : signatures) {
    std::vector<double>& row = result.values.emplace_back();
    for (const std::vector<double>& other : signatures) {
      row.push_back(std::clamp(cosine(one, other), -1.0, 1.0));
    }
  }
  return result;
}

std::vector<std::int64_t> most_reliable(const Reliability& reliability, std::int64_t count) {
  std::vector<std::int64_t> clients;
  clients.reserve(reliability.others.size());
  for (const auto& [client, value] : reliability.others) {
    clients.push_back(client);
  }
  std::ranges::stable_sort(clients, std::ranges::greater(),
                           [&](std::int64_t client) { return reliability.others.at(client); });
  clients.resize(std::min(clients.size(), static_cast<std::size_t>(count)));
  return clients;
}

std::vector<std::int64_t> random_neighbours(const Profiles& profiles, std::int64_t target,
                                            std::int64_t count, Stream stream) {
  std::vector<std::int64_t> others;
  others.reserve(profiles.size());
  for (const auto& [client, profile] : profiles) {
    if (client != target) {
      others.push_back(client);
    }
  }
  const std::int64_t known = std::ssize(others);
  std::vector<std::int64_t> chosen;
  for (const std::int64_t place : stream.sample(known, std::min(count, known))) {
    chosen.push_back(others[static_cast<std::size_t>(place)]);
  }
  std::ranges::sort(chosen);
  return chosen;
}

}  // namespace winnow::fedrn
