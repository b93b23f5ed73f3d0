// How a run is executed: by whom, on what, and within which limits.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <string>

#include "winnow/engine/workforce.h"
#include "winnow/federation/spill.h"
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

  // How much of what clients remember stays in memory.
  SpillOptions spill() const { return {.limit = client_memory_mb << 20}; }
};

std::string precision_name(Precision precision);
// Throws Error(kind usage) for a precision that is unknown, or that the device does not offer.
Precision choose_precision(const std::string& name, at::Device device);

// Throws Error(kind usage) for a device that is unknown or not there.
at::Device choose_device(const std::string& name);

}  // namespace winnow
