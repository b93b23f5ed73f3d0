// FedNS's client side: the base method's training, then, where the server asks for it, the score of
// the trained model (spec: input-noise 1.2).
#pragma once

#include <memory>

#include "winnow/federation/client.h"
#include "winnow/method/system/fedns/arithmetic.h"

namespace winnow::fedns {

// Answers "train_score", which has the fields of the base's "train", with "train_score_done": the
// base's "train_done" and then "score" and, with `send_norms`, "norms". "train_measure" is answered
// in the same way, but its model is the base's whatever the rule says. Every other kind is the
// base's. Keeps no memory.
class Client final : public ClientSide {
 public:
  Client(std::unique_ptr<ClientSide> base, ScoreRule rule, bool send_norms);

  Message handle(const Message& task, ClientContext& context) const override;
  void check_memory(ClientContext& context) const override {
    context.as_base([&](ClientContext& base) { base_->check_memory(base); });
  }

 private:
  std::unique_ptr<ClientSide> base_;
  ScoreRule rule_;
  bool send_norms_;
};

}  // namespace winnow::fedns
