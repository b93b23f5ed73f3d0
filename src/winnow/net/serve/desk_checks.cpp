// What a reply has to pass, and how one that does is kept.
#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "winnow/base/error.h"
#include "winnow/federation/aggregation.h"
#include "winnow/federation/firewall.h"
#include "winnow/net/serve/desk_parts.h"
#include "winnow/net/serve/reply_bounds.h"

namespace winnow::net {
namespace {

constexpr std::size_t kFewestNorms = 5;  // of which a median says something

// The reply without its models, which are not here yet.
Message numbers_of(const Message& reply) {
  Message numbers(reply.kind());
  for (const auto& [name, field] : reply.fields()) {
    if (!std::holds_alternative<State>(field) &&
        !std::holds_alternative<std::vector<State>>(field)) {
      numbers.set(name, field);
    }
  }
  return numbers;
}

}  // namespace

std::string Desk::inspect(const Live& order, const v1::Opening& opening) const {
  const auto refuse = [](v1::Reason reason, const std::string& why) {
    throw Refused{reason, why, false, true};
  };
  const auto client = static_cast<std::size_t>(order.row.client);
  const std::int64_t samples = samples_.at(client);
  const LayoutPtr& layout = setup_.layouts.at(client);
  const std::vector<FieldRule>& rules = exchange_of(order.row.exchange, setup_.exchanges).answers;
  if (std::ssize(opening.head()) > longest_head(rules, samples)) {
    refuse(v1::OVERSIZED, fmt::format("a head of {} bytes, expected at most {}",
                                      opening.head().size(), longest_head(rules, samples)));
  }
  if (opening.models_size() > most_models(rules, samples)) {
    refuse(v1::OVERSIZED, fmt::format("{} models, expected at most {}", opening.models_size(),
                                      most_models(rules, samples)));
  }
  if (!opening.own_model().empty() && opening.own_model().size() != kDigestBytes) {
    refuse(v1::WRONG_FIELDS, fmt::format("own_model has {} bytes, expected {}",
                                         opening.own_model().size(), kDigestBytes));
  }
  for (const auto& [name, count] : {std::pair{"steps", opening.steps()},
                                    {"forward", opening.forward()},
                                    {"backward", opening.backward()}}) {
    if (count > kMostCounted) {
      refuse(v1::OUT_OF_RANGE,
             fmt::format("{} = {}, expected at most {}", name, count, kMostCounted));
    }
  }
  Parcel parcel{opening.head()};
  const auto bytes = static_cast<std::uint64_t>(layout->total()) * sizeof(float);
  for (int place = 0; place < opening.models_size(); ++place) {
    const v1::Model& model = opening.models(place);
    if (model.digest().size() != kDigestBytes || model.layout().size() != kDigestBytes) {
      refuse(v1::WRONG_FIELDS,
             fmt::format("model {} has no digest of {} bytes", place, kDigestBytes));
    }
    if (model.layout() != raw_of(layout->digest())) {
      refuse(v1::WRONG_LAYOUT, fmt::format("model {} has the layout of another network", place));
    }
    if (model.bytes() != bytes) {
      refuse(model.bytes() > bytes ? v1::OVERSIZED : v1::WRONG_LENGTH,
             fmt::format("model {} of {} bytes, expected {}", place, model.bytes(), bytes));
    }
    parcel.models.push_back({hexadecimal_of(model.digest()), hexadecimal_of(model.layout())});
  }
  std::string first;
  Known known{.layouts = {layout}, .samples = samples};
  known.model = [&](const std::string& digest) -> std::optional<State> {
    first = first.empty() ? digest : first;
    return State{layout, {}};  // its values come later
  };
  try {
    const Message reply = unpack_reply(parcel, order.row.exchange, setup_.exchanges, known);
    if (const auto refusal = judge(reply, Message(order.row.exchange), samples, setup_.exchanges)) {
      refuse(reason_of(refusal->reason), refusal->detail);
    }
    if (setup_.strict && !usable(numbers_of(reply), rules)) {
      refuse(v1::NOT_FINITE, "it holds numbers that are not finite");
    }
  } catch (const Misfit& misfit) {
    refuse(reason_of(misfit.reason()), misfit.what());
  }
  return first;
}

bool Desk::holds(const std::string& digest, std::int64_t bytes) const {
  if (spool_.holds(digest, bytes)) {
    return true;
  }
  const auto shown = shown_.find(digest);
  return shown != shown_.end() && shown->second.bytes() == bytes;
}

void Desk::store(Delivery& delivery) const {
  for (Part& part : delivery.parts) {
    if (part.incoming != nullptr) {
      spool_.keep(*part.incoming, part.digest);
    } else if (!spool_.holds(part.digest, part.bytes)) {
      State shown;
      {
        const std::lock_guard lock(mutex_);
        const auto found = shown_.find(part.digest);
        if (found == shown_.end()) {
          throw Refused{v1::NOT_NOW, "the model is not held any more", true};
        }
        shown = found->second;
      }
      spool_.keep(shown, part.digest);
    }
  }
}

std::optional<double> Desk::distance(const Delivery& delivery, const std::string& sent,
                                     const LayoutPtr& layout) const {
  if (setup_.norm_band <= 0.0 || delivery.first_model.empty() || sent.empty()) {
    return std::nullopt;
  }
  State before;
  {
    const std::lock_guard lock(mutex_);
    const auto shown = shown_.find(sent);
    if (shown == shown_.end() || !(*shown->second.layout == *layout)) {
      return std::nullopt;
    }
    before = shown->second;
  }
  return parameter_distance(spool_.map(delivery.first_model, layout), before);
}

void Desk::check_norm(const Live& order, double distance) const {
  std::vector<double> earlier = journal_.norms(order.row.round, order.row.exchange);
  if (earlier.size() < kFewestNorms || !std::isfinite(distance)) {
    return;
  }
  const auto middle = earlier.begin() + static_cast<std::ptrdiff_t>(earlier.size() / 2);
  std::ranges::nth_element(earlier, middle);
  if (distance > setup_.norm_band * *middle) {
    throw Refused{v1::NORM_BAND,
                  fmt::format("the model is {:.4g} from the one sent, the median of earlier rounds "
                              "is {:.4g}",
                              distance, *middle),
                  false, true};
  }
}

void Desk::accept(Member& member, Live& order, const Delivery& delivery,
                  const std::optional<double>& norm) {
  OrderRow row = order.row;
  row.verdict = OrderVerdict::accepted;
  row.reason.clear();
  const v1::Opening& opening = delivery.opening;
  row.reply = {.head = opening.head(),
               .digest = delivery.digest,
               .steps = static_cast<std::int64_t>(opening.steps()),
               .forward = static_cast<std::int64_t>(opening.forward()),
               .backward = static_cast<std::int64_t>(opening.backward()),
               .own_model = hexadecimal_of(opening.own_model())};
  for (const Part& part : delivery.parts) {
    row.reply.models.push_back({part.digest, part.layout});
    row.reply.bytes += part.bytes;
  }
  journal_.accept(row, norm && std::isfinite(*norm) ? std::optional(NormRow{row.exchange, *norm})
                                                    : std::nullopt);
  order.row = std::move(row);
  member.delivery.reset();
  metrics_.add("winnow_replies_total",
               label("verdict", "accepted") + "," + label("reason", "none"));
  if (order.handed_out >= 0) {
    metrics_.observe("winnow_task_seconds", label("kind", order.row.exchange),
                     static_cast<double>(clock_.now() - order.handed_out) / 1000.0);
  }
  changed_.notify_all();
  fail(kAfterVerdict);
}

}  // namespace winnow::net
