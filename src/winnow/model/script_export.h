// Trained networks as TorchScript files, which Python loads with torch.jit.load() and no code of
// ours.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "winnow/data/data_set.h"
#include "winnow/model/net.h"
#include "winnow/model/state.h"

namespace torch::jit {
struct Module;
}

namespace winnow {

// Takes a file piece by piece, in order; each is gone after the call.
using ScriptSink = std::function<void(std::string_view piece)>;

// Writes a TorchScript file with a network of the zoo: its tensors under their state-dict names and
// a `forward` from normalised float images [batch, channels, height, width] to logits. The
// attributes `mean` and `std` (lists, one value per channel) say how images with values in [0, 1]
// become its input: (value - mean) / std. It is in eval mode; train() turns on batch statistics and
// dropout. `state` may lie on any device; `shape` is what the network was made for. Tensors on a
// CPU are written from where they lie. Throws what the sink throws, once it has.
void export_script(const std::string& model, const NetShape& shape, const State& state,
                   const Normalisation& input, const ScriptSink& sink);

// Writes a module that holds the tensors of `state` under their names and has the methods that
// `text` defines; it is in eval mode.
void script_file(const std::string& name, const std::string& text, const State& state,
                 const Normalisation& input, const ScriptSink& sink);

// The pieces, for modules that come from elsewhere.
void add_normalisation(torch::jit::Module& module, const Normalisation& input);
// Turns batch statistics and dropout on or off in all parts of a module.
void set_training(const torch::jit::Module& module, bool training);
// The slot's values where they lie, on a CPU, as a tensor with a storage of its own: of a view the
// whole storage would be written. The state must outlive it.
at::Tensor lent(const State& state, const Slot& slot);
void write_script(const torch::jit::Module& module, const ScriptSink& sink);

}  // namespace winnow
