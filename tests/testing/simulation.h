// A whole federation in the test's process: crew, members, examiner and local engine as one object.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "winnow/engine/crew.h"
#include "winnow/engine/local_engine.h"
#include "winnow/engine/local_examiner.h"
#include "winnow/engine/members.h"

namespace winnow {

struct SimulationOptions {
  std::int64_t lanes = 1;
  bool augment = false;
  std::uint64_t seed = 0;
  at::Tensor public_images = {};
};

// What the engine refers to, made before it.
struct SimulationParts {
  SimulationParts(const DataSet& data, std::vector<ClientData> clients, const NetInfo& net,
                  const TrainOptions& train, const SimulationOptions& options,
                  const std::atomic<bool>* stop)
      : crew(data, net, {.lanes = options.lanes, .augment = options.augment}, stop),
        held(std::move(clients)),
        members(data, held, train, options.seed, 0, options.public_images, crew),
        examiner(data, 0, train.eval_batch, crew, members) {}
  Crew crew;
  std::vector<ClientData> held;
  Members members;
  LocalExaminer examiner;
};

struct Simulation : SimulationParts, LocalEngine {
  Simulation(const DataSet& data, std::vector<ClientData> clients, const NetInfo& net,
             const TrainOptions& train, const SimulationOptions& options,
             const std::atomic<bool>* stop)
      : SimulationParts(data, std::move(clients), net, train, options, stop),
        LocalEngine(members, crew) {}

  State initial_state(std::uint64_t seed) const { return crew.prototype().initial_state(seed); }
  Score evaluate(const State& model) { return examiner.evaluate(model); }
  std::vector<Score> validate(const std::vector<State>& models) {
    return examiner.validate(models);
  }
};

}  // namespace winnow
