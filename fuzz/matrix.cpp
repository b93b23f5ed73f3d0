// A matrix of label noise: chances of each label for each true class.
#include "target.h"
#include "winnow/noise/label/label_noise_rules.h"

using namespace winnow;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const fuzz::Scratch scratch;
  fuzz::Input input(data, size);
  const std::int64_t classes = 1 + input.byte() % 16;
  TransitionMatrix rule;
  rule.file = scratch.put("matrix.txt", input.rest()).string();
  const LabelNoiseContext context{classes, 8, 2, {0, 1}, "noise.0"};
  return fuzz::only_errors([&] {
    Stream stream(1, "noise-clients");
    std::vector<std::int64_t> samples{0, 1, 2, 3};
    for (const ClientNoise& noise : rule.plan(context, stream)) {
      fuzz::require(static_cast<bool>(noise.corrupt), "noise for every client");
      std::vector<std::int64_t> labels(samples.size(), classes - 1);
      noise.corrupt(samples, labels, stream);
      for (const std::int64_t label : labels) {
        fuzz::require(label >= 0 && label < classes, "labels within the classes");
      }
    }
  });
}
