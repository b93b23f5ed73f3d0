// Every sample judged by a model that never saw its client (spec: audit 1, 4).
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "winnow/audit/folds.h"
#include "winnow/run/session.h"

namespace winnow {

struct JudgeOptions {
  std::int64_t folds = 5;
  std::int64_t repetitions = 1;
  // Also judge every sample by models that saw it, for the comparison of docs/audit.md.
  bool in_sample = false;
};

// A sample of a client as the audit looks at it; all lists of an audit are in this order.
struct HeldSample {
  std::int64_t client = 0;
  std::int64_t sample = 0;  // in the training set
  std::int64_t given = 0;   // as it is judged
};

struct Judgement {
  std::int64_t classes = 0;
  std::vector<float> p;  // a row for each sample, the mean of the repetitions
  // The same of each repetition; empty where there is one only.
  std::vector<std::vector<float>> p_of;
  // By repetition and sample, the fold whose model judged it.
  std::vector<std::vector<std::int64_t>> model_of;
  // False where the class of the given label was unknown to the model.
  std::vector<bool> judged;
  std::vector<double> gradient_norm;  // of the head under the uniform target
  // Mean distance to the nearest neighbours of the same client, in medians of its fold; 0: none.
  std::vector<double> distance;
  // By client, the fold whose model judged all its samples; -1 where several models did.
  std::vector<std::int64_t> fold_of;
  // By client, how its update lies to the mean of the others' and how long it is in medians of
  // theirs; 0 and 1 where it was not measured.
  std::vector<double> update_cosine;
  std::vector<double> update_norm;
  std::vector<float> p_in_sample;  // as `p`, where asked for
  std::int64_t trainings = 0;

  std::span<const float> row(std::size_t place) const {
    return std::span(p).subspan(place * static_cast<std::size_t>(classes),
                                static_cast<std::size_t>(classes));
  }
  std::span<const float> rows_by(std::size_t repetition) const {
    return p_of.empty() ? p : p_of[repetition];
  }
};

// Told after every round of every federation.
using JudgeProgress = std::function<void(std::int64_t done, std::int64_t of, double agreement)>;

// Trains a federation for each fold and repetition in `world` by the experiment's model, training
// and method, and judges what it left out: `held`, which lists the samples of the world's clients
// in their order, with the labels that are judged, in the images `judged` (the world's own, or a
// copy with something planted). Throws Error(kind experiment) for a method without a global model.
Judgement judge_out_of_sample(const Experiment& experiment, const World& world,
                              const std::vector<HeldSample>& held, const at::Tensor& judged,
                              const JudgeOptions& options, const Registry& registry,
                              const Runtime& runtime, const std::atomic<bool>* stop,
                              const JudgeProgress& progress);

// The samples of the clients, with the labels that they were given.
std::vector<HeldSample> samples_of(const std::vector<ClientData>& clients);

}  // namespace winnow
