// A workplace: what one process needs to work on a run. A run in one process has one; with several
// ranks each of them makes its own, of the same world.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "winnow/engine/crew.h"
#include "winnow/engine/local_examiner.h"
#include "winnow/engine/members.h"
#include "winnow/experiment/experiment.h"
#include "winnow/experiment/registry.h"
#include "winnow/experiment/world.h"
#include "winnow/federation/exchange.h"
#include "winnow/method/method.h"
#include "winnow/model/script_net.h"
#include "winnow/run/engines.h"

namespace winnow {

// How an engine of several processes adds up models where sums are enough: rank 0 does it alone, or
// every rank one segment of each.
enum class FoldBy {
  best,  // segments where they gain (docs/scale.md)
  gather,
  segments,
};
// Throws Error(kind usage) for an unknown name.
FoldBy fold_by(const std::string& name);

// How to execute; has no influence on the result of a CPU run.
struct Runtime {
  std::int64_t lanes = 0;          // 0: one per core on a CPU, found by measuring on a GPU
  std::string device = "auto";     // cpu, cuda, cuda:N, auto
  std::string precision = "auto";  // fp32, tf32, bf16; auto: fp32 on a CPU, tf32 on a GPU
  bool trust_model = false;        // may a run directory's TorchScript file be executed?
  bool wire = false;               // every message is packed into bytes and unpacked again
  std::string engine = "local";    // who runs the clients, one of `engines`
  Engines engines = local_engines();
  std::int64_t client_memory_mb = 1024;  // of what clients remember; the rest is on the disk
  FoldBy fold = FoldBy::best;
  double patience = 1800.0;  // seconds that another process may be silent while it owes an answer
};

std::string precision_name(Precision precision);
// Throws Error(kind usage) for a precision that is unknown, or that the device does not offer.
Precision choose_precision(const std::string& name, at::Device device);

// Throws Error(kind usage) for a device that is unknown or not there.
at::Device choose_device(const std::string& name);

class Workplace {
 public:
  // Loads the data, draws partition and noise, builds the lanes and makes the method.
  Workplace(const Experiment& experiment, const Registry& registry, const Runtime& runtime,
            const std::atomic<bool>* stop);

  // The same in a world that is there already.
  Workplace(const Experiment& experiment, World world, const Registry& registry,
            const Runtime& runtime, const std::atomic<bool>* stop);

  const World& world() const { return world_; }
  // Where the experiment brings its network.
  const std::optional<ScriptModel>& own_model() const { return own_model_; }
  // Square size of the images that the network sees; 0: that of the data.
  std::int64_t input_size() const { return input_size_; }
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
  std::int64_t input_size_ = 0;
  std::unique_ptr<Crew> crew_;
  std::unique_ptr<Members> members_;
  std::unique_ptr<LocalExaminer> examiner_;
  Setting setting_;
  std::unique_ptr<Method> method_;
  std::vector<Exchange> exchanges_;
};

}  // namespace winnow
