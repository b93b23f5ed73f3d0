#include "winnow/method/fedlsr/fedlsr.h"

#include "winnow/method/fedlsr/losses.h"

namespace winnow {

std::vector<Schema> FedLsr::Training::schemas() const {
  std::vector<Schema> schemas = BaseMethod::schemas();
  schemas.front().fields.emplace_back("gamma", FieldType::f64);
  return schemas;
}

Message FedLsr::Training::task(std::int64_t round, std::int64_t client, const State& global) const {
  return BaseMethod::task(round, client, global).set("gamma", gamma);
}

std::unique_ptr<ClientSide> FedLsr::client_side() const {
  return std::make_unique<fedlsr::Client>(options_);
}

void FedLsr::play(std::int64_t round, Server& server) {
  const double warmup = options_.warmup_share * static_cast<double>(server.setting.rounds);
  training_.gamma = fedlsr::gamma_in(options_.gamma, round, warmup);
  server.notes["gamma"] = training_.gamma;
  training_.play(round, server);
}

MethodInfo fedlsr_info() {
  return {"fedlsr", "noisy-label",
          "trains for the same confident answer to two views of every image",
          [] { return std::make_unique<FedLsr>(); }};
}

}  // namespace winnow
