// Experiments in which every method plays all its phases in a few rounds.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "run/small_run.h"

namespace winnow {

// Schedules short enough that every phase of a method is played.
inline std::vector<std::string> short_schedule(const std::string& method) {
  static const std::map<std::string, std::vector<std::string>> kShort{
      {"fedcorr",
       {"method.iterations=2", "method.finetune_rounds=2", "method.usual_rounds=2",
        "method.lid_neighbours=5", "method.theta=0.1"}},
      {"fedrn", {"rounds=7", "method.warmup=3", "method.neighbours=2"}},
      {"clipfl", {"rounds=6", "method.pre_rounds=3", "method.keep=3", "method.prune=0.4"}},
      {"fedns", {"rounds=5", "method.first_round_fraction=0.4"}},
      {"bulyan", {"method.byzantine=0"}},
      {"power_of_choice", {"method.candidates=4"}},
      {"rofl", {"rounds=4", "method.pseudo_round=2", "method.forget_rounds=2"}},
      {"rhfl",
       {"public.source=\"split\"", "public.size=20", "method.pretrain_epochs=1",
        "method.public_batch=10", "method.batch_size=10",
        "method.networks=[\"lenet5\", \"cnn2\"]"}},
      {"coteaching", {"rounds=4", "method.ramp=2"}},
      {"joint_optimisation", {"rounds=4", "method.warmup=2", "method.history=2"}},
      {"selfie", {"rounds=4", "method.warmup=2", "method.history=2"}},
      {"dividemix", {"rounds=4", "method.warmup=2", "method.ramp=1"}},
      {"clc", {"method.holdout_rounds=3", "method.correction_rounds=2", "method.tau=0.0"}},
      {"fedncl",
       {"rounds=7", "method.penalty_rounds=3", "method.candidate_share=0.0",
        "method.confidence=0.1"}},
  };
  const auto found = kShort.find(method);
  return found == kShort.end() ? std::vector<std::string>{} : found->second;
}

// Six clients, half of them in a round, and a validation set.
inline Experiment experiment_with(const std::string& method) {
  std::vector<std::string> sets{"federation.clients=6", "federation.fraction=0.5",
                                "data.samples=180", "validation.source=\"split\"",
                                "method.name=\"" + method + "\""};
  for (const std::string& more : short_schedule(method)) {
    sets.push_back(more);
  }
  return small(sets);
}

}  // namespace winnow
