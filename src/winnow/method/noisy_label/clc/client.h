// The client side of CLC.
#pragma once

#include <memory>
#include <vector>

#include "winnow/federation/client.h"
#include "winnow/method/noisy_label/clc/arithmetic.h"

namespace winnow::clc {

// Tells how confident a received model is of each class, and once it hears what all clients think
// of that, trains on the samples it keeps or corrects its labels (spec: baselines 20). Tasks of
// other kinds go to the base method's client side.
//
// Between the two tasks it remembers tensors["clc.model"], the received one, so that it is not sent
// twice, and tensors["probabilities"], its output; both are gone after the second. What lasts is
// `selected`, the samples last kept, until the labels are corrected, and the corrected labels.
class Client final : public ClientSide {
 public:
  Client(Options options, std::unique_ptr<ClientSide> base);

  Message handle(const Message& task, ClientContext& context) const override;

 private:
  static Message tell_confidence(const Message& task, ClientContext& context);
  Message train_kept(const Message& task, ClientContext& context) const;
  Message correct(const Message& task, ClientContext& context) const;
  // What the remembered probabilities say of every local sample.
  std::vector<Verdict> verdicts(const Message& task, const ClientContext& context) const;

  Options options_;
  std::unique_ptr<ClientSide> base_;
};

}  // namespace winnow::clc
