#include "winnow/method/noisy_label/clc/clc.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "winnow/base/error.h"
#include "winnow/federation/aggregation.h"
#include "winnow/method/noisy_label/clc/client.h"

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

std::vector<Exchange> Clc::exchanges(const Setting& setting) const {
  const Length classes = Length::exactly(setting.classes, "C");
  const FieldRule consensus =
      field::numbers("confidence", "how confident the clients' models are of each class", classes);
  std::vector<Exchange> exchanges = fedavg_.exchanges(setting);
  exchanges.push_back(
      {"confidence",
       {field::global_model()},
       "confidence_done",
       {field::numbers("mean", "how confident the global model is of its samples of each class",
                       classes)
            .between(0, 1),
        field::numbers("count", "how many of its samples have each label", classes)
            .at_least(0)
            .counting(Counts::some_samples)}});
  exchanges.push_back({"train_kept",
                       {field::round(), consensus},
                       "train_kept_done",
                       {field::trained_model().summed(Weighting::samples),
                        field::whole("samples", "how many of its samples it trained on")
                            .counting(Counts::some_samples)}});
  exchanges.push_back({"correct", {consensus}, "correct_done", {field::relabelled()}});
  return exchanges;
}

void Clc::play(std::int64_t number, Server& server) {
  Round round(number, server);
  const clc::Stage stage = clc::stage_of(options_, number);
  round.notes["stage"] = stage_text(stage);
  if (stage == clc::Stage::hold_out) {
    round.chosen = fedavg_.select(round, round.share());
    hold_out(round);
    return;
  }
  if (clc::corrects(options_, number)) {
    correct(round);
  }
  fedavg_.play_round(round, round.share());
}

Clc::Agreement Clc::agree(Round& round, const std::vector<std::int64_t>& asked) const {
  Agreement agreement;
  clc::Consensus consensus(static_cast<std::size_t>(round.setting.classes));
  round.ask(
      asked, [&](std::int64_t) { return Message("confidence").set("model", round.global); },
      exchanges(round.setting),
      [&](std::int64_t client, const Message& reply) {
        consensus.add(
            {reply.get<std::vector<double>>("mean"), reply.get<std::vector<double>>("count")});
        agreement.clients.push_back(client);
      });
  agreement.confidence = consensus.confidence();
  return agreement;
}

void Clc::hold_out(Round& round) {
  const Agreement agreement = agree(round, round.chosen);
  if (!round.note_replies()) {
    return;
  }
  WeightedMean mean;
  std::int64_t all = 0;
  std::int64_t kept = 0;
  const auto task = [&](std::int64_t) {
    return Message("train_kept")
        .set("round", round.stamp())
        .set("confidence", agreement.confidence);
  };
  const auto hear = [&](std::int64_t client, const Message& numbers) {
    const std::int64_t samples = round.fleet.samples(client);
    const std::int64_t own = numbers.get<std::uint32_t>("samples");
    all += samples;
    kept += own;
    held_out_[client] = 1.0 - static_cast<double>(own) / static_cast<double>(samples);
    return true;
  };
  const std::vector<Exchange> known = exchanges(round.setting);
  if (round.by_sums()) {
    const Sums sums =
        round.ask_for_sums(agreement.clients, task, exchange_of("train_kept", known).answers, hear);
    if (!sums.added.empty()) {
      mean.set(sums.mean("model"));
    }
  } else {
    round.ask(agreement.clients, task, known, [&](std::int64_t client, const Message& reply) {
      hear(client, reply);
      if (const std::uint32_t own = reply.get<std::uint32_t>("samples"); own > 0) {
        mean.add(reply.get<State>("model"), static_cast<double>(own));
      }
    });
  }
  if (!round.note_replies()) {
    return;
  }
  round.notes[kHeldOut] = 1.0 - static_cast<double>(kept) / static_cast<double>(all);
  if (kept > 0) {  // else nobody trained, and the model stays as it is
    round.global = mean.finish();
  }
}

void Clc::correct(const Round& round) const {
  Round correction(round.number, round.server, round.pool);
  correction.chosen = round.pool.ids();
  const Agreement agreement = agree(correction, round.pool);
  correction.require_some();
  std::int64_t relabelled = 0;
  std::vector<Absence> absent = round.fleet.ask(
      orders_for(
          agreement.clients,
          [&](std::int64_t) { return Message("correct").set("confidence", agreement.confidence); }),
      [&](std::int64_t, const Message& reply) {
        relabelled += reply.get<std::uint32_t>("relabelled");
      });
  round.notes["relabelled"] = relabelled;
  std::vector<std::int64_t> uncorrected = correction.rejected;
  absent.insert(absent.end(), correction.absent.begin(), correction.absent.end());
  for (const Absence& absence : absent) {
    uncorrected.push_back(absence.client);
  }
  if (!uncorrected.empty()) {
    round.notes["uncorrected"] = uncorrected;
  }
}

Findings Clc::findings() const {
  return {.scores = {{kHeldOut, held_out_.map()}}};
}

void Clc::save(Archive& archive) const {
  archive.put_column(kHeldOut, held_out_);
}

void Clc::load(const Archive& archive) {
  const auto* kept = archive.column<double>(kHeldOut);
  held_out_ = kept != nullptr ? *kept : archive.numbers(kHeldOut, 0.0, 1.0);
}

MethodInfo clc_info() {
  return {
      .name = "clc",
      .group = "noisy-label",
      .summary = "holds out samples that contradict the consensus, relabels",
      .make = [] { return std::make_unique<Clc>(); },
      .smoke = Json::object(
          {{"method.holdout_rounds", 3}, {"method.correction_rounds", 2}, {"method.tau", 0.0}})};
}

}  // namespace winnow
