#include "winnow/method/fedcorr/fedcorr.h"

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
#include "winnow/method/fedcorr/client.h"

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
  const Traffic& traffic() const override { return fleet_.traffic(); }
  void ask(const std::vector<Order>& orders, const Fold& fold) override {
    std::vector<Order> counted = orders;
    for (Order& order : counted) {
      if (order.task.kind() == "train") {
        order.task.set(fedcorr::kUsualRound, static_cast<std::uint32_t>(round_));
      }
    }
    fleet_.ask(counted, fold);
  }

 private:
  Fleet& fleet_;
  std::int64_t round_;
};

double checked_estimate(std::int64_t client, const Message& reply) {
  const double estimate = reply.get<double>("muhat");
  if (!(estimate >= 0.0 && estimate <= 1.0)) {
    throw Error(ErrorKind::peer,
                fmt::format("client {}: muhat = {}, expected 0 to 1", client, estimate));
  }
  return estimate;
}

}  // namespace

void FedCorr::declare(Params& params) {
  fedcorr::declare(options_, params);
  params.add("base", base_, "the base method of stage 3").source("paper: FedAvg");
}

void FedCorr::check(const Setting& setting) const {
  if (options_.usual_lr == 0.0 && options_.usual_lr_decay != 1.0) {
    throw Error(ErrorKind::experiment,
                fmt::format("method.usual_lr_decay = {}: expected method.usual_lr beside it",
                            options_.usual_lr_decay),
                "without it stage 3 has train.lr and train.lr_decay");
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

std::vector<Schema> FedCorr::schemas() const {
  std::vector<Schema> schemas{
      {"train1", {{"round", FieldType::u32}, {"model", FieldType::state}}},
      {"train1_done",
       {{"model", FieldType::state}, {"samples", FieldType::u32}, {"lid", FieldType::f64}}},
      {"correct1", {{"round", FieldType::u32}, {"model", FieldType::state}}},
      {"correct1_done", {{"muhat", FieldType::f64}, {"relabelled", FieldType::u32}}},
      {"set_clean", {{"round", FieldType::u32}}},
      {"set_clean_done", {}},
      {"finetune", {{"round", FieldType::u32}, {"model", FieldType::state}}},
      {"finetune_done", {{"model", FieldType::state}, {"samples", FieldType::u32}}},
      {"correct_all", {{"model", FieldType::state}}},
      {"correct_all_done", {{"relabelled", FieldType::u32}}}};
  for (Schema schema : base_->schemas()) {
    if (options_.usual_lr > 0.0 && schema.kind == "train") {
      schema.fields.emplace_back(fedcorr::kUsualRound, FieldType::u32);
    }
    schemas.push_back(std::move(schema));
  }
  return schemas;
}

void FedCorr::play(std::int64_t round, Server& server) {
  const Setting& setting = server.setting;
  const std::vector<std::int64_t> pool = selectable_clients(server.fleet);
  const fedcorr::Schedule schedule(options_, setting.clients);
  const fedcorr::Step step = schedule.step(round);
  server.notes["stage"] = stage_text(step);
  if (step.stage == 1) {
    std::vector<std::int64_t> chosen = schedule.turn_clients(step, setting.seed);
    std::erase_if(chosen, [&](std::int64_t client) { return server.fleet.samples(client) == 0; });
    play_turn(chosen, round, server);
    if (step.last) {
      finish_iteration(step, round, server);
    }
  } else if (step.stage == 2) {
    finetune_.play_among(
        fedcorr::finetune_pool(estimates_, options_,
                               fedcorr::fallback_size(setting.fraction, setting.clients)),
        participants(setting.fraction, setting.clients), "finetune", round, server);
    if (step.last && options_.correction) {
      correct_all(server);
    }
  } else if (options_.usual_lr > 0.0) {
    Setting own = setting;
    own.lr_decay = options_.usual_lr_decay;
    CountingFleet fleet(server.fleet, schedule.usual_round(round));
    Server counted{own, fleet, server.global, server.notes, server.validate, server.initial};
    base_->play_among(pool, participants(setting.fraction, setting.clients), "train", round,
                      counted);
  } else {
    base_->play_among(pool, participants(setting.fraction, setting.clients), "train", round,
                      server);
  }
}

void FedCorr::play_turn(const std::vector<std::int64_t>& drawn, std::int64_t round,
                        Server& server) {
  // Drawn twice, a client would train the same model twice: it trains once and weighs double.
  std::map<std::int64_t, std::int64_t> times;
  std::vector<std::int64_t> chosen;
  for (const std::int64_t client : drawn) {
    if (++times[client] == 1) {
      chosen.push_back(client);
    }
  }
  std::vector<Order> orders;
  for (const std::int64_t client : chosen) {
    orders.push_back({client, Message("train1")
                                  .set("round", static_cast<std::uint32_t>(round))
                                  .set("model", server.global)});
  }
  WeightedMean mean;
  std::optional<State> only;
  std::vector<std::int64_t> rejected;
  server.fleet.ask(orders, [&](std::int64_t client, const Message& reply) {
    const auto& model = reply.get<State>("model");
    const double lid = reply.get<double>("lid");
    if (!std::isfinite(lid) || !all_finite(model)) {
      rejected.push_back(client);
      return;
    }
    mean.add(model, static_cast<double>(times.at(client) * reply.get<std::uint32_t>("samples")));
    only = model;
    turn_lids_[client] = lid;
  });
  // The average of one is that one, to the bit: the model is handed over (spec: label-noise A.3).
  const std::size_t accepted = chosen.size() - rejected.size();
  if (accepted == 1) {
    server.global = *only;
  } else if (accepted > 1) {
    server.global = mean.finish();
  }
  server.notes["clients"] = chosen;
  if (!rejected.empty()) {
    server.notes["rejected"] = rejected;
  }
}

void FedCorr::finish_iteration(const fedcorr::Step& step, std::int64_t round, Server& server) {
  if (turn_lids_.empty()) {
    throw Error(ErrorKind::run,
                fmt::format("round {}: every reply of iteration {} held values that are not finite",
                            round, step.iteration + 1),
                "the training diverged: lower train.lr");
  }
  if (options_.stage1_draw == "code") {
    // Who had no turn counts with 0, as in the code (spec: label-noise A.4 #15).
    for (const std::int64_t client : selectable_clients(server.fleet)) {
      turn_lids_.emplace(client, 0.0);
    }
  }
  lids_.emplace_back();
  for (const auto& [client, lid] : turn_lids_) {
    // A single sample has no LID; its client counts as clean (spec: label-noise A.4 #16).
    if (server.fleet.samples(client) >= 2) {
      trails_[client].sum += lid;
      ++trails_[client].seen;
      lids_.back()[client] = lid;
    }
  }
  turn_lids_.clear();
  noisy_ = fedcorr::noisy_clients(fedcorr::lid_scores(trails_));
  const std::vector<std::int64_t> pool = selectable_clients(server.fleet);
  correct(pool, round, server);

  // Where a client has fewer neighbours than asked for, its LID is scaled up (spec: label-noise A.4
  // #16).
  std::vector<std::int64_t> small;
  std::ranges::copy_if(pool, std::back_inserter(small), [&](std::int64_t client) {
    return server.fleet.samples(client) - 1 < options_.lid_neighbours;
  });
  if (step.iteration == 0 && !small.empty()) {
    server.notes["few_neighbours"] = small;
  }
}

// The code takes all estimates before the first relabelling. A client's estimate and its
// relabelling touch nobody else, and the model is the same for all, so one message does for both.
void FedCorr::correct(const std::vector<std::int64_t>& pool, std::int64_t round, Server& server) {
  estimates_.clear();
  std::vector<Order> orders;
  for (const std::int64_t client : pool) {
    estimates_[client] = 0.0;
    const bool noisy = std::ranges::binary_search(noisy_, client);
    Message task(noisy ? "correct1" : "set_clean");
    task.set("round", static_cast<std::uint32_t>(round));
    if (noisy) {
      task.set("model", server.global);
    }
    orders.push_back({client, std::move(task)});
  }
  std::int64_t relabelled = 0;
  server.fleet.ask(orders, [&](std::int64_t client, const Message& reply) {
    if (reply.kind() == "correct1_done") {
      estimates_[client] = checked_estimate(client, reply);
      relabelled += reply.get<std::uint32_t>("relabelled");
    }
  });
  std::vector<double> levels;
  double total = 0.0;
  for (const std::int64_t client : noisy_) {
    levels.push_back(estimates_.at(client));
    total += levels.back();
  }
  server.notes["flagged"] = noisy_.size();
  server.notes["relabelled"] = relabelled;
  if (!noisy_.empty()) {
    server.notes["estimated_noise"] = total / static_cast<double>(noisy_.size());
  }
  server.notes["flagged_clients"] = noisy_;
  server.notes["muhat"] = levels;
}

void FedCorr::correct_all(Server& server) const {
  std::vector<Order> orders;
  for (const std::int64_t client : fedcorr::final_clients(noisy_, estimates_, options_)) {
    orders.push_back({client, Message("correct_all").set("model", server.global)});
  }
  std::int64_t relabelled = 0;
  server.fleet.ask(orders, [&](std::int64_t /*client*/, const Message& reply) {
    relabelled += reply.get<std::uint32_t>("relabelled");
  });
  server.notes["relabelled"] = relabelled;
}

Findings FedCorr::findings() const {
  if (estimates_.empty()) {
    return {};
  }
  return {.flagged = noisy_,
          .noise_levels = estimates_,
          .scores = {{"lid", fedcorr::lid_scores(trails_)}}};
}

Details FedCorr::details() const {
  Details details;
  if (lids_.empty()) {
    return details;
  }
  details.series["lid"] = lids_;
  std::map<std::int64_t, fedcorr::Trail> trails;
  for (const std::map<std::int64_t, double>& iteration : lids_) {
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
  std::map<std::int64_t, double> sums;
  std::map<std::int64_t, std::int64_t> seen;
  for (const auto& [client, trail] : trails_) {
    sums[client] = trail.sum;
    seen[client] = trail.seen;
  }
  archive.values["turn_lids"] = save_by_client(turn_lids_);
  archive.values["lid_sums"] = save_by_client(sums);
  archive.values["lid_seen"] = save_by_client(seen);
  archive.values["lids"] = Json::array();
  for (const std::map<std::int64_t, double>& iteration : lids_) {
    archive.values["lids"].push_back(save_by_client(iteration));
  }
  archive.values["estimates"] = save_by_client(estimates_);
  archive.values["noisy"] = noisy_;
  base_.save(archive);
}

void FedCorr::load(const Archive& archive) {
  const Bounds& bounds = archive.bounds;
  turn_lids_ = read_numbers(archive.find("turn_lids"), bounds);
  trails_.clear();
  const auto sums = read_numbers(archive.find("lid_sums"), bounds);
  const auto seen = read_by_client(archive.find("lid_seen"), bounds, [](const CheckedJson& times) {
    return times.whole(1, CheckedJson::kMost);
  });
  for (const auto& [client, sum] : sums) {
    const auto times = seen.find(client);
    if (times == seen.end() || seen.size() != sums.size()) {
      throw Error(ErrorKind::run, "lid_sums and lid_seen are not of the same clients");
    }
    trails_[client] = {sum, times->second};
  }
  lids_.clear();
  if (const auto lids = archive.find("lids")) {
    for (const CheckedJson& iteration : lids->elements()) {
      lids_.push_back(read_numbers(iteration, bounds));
    }
  }
  estimates_ = read_numbers(archive.find("estimates"), bounds, 0.0, 1.0);
  const std::set<std::int64_t> noisy = read_clients(archive.find("noisy"), bounds);
  for (const std::int64_t client : noisy) {
    if (!estimates_.contains(client)) {
      throw Error(ErrorKind::run, fmt::format("noisy: client {} has no estimate", client));
    }
  }
  noisy_.assign(noisy.begin(), noisy.end());
  base_.load(archive);
}

MethodInfo fedcorr_info() {
  return {
      "fedcorr", "system",
      "finds noisy clients by the dimensionality of their predictions and corrects their labels",
      [] { return std::make_unique<FedCorr>(); }};
}

}  // namespace winnow
