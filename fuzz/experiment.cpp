// An experiment file: TOML, then its checks; what is accepted is written and read back.
#include "winnow/experiment/experiment.h"

#include "target.h"
#include "winnow/experiment/toml.h"

using namespace winnow;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const Registry registry = builtin_registry();
  return fuzz::only_errors([&] {
    Json tree = parse_toml({reinterpret_cast<const char*>(data), size}, "experiment.toml");
    anchor_paths(tree, "/nowhere");
    const Experiment experiment = parse_experiment(tree, registry);
    const std::string written = write_toml(experiment.resolved());
    std::string hash;
    try {
      hash = parse_experiment(parse_toml(written, "written.toml"), registry).hash();
    } catch (const Error& error) {
      throw std::logic_error(std::string("a written experiment is refused: ") + error.what());
    }
    fuzz::require(hash == experiment.hash(), "a written experiment is the same experiment");
  });
}
