// FedDiv (spec: rivals 1): all clients together learn one filter that tells clean samples from
// noisy ones by their loss; a client repairs what it can, and trains on what its own model and the
// global one agree on.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "winnow/federation/by_client.h"
#include "winnow/method/base/fedavg/fedavg.h"
#include "winnow/method/method.h"
#include "winnow/method/noisy_label/feddiv/arithmetic.h"

namespace winnow {

// Two stages on a schedule of its own: a warm-up that hands the model from client to client, and
// rounds of FedAvg whose clients are sent the filter and return their own, six numbers each. The
// server keeps the last filter of every client; theirs together, weighted by samples, is the next
// one that is sent. It learns of a client its models and that filter.
class FedDiv final : public Method {
 public:
  void declare(Params& params) override { feddiv::declare(options_, params); }
  void check(const Setting& setting) const override;
  // Its own number, whatever the experiment says.
  std::int64_t rounds(const Setting& setting) const override;
  std::string schedule(const Setting& setting) const override;
  ServerNeeds server_needs() const override {
    return ServerNeeds::sums("it averages the models; mixtures of losses are sent separately");
  }
  std::unique_ptr<ClientSide> client_side() const override;
  std::vector<Exchange> exchanges(const Setting& setting) const override;
  // Notes `stage` and, with a filter, `noisy_weight`, the weight of its noisy component.
  void play(std::int64_t number, Server& server) override;
  // Score `noisy_weight`: that of a client's own filter.
  Findings findings() const override;
  void save(Archive& archive) const override;
  void load(const Archive& archive) override;

 private:
  void warm_up(std::int64_t number, Server& server);

  feddiv::Options options_;
  FedAvg fedavg_;
  ByClient<feddiv::Contribution> filters_;  // the last one of every client
};

MethodInfo feddiv_info();

}  // namespace winnow
