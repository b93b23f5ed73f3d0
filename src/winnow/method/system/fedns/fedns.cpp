#include "winnow/method/system/fedns/fedns.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <optional>
#include <utility>

#include "winnow/federation/selection.h"
#include "winnow/method/system/fedns/client.h"

namespace winnow {
namespace {

// With fewer scores an open table says nothing yet (spec: input-noise 1.5).
constexpr std::size_t kFewestScores = 4;

// global + scale * (next - global), in the parameters only: running statistics and counters are no
// step, and a scale above 1 could make a variance negative. With scale 1 nothing is recomputed.
State scaled_step(const State& global, State next, double scale) {
  if (scale == 1.0) {
    return next;
  }
  State result = next.clone();
  const at::Tensor start = global.parameters().to(next.flat.options().dtype(at::kDouble));
  result.parameters().copy_(start + (next.parameters() - start) * scale);
  return result;
}

}  // namespace

std::unique_ptr<ClientSide> FedNS::client_side() const {
  return std::make_unique<fedns::Client>(base_->client_side(), options_.score,
                                         options_.debug_density);
}

std::vector<Exchange> FedNS::exchanges(const Setting& setting) const {
  std::vector<Exchange> exchanges = base_->exchanges(setting);
  if (flags_ == fedns::Flags::truth) {
    return exchanges;
  }
  Exchange scored = exchange_of("train", exchanges);
  scored.task = "train_score";
  scored.reply = "train_score_done";
  scored.answers.push_back(
      field::number("score",
                    "a statistic of its gradient norms, which shows whether its samples are noisy")
          .at_least(0)
          .finite_or_not());
  if (options_.debug_density) {
    scored.answers.push_back(
        field::numbers("norms", "the norm of every gradient", Length::up_to_samples())
            .at_least(0)
            .finite_or_not());
  }
  if (options_.norms_every > 0) {
    Exchange measured = scored;
    measured.task = "train_measure";
    measured.reply = "train_measure_done";
    exchanges.push_back(std::move(measured));
  }
  exchanges.push_back(std::move(scored));
  return exchanges;
}

std::set<std::int64_t> FedNS::scorers(const std::vector<std::int64_t>& chosen) const {
  std::set<std::int64_t> scorers;
  if (flags_ == fedns::Flags::truth) {
    return scorers;
  }
  std::ranges::copy_if(chosen, std::inserter(scorers, scorers.end()), [this](std::int64_t client) {
    if (!open_) {
      return missed_.contains(client);
    }
    return options_.refresh || !(scores_.contains(client) || too_small_.contains(client));
  });
  return scorers;
}

void FedNS::play(std::int64_t number, Server& server) {
  Round round(number, server);
  round.chosen = base_->select(
      round, number == 0 ? participants(options_.first_round_fraction, std::ssize(round.pool))
                         : round.share());
  if (flags_ == fedns::Flags::truth) {
    noisy_ = {round.setting.noisy_clients.begin(), round.setting.noisy_clients.end()};
  }
  const std::set<std::int64_t> scoring = scorers(round.chosen);
  const bool measuring = options_.norms_every > 0 && number % options_.norms_every == 0;
  const std::string otherwise = measuring ? "train_measure" : "train";
  const auto kind_of = [&](std::int64_t client) {
    return scoring.contains(client) ? std::string("train_score") : otherwise;
  };
  if (measuring) {
    series_.emplace_back();
  }
  begin(round);
  std::vector<Upload> held;
  const auto take = [&](Upload upload) {
    note_norms(upload, measuring, round.notes);
    if (scoring.empty()) {
      add(round, std::move(upload));
      return;
    }
    if (scoring.contains(upload.client)) {
      note_score(upload, round.notes);
    }
    held.push_back(std::move(upload));
  };
  ask_to_train(*base_, round, KindOf(kind_of), take);
  for (const Absence& absence : round.absent) {
    if (scoring.contains(absence.client) && !scores_.contains(absence.client)) {
      missed_.insert(absence.client);
    }
  }
  if (flags_ == fedns::Flags::scores) {
    round.notes["scoring"] = !scoring.empty();
  }
  if (!scoring.empty()) {
    update_flags(round);
  }
  for (Upload& upload : held) {
    add(round, std::move(upload));
  }
  if (!round.stands_still(can_finish())) {
    round.global = finish(round);
  }
}

bool FedNS::can_finish() const {
  if (samples_ == 0.0) {
    return false;
  }
  // Without any weight finish() leaves the model as it is.
  return !(weight_ > 0.0) || options_.trim_literal || base_->can_finish();
}

void FedNS::note_norms(const Upload& upload, bool measuring, Json& notes) {
  if (!upload.reply.has("score")) {
    return;
  }
  if (options_.debug_density) {
    notes["norms"].push_back(
        {{"client", upload.client}, {"norms", upload.reply.get<std::vector<double>>("norms")}});
  }
  const double score = upload.reply.get<double>("score");
  if (measuring && std::isfinite(score)) {
    series_.back()[upload.client] = score;
  }
}

void FedNS::note_score(const Upload& upload, Json& notes) {
  missed_.erase(upload.client);
  // One norm has no variance. A score of 0 would be the lowest of all, which is noisy.
  if (options_.score.statistic == fedns::Statistic::var &&
      upload.samples <= static_cast<double>(options_.score.batch)) {
    too_small_.insert(upload.client);
    notes["too_small"].push_back(upload.client);
    return;
  }
  const double score = upload.reply.get<double>("score");
  scores_[upload.client] = std::isfinite(score) ? std::optional(score) : std::nullopt;
}

void FedNS::update_flags(const Round& round) {
  Json& notes = round.notes;
  open_ = !std::ranges::all_of(round.pool, [this](std::int64_t client) {
    return scores_.contains(client) || too_small_.contains(client) || missed_.contains(client);
  });
  if ((open_ || !missed_.empty()) && scores_.size() < kFewestScores) {
    notes["warning"] = fmt::format("{} scores so far: all clients count as clean", scores_.size());
    return;
  }
  fedns::Sifting sifting = fedns::sift(scores_);
  noisy_ = std::move(sifting.noisy);
  sifted_ = true;
  notes["clean"] = scores_.size() + too_small_.size() - noisy_.size();
  notes["noisy"] = noisy_.size();
  if (sifting.gap) {
    notes["gap"] = *sifting.gap;
  } else {
    notes["warning"] = "the scores do not tell clients apart: all with a finite score are clean";
  }
}

void FedNS::begin(Round& round) {
  base_->begin(round);
  literal_mean_ = {};
  samples_ = 0.0;
  weight_ = 0.0;
}

void FedNS::add(Round& round, Upload upload) {
  const double factor = noisy_.contains(upload.client) ? options_.beta : options_.alpha;
  // Divided by the larger one, alpha = beta is a factor of exactly 1: the base, bit for bit.
  upload.factor = factor / std::max(options_.alpha, options_.beta);
  if (!options_.use_counts) {
    upload.samples = 1.0;
  }
  samples_ += upload.samples;
  weight_ += upload.samples * factor;
  if (options_.trim_literal) {
    literal_mean_.add(upload.model(), upload.factor);
  } else {
    base_->add(round, upload);
  }
}

State FedNS::finish(Round& round) {
  if (!(weight_ > 0.0)) {
    round.notes["warning"] = "all participants are noisy and beta is 0: the model stays as it is";
    return round.global;
  }
  State next = options_.trim_literal ? literal_mean_.finish() : base_->finish(round);
  return options_.renormalise ? next
                              : scaled_step(round.global, std::move(next), weight_ / samples_);
}

Findings FedNS::claims() const {
  Findings findings;
  if (sifted_) {
    findings.flagged.emplace(noisy_.begin(), noisy_.end());
  }
  return findings;
}

Findings FedNS::findings() const {
  Findings findings = claims();
  for (const auto& [client, score] : scores_) {
    if (score) {
      findings.scores["gradient_norm"][client] = *score;
    }
  }
  return findings;
}

Details FedNS::details() const {
  Details details;
  if (!series_.empty()) {
    for (const ByClient<double>& scores : series_) {
      details.series["gradient_norm"].push_back(scores.map());
    }
  }
  return details;
}

void FedNS::save(Archive& archive) const {
  base_.save(archive);
  archive.put_column("scores", scores_, [](const std::optional<double>& score) {
    return score ? Json(*score) : Json(nullptr);
  });
  archive.values["too_small"] = too_small_;
  archive.values["noisy"] = noisy_;
  archive.put_clients("missed", missed_);
  archive.values["open"] = open_;
  archive.values["sifted"] = sifted_;
  if (options_.norms_every > 0) {
    archive.put_series("series", series_);
  }
}

void FedNS::load(const Archive& archive) {
  base_.load(archive);
  const auto* scores = archive.column<std::optional<double>>("scores");
  scores_ = scores != nullptr ? *scores : fedns::ScoreTable(archive.known_numbers("scores"));
  too_small_ = archive.clients("too_small");
  missed_ = archive.clients("missed");
  noisy_ = archive.clients("noisy");
  open_ = archive.truth("open", true);
  sifted_ = archive.truth("sifted", false);
  series_ = archive.series("series");
}

MethodInfo fedns_info() {
  return {.name = "fedns",
          .group = "system",
          .summary = "finds noisy clients by gradient norms, weights them less",
          .make = [] { return std::make_unique<FedNS>(); },
          .smoke = Json::object({{"rounds", 5}, {"method.first_round_fraction", 0.4}})};
}

MethodInfo fedns_oracle_flags_info() {
  return {.name = "fedns_oracle_flags",
          .group = "oracle",
          .summary = "uses ground truth: FedNS that knows the noisy clients",
          .make = [] { return std::make_unique<FedNS>(fedns::Flags::truth); },
          .truth = Truth::clients};
}

}  // namespace winnow
