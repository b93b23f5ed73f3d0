// Images and labels as IDX, plain or compressed with gzip.
#include "winnow/data/idx.h"

#include "packing.h"
#include "target.h"

using namespace winnow;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const fuzz::Scratch scratch;
  fuzz::Input input(data, size);
  const std::int64_t classes = 1 + input.byte();
  const auto path = scratch.put("input", input.rest());
  fuzz::only_errors([&] { read_idx_images(path); });
  return fuzz::only_errors([&] {
    for (const std::int64_t label : read_idx_labels(path, classes)) {
      fuzz::require(label >= 0 && label < classes, "labels within the classes");
    }
  });
}

// Changes what a compressed file holds and compresses it again.
extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size,
                                               std::size_t max_size, unsigned seed) {
  fuzz::Input input(data, size);
  const std::uint8_t classes = input.byte();
  auto content = fuzz::inflated(input.rest(), fuzz::kGzip, 1 << 16);
  if (!content || seed % 4 == 0) {
    return LLVMFuzzerMutate(data, size, max_size);
  }
  fuzz::mutate_text(*content, content->size() + 64);
  return fuzz::hand_back(static_cast<char>(classes) + fuzz::deflated(*content, fuzz::kGzip), data,
                         size, max_size);
}
