// The last predictions of every sample of a client, which last from participation to participation.
#pragma once

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "winnow/federation/client.h"

namespace winnow {

// Where and how a method keeps them: the names in the client's memory and those of the trainer's
// buffers begin with the method's.
struct HistoryForm {
  std::string method;               // of METHOD.recorded, METHOD.place and METHOD.slot
  std::string ring;                 // of the tensor itself
  std::int64_t length = 1;          // predictions that are kept of a sample
  std::vector<std::int64_t> shape;  // of one prediction; none: a single value
  at::ScalarType type = at::kFloat;

  // Of the tensor for so many samples.
  std::vector<std::int64_t> shape_for(std::int64_t samples) const;
};

// Buffers of the trainer that an objective writes to. A ring: what is recorded after `length`
// others takes the place of the oldest.
class SampleHistory {
 public:
  // Recalls what the client remembers; zeros where there is nothing.
  SampleHistory(HistoryForm form, ClientContext& context);

  // Fills in the places of an epoch's entries and the slot that its predictions go to.
  void begin_epoch(const Plan& epoch, Trainer& trainer);
  // Keeps it in the client's memory.
  void remember(ClientContext& context) const;

  const at::Tensor& ring() const { return ring_; }  // [samples, length, ...], by place
  const at::Tensor& place() const {
    return place_;
  }                                                 // int64 [entries]: of the entries of the epoch
  const at::Tensor& slot() const { return slot_; }  // int64 [1]
  // How many predictions there are of every sample, those of the epoch included.
  std::int64_t filled() const { return std::min(recorded_, form_.length); }
  bool full() const { return recorded_ >= form_.length; }

 private:
  HistoryForm form_;
  std::int64_t recorded_ = 0;  // in all participations
  at::Tensor ring_;
  at::Tensor place_;
  at::Tensor slot_;
};

// Refuses a history out of a checkpoint that does not fit, and returns its tensor, undefined where
// there is none.
at::Tensor check_history(const HistoryForm& form, ClientContext& context);

}  // namespace winnow
