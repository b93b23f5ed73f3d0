// FedLSR (spec: baselines 18): clients look at every image in two ways, and train a model that
// gives both the same, confident answer, which wrong labels make hard to learn by heart.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "winnow/method/base_method.h"
#include "winnow/method/noisy_label/fedlsr/client.h"

namespace winnow {

// The server does as FedAvg does; tasks also tell how much the divergence counts in the round,
// since only the server knows how many rounds there are.
class FedLsr final : public BaseMethod {
 public:
  void declare(Params& params) override { fedlsr::declare(options_, params); }
  ServerNeeds server_needs() const override { return ServerNeeds::sums("it averages the models"); }
  std::unique_ptr<ClientSide> client_side() const override;
  std::vector<Exchange> exchanges(const Setting& setting) const override;
  Message task(const Round& round, std::int64_t client) const override;
  // Notes `gamma`, that of the round.
  void begin(Round& round) override;

 private:
  double gamma(const Round& round) const;

  fedlsr::Options options_;
};

MethodInfo fedlsr_info();

}  // namespace winnow
