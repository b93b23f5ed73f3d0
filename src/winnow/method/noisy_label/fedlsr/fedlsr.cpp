#include "winnow/method/noisy_label/fedlsr/fedlsr.h"

#include "winnow/method/noisy_label/fedlsr/losses.h"

namespace winnow {

std::unique_ptr<ClientSide> FedLsr::client_side() const {
  return std::make_unique<fedlsr::Client>(options_);
}

std::vector<Exchange> FedLsr::exchanges(const Setting& setting) const {
  std::vector<Exchange> exchanges = BaseMethod::exchanges(setting);
  exchanges.front().asks.push_back(
      field::number("gamma", "the weight of the agreement between views in this round")
          .at_least(0));
  return exchanges;
}

double FedLsr::gamma(const Round& round) const {
  const double warmup = options_.warmup_share * static_cast<double>(round.setting.rounds);
  return fedlsr::gamma_in(options_.gamma, round.number, warmup);
}

Message FedLsr::task(const Round& round, std::int64_t client) const {
  return BaseMethod::task(round, client).set("gamma", gamma(round));
}

void FedLsr::begin(Round& round) {
  BaseMethod::begin(round);
  round.notes["gamma"] = gamma(round);
}

MethodInfo fedlsr_info() {
  return {"fedlsr", "noisy-label", "trains for consistent predictions on two views of an image",
          [] { return std::make_unique<FedLsr>(); }};
}

}  // namespace winnow
