// What a training step minimises. Plain cross-entropy is one objective; a trainer that keeps two
// models or remembers something of every sample is another, and runs in the same lanes: as it is on
// a CPU, captured and replayed on a GPU.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "winnow/model/net.h"
#include "winnow/train/options.h"
#include "winnow/train/passes.h"
#include "winnow/train/rule.h"

namespace winnow {

// One step's share of a plan, on the lane's device.
struct Batch {
  at::Tensor
      images;  // network input; with several views, all of the first, then of the second, ...
  at::Tensor labels;  // int64 [size]
  // With mixup the partners' labels and the weight of the own ones (0-dimensional).
  at::Tensor partner_labels = {};
  at::Tensor lambda = {};
  // For objectives that ask for them: the numbers of the batch's entries in the plan, int64 [size],
  // and of the step, int64 [1]. Tables made beside the plan are read with these.
  at::Tensor entries = {};
  at::Tensor step = {};
};

// The lane's networks while a step is computed.
struct Models {
  std::vector<const Net*> nets;
  Pass training;  // batch statistics, and the lane's dropout

  const Net& operator[](std::size_t number) const { return *nets[number]; }
  // Logits in float32, for a loss.
  at::Tensor logits(std::size_t number, const at::Tensor& images) const;
};

// An objective serves one participation. On a GPU its first steps are captured and later ones, also
// those of other participations with the same signature, are replayed without calling loss(): it
// may therefore depend on its signature, on the batch and on Trainer::buffer()s alone, read nothing
// back to the host, and have shapes that follow from the batch.
class Objective {
 public:
  virtual ~Objective() = default;

  // A number to minimise, 0-dimensional float32. May write into the trainer's buffers.
  virtual at::Tensor loss(const Batch& batch, const Models& models) const = 0;
  // Everything a captured step depends on besides the batch and buffers.
  virtual std::string signature() const = 0;
  // Whether loss() reads Batch::entries and Batch::step.
  virtual bool reads_entries() const { return false; }
  // What loss() and its gradient cost for each entry of the batch. A captured step cannot count.
  virtual Passes passes(std::int64_t views) const { return {views, views}; }
};

// Cross-entropy of the first model as the options have it: smoothed, with a temperature, mixed up.
class CrossEntropy final : public Objective {
 public:
  // `head_only` keeps the body out of the backward pass.
  explicit CrossEntropy(const TrainOptions& options, bool head_only = false);

  at::Tensor loss(const Batch& batch, const Models& models) const override;
  // The same of logits that are at hand, for objectives that add a term to it.
  at::Tensor loss_of(const at::Tensor& logits, const Batch& batch) const;
  std::string signature() const override;

 private:
  double label_smoothing_;
  double temperature_;
  bool head_only_;
};

}  // namespace winnow
