// DivideMix (spec: baselines 24): two models; each splits a client's samples for the other, which
// trains on the clean ones with their labels, refined, and on the rest with guesses instead.
#pragma once

#include "winnow/method/twin_method.h"

namespace winnow {

namespace dividemix {

// The names are those of the method's parameters.
struct Options {
  std::int64_t warmup = 100;
  double lambda_u = 25.0;
  std::int64_t ramp = 16;
  double temperature = 0.5;
  double alpha = 4.0;
  double threshold = 0.5;
  std::int64_t epochs = 0;
  ScoreView score_view = ScoreView::clean;
  std::int64_t score_batch = 0;
};

}  // namespace dividemix

class DivideMix final : public TwinMethod {
 public:
  void declare(Params& params) override;
  void check(const Setting& setting) const override;
  std::unique_ptr<ClientSide> client_side() const override;
  void play(std::int64_t round, Server& server) override;

 private:
  dividemix::Options options_;
};

MethodInfo dividemix_info();

}  // namespace winnow
