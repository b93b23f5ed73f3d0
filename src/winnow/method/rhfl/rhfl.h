// RHFL (spec: baselines 17): clients with models, even networks, of their own learn from each
// other's predictions on public images, and listen more to those whose own loss falls faster.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "winnow/method/method.h"
#include "winnow/method/rhfl/rhfl_client.h"

namespace winnow {

// There is no global model: server.global stays as it is, models never cross the boundary, and the
// run measures the clients' own.
class RHFL final : public Method {
 public:
  void declare(Params& params) override;
  void check(const Setting& setting) const override;
  std::vector<std::string> networks() const override { return networks_; }
  Measured measured() const override {
    return evaluate_ == "mean" ? Measured::clients : Measured::ensemble;
  }
  std::unique_ptr<ClientSide> client_side() const override;
  std::vector<Schema> schemas() const override;
  void play(std::int64_t round, Server& server) override;
  Findings findings() const override;
  void save(Archive& archive) const override;
  void load(const Archive& archive) override;

 private:
  // Sends one task of that kind to all, and notes each one's loss afterwards.
  void ask_to_train(const std::string& kind, std::int64_t round,
                    const std::vector<std::int64_t>& clients, Server& server);
  // How far each of the clients is trusted in this round; 0 for one whose training diverged.
  std::vector<double> weigh(const std::vector<std::int64_t>& clients) const;
  // What the clients predict for a public batch; the weight of one that sends values which are not
  // finite becomes 0.
  std::vector<std::vector<float>> hear(std::uint32_t batch, std::size_t values,
                                       const std::vector<std::int64_t>& clients,
                                       std::vector<double>& weights, Server& server) const;
  // Every one of the clients learns from the others on every public batch.
  void collaborate(std::int64_t round, const std::vector<std::int64_t>& clients,
                   const std::vector<double>& weights, Server& server) const;

  double beta_ = 0.5;
  std::vector<std::string> networks_;
  std::string evaluate_ = "mean";
  RHFLClientOptions client_;

  // By client: its loss after its last training, and after the one before; none when it is not
  // finite.
  std::map<std::int64_t, double> loss_, loss_before_;
  std::map<std::int64_t, double> confidence_;  // when it last took part
};

MethodInfo rhfl_info();

}  // namespace winnow
