#include "winnow/method/fedavg/fedavg.h"

#include <fmt/format.h>

#include "winnow/base/error.h"
#include "winnow/federation/aggregation.h"
#include "winnow/federation/selection.h"

namespace winnow {
namespace {

class FedAvgClient : public ClientSide {
 public:
  explicit FedAvgClient(LocalRule rule) : rule_(rule) {}

  Message handle(const Message& task, ClientContext& context) const override {
    const auto round = static_cast<std::int64_t>(task.get<std::uint32_t>("round"));
    TrainOutcome outcome = context.train(task.get<State>("model"), round, rule_);
    return Message("train_done")
        .set("model", std::move(outcome.state))
        .set("samples", static_cast<std::uint32_t>(context.size()));
  }

 private:
  LocalRule rule_;
};

}  // namespace

std::unique_ptr<ClientSide> FedAvg::client_side() const {
  return std::make_unique<FedAvgClient>(local_rule());
}

std::vector<Schema> FedAvg::schemas() const {
  return {{"train", {{"round", FieldType::u32}, {"model", FieldType::state}}},
          {"train_done", {{"model", FieldType::state}, {"samples", FieldType::u32}}}};
}

void FedAvg::play(std::int64_t round, Server& server) {
  const std::vector<std::int64_t> pool = clients_with_samples(server.fleet);
  if (pool.empty()) {
    throw Error(ErrorKind::run, "no client holds a sample");
  }
  const std::vector<std::int64_t> chosen = select_uniform(
      pool, participants(server.setting.fraction, static_cast<std::int64_t>(pool.size())),
      server.setting.seed, round);

  std::vector<Order> orders;
  for (const std::int64_t client : chosen) {
    orders.push_back({client, Message("train")
                                  .set("round", static_cast<std::uint32_t>(round))
                                  .set("model", server.global)});
  }
  WeightedMean mean;
  std::vector<std::int64_t> rejected;
  server.fleet.ask(orders, [&](std::int64_t client, const Message& reply) {
    const State& model = reply.get<State>("model");
    if (!all_finite(model)) {
      rejected.push_back(client);
      return;
    }
    mean.add(model, static_cast<double>(reply.get<std::uint32_t>("samples")));
  });
  if (rejected.size() == chosen.size()) {
    throw Error(ErrorKind::run,
                fmt::format("round {}: every reply held values that are not finite", round),
                "the training diverged: lower train.lr");
  }
  server.global = mean.finish();
  server.notes["clients"] = chosen;
  if (!rejected.empty()) {
    server.notes["rejected"] = rejected;
  }
}

MethodInfo fedavg_info() {
  return {"fedavg", "base", "average of the clients' models, weighted by their samples",
          [] { return std::make_unique<FedAvg>(); }};
}

}  // namespace winnow
