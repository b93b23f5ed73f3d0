// A workplace: what one process needs to work on a run. A run in one process has one; with several
// ranks each of them makes its own, of the same world.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "winnow/experiment/experiment.h"
#include "winnow/experiment/registry.h"
#include "winnow/experiment/world.h"
#include "winnow/federation/exchange.h"
#include "winnow/method/method.h"
#include "winnow/model/script_net.h"
#include "winnow/run/runtime.h"

namespace winnow {

class Crew;
class LocalExaminer;
class Members;
class Prototype;

class Workplace {
 public:
  // Loads the data, draws partition and noise, builds the lanes and makes the method.
  Workplace(const Experiment& experiment, const Registry& registry, const Runtime& runtime,
            const std::atomic<bool>* stop);

  // The same in a world that is there already.
  Workplace(const Experiment& experiment, World world, const Registry& registry,
            const Runtime& runtime, const std::atomic<bool>* stop);
  ~Workplace();

  const World& world() const { return world_; }
  // Where the experiment brings its network.
  const std::optional<ScriptModel>& own_model() const { return own_model_; }
  // Of the experiment's network.
  const Prototype& prototype() const;
  Crew& crew() { return *crew_; }
  const Crew& crew() const { return *crew_; }
  Members& members() { return *members_; }
  LocalExaminer& examiner() { return *examiner_; }
  const Setting& setting() const { return setting_; }
  Method& method() const { return *method_; }
  const std::vector<Exchange>& exchanges() const { return exchanges_; }
  // The method's, which also keeps the last model sent where the experiment wants to measure it.
  std::unique_ptr<ClientSide> client_side() const;

 private:
  World world_;
  bool keeps_last_;
  std::optional<ScriptModel> own_model_;
  std::unique_ptr<Crew> crew_;
  std::unique_ptr<Members> members_;
  std::unique_ptr<LocalExaminer> examiner_;
  Setting setting_;
  std::unique_ptr<Method> method_;
  std::vector<Exchange> exchanges_;
};

}  // namespace winnow
