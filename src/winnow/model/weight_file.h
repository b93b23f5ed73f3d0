// Initial weights from a file: a state dict of torchvision, of timm or of a run of ours, as
// safetensors.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "winnow/model/state.h"

namespace winnow {

// Where initial weights came from.
struct WeightSource {
  std::string hash;                     // SHA-256 of the file
  std::vector<std::string> left_fresh;  // tensors of the head, where the file's has other classes
};

struct LoadedWeights {
  State state;  // on the CPU
  WeightSource source;
};

// The values of a file in the layout of `fresh`, the model's state without a file, which is not
// changed. Tensors have the names of the layout; where torchvision and timm name the same network
// differently, both forms are read. Floating-point tensors of any width become float32. A head for
// another number of classes keeps its fresh values; so does a counter that is missing, as old files
// have none. Throws one Error(kind data) for all other tensors that are missing, unknown, or of
// another shape or type: it names five and counts the rest.
LoadedWeights load_weights(const std::filesystem::path& path, const State& fresh,
                           const std::string& head_name);

}  // namespace winnow
