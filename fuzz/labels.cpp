// A file of labels: .npy, .csv or .txt.
#include "winnow/data/label_file.h"

#include <array>

#include "target.h"

using namespace winnow;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const fuzz::Scratch scratch;
  constexpr std::array kNames{"labels.npy", "labels.csv", "labels.txt"};
  fuzz::Input input(data, size);
  const char* name = kNames[input.byte() % kNames.size()];
  const std::int64_t expected = input.byte();
  const std::int64_t classes = 1 + input.byte();
  const auto path = scratch.put(name, input.rest());
  return fuzz::only_errors([&] {
    const Labels labels = read_label_file(path, expected, classes);
    fuzz::require(static_cast<std::int64_t>(labels.size()) == expected, "as many as expected");
    for (const std::int64_t label : labels) {
      fuzz::require(label >= 0 && label < classes, "labels within the classes");
    }
  });
}
