#include "winnow/method/fedncl/fedncl.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "winnow/base/error.h"
#include "winnow/federation/aggregation.h"
#include "winnow/federation/selection.h"
#include "winnow/method/base_method.h"
#include "winnow/method/fedncl/client.h"

namespace winnow {
namespace {

using fedncl::LossRule;
using fedncl::ReliabilityRule;
using fedncl::WeightRule;

template <typename Rule>
using Names = std::vector<std::pair<std::string, Rule>>;

const Names<ReliabilityRule>& score_rules() {
  static const Names<ReliabilityRule> rules{{"product_mean", ReliabilityRule::product_mean},
                                            {"code_literal", ReliabilityRule::code_literal},
                                            {"only_ce", ReliabilityRule::only_ce},
                                            {"only_div", ReliabilityRule::only_div}};
  return rules;
}

const Names<WeightRule>& weight_rules() {
  static const Names<WeightRule> rules{{"layerwise", WeightRule::layerwise},
                                       {"whole_model", WeightRule::whole_model},
                                       {"classifier_only", WeightRule::classifier_only},
                                       {"equal", WeightRule::equal},
                                       {"samples", WeightRule::samples}};
  return rules;
}

const Names<LossRule>& loss_rules() {
  static const Names<LossRule> rules{{"train_running", LossRule::train_running},
                                     {"eval_final", LossRule::eval_final}};
  return rules;
}

template <typename Rule>
std::vector<std::string> names_of(const Names<Rule>& rules) {
  std::vector<std::string> names;
  std::ranges::transform(rules, std::back_inserter(names),
                         [](const auto& rule) { return rule.first; });
  return names;
}

// Names come from a parameter that allows these alone.
template <typename Rule>
Rule rule_named(const Names<Rule>& rules, const std::string& name) {
  return std::ranges::find_if(rules, [&](const auto& rule) { return rule.first == name; })->second;
}

}  // namespace

void FedNCL::declare(Params& params) {
  params.add("penalty_rounds", penalty_rounds_, "T_pl: candidates are counted before this round")
      .at_least(0)
      .source("60 of 150 rounds, released code");
  params.add("beta", beta_, "standard deviations from the mean score that flag a client")
      .at_least(0)
      .source("released code");
  params.add("detection", detection_, "flag unusual scores on both sides, or large ones only")
      .choices({"two_sided", "one_sided"})
      .source("released code; one_sided reads better in the paper's words");
  params.add("score", score_, "D h (divergence, mean loss), D h/n, h/n or D/n")
      .choices(names_of(score_rules()))
      .source("reconstruction; code_literal and the ablations: released code");
  params.add("loss", loss_, "h: the running training loss, or an extra pass after training")
      .choices(names_of(loss_rules()))
      .source("released code; eval_final: the paper's appendix");
  params.add("literal_counter", literal_counter_, "count batch counters as layers too")
      .source("the released code does");
  params
      .add(
          "aggregation", aggregation_,
          "what the inverse divergences weigh; equal and samples: a plain mean, which flags do not "
          "touch")
      .choices(names_of(weight_rules()))
      .source("released code, which has all but samples");
  params.add("penalty", penalty_, "penalise flagged clients; false is the ablation tau = 1")
      .source("released code");
  params.add("penalty_early", penalty_early_, "lower clip bound of tau = round / penalty_early")
      .at_least(1)
      .source("released code");
  params.add("penalty_late", penalty_late_, "upper clip bound of tau, and tau after penalty_rounds")
      .at_least(1)
      .source("released code");
  params.add("correction", correction_, "let candidates correct labels after penalty_rounds")
      .source("paper");
  params.add("candidate_share", candidate_share_, "alpha: share of flags that makes a candidate")
      .range(0, 1)
      .source("released code; the name is a reconstruction");
  params.add("candidates", candidates_, "share of penalty_rounds, or of the rounds taken part in")
      .choices({"absolute", "relative"})
      .source("released code; relative: for partial participation");
  params
      .add("min_participations", min_participations_,
           "relative: fewest rounds a client is judged by")
      .at_least(1)
      .source("spec: input-noise 2.5");
  params.add("confidence", confidence_, "eta: softmax from which the global model is believed")
      .range(0, 1)
      .source("released code");
  params.add("mu", mu_, "strength of the clients' pull towards the received model; 0 is none")
      .at_least(0)
      .source("an option of the released code, which has 0.01");
}

void FedNCL::check(const Setting& /*setting*/) const {
  if (penalty_early_ > penalty_late_) {
    throw Error(ErrorKind::experiment,
                fmt::format("method.penalty_early = {:g}: expected at most method.penalty_late, "
                            "which is {:g}",
                            penalty_early_, penalty_late_));
  }
}

std::unique_ptr<ClientSide> FedNCL::client_side() const {
  return std::make_unique<fedncl::CorrectingClient>(rule_named(loss_rules(), loss_), confidence_,
                                                    LocalRule{.proximal = mu_});
}

std::vector<Schema> FedNCL::schemas() const {
  return {{"train",
           {{"round", FieldType::u32}, {"model", FieldType::state}, {"correct", FieldType::u8}}},
          {"train_done",
           {{"model", FieldType::state}, {"samples", FieldType::u32}, {"loss", FieldType::f64}}}};
}

bool FedNCL::corrects(std::int64_t round, std::int64_t client) const {
  return correction_ && round > penalty_rounds_ && correcting_.contains(client);
}

FedNCL::Round FedNCL::ask(std::int64_t round, const std::vector<std::int64_t>& chosen,
                          Server& server) const {
  std::vector<Order> orders;
  for (const std::int64_t client : chosen) {
    orders.push_back({client, Message("train")
                                  .set("round", static_cast<std::uint32_t>(round))
                                  .set("model", server.global)
                                  .set("correct", std::uint8_t{corrects(round, client)})});
  }
  const ReliabilityRule rule = rule_named(score_rules(), score_);
  struct Usable {
    State model;
    std::vector<double> divergences;
    double score = 0.0;
    double samples = 0.0;
  };
  std::map<std::int64_t, Usable> usable;
  std::vector<std::int64_t> rejected;
  server.fleet.ask(orders, [&](std::int64_t client, const Message& reply) {
    const auto& model = reply.get<State>("model");
    const double loss = reply.get<double>("loss");
    const auto samples = static_cast<double>(reply.get<std::uint32_t>("samples"));
    // A loss below 0 or no samples would turn the scores of everybody upside down.
    if (all_finite(model) && std::isfinite(loss) && loss >= 0.0 && samples > 0.0) {
      std::vector<double> divergences = fedncl::divergences(server.global, model, literal_counter_);
      const double score = fedncl::reliability(rule, divergences, loss, samples);
      if (std::isfinite(score)) {
        usable[client] = {model, std::move(divergences), score, samples};
        return;
      }
    }
    rejected.push_back(client);
  });
  note_replies(round, chosen, rejected, server.notes);
  Round played;
  for (auto& [client, reply] : usable) {
    played.clients.push_back(client);
    played.models.push_back(std::move(reply.model));
    played.participants.divergences.push_back(std::move(reply.divergences));
    played.participants.scores.push_back(reply.score);
    played.participants.samples.push_back(reply.samples);
  }
  return played;
}

void FedNCL::play(std::int64_t round, Server& server) {
  const std::vector<std::int64_t> pool = selectable_clients(server.fleet);
  const std::vector<std::int64_t> chosen = select_uniform(
      pool, participants(server.setting.fraction, static_cast<std::int64_t>(pool.size())),
      server.setting.seed, round);
  Round played = ask(round, chosen, server);
  played.participants.flagged =
      fedncl::flag(played.participants.scores, beta_, detection_ == "two_sided");
  const double tau =
      penalty_ ? fedncl::penalty(round, penalty_rounds_, penalty_early_, penalty_late_) : 1.0;
  server.global = fedncl::combine(
      played.models, fedncl::slot_weights(rule_named(weight_rules(), aggregation_),
                                          *server.global.layout, played.participants, tau));

  Json flagged = Json::array();
  Json scores = Json::array();
  for (std::size_t i = 0; i < played.clients.size(); ++i) {
    scores.push_back({played.clients[i], played.participants.scores[i]});
    if (played.participants.flagged[i]) {
      flagged.push_back(played.clients[i]);
    }
  }
  server.notes["flagged"] = flagged.size();
  server.notes["corrected"] =
      std::ranges::count_if(chosen, [&](std::int64_t client) { return corrects(round, client); });
  server.notes["penalty"] = tau;
  server.notes["flagged_clients"] = std::move(flagged);
  server.notes["scores"] = std::move(scores);
  remember(round, played);
  server.notes["candidates"] = correcting_.size();
  server.notes["candidate_clients"] = correcting_;
}

void FedNCL::remember(std::int64_t round, const Round& played) {
  for (std::size_t i = 0; i < played.clients.size(); ++i) {
    History& history = history_[played.clients[i]];
    const std::int64_t flags = played.participants.flagged[i] ? 1 : 0;
    history.reliability = played.participants.scores[i];
    history.all.flags += flags;
    ++history.all.rounds;
    if (round < penalty_rounds_) {
      history.early.flags += flags;
      ++history.early.rounds;
    }
  }
  if (round < penalty_rounds_) {
    choose_candidates(round);
  }
  rounds_ = round + 1;
}

// spec: input-noise 2.5; once a candidate, always one.
void FedNCL::choose_candidates(std::int64_t round) {
  const bool relative = candidates_ == "relative";
  if (relative && round != penalty_rounds_ - 1) {
    return;
  }
  for (const auto& [client, history] : history_) {
    const std::int64_t rounds = relative ? history.early.rounds : penalty_rounds_;
    const bool judged = !relative || history.early.rounds >= min_participations_;
    if (judged &&
        static_cast<double>(history.early.flags) > candidate_share_ * static_cast<double>(rounds)) {
      correcting_.insert(client);
    }
  }
}

Findings FedNCL::findings() const {
  Findings findings;
  if (history_.empty()) {
    return findings;
  }
  findings.flagged.emplace();
  for (const auto& [client, history] : history_) {
    if (suspects(client, history)) {
      findings.flagged->push_back(client);
    }
    findings.scores["reliability"][client] = history.reliability;
    findings.scores["flag_share"][client] = history.all.share();
    if (history.early.rounds > 0) {
      findings.scores["flag_share_early"][client] = history.early.share();
    }
  }
  return findings;
}

// Corrected labels make a noisy client look normal, so what is flagged after the penalty rounds
// says nothing about the labels it was given: by then the candidates are the method's answer.
bool FedNCL::suspects(std::int64_t client, const History& history) const {
  if (penalty_rounds_ > 0 && rounds_ >= penalty_rounds_) {
    return correcting_.contains(client);
  }
  const bool own = penalty_rounds_ == 0 || candidates_ == "relative";
  const std::int64_t rounds = own ? history.all.rounds : rounds_;
  return static_cast<double>(history.all.flags) > candidate_share_ * static_cast<double>(rounds);
}

void FedNCL::save(Archive& archive) const {
  std::map<std::int64_t, Json> clients;
  for (const auto& [client, history] : history_) {
    clients[client] = {{"flags", history.all.flags},
                       {"rounds", history.all.rounds},
                       {"early_flags", history.early.flags},
                       {"early_rounds", history.early.rounds},
                       {"reliability", history.reliability}};
  }
  archive.values["clients"] = save_by_client(clients);
  archive.values["correcting"] = correcting_;
  archive.values["rounds"] = rounds_;
}

void FedNCL::load(const Archive& archive) {
  history_ = read_by_client(archive.find("clients"), archive.bounds, [](const CheckedJson& saved) {
    History history;
    history.all.rounds = saved.at("rounds").whole(1, CheckedJson::kMost);
    history.all.flags = saved.at("flags").whole(0, history.all.rounds);
    history.early.rounds = saved.at("early_rounds").whole(0, history.all.rounds);
    history.early.flags = saved.at("early_flags").whole(0, history.early.rounds);
    history.reliability = saved.at("reliability").number();
    return history;
  });
  correcting_ = read_clients(archive.find("correcting"), archive.bounds);
  const auto rounds = archive.find("rounds");
  rounds_ = rounds ? rounds->count() : 0;
}

MethodInfo fedncl_info() {
  return {"fedncl", "system",
          "flags clients by divergence and loss, averages layer by layer, corrects labels",
          [] { return std::make_unique<FedNCL>(); }};
}

}  // namespace winnow
