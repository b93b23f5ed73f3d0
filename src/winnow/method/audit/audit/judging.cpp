#include "winnow/method/audit/audit/judging.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <span>

#include "winnow/base/random.h"

namespace winnow::audit {
namespace {

constexpr std::int64_t kNeighbours = 10;           // spec: audit 4
constexpr std::int64_t kMostCompared = 4000;       // neighbours are looked for among so many
constexpr std::int64_t kRowsAtOnce = 1024;         // whose distances are held
constexpr std::int64_t kMostCoordinates = 20'000;  // of an update that is compared

double median_of(std::vector<double> values) {
  const auto middle = values.begin() + std::ssize(values) / 2;
  std::ranges::nth_element(values, middle);
  return *middle;
}

}  // namespace

std::map<std::int64_t, std::int64_t> deal_folds(const std::vector<std::int64_t>& clients,
                                                std::int64_t count, std::uint64_t seed,
                                                std::int64_t repetition) {
  std::vector<std::int64_t> order = clients;
  Stream stream(seed, "audit folds", repetition);
  stream.shuffle(std::span(order));
  std::map<std::int64_t, std::int64_t> folds;
  for (std::size_t i = 0; i < order.size(); ++i) {
    folds[order[i]] = static_cast<std::int64_t>(i) % count;
  }
  return folds;
}

std::uint64_t fold_seed(std::uint64_t seed, std::int64_t number) {
  return stream_key(seed, "audit", {static_cast<std::uint64_t>(number)}) >> 1U;
}

// spec: audit 4
Said said_of(const at::Tensor& features, const at::Tensor& logits) {
  Said said;
  said.p = at::nan_to_num(at::softmax(logits.to(at::kCPU, at::kFloat), 1), 0.0).contiguous();
  const auto classes = static_cast<double>(logits.size(1));
  at::Tensor norm = (said.p - 1.0 / classes).pow(2).sum(1).sqrt().to(at::kDouble);
  if (features.defined()) {
    said.features = features.flatten(1).to(at::kCPU, at::kFloat).contiguous();
    // With the bias the head's input is (f, 1).
    norm = norm * (said.features.to(at::kDouble).pow(2).sum(1) + 1.0).sqrt();
  }
  norm = at::nan_to_num(norm, 0.0).contiguous();
  said.gradient_norms.assign(norm.data_ptr<double>(), norm.data_ptr<double>() + norm.numel());
  return said;
}

std::vector<double> neighbour_distances(const at::Tensor& features) {
  const std::int64_t count = features.size(0);
  const std::int64_t stride =
      std::max<std::int64_t>(1, (count + kMostCompared - 1) / kMostCompared);
  std::vector<double> distances(static_cast<std::size_t>(count), 0.0);
  if (count == 0) {
    return distances;
  }
  const at::Tensor others = features.slice(0, 0, count, stride).contiguous();
  const std::int64_t near = std::min(kNeighbours, others.size(0) - 1);
  if (near < 1) {
    return distances;
  }
  for (std::int64_t start = 0; start < count; start += kRowsAtOnce) {
    const std::int64_t size = std::min(kRowsAtOnce, count - start);
    const at::Tensor between = at::cdist(features.narrow(0, start, size), others).contiguous();
    for (std::int64_t i = start; i < start + size; ++i) {
      if (i % stride == 0) {  // not its own neighbour
        between.data_ptr<float>()[(i - start) * others.size(0) + i / stride] = 1e30F;
      }
    }
    const at::Tensor nearest = std::get<0>(at::topk(between, near, 1, /*largest=*/false));
    const at::Tensor mean = at::nan_to_num(nearest.to(at::kDouble).mean(1), 0.0).contiguous();
    std::copy_n(mean.data_ptr<double>(), size, distances.begin() + start);
  }
  return distances;
}

at::Tensor thinned_update(const State& start, const State& end) {
  const std::int64_t parameters = start.layout->parameters();
  const std::int64_t stride = std::max<std::int64_t>(1, parameters / kMostCoordinates);
  const auto parts = [&](const State& state) {
    return state.flat.narrow(0, 0, parameters).slice(0, 0, parameters, stride);
  };
  return (parts(end) - parts(start)).to(at::kCPU, at::kDouble).contiguous();
}

std::vector<UpdateShape> compare_updates(const std::vector<at::Tensor>& updates) {
  std::vector<UpdateShape> shapes(updates.size());
  if (updates.size() < 2) {
    return shapes;
  }
  const at::Tensor sum = at::stack(updates).sum(0);
  std::vector<double> norms;
  for (const at::Tensor& update : updates) {
    norms.push_back(update.norm().item<double>());
  }
  const double middle = std::max(median_of(norms), 1e-12);
  for (std::size_t i = 0; i < updates.size(); ++i) {
    const at::Tensor others = sum - updates[i];
    const double lengths = norms[i] * others.norm().item<double>();
    const double cosine = lengths > 0.0 ? updates[i].dot(others).item<double>() / lengths : 0.0;
    shapes[i] = {std::isfinite(cosine) ? cosine : 0.0,
                 std::isfinite(norms[i]) ? norms[i] / middle : 1.0};
  }
  return shapes;
}

}  // namespace winnow::audit
