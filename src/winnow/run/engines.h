// Engines by name: who runs the clients of a run.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "winnow/base/catalog.h"
#include "winnow/engine/engine.h"
#include "winnow/engine/examiner.h"
#include "winnow/experiment/experiment.h"
#include "winnow/experiment/registry.h"

namespace winnow {

struct Runtime;
class Workplace;

// What a session stands on.
struct Hosted {
  std::unique_ptr<Workplace> place;
  std::unique_ptr<Engine> engine;
  Examiner* examiner = nullptr;           // the place's or the engine's
  std::vector<std::string> notices = {};  // what the user should know, a line each
};

struct EngineInfo {
  std::string name;
  std::string summary;  // one line
  // Called once by a command, when the arithmetic of the process is fixed and before anything else.
  // An engine of several processes has all but the one that leads serve in here until it is done;
  // they get the exit code of the program, the leading one nothing. Null where there is nothing
  // to do.
  std::function<std::optional<int>(const Runtime& runtime, const std::atomic<bool>* stop)> enter;
  // Makes everything for one experiment. `stop`, when set, ends trainings with Interrupted.
  std::function<Hosted(const Experiment& experiment, const Registry& registry,
                       const Runtime& runtime, const std::atomic<bool>* stop)>
      host;
};

// The engines that a program has.
using Engines = Catalog<EngineInfo>;

// The clients of a workplace in this process.
Hosted host_locally(std::unique_ptr<Workplace> place, const Runtime& runtime);

// All clients in this process: what every program has.
Engines local_engines();

}  // namespace winnow
