// An archive of NumPy arrays, and the data set in it.
#include "winnow/data/npz.h"

#include <array>

#include "json_mutator.h"
#include "packing.h"
#include "target.h"
#include "winnow/data/client_sets.h"

using namespace winnow;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const fuzz::Scratch scratch;
  fuzz::Input input(data, size);
  const std::uint8_t choice = input.byte();  // classes, and in the two upper bits the options
  const std::int64_t classes = choice & 0x3f;
  constexpr std::array kLayouts{"auto", "nchw", "nhwc", "auto"};
  const ArrayOptions options{.layout = kLayouts[choice >> 6U],
                             .float_range = choice >> 6U == 3 ? "0..1" : "auto"};
  const auto path = scratch.put("input.npz", input.rest());
  fuzz::only_errors([&] {
    const NpzFile file(path);
    for (const std::string& name : file.names()) {
      fuzz::only_errors([&] { file.array(name); });
    }
  });
  fuzz::only_errors([&] {
    const DataSet set = read_client_set(path, {.arrays = options});
    fuzz::require(set.owners.size() == set.train.labels.size(), "an owner for every sample");
  });
  return fuzz::only_errors([&] {
    const DataSet set = read_npz_set(path, classes, options);
    fuzz::require(set.train.images.size(0) == set.train.size(), "a label for every image");
    fuzz::require(set.train.images.is_contiguous(), "contiguous planes");
  });
}

// Changes what the entries hold and writes the archive anew, with right sizes and checksums.
extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size,
                                               std::size_t max_size, unsigned seed) {
  fuzz::Draw draw(seed);
  fuzz::Input input(data, size);
  const std::uint8_t classes = input.byte();
  std::vector<fuzz::ZipEntry> entries = fuzz::unzip(input.rest(), 1 << 16);
  if (entries.empty() || fuzz::draw_below(draw, 5) == 0) {
    return LLVMFuzzerMutate(data, size, max_size);
  }
  fuzz::ZipEntry& entry = entries[fuzz::draw_below(draw, entries.size())];
  switch (fuzz::draw_below(draw, 8)) {
    case 0:
      fuzz::mutate_text(entry.name, entry.name.size() + 8);
      break;
    case 1:
      entry.packed = !entry.packed;
      break;
    case 2:
      std::swap(entry.content, entries[fuzz::draw_below(draw, entries.size())].content);
      break;
    default:
      fuzz::mutate_text(entry.content, entry.content.size() + 64);
  }
  entry.name.resize(std::min<std::size_t>(entry.name.size(), 1000));
  return fuzz::hand_back(static_cast<char>(classes) + fuzz::zip(entries), data, size, max_size);
}
