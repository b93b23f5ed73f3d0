// A method that trains two models side by side (spec: baselines 21, 24): both are sent, trained by
// every chosen client, and averaged separately. The global model is the first of them.
#pragma once

#include <ATen/core/Tensor.h>

#include "winnow/method/method.h"

namespace winnow {

// The second model starts from values of its own, drawn with Server::initial. Messages are FedAvg's
// with "second", a model, after "model".
class TwinMethod : public Method {
 public:
  ServerNeeds server_needs() const override {
    return ServerNeeds::sums("it averages the first and the second models");
  }
  std::vector<Exchange> exchanges(const Setting& setting) const override;
  // A round of FedAvg with both models. A reply is rejected when either is not finite.
  void play(std::int64_t number, Server& server) override;
  // The second model, as `second_accuracy`.
  std::map<std::string, State> also_measured(const Setting& setting) const override;
  void save(Archive& archive) const override;
  void load(const Archive& archive) override;

 private:
  at::Tensor second_;  // flat; undefined before the first round
};

// A reply with both models.
[[nodiscard]] Message twin_reply(State model, State second, const ClientContext& context);

// FedAvg's local training of each model alone, with the same batches.
[[nodiscard]] Message train_twins(const Message& task, ClientContext& context);

}  // namespace winnow
