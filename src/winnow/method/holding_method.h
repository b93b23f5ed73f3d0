// A base method whose rule needs all models of a round at once.
#pragma once

#include "winnow/federation/robust/robust.h"
#include "winnow/method/base_method.h"

namespace winnow {

// Holds every upload of a round, with Upload::weight() and its samples, until finish() takes them
// out of `held_`.
class HoldingMethod : public BaseMethod {
 public:
  void begin(Round& /*round*/) override { held_.clear(); }
  void add(Round& /*round*/, const Upload& upload) override {
    held_.add(upload.client, upload.model(), upload.weight(), upload.samples);
  }
  bool can_finish() const override { return held_.size() > 0; }
  State finish(Round& round) override = 0;

 protected:
  HeldModels held_;
};

}  // namespace winnow
