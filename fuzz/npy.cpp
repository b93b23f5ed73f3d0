// A NumPy array.
#include "winnow/data/npy.h"

#include "target.h"

using namespace winnow;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return fuzz::only_errors([&] {
    const NpyArray array(std::string(reinterpret_cast<const char*>(data), size), "input.npy");
    for (std::size_t i = 0; i < array.size(); ++i) {
      array.real(i);
    }
    fuzz::require(array.data().size() == array.size() * array.width(), "whole elements");
  });
}
