#include "winnow/engine/hostile_fleet.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <variant>

#include "winnow/base/random.h"
#include "winnow/federation/aggregation.h"

namespace winnow {
namespace {

constexpr const char* kModelField = "model";

const State* model_in(const Message& message) {
  for (const auto& [name, value] : message.fields()) {
    if (name == kModelField) {
      return std::get_if<State>(&value);
    }
  }
  return nullptr;
}

Message with_model(const Message& message, const State& model) {
  Message changed(message.kind());
  for (const auto& [name, value] : message.fields()) {
    changed.set(name, name == kModelField ? Field(model) : value);
  }
  return changed;
}

// The updates of all models from `base`, one row each.
at::Tensor updates(const State& base, const std::vector<State>& models) {
  std::vector<at::Tensor> rows;
  rows.reserve(models.size());
  for (const State& model : models) {
    rows.push_back(model.parameters().to(at::kDouble) - base.parameters().to(at::kDouble));
  }
  return at::stack(rows);
}

at::Tensor random_update(const at::Tensor& honest, double scale, std::uint64_t key) {
  const at::Tensor on_host = honest.cpu().contiguous();
  const double size = std::sqrt(on_host.square().mean().item<double>());
  at::Tensor drawn = at::empty_like(on_host);
  Stream stream(key);
  auto* values = drawn.data_ptr<double>();
  for (std::int64_t i = 0; i < drawn.numel(); ++i) {
    values[i] = scale * size * stream.normal();
  }
  return drawn.to(honest.device());
}

}  // namespace

State attacked(const AttackOptions& options, const State& base, const State& own,
               const std::vector<State>& seen, std::uint64_t stream) {
  if (options.kind == "free_rider") {
    return base.clone();
  }
  at::Tensor update;
  if (options.colludes()) {
    const at::Tensor all = updates(base, seen);
    const at::Tensor mean = all.mean(0);
    update = options.kind == "alie" ? mean - (all - mean).square().mean(0).sqrt() * options.z
                                    : mean * -options.scale;
  } else {
    const at::Tensor honest = updates(base, {own})[0];
    update = options.kind == "sign_flip" ? honest * -options.scale
                                         : random_update(honest, options.scale, stream);
  }
  State sent = own.clone();
  sent.parameters().copy_(base.parameters().to(at::kDouble) + update);
  return sent;
}

HostileFleet::HostileFleet(Fleet& fleet, std::vector<Attackers> blocks, std::uint64_t seed)
    : fleet_(fleet), blocks_(std::move(blocks)), seed_(seed) {}

void HostileFleet::begin(std::int64_t round) {
  round_ = round;
  ask_ = 0;
  sent_.clear();
}

void HostileFleet::manipulate(const Attackers& block, std::size_t number,
                              std::vector<Reply>& replies) const {
  const auto can_attack = [&](const Reply& reply) {
    const State* model = model_in(reply.message);
    return model != nullptr && sent_.contains(reply.client) && all_finite(*model);
  };
  std::vector<State> seen;
  if (block.options.colludes()) {
    for (const Reply& reply : replies) {
      if (can_attack(reply) &&
          (block.options.sees == "all" || block.clients.contains(reply.client))) {
        seen.push_back(*model_in(reply.message));
      }
    }
  }
  for (Reply& reply : replies) {
    if (!block.clients.contains(reply.client) || !can_attack(reply)) {
      continue;
    }
    const std::uint64_t key =
        stream_key(seed_, "attack",
                   {static_cast<std::uint64_t>(number), static_cast<std::uint64_t>(round_),
                    static_cast<std::uint64_t>(ask_), static_cast<std::uint64_t>(reply.client)});
    reply.message = with_model(reply.message, attacked(block.options, sent_.at(reply.client),
                                                       *model_in(reply.message), seen, key));
  }
}

std::vector<Absence> HostileFleet::ask(const std::vector<Order>& orders, const Fold& fold) {
  bool collusion = false;
  for (const Order& order : orders) {
    if (const State* model = model_in(order.task)) {
      sent_.insert_or_assign(order.client, *model);
    }
    collusion = collusion || std::ranges::any_of(blocks_, [&](const Attackers& block) {
                  return block.options.colludes() && block.clients.contains(order.client);
                });
  }
  const auto pass_on = [&](std::vector<Reply>& replies) {
    for (std::size_t number = 0; number < blocks_.size(); ++number) {
      manipulate(blocks_[number], number, replies);
    }
    for (const Reply& reply : replies) {
      fold(reply.client, reply.message);
    }
  };
  std::vector<Reply> held;
  std::vector<Absence> absent = fleet_.ask(orders, [&](std::int64_t client, const Message& reply) {
    if (collusion) {
      held.push_back({client, reply});
    } else {
      std::vector<Reply> one{{client, reply}};
      pass_on(one);
    }
  });
  pass_on(held);
  ++ask_;
  return absent;
}

}  // namespace winnow
