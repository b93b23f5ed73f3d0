#include "winnow/run/engines.h"

#include "winnow/base/error.h"
#include "winnow/engine/local_engine.h"
#include "winnow/engine/local_examiner.h"
#include "winnow/run/workplace.h"

namespace winnow {

Hosted host_locally(std::unique_ptr<Workplace> place, const Runtime& runtime) {
  auto engine = std::make_unique<LocalEngine>(place->members(), place->crew(), runtime.wire);
  engine->serve(place->client_side(), place->exchanges());
  Examiner* examiner = &place->examiner();
  return {std::move(place), std::move(engine), examiner};
}

Engines local_engines() {
  Engines engines("engine", "", {}, ErrorKind::usage);
  engines.add({"local", "all clients in this process", nullptr,
               [](const Experiment& experiment, const Registry& registry, const Runtime& runtime,
                  const std::atomic<bool>* stop) {
                 return host_locally(
                     std::make_unique<Workplace>(experiment, registry, runtime, stop), runtime);
               }});
  return engines;
}

}  // namespace winnow
