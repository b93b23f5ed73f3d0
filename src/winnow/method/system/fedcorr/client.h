// The client side of FedCorr.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "winnow/federation/client.h"
#include "winnow/method/system/fedcorr/arithmetic.h"

namespace winnow::fedcorr {

// A field of the base's training tasks in stage 3 where that has a learning rate of its own: how
// many rounds of the stage came before.
inline constexpr const char* kUsualRound = "usual_round";

// Trains with a pull as strong as the client's own noise, measures the LID of its predictions,
// estimates how many of its labels are wrong and corrects them (spec: label-noise A.3). Tasks of
// other kinds go to the base method's client side. Remembers the corrected labels,
// values["muhat"], its estimated noise unless 0, from a turn to the end of the iteration
// tensors["losses"], one per sample, and once it has estimated its noise the trace's `suspected`,
// the samples that it counted. Nothing of that leaves the client but the estimate.
class Client final : public ClientSide {
 public:
  Client(Options options, std::unique_ptr<ClientSide> base);

  Message handle(const Message& task, ClientContext& context) const override;
  void check_memory(ClientContext& context) const override;

 private:
  Message train_stage1(const Message& task, ClientContext& context) const;
  Message correct(const Message& task, ClientContext& context) const;
  Message correct_all(const Message& task, ClientContext& context) const;
  Message finetune(const Message& task, ClientContext& context) const;
  // Stores the losses of all local samples under `model` and returns the LID; not a number, and no
  // losses stored, when the model's output is not finite.
  double score(const State& model, std::int64_t round, ClientContext& context) const;
  // Of all local samples; `view` and `round` name the draw of the augmentation.
  at::Tensor logits(const State& model, std::string_view view, std::int64_t round,
                    ClientContext& context) const;
  // What samples to relabel are ranked by: the stored losses, or those of the model that relabels,
  // whose outputs these are (the stored ones too where the latter are not finite).
  std::vector<double> ranks(const std::vector<double>& losses, const at::Tensor& outputs,
                            const ClientContext& context) const;

  Options options_;
  std::unique_ptr<ClientSide> base_;
};

}  // namespace winnow::fedcorr
