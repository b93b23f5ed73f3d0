// The arithmetic of FedCorr, free of messages and of clients (spec: label-noise A).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "winnow/base/params.h"
#include "winnow/train/trainer.h"

namespace winnow::fedcorr {

// How clients take turns in stage 1: each once in an iteration, or as the released code draws them.
enum class Draw { once, code };
// How a client's estimated noise is held against kappa.
enum class KappaTest { at_most, below };
// How the confidence of a prediction is held against theta.
enum class ConfidenceTest { above, at_least };
// The loss that tells clean samples from noisy ones.
enum class Loss { double_softmax, ce };
// Whose losses rank the samples to relabel: the client's own model's, or the relabelling one's.
enum class Rank { local, global };
// The samples that are ranked: all of a client, or those that it considers noisy.
enum class Candidates { all, noisy };
// Who relabels after stage 2: as the released code has it, or the paper.
enum class FinalSet { code, paper };

// The method's parameters, but for the base method of stage 3. Client and server sides share them.
struct Options {
  std::int64_t iterations = 5;
  std::int64_t finetune_rounds = 500;
  std::int64_t usual_rounds = 450;
  double stage1_fraction = 0.0;
  Draw stage1_draw = Draw::once;
  double usual_lr = 0.0;
  double usual_lr_decay = 1.0;
  double beta = 5.0;
  double theta = 0.5;
  double relabel_ratio = 0.5;
  double kappa = 0.1;
  KappaTest kappa_test = KappaTest::at_most;
  std::int64_t lid_neighbours = 20;
  double mixup = 1.0;
  bool mixup_stage1_only = false;
  Loss loss = Loss::double_softmax;
  Pull pull = Pull::norm;
  ConfidenceTest confidence_test = ConfidenceTest::above;
  Rank rank = Rank::local;
  Candidates candidates = Candidates::all;
  FinalSet final_set = FinalSet::code;
  double final_theta = -1.0;
  ScoreView score_view = ScoreView::augmented;
  bool correction = true;
};

void declare(Options& options, Params& params);

// Where a round lies in the method's schedule.
struct Step {
  int stage = 1;
  std::int64_t iteration = 0;  // stage 1: from 0
  std::int64_t turn = 0;       // stage 1: the round inside its iteration, from 0
  bool last = false;           // the last turn of an iteration, or the last round of stage 2 or 3
};

// Stage 1: `iterations` times `turns` rounds of `chunk` clients; then the rounds of stages 2 and 3
// (spec: label-noise A.3, A.4 #15).
class Schedule {
 public:
  Schedule(const Options& options, std::int64_t clients);

  std::int64_t rounds() const { return stage1_ + finetune_ + usual_; }
  std::int64_t turns() const { return turns_; }
  Step step(std::int64_t round) const;
  // How many rounds of stage 3 came before `round`, which is one of them.
  std::int64_t usual_round(std::int64_t round) const { return round - stage1_ - finetune_; }
  // Whose turn it is in stage 1, in the iteration's order. Draw::once: all clients of the
  // federation have one turn in every iteration. Draw::code: drawn with replacement among those
  // that had no turn in an earlier round of the iteration, so somebody may come twice and others
  // never.
  std::vector<std::int64_t> turn_clients(const Step& step, std::uint64_t seed) const;

 private:
  std::vector<std::int64_t> drawn_clients(const Step& step, std::uint64_t seed) const;

  bool once_;
  std::int64_t clients_;
  std::int64_t chunk_;  // clients in one turn
  std::int64_t turns_;  // in one iteration
  std::int64_t stage1_;
  std::int64_t finetune_;
  std::int64_t usual_;
};

// The LID of a client over the iterations in which it answered.
struct Trail {
  double sum = 0.0;
  std::int64_t seen = 0;  // iterations

  bool operator==(const Trail&) const = default;
};

// What the server tells clients apart by: the sum over all iterations, or the mean where some
// client missed one, which would otherwise look clean (spec: label-noise D).
std::map<std::int64_t, double> lid_scores(const std::map<std::int64_t, Trail>& trails);

// The clients in the mixture component with the larger mean, ascending.
std::vector<std::int64_t> noisy_clients(const std::map<std::int64_t, double>& scores);

// The clients of stage 2: estimated noise <= kappa, or < kappa by kappa_test; when there are none,
// the `least` clients with the smallest estimates, ties to the lower id (spec: label-noise A.4 #9,
// #18). Ascending.
std::vector<std::int64_t> finetune_pool(const std::map<std::int64_t, double>& estimates,
                                        const Options& options, std::int64_t least);

// max(1, ceil(fraction * clients)), for finetune_pool().
std::int64_t fallback_size(double fraction, std::int64_t clients);

// The clients that relabel all their samples after stage 2 (spec: label-noise A.4 #10): code: the
// last iteration's noisy set; paper: those whose estimate is too large for stage 2. Ascending.
std::vector<std::int64_t> final_clients(const std::vector<std::int64_t>& noisy,
                                        const std::map<std::int64_t, double>& estimates,
                                        const Options& options);

// Local training of stage 1 by a client with the estimated noise `estimate` (spec: label-noise A.4
// #4): beta * estimate * ||w - w0||, or the same with the squared norm, in all but the first batch
// of every epoch.
LocalRule stage1_rule(const Options& options, double estimate);

// Losses of samples, [count], by the reading of `options.loss` (spec: label-noise A.4 #2).
at::Tensor sample_losses(const at::Tensor& logits, const at::Tensor& labels,
                         const Options& options);

// The samples whose loss lies in the mixture component with the larger mean.
std::vector<bool> suspects(std::span<const double> losses);

// Their share; 0 of no samples.
double estimate_noise(const std::vector<bool>& suspects);

// floor(samples * estimate * ratio + 1e-9): how many samples a client may relabel in stage 1.
std::int64_t relabel_count(std::int64_t samples, double estimate, double ratio);

// Places of the `count` largest values, largest first, ties to the lower place.
std::vector<std::int64_t> largest(std::span<const double> values, std::int64_t count);

// The samples that may be relabelled in stage 1: the `count` with the largest `ranks`, of all
// samples or of the suspects (spec: label-noise A.4 #3, #5).
std::vector<std::int64_t> relabel_places(std::span<const double> ranks,
                                         const std::vector<bool>& suspects, std::int64_t count,
                                         const Options& options);

// What a model says of each sample.
struct Prediction {
  std::vector<float> confidence;    // largest softmax value
  std::vector<std::int64_t> label;  // its class
};

// Gives the samples at `places` the predicted label where the prediction is confident enough, and
// returns how many labels changed.
std::int64_t relabel(std::span<std::int64_t> labels, std::span<const std::int64_t> places,
                     const Prediction& prediction, const Options& options);

}  // namespace winnow::fedcorr
