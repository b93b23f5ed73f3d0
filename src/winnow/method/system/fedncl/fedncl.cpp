#include "winnow/method/system/fedncl/fedncl.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <tuple>
#include <utility>

#include "winnow/base/error.h"
#include "winnow/method/system/fedncl/client.h"

namespace winnow {

void FedNCL::declare(Params& params) {
  params
      .add("penalty_rounds", options_.penalty_rounds,
           "rounds before label correction, in which flags are counted and their penalty grows "
           "(T_pl)")
      .at_least(0)
      .source("60 of 150 rounds, released code");
  params
      .add("beta", options_.beta,
           "distance from the mean score, in standard deviations, beyond which a client is flagged")
      .at_least(0)
      .source("released code");
  params
      .add("detection", options_.detection,
           {{"two_sided", fedncl::Detection::two_sided},
            {"one_sided", fedncl::Detection::one_sided}},
           "flag clients with unusual scores on both sides of the mean, or only with large ones")
      .source("released code; one_sided reads better in the paper's words");
  params
      .add("score", options_.score,
           {{"product_mean", fedncl::ReliabilityRule::product_mean},
            {"code_literal", fedncl::ReliabilityRule::code_literal},
            {"only_ce", fedncl::ReliabilityRule::only_ce},
            {"only_div", fedncl::ReliabilityRule::only_div}},
           "score of a client, from its divergence D, mean loss h and number of samples n: D h "
           "(product_mean), D h / n (code_literal), h / n (only_ce) or D / n (only_div)")
      .source("reconstruction; code_literal and the ablations: released code");
  params
      .add("loss", options_.loss,
           {{"train_running", fedncl::LossRule::train_running},
            {"eval_final", fedncl::LossRule::eval_final}},
           "mean loss of a client in its score: the running loss of its training, or the loss of "
           "an extra pass after training")
      .source("released code; eval_final: the paper's appendix");
  params
      .add("literal_counter", options_.literal_counter,
           "also count the batch counters of batch normalisation as layers")
      .source("the released code does");
  params
      .add("aggregation", options_.aggregation,
           {{"layerwise", fedncl::WeightRule::layerwise},
            {"whole_model", fedncl::WeightRule::whole_model},
            {"classifier_only", fedncl::WeightRule::classifier_only},
            {"equal", fedncl::WeightRule::equal},
            {"samples", fedncl::WeightRule::samples}},
           "what is weighted by inverse divergence: each layer, the whole model or the classifier "
           "only; equal and samples: a plain mean that ignores flags")
      .source("released code, which has all but samples");
  params
      .add("penalty", options_.penalty,
           "penalise flagged clients in the average; false: the ablation tau = 1")
      .source("released code");
  params
      .add("penalty_early", options_.penalty_early,
           "the penalty tau is round / penalty_early, and at least penalty_early")
      .at_least(1)
      .source("released code");
  params
      .add("penalty_late", options_.penalty_late,
           "largest penalty tau, and its value after penalty_rounds")
      .at_least(1)
      .source("released code");
  params
      .add("correction", options_.correction,
           "let candidates correct their labels after penalty_rounds")
      .source("paper");
  params
      .add("candidate_share", options_.candidate_share,
           "a client flagged in more than this share of rounds becomes a candidate for label "
           "correction (alpha)")
      .range(0, 1)
      .source("released code; the name is a reconstruction");
  params
      .add("candidates", options_.candidates,
           {{"absolute", fedncl::CandidateShare::absolute},
            {"relative", fedncl::CandidateShare::relative}},
           "rounds that candidate_share refers to: penalty_rounds (absolute), or those in which "
           "the client took part (relative)")
      .source("released code; relative: for partial participation");
  params
      .add("min_participations", options_.min_participations,
           "fewest rounds in which a client must have taken part to become a candidate, with "
           "candidates = relative")
      .at_least(1)
      .source("spec: input-noise 2.5");
  params
      .add("confidence", options_.confidence,
           "softmax probability from which a prediction of the global model replaces a label (eta)")
      .range(0, 1)
      .source("released code");
  params
      .add(
          "mu", options_.mu,
          "weight of the clients' proximal term, which keeps them near the received model; 0: none")
      .at_least(0)
      .source("an option of the released code, which has 0.01");
  params
      .add("dyn_alpha", options_.dyn_alpha,
           "strength of FedDyn's regulariser in the clients' training; 0: none")
      .at_least(0)
      .source("an option of the released code that does not run there");
}

void FedNCL::check(const Setting& /*setting*/) const {
  if (options_.penalty_early > options_.penalty_late) {
    throw Error(ErrorKind::experiment,
                fmt::format("method.penalty_early = {:g}: expected at most method.penalty_late, "
                            "which is {:g}",
                            options_.penalty_early, options_.penalty_late));
  }
  if (options_.mu > 0.0 && options_.dyn_alpha > 0.0) {
    throw Error(ErrorKind::experiment,
                fmt::format("method.dyn_alpha = {:g}: expected 0 beside method.mu, which is {:g}",
                            options_.dyn_alpha, options_.mu),
                "clients train by one rule: leave one of the two out");
  }
}

std::string FedNCL::needs_sgd() const {
  return options_.dyn_alpha > 0.0 ? "method.dyn_alpha computes the change of a client's gradient "
                                    "as alpha times its update"
                                  : "";
}

std::unique_ptr<ClientSide> FedNCL::client_side() const {
  return std::make_unique<fedncl::CorrectingClient>(
      options_.loss, options_.confidence, LocalRule{.proximal = options_.mu}, options_.dyn_alpha);
}

std::vector<Exchange> FedNCL::exchanges(const Setting& /*setting*/) const {
  return {
      {"train",
       {field::round(), field::global_model(),
        field::flag("correct", "whether to correct its labels, which tells it that it was flagged")
            .between(0, 1)},
       "train_done",
       {field::trained_model(), field::samples(),
        field::number("loss", "its mean loss in this training").at_least(0)}}};
}

bool FedNCL::corrects(std::int64_t round, std::int64_t client) const {
  return options_.correction && round > options_.penalty_rounds && correcting_.contains(client);
}

FedNCL::Played FedNCL::ask(Round& round) const {
  struct Usable {
    State model;
    std::vector<double> divergences;
    double score = 0.0;
    double samples = 0.0;
  };
  std::map<std::int64_t, Usable> accepted;
  round.ask(
      round.chosen,
      [&](std::int64_t client) {
        return round.task("train").set("correct", std::uint8_t{corrects(round.number, client)});
      },
      exchanges(round.setting),
      [&](std::int64_t client, const Message& reply) {
        const auto& model = reply.get<State>("model");
        const auto samples = static_cast<double>(reply.get<std::uint32_t>("samples"));
        std::vector<double> divergences =
            fedncl::divergences(round.global, model, options_.literal_counter);
        const double score =
            fedncl::reliability(options_.score, divergences, reply.get<double>("loss"), samples);
        if (std::isfinite(score)) {
          accepted[client] = {model, std::move(divergences), score, samples};
        } else {
          round.reject(client);
        }
      });
  std::ignore = round.note_replies();
  Played played;
  for (auto& [client, reply] : accepted) {
    played.clients.push_back(client);
    played.models.push_back(std::move(reply.model));
    played.participants.divergences.push_back(std::move(reply.divergences));
    played.participants.scores.push_back(reply.score);
    played.participants.samples.push_back(reply.samples);
  }
  return played;
}

void FedNCL::play(std::int64_t number, Server& server) {
  Round round(number, server);
  round.chosen = round.draw();
  Played played = ask(round);
  if (played.clients.empty()) {
    remember(number, played);
    return;
  }
  played.participants.flagged = fedncl::flag(played.participants.scores, options_.beta,
                                             options_.detection == fedncl::Detection::two_sided);
  const double tau = options_.penalty
                         ? fedncl::penalty(number, options_.penalty_rounds, options_.penalty_early,
                                           options_.penalty_late)
                         : 1.0;
  round.global = fedncl::combine(
      played.models,
      fedncl::slot_weights(options_.aggregation, *round.global.layout, played.participants, tau));

  Json flagged = Json::array();
  Json scores = Json::array();
  for (std::size_t i = 0; i < played.clients.size(); ++i) {
    scores.push_back({played.clients[i], played.participants.scores[i]});
    if (played.participants.flagged[i]) {
      flagged.push_back(played.clients[i]);
    }
  }
  round.notes["flagged"] = flagged.size();
  round.notes["corrected"] = std::ranges::count_if(
      round.chosen, [&](std::int64_t client) { return corrects(number, client); });
  round.notes["penalty"] = tau;
  round.notes["flagged_clients"] = std::move(flagged);
  round.notes["scores"] = std::move(scores);
  remember(number, played);
  round.notes["candidates"] = correcting_.size();
  round.notes["candidate_clients"] = correcting_;
}

void FedNCL::remember(std::int64_t round, const Played& played) {
  for (std::size_t i = 0; i < played.clients.size(); ++i) {
    History& history = history_[played.clients[i]];
    const std::int64_t flags = played.participants.flagged[i] ? 1 : 0;
    history.reliability = played.participants.scores[i];
    history.all.flags += flags;
    ++history.all.rounds;
    if (round < options_.penalty_rounds) {
      history.early.flags += flags;
      ++history.early.rounds;
    }
  }
  if (round < options_.penalty_rounds) {
    choose_candidates(round);
  }
  rounds_ = round + 1;
}

// spec: input-noise 2.5; once a candidate, always one.
void FedNCL::choose_candidates(std::int64_t round) {
  const bool relative = options_.candidates == fedncl::CandidateShare::relative;
  if (relative && round != options_.penalty_rounds - 1) {
    return;
  }
  for (const auto& [client, history] : history_) {
    const std::int64_t rounds = relative ? history.early.rounds : options_.penalty_rounds;
    const bool judged = !relative || history.early.rounds >= options_.min_participations;
    if (judged && static_cast<double>(history.early.flags) >
                      options_.candidate_share * static_cast<double>(rounds)) {
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
  if (options_.penalty_rounds > 0 && rounds_ >= options_.penalty_rounds) {
    return correcting_.contains(client);
  }
  const bool own =
      options_.penalty_rounds == 0 || options_.candidates == fedncl::CandidateShare::relative;
  const std::int64_t rounds = own ? history.all.rounds : rounds_;
  return static_cast<double>(history.all.flags) >
         options_.candidate_share * static_cast<double>(rounds);
}

void FedNCL::save(Archive& archive) const {
  archive.put_column("clients", history_, [](const History& history) {
    return Json{{"flags", history.all.flags},
                {"rounds", history.all.rounds},
                {"early_flags", history.early.flags},
                {"early_rounds", history.early.rounds},
                {"reliability", history.reliability}};
  });
  archive.values["correcting"] = correcting_;
  archive.values["rounds"] = rounds_;
}

void FedNCL::load(const Archive& archive) {
  const auto read = [](const CheckedJson& saved) {
    History history;
    history.all.rounds = saved.at("rounds").whole(1, CheckedJson::kMost);
    history.all.flags = saved.at("flags").whole(0, history.all.rounds);
    history.early.rounds = saved.at("early_rounds").whole(0, history.all.rounds);
    history.early.flags = saved.at("early_flags").whole(0, history.early.rounds);
    history.reliability = saved.at("reliability").number();
    return history;
  };
  const auto* kept = archive.column<History>("clients");
  history_ = kept != nullptr ? *kept : ByClient<History>(archive.by_client("clients", read));
  correcting_ = archive.clients("correcting");
  rounds_ = archive.count("rounds");
}

MethodInfo fedncl_info() {
  return {.name = "fedncl",
          .group = "system",
          .summary = "flags by divergence and loss, averages by layer, relabels",
          .make = [] { return std::make_unique<FedNCL>(); },
          .smoke = Json::object({{"rounds", 7},
                                 {"method.penalty_rounds", 3},
                                 {"method.candidate_share", 0.0},
                                 {"method.confidence", 0.1}})};
}

}  // namespace winnow
