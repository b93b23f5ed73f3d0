// RHFL (spec: baselines 17): clients with models, even networks, of their own learn from each
// other's predictions on public images, and listen more to those whose own loss falls faster.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "winnow/method/noisy_label/rhfl/client.h"
#include "winnow/method/round.h"

namespace winnow {
namespace rhfl {

// The names are those of the method's parameters.
struct Options {
  double beta = 0.5;
  std::vector<std::string> networks = {};
  Measured evaluate = Measured::clients;
  ClientOptions client = {};
};

}  // namespace rhfl

// There is no global model: server.global stays as it is, models never cross the boundary, and the
// run measures the clients' own.
class RHFL final : public Method {
 public:
  void know(const Offered& offered) override { offered_ = offered.networks; }
  void declare(Params& params) override;
  void check(const Setting& setting) const override;
  std::vector<std::string> networks() const override { return options_.networks; }
  Measured measured() const override { return options_.evaluate; }
  std::string needs_sgd() const override { return "it has its own method.optimiser"; }
  ServerNeeds server_needs() const override {
    return ServerNeeds::models("instead of models it gets the outputs of every single client");
  }
  std::unique_ptr<ClientSide> client_side() const override;
  std::vector<Exchange> exchanges(const Setting& setting) const override;
  void play(std::int64_t number, Server& server) override;
  Findings findings() const override;
  void save(Archive& archive) const override;
  void load(const Archive& archive) override;

 private:
  // Sends one task of that kind to all chosen clients, and notes each one's loss afterwards.
  void ask_to_train(Round& round, const std::string& kind);
  // Makes the models of those that have none yet.
  void pretrain(const Round& round, const std::vector<std::int64_t>& clients);
  // How far each of the clients is trusted in this round; 0 for one whose training diverged.
  std::vector<double> weigh(const std::vector<std::int64_t>& clients) const;
  // What the clients predict for a public batch; the weight of one that is absent, or that sends
  // values which are not finite, becomes 0.
  std::vector<std::vector<float>> hear(std::uint32_t batch, std::size_t values, const Round& round,
                                       std::vector<double>& weights) const;
  // Every one of the chosen clients learns from the others on every public batch.
  void collaborate(const Round& round, const std::vector<double>& weights) const;

  rhfl::Options options_;
  Networks offered_ = builtin_networks();

  // By client: its loss after its last training, and after the one before; none when it is not
  // finite.
  std::map<std::int64_t, double> loss_, loss_before_;
  std::map<std::int64_t, double> confidence_;  // when it last took part
  std::set<std::int64_t> waiting_;             // clients that were absent when models were made
};

MethodInfo rhfl_info();

}  // namespace winnow
