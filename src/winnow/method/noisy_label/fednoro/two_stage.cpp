#include "winnow/method/noisy_label/fednoro/two_stage.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "winnow/federation/aggregation.h"
#include "winnow/method/local_training.h"
#include "winnow/method/noisy_label/fednoro/arithmetic.h"
#include "winnow/method/round.h"

namespace winnow::fednoro {
namespace {

constexpr const char* kFlagged = "flagged";
constexpr const char* kClassLoss = "class_loss";

}  // namespace

void TwoStage::check(const Setting& setting) const {
  check_warmup(warmup(), setting);
  check_pairs(name(), setting);
}

std::vector<Exchange> TwoStage::exchanges(const Setting& setting) const {
  const Length classes = Length::exactly(setting.classes, "C");
  const std::vector<FieldRule> answers{field::trained_model(), field::samples()};
  std::vector<FieldRule> noisy{field::round(), field::global_model()};
  for (const FieldRule& more : noisy_asks()) {
    noisy.push_back(more);
  }
  return {
      {"train", {field::round(), field::global_model()}, "train_done", answers},
      {"class_losses",
       {field::global_model()},
       "class_losses_done",
       {field::numbers("mean", "the global model's mean loss on its samples of each label", classes)
            .at_least(0),
        field::numbers("count", "how many of its samples have each label", classes)
            .at_least(0)
            .counting(Counts::some_samples)}},
      {"train_noisy", noisy, "train_noisy_done", answers}};
}

void TwoStage::compare(std::int64_t number, Server& server) {
  Round round(number, server);
  std::map<std::int64_t, ClassLosses> told;
  round.ask(
      round.pool, [&](std::int64_t) { return Message("class_losses").set("model", round.global); },
      exchanges(round.setting),
      [&](std::int64_t client, const Message& reply) {
        told[client] = {reply.get<std::vector<double>>("mean"),
                        reply.get<std::vector<double>>("count")};
      });
  noisy_ = told.empty() ? std::set<std::int64_t>()
                        : noisy_clients(told, round.setting.seed, server.pause);
  const Rows rows = comparable(told);
  std::size_t row = 0;
  for (const auto& [client, own] : told) {
    const std::vector<double>& values = rows[row++];
    scores_[client] =
        std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
  }
  std::vector<std::int64_t> unjudged = round.rejected;
  for (const Absence& absence : round.absent) {
    unjudged.push_back(absence.client);
  }
  std::ranges::sort(unjudged);
  round.notes[kFlagged] = std::ssize(*noisy_);
  round.notes["flagged_clients"] = *noisy_;
  if (!unjudged.empty()) {
    round.notes["unjudged"] = unjudged;
  }
}

void TwoStage::play(std::int64_t number, Server& server) {
  const bool second = number >= warmup();
  server.notes["stage"] = second ? 2 : 1;
  if (second && !noisy_) {
    compare(number, server);
  }
  Round round(number, server);
  round.chosen = round.draw();
  const Message plain = round.task("train");
  Message apart = round.task("train_noisy");
  if (second) {
    fill_noisy(apart, number, round.notes);
  }
  WeightedMean mean;  // the first stage holds no models
  HeldModels held;
  round.ask(
      round.chosen,
      [&](std::int64_t client) { return second && noisy_->contains(client) ? apart : plain; },
      exchanges(round.setting),
      [&](std::int64_t client, const Message& reply) {
        const auto& model = reply.get<State>("model");
        const auto samples = static_cast<double>(reply.get<std::uint32_t>("samples"));
        if (second) {
          held.add(client, model, samples, samples);
        } else {
          mean.add(model, samples);
        }
      });
  if (!round.note_replies()) {
    return;
  }
  round.global = second ? fuse(held.take(), *noisy_) : mean.finish();
}

State TwoStage::fuse(HeldModels held, const std::set<std::int64_t>& noisy) const {
  return by_distance(held, noisy);
}

State by_distance(const HeldModels& held, const std::set<std::int64_t>& noisy) {
  const std::vector<double> factors = distance_factors(held, noisy);
  WeightedMean mean;
  for (std::size_t k = 0; k < factors.size(); ++k) {
    mean.add(held.models()[k], held.samples()[k] * factors[k]);
  }
  return mean.finish().to(held.device());
}

Findings TwoStage::findings() const {
  Findings findings;
  if (noisy_) {
    findings.flagged.emplace(noisy_->begin(), noisy_->end());
    findings.scores[kClassLoss] = scores_;
  }
  return findings;
}

void TwoStage::save(Archive& archive) const {
  if (noisy_) {
    archive.values[kFlagged] = *noisy_;
    archive.values[kClassLoss] = save_by_client(scores_);
  }
}

void TwoStage::load(const Archive& archive) {
  const auto flagged = archive.find(kFlagged);
  noisy_.reset();
  if (flagged) {
    noisy_ = read_clients(flagged, archive.bounds);
  }
  scores_ = read_numbers(archive.find(kClassLoss), archive.bounds, 0.0, 1.0);
}

}  // namespace winnow::fednoro
