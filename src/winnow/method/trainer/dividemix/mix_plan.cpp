#include "winnow/method/trainer/dividemix/mix_plan.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "winnow/base/random.h"

namespace winnow::dividemix {
namespace {

// Numbers that come again and again, every time in a new order.
class Cycle {
 public:
  explicit Cycle(std::vector<std::int64_t> places) : places_(std::move(places)) {}

  std::int64_t next(Stream& stream) {
    if (used_ % places_.size() == 0) {
      stream.shuffle(std::span(places_));
    }
    return places_[used_++ % places_.size()];
  }

 private:
  std::vector<std::int64_t> places_;
  std::size_t used_ = 0;
};

at::Tensor gather(std::span<const std::int64_t> values, std::span<const std::int64_t> places) {
  at::Tensor result = at::empty({std::ssize(places)}, at::kLong);
  std::ranges::transform(places, result.data_ptr<std::int64_t>(), [values](std::int64_t place) {
    return values[static_cast<std::size_t>(place)];
  });
  return result;
}

// The places of all entries, batch by batch; fills the plan's batches.
std::vector<std::int64_t> deal_out(std::vector<std::int64_t> labelled,
                                   std::vector<std::int64_t> others, std::int64_t batch_size,
                                   Stream& stream, std::vector<Plan::Batch>& batches) {
  stream.shuffle(std::span(labelled));
  const bool paired = !others.empty();
  Cycle unlabelled(std::move(others));
  const auto count = std::ssize(labelled);
  std::vector<std::int64_t> places;
  for (std::int64_t start = 0; start < count; start += batch_size) {
    const std::int64_t size = std::min(batch_size, count - start);
    batches.push_back({std::ssize(places), paired ? 2 * size : size, start == 0});
    const auto first = labelled.begin() + start;
    places.insert(places.end(), first, first + size);
    for (std::int64_t i = 0; paired && i < size; ++i) {
      places.push_back(unlabelled.next(stream));
    }
  }
  return places;
}

}  // namespace

MixPlan make_mix_plan(const LocalSet& set, std::span<const double> clean, const MixOptions& options,
                      std::uint64_t key) {
  std::vector<std::int64_t> labelled;
  std::vector<std::int64_t> others;
  for (std::int64_t place = 0; place < set.size(); ++place) {
    (clean[static_cast<std::size_t>(place)] > options.threshold ? labelled : others)
        .push_back(place);
  }
  Stream stream(key);
  MixPlan result;
  Plan& plan = result.plan;
  result.unlabelled = !others.empty();
  const std::vector<std::int64_t> places =
      deal_out(std::move(labelled), std::move(others), options.batch_size, stream, plan.batches);
  plan.views = kViews;
  plan.place = at::tensor(places, at::kLong);
  plan.index = gather(set.samples, places);
  plan.label = gather(set.labels, places);
  if (options.augment) {
    plan.jitter = draw_jitter(kViews * plan.entries(), stream.next_u64(), options.augment.places);
  }
  const auto steps = std::ssize(plan.batches);
  result.clean = at::empty({plan.entries()}, at::kFloat);
  std::ranges::transform(places, result.clean.data_ptr<float>(), [clean](std::int64_t place) {
    return static_cast<float>(clean[static_cast<std::size_t>(place)]);
  });
  result.partner = at::empty({plan.entries(), kViews}, at::kLong);
  result.lambda = at::empty({steps}, at::kFloat);
  auto* partner = result.partner.data_ptr<std::int64_t>();
  auto* lambda = result.lambda.data_ptr<float>();
  for (const Plan::Batch& batch : plan.batches) {
    const double share = stream.beta(options.alpha, options.alpha);
    *lambda++ = static_cast<float>(std::max(share, 1.0 - share));
    // The batch in its first view, then in its second.
    const std::vector<std::int64_t> order = stream.permutation(kViews * batch.size);
    for (std::int64_t i = 0; i < batch.size; ++i) {
      for (std::int64_t view = 0; view < kViews; ++view) {
        partner[(batch.start + i) * kViews + view] =
            order[static_cast<std::size_t>(view * batch.size + i)];
      }
    }
  }
  return result;
}

}  // namespace winnow::dividemix
