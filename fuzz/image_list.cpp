// The text files that name the images of a set: lists, Tiny-ImageNet's annotations, Clothing1M's
// keys.
#include <array>

#include "target.h"
#include "winnow/data/client_sets.h"
#include "winnow/data/image_layouts.h"

using namespace winnow;

namespace {

ImageSplit scan(std::uint8_t layout, const fuzz::Scratch& scratch, std::string_view first,
                std::string_view second) {
  switch (layout % 6) {
    case 0:
      return scan_image_list(scratch.put("list.txt", first), "", 1);
    case 1:
      return scan_image_list(scratch.put("list.txt", first), scratch.put("test.txt", second), 1);
    case 2: {
      const std::filesystem::path root = scratch.path() / "tiny";
      for (const char* name : {"cat", "dog"}) {
        std::filesystem::create_directories(root / "train" / name);
        scratch.put(root / "train" / name / "1.png", "");
      }
      std::filesystem::create_directories(root / "val");
      scratch.put(root / "val" / "val_annotations.txt", first);
      return scan_image_folder(root, 1);
    }
    case 3:
      scratch.put("noisy_train_key_list.txt", first);
      scratch.put("clean_test_key_list.txt", first);
      scratch.put("noisy_label_kv.txt", second);
      scratch.put("clean_label_kv.txt", second);
      return scan_clothing1m(scratch.path());
    case 5: {  // a list of clients, without its images
      const std::int64_t clients = count_clients_of(scratch.put("clients.csv", first), {});
      fuzz::require(clients > 0, "a list of clients has some");
      return {};
    }
    default:
      return scan_image_list(scratch.put("list.csv", first), scratch.put("test.csv", second), 1,
                             {"cat", "dog", "3"});
  }
}

}  // namespace

// A NUL parts the two files of a layout that has two.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const fuzz::Scratch scratch;
  fuzz::Input input(data, size);
  const std::uint8_t layout = input.byte();
  const std::size_t at = std::min(input.rest().find('\0'), input.rest().size());
  const std::string_view first = input.take(at);
  input.byte();
  return fuzz::only_errors([&] {
    const ImageSplit split = scan(layout, scratch, first, input.rest());
    for (const auto* part : {&split.train, &split.test}) {
      for (const ImageEntry& entry : *part) {
        fuzz::require(
            entry.label >= 0 && entry.label < static_cast<std::int64_t>(split.class_names.size()),
            "labels within the classes");
      }
    }
  });
}
