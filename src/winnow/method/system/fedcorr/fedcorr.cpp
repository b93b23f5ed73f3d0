#include "winnow/method/system/fedcorr/fedcorr.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "winnow/base/error.h"
#include "winnow/federation/aggregation.h"
#include "winnow/federation/selection.h"
#include "winnow/method/system/fedcorr/client.h"

namespace winnow {
namespace {

std::string stage_text(const fedcorr::Step& step) {
  return step.stage == 1 ? fmt::format("1 iteration {}", step.iteration + 1)
                         : fmt::format("{}", step.stage);
}

// The fleet as the base of stage 3 sees it: every training task says how many rounds of the stage
// came before.
class CountingFleet final : public Fleet {
 public:
  CountingFleet(Fleet& fleet, std::int64_t round) : fleet_(fleet), round_(round) {}

  std::int64_t size() const override { return fleet_.size(); }
  std::int64_t samples(std::int64_t client) const override { return fleet_.samples(client); }
  ClientList with_samples() const override { return fleet_.with_samples(); }
  const Traffic& traffic() const override { return fleet_.traffic(); }
  [[nodiscard]] std::vector<Absence> ask(const std::vector<Order>& orders,
                                         const Fold& fold) override {
    std::vector<Order> counted = orders;
    for (Order& order : counted) {
      if (order.task.kind() == "train") {
        order.task.set(fedcorr::kUsualRound, static_cast<std::uint32_t>(round_));
      }
    }
    return fleet_.ask(counted, fold);
  }

 private:
  Fleet& fleet_;
  std::int64_t round_;
};

}  // namespace

void FedCorr::declare(Params& params) {
  fedcorr::declare(options_, params);
  params.add("base", base_, "base method of stage 3").source("paper: FedAvg");
}

void FedCorr::check(const Setting& setting) const {
  if (options_.usual_lr == 0.0 && options_.usual_lr_decay != 1.0) {
    throw Error(ErrorKind::experiment,
                fmt::format("method.usual_lr_decay = {}: it needs method.usual_lr",
                            options_.usual_lr_decay),
                "without it, stage 3 uses train.lr and train.lr_decay");
  }
  Setting own = setting;
  own.rounds = rounds(setting);
  base_->check(own);
}

std::int64_t FedCorr::rounds(const Setting& setting) const {
  return fedcorr::Schedule(options_, setting.clients).rounds();
}

std::string FedCorr::schedule(const Setting& setting) const {
  const fedcorr::Schedule schedule(options_, setting.clients);
  return fmt::format("iterations {} x {} turns + finetune_rounds {} + usual_rounds {}",
                     options_.iterations, schedule.turns(), options_.finetune_rounds,
                     options_.usual_rounds);
}

std::unique_ptr<ClientSide> FedCorr::client_side() const {
  return std::make_unique<fedcorr::Client>(options_, base_->client_side());
}

std::vector<Exchange> FedCorr::exchanges(const Setting& setting) const {
  const FieldRule round = field::round();
  const FieldRule sent = field::global_model();
  std::vector<Exchange> exchanges{
      {"train1",
       {round,
        field::model("model", "the global model, or the one that the previous client trained")},
       "train1_done",
       {field::model("model",
                     "its model after training, which the next client gets unchanged when clients "
                     "train one at a time"),
        field::samples(),
        field::number("lid", "the LID of its predictions, larger where labels are wrong")
            .any_number()}},
      {"correct1",
       {round, sent},
       "correct1_done",
       {field::number("muhat", "the share of its labels that it considers wrong").between(0, 1),
        field::relabelled()}},
      {"set_clean", {round}, "set_clean_done", {}},
      {"finetune", {round, sent}, "finetune_done", {field::trained_model(), field::samples()}},
      {"correct_all", {sent}, "correct_all_done", {field::relabelled()}}};
  for (Exchange& exchange : base_->exchanges(setting)) {
    if (options_.usual_lr > 0.0 && exchange.task == "train") {
      exchange.asks.push_back(
          field::whole(fedcorr::kUsualRound, "how many rounds of stage 3 came before"));
    }
    exchanges.push_back(std::move(exchange));
  }
  return exchanges;
}

void FedCorr::play(std::int64_t number, Server& server) {
  const Setting& setting = server.setting;
  Round round(number, server);
  const fedcorr::Schedule schedule(options_, setting.clients);
  const fedcorr::Step step = schedule.step(number);
  const std::int64_t count = participants(setting.fraction, setting.clients);
  round.notes["stage"] = stage_text(step);
  if (step.stage == 1) {
    std::vector<std::int64_t> drawn = schedule.turn_clients(step, setting.seed);
    std::erase_if(drawn, [&](std::int64_t client) { return server.fleet.samples(client) == 0; });
    play_turn(round, drawn);
    if (step.last) {
      finish_iteration(round, step);
    }
  } else if (step.stage == 2) {
    std::vector<std::int64_t> clean = fedcorr::finetune_pool(
        estimates_.map(), options_, fedcorr::fallback_size(setting.fraction, setting.clients));
    if (!clean.empty()) {  // else all were flagged, and nobody could be asked how noisy it is
      round.pool = std::move(clean);
    }
    finetune_.play_round(round, count, "finetune");
    if (step.last && options_.correction) {
      correct_all(round);
    }
  } else if (options_.usual_lr > 0.0) {
    Setting own = setting;
    own.train.lr_schedule = "exponential";
    own.train.lr_decay = options_.usual_lr_decay;
    CountingFleet fleet(server.fleet, schedule.usual_round(number));
    Server counted{own, fleet, server.global, server.notes, server.validate, server.initial};
    Round usual(number, counted);
    base_->play_round(usual, count);
  } else {
    base_->play_round(round, count);
  }
}

void FedCorr::play_turn(Round& round, const std::vector<std::int64_t>& drawn) {
  // Drawn twice, a client would train the same model twice: it trains once and weighs double.
  std::map<std::int64_t, std::int64_t> times;
  for (const std::int64_t client : drawn) {
    if (++times[client] == 1) {
      round.chosen.push_back(client);
    }
  }
  WeightedMean mean;
  std::optional<State> only;
  std::size_t accepted = 0;
  round.ask(
      round.chosen, [&](std::int64_t) { return round.task("train1"); }, exchanges(round.setting),
      [&](std::int64_t client, const Message& reply) {
        const auto& model = reply.get<State>("model");
        mean.add(model,
                 static_cast<double>(times.at(client) * reply.get<std::uint32_t>("samples")));
        only = model;
        ++accepted;
        turn_lids_[client] = reply.get<double>("lid");
      });
  for (const Absence& absence : round.absent) {
    turn_absent_.insert(absence.client);
  }
  // The average of one is that one, to the bit: the model is handed over (spec: label-noise A.3).
  if (accepted == 1) {
    round.global = *only;
  } else if (accepted > 1) {
    round.global = mean.finish();
  }
  round.note_clients();
}

void FedCorr::finish_iteration(const Round& round, const fedcorr::Step& step) {
  if (turn_lids_.empty() && turn_absent_.empty()) {
    throw Error(ErrorKind::run,
                fmt::format("round {}: every reply of iteration {} held values that are not finite",
                            round.number + 1, step.iteration + 1),
                "the training diverged: lower train.lr");
  }
  if (options_.stage1_draw == fedcorr::Draw::code) {
    // Who had no turn counts with 0, as in the code (spec: label-noise A.4 #15).
    for (const std::int64_t client : round.pool) {
      if (!turn_absent_.contains(client)) {  // whose LID nobody knows
        turn_lids_.emplace(client, 0.0);
      }
    }
  }
  lids_.emplace_back();
  for (const auto& [client, lid] : turn_lids_) {
    // A single sample has no LID; its client counts as clean (spec: label-noise A.4 #16).
    if (round.fleet.samples(client) >= 2) {
      trails_[client].sum += lid;
      ++trails_[client].seen;
      lids_.back()[client] = lid;
    }
  }
  turn_lids_.clear();
  turn_absent_.clear();
  noisy_.clear();
  if (!trails_.empty()) {
    noisy_ = fedcorr::noisy_clients(fedcorr::lid_scores(trails_.map()));
  }
  correct(round);

  // Where a client has fewer neighbours than asked for, its LID is scaled up (spec: label-noise A.4
  // #16).
  std::vector<std::int64_t> small;
  std::ranges::copy_if(round.pool, std::back_inserter(small), [&](std::int64_t client) {
    return round.fleet.samples(client) - 1 < options_.lid_neighbours;
  });
  if (step.iteration == 0 && !small.empty()) {
    round.notes["few_neighbours"] = small;
  }
}

// The code takes all estimates before the first relabelling. A client's estimate and its
// relabelling touch nobody else, and the model is the same for all, so one message does for both.
void FedCorr::correct(const Round& round) {
  estimates_.clear();
  for (const std::int64_t client : round.pool) {
    estimates_[client] = 0.0;
  }
  const auto task = [&](std::int64_t client) {
    return std::ranges::binary_search(noisy_, client)
               ? round.task("correct1")
               : Message("set_clean").set("round", round.stamp());
  };
  std::int64_t relabelled = 0;
  Round correction(round.number, round.server, round.pool);
  correction.ask(round.pool, task, exchanges(round.setting),
                 [&](std::int64_t client, const Message& reply) {
                   if (reply.kind() == "correct1_done") {
                     estimates_[client] = reply.get<double>("muhat");
                     relabelled += reply.get<std::uint32_t>("relabelled");
                   }
                 });
  for (const std::int64_t client : correction.rejected) {
    estimates_.erase(client);
    round.notes["rejected"].push_back(client);
  }
  for (const Absence& absence : correction.absent) {
    if (std::ranges::binary_search(noisy_, absence.client)) {
      estimates_.erase(absence.client);  // flagged, and nobody knows how noisy it is
    }
  }
  Json levels = Json::array();
  double total = 0.0;
  std::size_t known = 0;
  for (const std::int64_t client : noisy_) {
    const auto estimate = estimates_.find(client);
    levels.push_back(estimate == estimates_.end() ? Json() : Json(estimate->second));
    total += estimate == estimates_.end() ? 0.0 : estimate->second;
    known += estimate == estimates_.end() ? 0 : 1;
  }
  round.notes["flagged"] = noisy_.size();
  round.notes["relabelled"] = relabelled;
  if (known > 0) {
    round.notes["estimated_noise"] = total / static_cast<double>(known);
  }
  round.notes["flagged_clients"] = noisy_;
  round.notes["muhat"] = levels;
}

void FedCorr::correct_all(const Round& round) const {
  std::int64_t relabelled = 0;
  const std::vector<Absence> absent = round.fleet.ask(
      orders_for(fedcorr::final_clients(noisy_, estimates_.map(), options_),
                 [&](std::int64_t) { return Message("correct_all").set("model", round.global); }),
      [&](std::int64_t, const Message& reply) {
        relabelled += reply.get<std::uint32_t>("relabelled");
      });
  round.notes["relabelled"] = relabelled;
  for (const Absence& absence : absent) {
    round.notes["uncorrected"].push_back(absence.client);
  }
}

Findings FedCorr::claims() const {
  if (estimates_.empty()) {
    return {};
  }
  return {.flagged = noisy_, .noise_levels = estimates_.map()};
}

Findings FedCorr::findings() const {
  Findings findings = claims();
  if (!estimates_.empty()) {
    findings.scores = {{"lid", fedcorr::lid_scores(trails_.map())}};
  }
  return findings;
}

Details FedCorr::details() const {
  Details details;
  if (lids_.empty()) {
    return details;
  }
  std::map<std::int64_t, fedcorr::Trail> trails;
  for (const ByClient<double>& iteration : lids_) {
    details.series["lid"].push_back(iteration.map());
    for (const auto& [client, lid] : iteration) {
      trails[client].sum += lid;
      ++trails[client].seen;
    }
    details.series["lid_cumulative"].push_back(fedcorr::lid_scores(trails));
  }
  return details;
}

std::string FedCorr::keeps_labels_as(std::int64_t round, const Setting& setting) const {
  if (round < 0) {
    return "start";
  }
  const fedcorr::Schedule schedule(options_, setting.clients);
  const fedcorr::Step step = schedule.step(round);
  const bool last_iteration = step.iteration + 1 == options_.iterations;
  if (!step.last || step.stage == 3 || (step.stage == 1 && !last_iteration)) {
    return {};
  }
  return fmt::format("stage {}", step.stage);
}

void FedCorr::save(Archive& archive) const {
  archive.put_column("turn_lids", turn_lids_);
  archive.put_clients("turn_absent", turn_absent_);
  std::set<std::int64_t> unknown;
  std::ranges::copy_if(noisy_, std::inserter(unknown, unknown.end()),
                       [this](std::int64_t client) { return !estimates_.contains(client); });
  archive.put_clients("not_estimated", unknown);
  archive.put_column("lid_sums", trails_,
                     [](const fedcorr::Trail& trail) { return Json(trail.sum); });
  archive.put_column("lid_seen", trails_,
                     [](const fedcorr::Trail& trail) { return Json(trail.seen); });
  archive.put_series("lids", lids_);
  archive.put_column("estimates", estimates_);
  archive.values["noisy"] = noisy_;
  base_.save(archive);
}

void FedCorr::load_trails(const Archive& archive) {
  trails_.clear();
  const auto sums = archive.numbers("lid_sums");
  const auto seen = archive.by_client(
      "lid_seen", [](const CheckedJson& times) { return times.whole(1, CheckedJson::kMost); });
  for (const auto& [client, sum] : sums) {
    const auto times = seen.find(client);
    if (times == seen.end() || seen.size() != sums.size()) {
      throw Error(ErrorKind::run, "lid_sums and lid_seen are not of the same clients");
    }
    trails_[client] = {sum, times->second};
  }
}

void FedCorr::load(const Archive& archive) {
  if (const auto* trails = archive.column<fedcorr::Trail>("lid_sums")) {
    trails_ = *trails;
    turn_lids_ = *archive.column<double>("turn_lids");
    estimates_ = *archive.column<double>("estimates");
  } else {
    load_trails(archive);
    turn_lids_ = archive.numbers("turn_lids");
    estimates_ = archive.numbers("estimates", 0.0, 1.0);
  }
  lids_ = archive.series("lids");
  turn_absent_ = archive.clients("turn_absent");
  const std::set<std::int64_t> noisy = archive.clients("noisy");
  const std::set<std::int64_t> unknown = archive.clients("not_estimated");
  for (const std::int64_t client : noisy) {
    if (estimates_.contains(client) == unknown.contains(client)) {
      throw Error(ErrorKind::run, fmt::format("noisy: client {} has no estimate", client));
    }
  }
  noisy_.assign(noisy.begin(), noisy.end());
  base_.load(archive);
}

MethodInfo fedcorr_info() {
  return {.name = "fedcorr",
          .group = "system",
          .summary = "finds noisy clients by their predictions, corrects labels",
          .make = [] { return std::make_unique<FedCorr>(); },
          .smoke = Json::object({{"method.iterations", 2},
                                 {"method.finetune_rounds", 2},
                                 {"method.usual_rounds", 2},
                                 {"method.lid_neighbours", 5},
                                 {"method.theta", 0.1}})};
}

}  // namespace winnow
