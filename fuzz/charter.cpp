// The charter of a server as a member gets it: JSON, its checks, and the experiment in it.
#include "winnow/run/charter.h"

#include "json_mutator.h"
#include "target.h"

using namespace winnow;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const Registry registry = builtin_registry();
  return fuzz::only_errors([&] {
    const std::string text(reinterpret_cast<const char*>(data), size);
    const Charter charter = read_charter(text);
    fuzz::require(charter.text() == text, "a charter is its text again");
    const Experiment experiment = charter_experiment(charter, registry);
    fuzz::require(experiment.model.path.empty() && experiment.model.weights.empty() &&
                      experiment.federation.absences.empty(),
                  "no server names a file of a member");
    fuzz::require(experiment.federation.clients == charter.members, "it has as many members");
  });
}

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size,
                                               std::size_t max_size, unsigned seed) {
  return fuzz::mutate_json_input(data, size, max_size, seed, 4);
}
