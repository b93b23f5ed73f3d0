#include "winnow/method/focus/focus.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "winnow/base/error.h"
#include "winnow/federation/aggregation.h"
#include "winnow/federation/selection.h"
#include "winnow/method/focus/credibility.h"

namespace winnow {
namespace {

constexpr const char* kMutual = "mutual_loss";
constexpr const char* kCredibility = "credibility";

// FedAvg's client, and one number more.
class FocusClient : public ClientSide {
 public:
  explicit FocusClient(std::unique_ptr<ClientSide> base) : base_(std::move(base)) {}

  Message handle(const Message& task, ClientContext& context) const override {
    Lane& lane = context.lane();
    lane.load(task.get<State>("model"));
    const Score received =
        lane.score(lane.feed(), context.local_set(), context.options().eval_batch);
    return base_->handle(task, context).set("local_loss", received.mean_loss());
  }

 private:
  std::unique_ptr<ClientSide> base_;
};

bool is_loss(double value) {
  return std::isfinite(value) && value >= 0.0;
}

}  // namespace

void Focus::declare(Params& params) {
  params.add("alpha", alpha_, "how much a larger loss costs credibility; 0 is FedAvg")
      .at_least(0)
      .source("spec: baselines 19");
  params
      .add("lagged", lagged_,
           "weigh clients by the losses of the last round they took part in before this one")
      .source("false: the losses of this round; spec: baselines 19");
}

void Focus::check(const Setting& setting) const {
  if (setting.validation <= 0) {
    throw Error(ErrorKind::experiment, "focus needs a validation set at the server",
                "add a [validation] table, for example source = \"split\", share = 0.05");
  }
}

std::unique_ptr<ClientSide> Focus::client_side() const {
  return std::make_unique<FocusClient>(fedavg_.client_side());
}

std::vector<Schema> Focus::schemas() const {
  std::vector<Schema> schemas = fedavg_.schemas();
  std::ranges::find(schemas, "train_done", &Schema::kind)
      ->fields.emplace_back("local_loss", FieldType::f64);
  return schemas;
}

void Focus::play(std::int64_t round, Server& server) {
  const std::vector<std::int64_t> pool = selectable_clients(server.fleet);
  const std::vector<std::int64_t> chosen =
      fedavg_.select(pool, participants(server.setting.fraction, std::ssize(pool)), round, server);
  std::vector<std::int64_t> rejected;
  std::vector<Candidate> candidates = collect(round, chosen, server, rejected);
  note_replies(round, chosen, rejected, server.notes);
  measure(candidates, server, rejected);
  note_replies(round, chosen, rejected, server.notes);

  const std::vector<double> credible = believe(candidates);
  std::vector<double> samples;
  for (const Candidate& candidate : candidates) {
    samples.push_back(candidate.samples);
  }
  // In the order and, where credibility is equal, with the weights of FedAvg, so in its bits.
  const std::vector<double> credited = credited_samples(samples, credible);
  const std::vector<double> weights = credit_weights(samples, credible);
  WeightedMean mean;
  std::map<std::int64_t, double> counted;
  for (std::size_t k = 0; k < candidates.size(); ++k) {
    mean.add(candidates[k].model, credited[k]);
    counted[candidates[k].client] = weights[k];
  }
  server.notes["weighed"] = Json::array();
  server.notes["weights"] = Json::array();
  for (const auto& [client, weight] : counted) {
    server.notes["weighed"].push_back(client);
    server.notes["weights"].push_back(weight);
  }
  server.global = mean.finish();
}

std::vector<Focus::Candidate> Focus::collect(std::int64_t round,
                                             const std::vector<std::int64_t>& chosen,
                                             Server& server, std::vector<std::int64_t>& rejected) {
  std::vector<Order> orders;
  orders.reserve(chosen.size());
  for (const std::int64_t client : chosen) {
    orders.push_back({client, fedavg_.task(round, client, server.global)});
  }
  std::vector<Candidate> candidates;
  server.fleet.ask(orders, [&](std::int64_t client, const Message& reply) {
    const auto& model = reply.get<State>("model");
    const auto loss = reply.get<double>("local_loss");
    if (is_loss(loss) && all_finite(model)) {
      candidates.push_back(
          {client, model, static_cast<double>(reply.get<std::uint32_t>("samples")), loss});
    } else {
      rejected.push_back(client);
    }
  });
  return candidates;
}

void Focus::measure(std::vector<Candidate>& candidates, const Server& server,
                    std::vector<std::int64_t>& rejected) {
  std::vector<State> models;
  models.reserve(candidates.size());
  for (const Candidate& candidate : candidates) {
    models.push_back(candidate.model);
  }
  const std::vector<Score> scores = server.validate(models);
  for (std::size_t k = 0; k < candidates.size(); ++k) {
    candidates[k].mutual += scores[k].mean_loss();
  }
  // Finite weights may still give outputs that are not.
  std::erase_if(candidates, [&](const Candidate& candidate) {
    if (!is_loss(candidate.mutual)) {
      rejected.push_back(candidate.client);
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
  const std::vector<double> now = credibility(mutual, alpha_);
  std::vector<double> credible =
      lagged_ ? credibility(losses_before(clients, mutual_), alpha_) : now;
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
  archive.values[kMutual] = save_by_client(mutual_);
  archive.values[kCredibility] = save_by_client(credibility_);
}

void Focus::load(const Archive& archive) {
  mutual_ = read_numbers(archive.find(kMutual), archive.bounds, 0.0);
  credibility_ = read_numbers(archive.find(kCredibility), archive.bounds, 0.0, 1.0);
}

MethodInfo focus_info() {
  return {"focus", "noisy-label",
          "weighs clients by their losses and the server's, each with the other's model",
          [] { return std::make_unique<Focus>(); }};
}

}  // namespace winnow
