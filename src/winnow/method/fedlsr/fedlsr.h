// FedLSR (spec: baselines 18): clients look at every image in two ways, and train a model that
// gives both the same, confident answer, which wrong labels make hard to learn by heart.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "winnow/method/base_method.h"
#include "winnow/method/fedlsr/client.h"

namespace winnow {

// The server does as FedAvg does; tasks also tell how much the divergence counts in the round,
// since only the server knows how many rounds there are.
class FedLsr final : public Method {
 public:
  void declare(Params& params) override { fedlsr::declare(options_, params); }
  std::unique_ptr<ClientSide> client_side() const override;
  std::vector<Schema> schemas() const override { return training_.schemas(); }
  // Notes `gamma`, that of the round.
  void play(std::int64_t round, Server& server) override;

 private:
  class Training final : public BaseMethod {
   public:
    std::vector<Schema> schemas() const override;
    Message task(std::int64_t round, std::int64_t client, const State& global) const override;

    double gamma = 0.0;  // of the round
  };

  fedlsr::Options options_;
  Training training_;
};

MethodInfo fedlsr_info();

}  // namespace winnow
