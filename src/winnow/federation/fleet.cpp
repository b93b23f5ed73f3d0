#include "winnow/federation/fleet.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <optional>

#include "winnow/base/error.h"
#include "winnow/federation/aggregation.h"
#include "winnow/federation/fixed_sum.h"
#include "winnow/federation/part_mean.h"

namespace winnow {

namespace {

constexpr std::array<const char*, 4> kReasons{"silent", "late", "refused", "left"};

// A sum of either form.
class GrowingSum {
 public:
  explicit GrowingSum(SumForm form) : form_(form) {}

  void add(const State& model, const PartWeights& weights) {
    if (form_ == SumForm::fixed) {
      fixed_.add(model, weights);
      return;
    }
    if (!floating_) {
      layout_ = model.layout;
      device_ = model.flat.device();
      floating_.emplace(layout_);
    } else {
      require_same_layout(*model.layout, *layout_);
    }
    const at::Tensor host = model.flat.to(at::kCPU).contiguous();
    floating_->add({host.data_ptr<float>(), static_cast<std::size_t>(host.numel())}, weights);
  }
  State mean() const {
    if (form_ == SumForm::fixed) {
      return fixed_.mean();
    }
    State mean = State::zeros(layout_);
    floating_->write({mean.flat.data_ptr<float>(), static_cast<std::size_t>(mean.flat.numel())});
    mean.counters().round_();
    return mean.to(device_);
  }

 private:
  SumForm form_;
  FixedSum fixed_;
  LayoutPtr layout_;
  at::Device device_ = at::kCPU;
  std::optional<PartMean> floating_;
};

}  // namespace

std::string name_of(AbsenceReason reason) {
  return kReasons.at(static_cast<std::size_t>(reason));
}

AbsenceReason absence_reason(const std::string& name) {
  const auto found = std::ranges::find(kReasons, name);
  if (found == kReasons.end()) {
    throw Error(ErrorKind::run,
                fmt::format("reason \"{}\": expected silent, late, refused or left", name));
  }
  return static_cast<AbsenceReason>(found - kReasons.begin());
}

bool is_absent(std::int64_t client, const std::vector<Absence>& absent) {
  return std::ranges::binary_search(absent, client, {}, &Absence::client);
}

ClientList Fleet::with_samples() const {
  std::vector<std::int64_t> clients;
  for (std::int64_t client = 0; client < size(); ++client) {
    if (samples(client) > 0) {
      clients.push_back(client);
    }
  }
  return clients;
}

Message without_summed(const Message& reply, const std::vector<FieldRule>& rules) {
  Message rest(reply.kind());
  for (const auto& [name, field] : reply.fields()) {
    const auto rule = std::ranges::find(rules, name, &FieldRule::name);
    if (rule == rules.end() || !rule->sum) {
      rest.set(name, field);
    }
  }
  return rest;
}

bool fits_sum(const State& model, SumForm form) {
  return form == SumForm::fixed ? unfit_value(model).empty() : all_finite(model);
}

Sums Fleet::ask_for_sums(const std::vector<Order>& orders, const std::vector<FieldRule>& rules,
                         SumForm form, const Hear& hear) {
  Sums sums;
  std::map<std::string, GrowingSum> formed;
  sums.absent = ask(orders, [&](std::int64_t client, const Message& reply) {
    const bool fits = std::ranges::all_of(rules, [&](const FieldRule& rule) {
      return !rule.sum || fits_sum(reply.get<State>(rule.name), form);
    });
    const Message rest = without_summed(reply, rules);
    if (!fits || !hear(client, rest)) {
      sums.rejected.push_back(client);
      return;
    }
    for (const FieldRule& rule : rules) {
      if (rule.sum) {
        formed.try_emplace(rule.name, form)
            .first->second.add(reply.get<State>(rule.name),
                               part_weights(*rule.sum, rest.get<std::uint32_t>("samples")));
      }
    }
    sums.added.push_back(client);
  });
  std::ranges::sort(sums.added);
  for (const auto& [name, sum] : formed) {
    sums.means.emplace(name, sum.mean());
  }
  return sums;
}

std::vector<std::size_t> fold_order(const std::vector<Order>& orders, const Fleet& fleet) {
  std::vector<std::size_t> places(orders.size());
  std::iota(places.begin(), places.end(), std::size_t{0});
  std::ranges::sort(places, [&](std::size_t a, std::size_t b) {
    const std::int64_t size_a = fleet.samples(orders[a].client);
    const std::int64_t size_b = fleet.samples(orders[b].client);
    return size_a != size_b ? size_a > size_b : orders[a].client < orders[b].client;
  });
  return places;
}

}  // namespace winnow
