// FedGR (spec: rivals 4): the global model sieves the samples by their losses over many rounds, and
// gives the noisy ones new labels; every client also follows a slow model of its own.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "winnow/federation/by_client.h"
#include "winnow/method/method.h"
#include "winnow/method/noisy_label/fedgr/arithmetic.h"

namespace winnow {

// Rounds of FedAvg. With selection = "inter" clients tell the mean loss of each of their samples,
// and the server fits a mixture to those of a round, which a client is sent when it is next asked;
// with "intra" nothing but models travels.
class FedGr final : public Method {
 public:
  void declare(Params& params) override { fedgr::declare(options_, params); }
  // Refuses a run that ends with its sniffing.
  void check(const Setting& setting) const override;
  bool needs_features() const override { return true; }
  ServerNeeds server_needs() const override {
    return ServerNeeds::sums("it averages the models; losses of samples are sent separately");
  }
  std::unique_ptr<ClientSide> client_side() const override;
  std::vector<Exchange> exchanges(const Setting& setting) const override;
  // Notes `stage`.
  void play(std::int64_t number, Server& server) override;
  // With selection = "inter" the estimated shares of wrong labels.
  Findings findings() const override;
  void save(Archive& archive) const override;
  void load(const Archive& archive) override;

 private:
  // What the server made of the last round that a client took part in.
  struct Estimate {
    MixtureParameters mixture;
    double noisy = 0.0;

    bool operator==(const Estimate&) const = default;
  };
  void estimate(const std::map<std::int64_t, std::vector<double>>& told);

  fedgr::Options options_;
  ByClient<Estimate> estimates_;
};

MethodInfo fedgr_info();

}  // namespace winnow
