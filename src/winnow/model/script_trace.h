// Whether a TorchScript module was written down from the operations of one call (torch.jit.trace),
// and what of it then stays in the mode of that call.
#pragma once

#include <string>
#include <vector>

namespace torch::jit {
struct Module;
}

namespace winnow {

struct TraceFindings {
  bool traced = false;  // some operation was traced
  // Operations that behave differently in training, such as dropout and batch_norm, whose mode is a
  // constant of the module: it does not follow train() and eval(). By name, without repetition.
  std::vector<std::string> fixed_by_trace = {};
  std::vector<std::string> fixed_in_code = {};  // the same, where the author wrote it so
};

// Looks at forward and, where there is one, at the method features.
TraceFindings find_traces(const torch::jit::Module& module);

}  // namespace winnow
