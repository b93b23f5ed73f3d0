// A folder of CIFAR: records and class names.
#include "winnow/data/cifar.h"

#include <fmt/format.h>

#include "target.h"

using namespace winnow;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const fuzz::Scratch scratch;
  fuzz::Input input(data, size);
  const std::uint8_t choice = input.byte();
  const std::string_view names = input.take(input.byte() * std::size_t{4});
  if (choice % 2 == 0) {
    scratch.put("batches.meta.txt", names);
    for (int batch = 1; batch <= 5; ++batch) {
      scratch.put(fmt::format("data_batch_{}.bin", batch), input.rest());
    }
    scratch.put("test_batch.bin", input.rest());
  } else {
    scratch.put("fine_label_names.txt", names);
    scratch.put("train.bin", input.rest());
    scratch.put("test.bin", input.rest());
  }
  if ((choice & 2) != 0) {  // names are not needed
    std::filesystem::remove(scratch.path() / "batches.meta.txt");
    std::filesystem::remove(scratch.path() / "fine_label_names.txt");
  }
  return fuzz::only_errors([&] {
    const DataSet set =
        choice % 2 == 0 ? read_cifar10(scratch.path()) : read_cifar100(scratch.path());
    fuzz::require(set.train.images.size(0) == set.train.size(), "a label for every image");
  });
}
