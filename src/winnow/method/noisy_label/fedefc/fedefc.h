// FedEFC (spec: rivals 5): FedAvg until the clients no longer learn their labels better, and from
// then on training that allows for the confusions of labels that each client finds in its own data.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "winnow/method/method.h"
#include "winnow/method/noisy_label/fedefc/arithmetic.h"

namespace winnow {

// The server learns of a client its models and its training accuracy.
class FedEfc final : public Method {
 public:
  void declare(Params& params) override;
  ServerNeeds server_needs() const override {
    return ServerNeeds::sums("it averages the models; accuracies are sent separately");
  }
  // Refuses too many classes: a client has a matrix of all pairs.
  void check(const Setting& setting) const override;
  std::unique_ptr<ClientSide> client_side() const override;
  std::vector<Exchange> exchanges(const Setting& setting) const override;
  // Notes `corrected`, whether the round trains with corrected losses, and `training_accuracy`, the
  // mean over its clients.
  void play(std::int64_t number, Server& server) override;
  void save(Archive& archive) const override;
  void load(const Archive& archive) override;

 private:
  std::int64_t from_ = 40;
  std::int64_t patience_ = 6;
  bool prior_ = false;
  fedefc::Watch watch_;
};

MethodInfo fedefc_info();

}  // namespace winnow
