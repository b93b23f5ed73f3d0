#include "winnow/method/noisy_label/focus/focus.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "winnow/base/error.h"
#include "winnow/federation/aggregation.h"
#include "winnow/method/noisy_label/focus/arithmetic.h"

namespace winnow {
namespace {

constexpr const char* kMutual = "mutual_loss";
constexpr const char* kCredibility = "credibility";

// FedAvg's client, and one number more.
class FocusClient : public ClientSide {
 public:
  explicit FocusClient(std::unique_ptr<ClientSide> base) : base_(std::move(base)) {}

  Message handle(const Message& task, ClientContext& context) const override {
    const Score received = context.score(task.get<State>("model"));
    return context.as_base([&](ClientContext& base) { return base_->handle(task, base); })
        .set("local_loss", received.mean_loss());
  }

 private:
  std::unique_ptr<ClientSide> base_;
};

bool is_loss(double value) {
  return std::isfinite(value) && value >= 0.0;
}

}  // namespace

void Focus::declare(Params& params) {
  params.add("alpha", alpha_, "how much a larger loss lowers a client's credibility; 0: FedAvg")
      .at_least(0)
      .source("spec: baselines 19");
  params
      .add("lagged", lagged_,
           "weight clients by the losses of their previous participation instead of those of this "
           "round")
      .source("false: the losses of this round; spec: baselines 19");
}

void Focus::check(const Setting& setting) const {
  if (setting.validation <= 0) {
    throw Error(ErrorKind::experiment, "focus needs a validation set on the server",
                "add a [validation] table, for example source = \"split\", share = 0.05");
  }
}

std::unique_ptr<ClientSide> Focus::client_side() const {
  return std::make_unique<FocusClient>(fedavg_.client_side());
}

std::vector<Exchange> Focus::exchanges(const Setting& setting) const {
  std::vector<Exchange> exchanges = fedavg_.exchanges(setting);
  exchanges.front().answers.push_back(
      field::number("local_loss", "the mean loss of the received model on its samples")
          .at_least(0));
  return exchanges;
}

void Focus::play(std::int64_t number, Server& server) {
  Round round(number, server);
  round.chosen = fedavg_.select(round, round.share());
  std::vector<Candidate> candidates = collect(round);
  if (!round.note_replies()) {
    return;
  }
  measure(round, candidates);
  if (!round.note_replies()) {
    return;
  }

  const std::vector<double> credible = believe(candidates);
  std::vector<double> samples;
  for (const Candidate& candidate : candidates) {
    samples.push_back(candidate.samples);
  }
  // In the order and, where credibility is equal, with the weights of FedAvg, so in its bits.
  const std::vector<double> credited = focus::credited_samples(samples, credible);
  const std::vector<double> weights = focus::credit_weights(samples, credible);
  WeightedMean mean;
  std::map<std::int64_t, double> counted;
  for (std::size_t k = 0; k < candidates.size(); ++k) {
    mean.add(candidates[k].model, credited[k]);
    counted[candidates[k].client] = weights[k];
  }
  round.notes["weighed"] = Json::array();
  round.notes["weights"] = Json::array();
  for (const auto& [client, weight] : counted) {
    round.notes["weighed"].push_back(client);
    round.notes["weights"].push_back(weight);
  }
  round.global = mean.finish();
}

std::vector<Focus::Candidate> Focus::collect(Round& round) const {
  std::vector<Candidate> candidates;
  round.ask(
      round.chosen, [&](std::int64_t client) { return fedavg_.task(round, client); },
      exchanges(round.setting),
      [&](std::int64_t client, const Message& reply) {
        candidates.push_back({client, reply.get<State>("model"),
                              static_cast<double>(reply.get<std::uint32_t>("samples")),
                              reply.get<double>("local_loss")});
      });
  return candidates;
}

void Focus::measure(Round& round, std::vector<Candidate>& candidates) {
  std::vector<State> models;
  models.reserve(candidates.size());
  for (const Candidate& candidate : candidates) {
    models.push_back(candidate.model);
  }
  const std::vector<Score> scores = round.server.validate(models);
  for (std::size_t k = 0; k < candidates.size(); ++k) {
    candidates[k].mutual += scores[k].mean_loss();
  }
  // Finite weights may still give outputs that are not.
  std::erase_if(candidates, [&](const Candidate& candidate) {
    if (!is_loss(candidate.mutual)) {
      round.reject(candidate.client);
    }
    return !is_loss(candidate.mutual);
  });
}

std::vector<double> Focus::believe(const std::vector<Candidate>& candidates) {
  std::vector<std::int64_t> clients;
  std::vector<double> mutual;
  for (const Candidate& candidate : candidates) {
    clients.push_back(candidate.client);
    mutual.push_back(candidate.mutual);
  }
  const std::vector<double> now = focus::credibility(mutual, alpha_);
  std::vector<double> credible =
      lagged_ ? focus::credibility(focus::losses_before(clients, mutual_), alpha_) : now;
  for (std::size_t k = 0; k < clients.size(); ++k) {
    mutual_[clients[k]] = mutual[k];
    credibility_[clients[k]] = now[k];
  }
  return credible;
}

Findings Focus::findings() const {
  return {.scores = {{kCredibility, credibility_}, {kMutual, mutual_}}};
}

void Focus::save(Archive& archive) const {
  archive.put_by_client(kMutual, mutual_);
  archive.put_by_client(kCredibility, credibility_);
}

void Focus::load(const Archive& archive) {
  mutual_ = archive.numbers(kMutual, 0.0);
  credibility_ = archive.numbers(kCredibility, 0.0, 1.0);
}

MethodInfo focus_info() {
  return {"focus", "noisy-label", "weights clients by a credibility from mutual losses",
          [] { return std::make_unique<Focus>(); }};
}

}  // namespace winnow
