// Networks that come as TorchScript files, written in Python with torch.jit.script(model).save().
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "winnow/data/data_set.h"
#include "winnow/model/net.h"
#include "winnow/model/script_export.h"
#include "winnow/model/state.h"

namespace torch::jit {
struct Module;
}

namespace winnow {

// What `[model] name` says for a network of the user's own, and the note of its listing.
inline constexpr const char* kTorchScript = "torchscript";
inline constexpr const char* kTorchScriptSummary =
    "a network of your own: a TorchScript file, named by model.path";

// A module as it was read from its file: makes networks like it, and puts trained weights back.
//
// The state of such a network holds, under their names in the module, every float32 parameter and
// float32 buffer, and as counters the batch norms' num_batches_tracked; their initial values are
// those of the file, whatever the seed. A parameter that the file has frozen (requires_grad false)
// is held as a buffer: averaged, never trained. Other whole numbers and truth values are constants
// of the module and no part of the state.
//
// The module runs without the optimisations of TorchScript's executor, which set in after some
// calls and change the last bits; where it draws random numbers in training (dropout), one lane
// draws at a time, from the lane's own seed. So runs do not depend on the number of lanes.
//
// A value: copies share the file's content, which nobody changes.
class ScriptModel {
 public:
  // Throws Error: of kind data when the file cannot be read, of kind experiment when it is not
  // TorchScript, has no parameters, has tensors that cannot be trained here, or was traced with
  // layers that then stay in the mode of the trace.
  explicit ScriptModel(const std::filesystem::path& file);

  // An entry like those of builtin_networks(). Its make() throws Error(kind experiment) when the
  // module cannot take images of that shape, or does not give one logit per class.
  //
  // For methods that look at features the module must have a method (or submodule) `features`, from
  // images to [batch, d], and a Linear submodule `head` that makes the logits of them; without,
  // Net::features() throws Error(kind experiment) that says what is missing.
  NetInfo info() const;

  // What the user should know about the file, in one line; mostly "".
  const std::string& notice() const { return notice_; }

  // Writes a TorchScript file: the module with the weights of `state`, in eval mode, with
  // attributes `mean` and `std` unless it has its own.
  void write_trained(const State& state, const Normalisation& input, const ScriptSink& sink) const;

 private:
  std::string file_;
  std::shared_ptr<const std::string> bytes_;
  std::shared_ptr<const torch::jit::Module> module_;
  std::string notice_;
};

}  // namespace winnow
