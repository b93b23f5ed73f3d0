#include "winnow/method/clc/clc.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "winnow/base/error.h"
#include "winnow/federation/aggregation.h"
#include "winnow/federation/selection.h"
#include "winnow/method/clc/client.h"

namespace winnow {
namespace {

constexpr const char* kHeldOut = "held_out";

const char* stage_text(clc::Stage stage) {
  switch (stage) {
    case clc::Stage::start:
      return "start";
    case clc::Stage::hold_out:
      return "hold out";
    case clc::Stage::correction:
      return "correction";
  }
  return "";
}

bool all_usable(const std::vector<double>& values) {
  return std::ranges::all_of(values,
                             [](double value) { return std::isfinite(value) && value >= 0.0; });
}

void require_classes(std::int64_t client, const clc::ClassConfidence& own, std::int64_t classes) {
  const auto expected = static_cast<std::size_t>(classes);
  if (own.mean.size() != expected || own.count.size() != expected) {
    throw Error(ErrorKind::peer,
                fmt::format("client {} sent {} confidences and {} counts, expected {} of each",
                            client, own.mean.size(), own.count.size(), expected));
  }
}

std::int64_t kept_of(std::int64_t client, const Message& reply, std::int64_t samples) {
  const auto kept = static_cast<std::int64_t>(reply.get<std::uint32_t>("samples"));
  if (kept > samples) {
    throw Error(ErrorKind::peer, fmt::format("client {} kept {} samples, expected at most its {}",
                                             client, kept, samples));
  }
  return kept;
}

}  // namespace

void Clc::check(const Setting& /*setting*/) const {
  if (options_.rounds() == 0) {
    throw Error(ErrorKind::experiment,
                "method.start_rounds, holdout_rounds and correction_rounds are all 0",
                "expected at least one round");
  }
}

std::string Clc::schedule(const Setting& /*setting*/) const {
  return fmt::format("start_rounds {} + holdout_rounds {} + correction_rounds {}",
                     options_.start_rounds, options_.holdout_rounds, options_.correction_rounds);
}

std::unique_ptr<ClientSide> Clc::client_side() const {
  return std::make_unique<clc::Client>(options_, fedavg_.client_side());
}

std::vector<Schema> Clc::schemas() const {
  std::vector<Schema> schemas = fedavg_.schemas();
  schemas.push_back({"confidence", {{"model", FieldType::state}}});
  schemas.push_back({"confidence_done", {{"mean", FieldType::f64s}, {"count", FieldType::f64s}}});
  schemas.push_back({"train_kept", {{"round", FieldType::u32}, {"confidence", FieldType::f64s}}});
  schemas.push_back(
      {"train_kept_done", {{"model", FieldType::state}, {"samples", FieldType::u32}}});
  schemas.push_back({"correct", {{"confidence", FieldType::f64s}}});
  schemas.push_back({"correct_done", {{"relabelled", FieldType::u32}}});
  return schemas;
}

void Clc::play(std::int64_t round, Server& server) {
  const std::vector<std::int64_t> pool = selectable_clients(server.fleet);
  const std::int64_t count = participants(server.setting.fraction, std::ssize(pool));
  const clc::Stage stage = clc::stage_of(options_, round);
  server.notes["stage"] = stage_text(stage);
  if (stage == clc::Stage::hold_out) {
    hold_out(round, fedavg_.select(pool, count, round, server), server);
    return;
  }
  if (clc::corrects(options_, round)) {
    correct(round, pool, server);
  }
  fedavg_.play_among(pool, count, "train", round, server);
}

Clc::Agreement Clc::agree(const std::vector<std::int64_t>& asked, const Server& server) {
  std::vector<Order> orders;
  orders.reserve(asked.size());
  for (const std::int64_t client : asked) {
    orders.push_back({client, Message("confidence").set("model", server.global)});
  }
  Agreement agreement;
  clc::Consensus consensus(static_cast<std::size_t>(server.setting.classes));
  server.fleet.ask(orders, [&](std::int64_t client, const Message& reply) {
    const clc::ClassConfidence own{reply.get<std::vector<double>>("mean"),
                                   reply.get<std::vector<double>>("count")};
    require_classes(client, own, server.setting.classes);
    if (all_usable(own.mean) && all_usable(own.count)) {
      consensus.add(own);
      agreement.clients.push_back(client);
    } else {
      agreement.rejected.push_back(client);
    }
  });
  agreement.confidence = consensus.confidence();
  return agreement;
}

void Clc::hold_out(std::int64_t round, const std::vector<std::int64_t>& chosen, Server& server) {
  const Agreement agreement = agree(chosen, server);
  note_replies(round, chosen, agreement.rejected, server.notes);
  std::vector<Order> orders;
  orders.reserve(agreement.clients.size());
  for (const std::int64_t client : agreement.clients) {
    orders.push_back({client, Message("train_kept")
                                  .set("round", static_cast<std::uint32_t>(round))
                                  .set("confidence", agreement.confidence)});
  }
  WeightedMean mean;
  std::int64_t all = 0;
  std::int64_t kept = 0;
  std::vector<std::int64_t> rejected = agreement.rejected;
  server.fleet.ask(orders, [&](std::int64_t client, const Message& reply) {
    const std::int64_t samples = server.fleet.samples(client);
    const std::int64_t own = kept_of(client, reply, samples);
    const auto& model = reply.get<State>("model");
    if (!all_finite(model)) {
      rejected.push_back(client);
      return;
    }
    all += samples;
    kept += own;
    held_out_[client] = 1.0 - static_cast<double>(own) / static_cast<double>(samples);
    if (own > 0) {
      mean.add(model, static_cast<double>(own));
    }
  });
  note_replies(round, chosen, rejected, server.notes);
  server.notes[kHeldOut] = 1.0 - static_cast<double>(kept) / static_cast<double>(all);
  if (kept > 0) {  // else nobody trained, and the model stays as it is
    server.global = mean.finish();
  }
}

void Clc::correct(std::int64_t round, const std::vector<std::int64_t>& pool, Server& server) {
  const Agreement agreement = agree(pool, server);
  Json replies = Json::object();  // the round's own are noted when it trains
  note_replies(round, pool, agreement.rejected, replies);
  std::vector<Order> orders;
  orders.reserve(agreement.clients.size());
  for (const std::int64_t client : agreement.clients) {
    orders.push_back({client, Message("correct").set("confidence", agreement.confidence)});
  }
  std::int64_t relabelled = 0;
  server.fleet.ask(orders, [&](std::int64_t /*client*/, const Message& reply) {
    relabelled += reply.get<std::uint32_t>("relabelled");
  });
  server.notes["relabelled"] = relabelled;
  if (!agreement.rejected.empty()) {
    server.notes["uncorrected"] = agreement.rejected;
  }
}

Findings Clc::findings() const {
  return {.scores = {{kHeldOut, held_out_}}};
}

void Clc::save(Archive& archive) const {
  archive.values[kHeldOut] = save_by_client(held_out_);
}

void Clc::load(const Archive& archive) {
  held_out_ = read_numbers(archive.find(kHeldOut), archive.bounds, 0.0, 1.0);
}

MethodInfo clc_info() {
  return {"clc", "noisy-label",
          "leaves out samples that contradict the clients' consensus, then corrects the labels",
          [] { return std::make_unique<Clc>(); }};
}

}  // namespace winnow
