#include "winnow/method/fedns/fedns.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <optional>
#include <utility>

#include "winnow/base/error.h"
#include "winnow/base/text.h"
#include "winnow/federation/selection.h"
#include "winnow/method/fedns/scoring_client.h"

namespace winnow {
namespace {

// With fewer scores an open table says nothing yet (spec: input-noise 1.5).
constexpr std::size_t kFewestScores = 4;

Schema renamed(const std::vector<Schema>& schemas, const std::string& from, std::string to) {
  Schema schema = *std::ranges::find(schemas, from, &Schema::kind);
  schema.kind = std::move(to);
  return schema;
}

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

void FedNS::declare(Params& params) {
  params.add("base", base_, "the method that trains and aggregates")
      .source("the paper's table II; FedNova is its headline");
  params.add("alpha", alpha_, "factor of a clean client's weight")
      .above(0)
      .source("paper; the code has 1.5 or 1.2 for other bases");
  params.add("beta", beta_, "factor of a noisy client's weight; 0 leaves it out")
      .at_least(0)
      .source("paper; the code has 0.1 for other bases");
  params.add("use_counts", use_counts_, "weigh clients by their samples too")
      .source("paper; false is the code");
  params
      .add("renormalise", renormalise_,
           "weights sum to 1; false scales the step of the parameters by the mean factor")
      .source("the code; false is the paper's equation 6");
  params
      .add("trim_literal", trim_literal_,
           "base trimmed_mean only: the mean weighted by factors, untrimmed")
      .source("spec: input-noise 1.4; true is the code");
  params.add("first_round_fraction", first_round_fraction_, "share of the clients in round 0")
      .range(0, 1)
      .source("paper");
  if (flags_ == Flags::scores) {
    declare_score(params);
  }
}

void FedNS::declare_score(Params& params) {
  params.add("score_batch", rule_.batch, "samples per gradient of the score")
      .at_least(1)
      .source("code");
  params.add("score_norm", rule_.norm, "norm of a gradient: 1 or 2").range(1, 2).source("paper");
  params
      .add("score_loss", rule_.loss,
           "target of the loss that scores: all classes alike, or the given label")
      .choices({"uniform", "label"})
      .source("the code; label is the paper's equation");
  params
      .add("score_temperature", rule_.temperature,
           "temperature of the softmax in the loss that scores")
      .above(0)
      .source("code");
  params.add("score_stat", rule_.statistic, "how the norms of a client become its score")
      .choices({"mean", "var", "median"})
      .source("the code; var is the paper's text, median ours");
  params
      .add("score_bn", rule_.batch_norm,
           "BatchNorm while scoring: batch statistics, undone or kept")
      .choices({"train_restore", "train_update", "eval"})
      .source("spec: input-noise 1.2; train_update is the code");
  params.add("score_layer", rule_.layer, "weight tensor to measure; empty is the head's")
      .source("paper");
  params.add("refresh", refresh_, "while scores are missing, all participants score again")
      .source("spec: input-noise 1.5");
  params.add("debug_density", debug_density_, "send all norms and put them into the events")
      .source("the code sends them");
}

void FedNS::check_base(const Setting& setting) const {
  if (!base_->weighs()) {
    throw Error(ErrorKind::experiment,
                fmt::format("method.base = \"{}\": FedNS weighs clients, and {} weights all "
                            "models equally",
                            base_.name(), base_.name()),
                "choose a base that averages, such as fedavg, fednova or trimmed_mean");
  }
  if (trim_literal_ && base_.name() != "trimmed_mean") {
    throw Error(ErrorKind::experiment,
                fmt::format("method.trim_literal = true: expected base = \"trimmed_mean\", not {}",
                            base_.name()),
                "leave trim_literal out");
  }
  if (trim_literal_) {
    return;  // the base's rule is never used
  }
  base_->check(setting);
  base_->check_models({.models = participants(first_round_fraction_, setting.clients),
                       .said = fmt::format("method.first_round_fraction = {} of {} clients",
                                           first_round_fraction_, setting.clients),
                       .who = fmt::format("base {}", base_.name()),
                       .cure = "change method.first_round_fraction"});
}

void FedNS::check(const Setting& setting) const {
  check_base(setting);
  if (rule_.layer.empty() || setting.layout == nullptr) {
    return;
  }
  const Slot* slot = setting.layout->find(rule_.layer);
  if (slot == nullptr || slot->kind != SlotKind::parameter) {
    std::vector<std::string> known;
    for (const Slot& each : setting.layout->slots()) {
      if (each.kind == SlotKind::parameter) {
        known.push_back(each.name);
      }
    }
    throw Error(
        ErrorKind::experiment,
        fmt::format("method.score_layer = \"{}\": the network has no parameter of that name",
                    rule_.layer),
        suggestion(rule_.layer, known));
  }
}

std::unique_ptr<ClientSide> FedNS::client_side() const {
  return std::make_unique<ScoringClient>(base_->client_side(), rule_, debug_density_);
}

std::vector<Schema> FedNS::schemas() const {
  std::vector<Schema> schemas = base_->schemas();
  if (flags_ == Flags::truth) {
    return schemas;
  }
  Schema task = renamed(schemas, "train", "train_score");
  Schema reply = renamed(schemas, "train_done", "train_score_done");
  reply.fields.emplace_back("score", FieldType::f64);
  if (debug_density_) {
    reply.fields.emplace_back("norms", FieldType::f64s);
  }
  schemas.push_back(std::move(task));
  schemas.push_back(std::move(reply));
  return schemas;
}

std::set<std::int64_t> FedNS::scorers(const std::vector<std::int64_t>& chosen) const {
  std::set<std::int64_t> scorers;
  if (flags_ == Flags::truth || !open_) {
    return scorers;
  }
  std::ranges::copy_if(chosen, std::inserter(scorers, scorers.end()), [this](std::int64_t client) {
    return refresh_ || !(scores_.contains(client) || too_small_.contains(client));
  });
  return scorers;
}

void FedNS::play(std::int64_t round, Server& server) {
  const Setting& setting = server.setting;
  const std::vector<std::int64_t> pool = selectable_clients(server.fleet);
  const std::int64_t count = participants(round == 0 ? first_round_fraction_ : setting.fraction,
                                          static_cast<std::int64_t>(pool.size()));
  const std::vector<std::int64_t> chosen = base_->select(pool, count, round, server);
  if (flags_ == Flags::truth) {
    noisy_ = {setting.noisy_clients.begin(), setting.noisy_clients.end()};
  }
  const std::set<std::int64_t> scoring = scorers(chosen);
  const auto kind_of = [&scoring](std::int64_t client) {
    return scoring.contains(client) ? "train_score" : "train";
  };
  begin(server.global);
  std::vector<Upload> held;
  ask_to_train(*base_, KindOf(kind_of), round, chosen, server, [&](Upload upload) {
    if (scoring.empty()) {
      add(std::move(upload));
      return;
    }
    note_score(upload, server.notes);
    held.push_back(std::move(upload));
  });
  if (flags_ == Flags::scores) {
    server.notes["scoring"] = !scoring.empty();
  }
  if (!scoring.empty()) {
    update_flags(pool, server.notes);
  }
  for (Upload& upload : held) {
    add(std::move(upload));
  }
  server.global = finish(server.global, server.notes);
}

void FedNS::note_score(const Upload& upload, Json& notes) {
  if (!upload.reply.has("score")) {
    return;
  }
  if (debug_density_) {
    notes["norms"].push_back(
        {{"client", upload.client}, {"norms", upload.reply.get<std::vector<double>>("norms")}});
  }
  // One norm has no variance. A score of 0 would be the lowest of all, which is noisy.
  if (rule_.statistic == "var" && upload.samples <= static_cast<double>(rule_.batch)) {
    too_small_.insert(upload.client);
    notes["too_small"].push_back(upload.client);
    return;
  }
  const double score = upload.reply.get<double>("score");
  scores_[upload.client] = std::isfinite(score) ? std::optional(score) : std::nullopt;
}

void FedNS::update_flags(const std::vector<std::int64_t>& pool, Json& notes) {
  open_ = !std::ranges::all_of(pool, [this](std::int64_t client) {
    return scores_.contains(client) || too_small_.contains(client);
  });
  if (open_ && scores_.size() < kFewestScores) {
    notes["warning"] = fmt::format("{} scores so far: all clients count as clean", scores_.size());
    return;
  }
  Sifting sifting = sift(scores_);
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

void FedNS::begin(const State& global) {
  base_->begin(global);
  literal_mean_ = {};
  samples_ = 0.0;
  weight_ = 0.0;
}

void FedNS::add(Upload upload) {
  const double factor = noisy_.contains(upload.client) ? beta_ : alpha_;
  // Divided by the larger one, alpha = beta is a factor of exactly 1: the base, bit for bit.
  upload.factor = factor / std::max(alpha_, beta_);
  if (!use_counts_) {
    upload.samples = 1.0;
  }
  samples_ += upload.samples;
  weight_ += upload.samples * factor;
  if (trim_literal_) {
    literal_mean_.add(upload.model(), upload.factor);
  } else {
    base_->add(upload);
  }
}

State FedNS::finish(const State& global, Json& notes) {
  if (!(weight_ > 0.0)) {
    notes["warning"] = "all participants are noisy and beta is 0: the model stays as it is";
    return global;
  }
  State next = trim_literal_ ? literal_mean_.finish() : base_->finish();
  if (!trim_literal_) {
    base_->note(notes);
  }
  return renormalise_ ? next : scaled_step(global, std::move(next), weight_ / samples_);
}

Findings FedNS::findings() const {
  Findings findings;
  if (sifted_) {
    findings.flagged.emplace(noisy_.begin(), noisy_.end());
  }
  for (const auto& [client, score] : scores_) {
    if (score) {
      findings.scores["gradient_norm"][client] = *score;
    }
  }
  return findings;
}

void FedNS::save(Archive& archive) const {
  base_.save(archive);
  archive.values["scores"] = save_by_client(scores_);
  archive.values["too_small"] = too_small_;
  archive.values["noisy"] = noisy_;
  archive.values["open"] = open_;
  archive.values["sifted"] = sifted_;
}

void FedNS::load(const Archive& archive) {
  base_.load(archive);
  scores_ = read_known_numbers(archive.find("scores"), archive.bounds);
  too_small_ = read_clients(archive.find("too_small"), archive.bounds);
  noisy_ = read_clients(archive.find("noisy"), archive.bounds);
  const auto open = archive.find("open");
  open_ = open ? open->truth() : true;
  const auto sifted = archive.find("sifted");
  sifted_ = sifted ? sifted->truth() : false;
}

MethodInfo fedns_info() {
  return {"fedns", "system",
          "finds noisy clients once by their gradient norms and gives them less weight",
          [] { return std::make_unique<FedNS>(); }};
}

MethodInfo fedns_oracle_flags_info() {
  return {.name = "fedns_oracle_flags",
          .group = "oracle",
          .summary = "oracle (uses ground truth): FedNS whose server knows the noisy clients",
          .make = [] { return std::make_unique<FedNS>(Flags::truth); },
          .truth = Truth::clients};
}

}  // namespace winnow
