#include "winnow/federation/file_values.h"

#include <ATen/ATen.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "winnow/federation/spill.h"

namespace winnow {
namespace {

constexpr std::size_t kValuesOfBlock = std::size_t{1} << 19;  // 2 MiB

struct FileValues {
  void* start = nullptr;
  std::size_t bytes = 0;
};

// The deleter of a mapped tensor, by which it is also known as one.
void unmap_file_values(void* context) {
  const std::unique_ptr<FileValues> values(static_cast<FileValues*>(context));
  ::munmap(values->start, values->bytes);
}

bool lies_in_file(const at::Tensor& values) {
  return values.storage().data_ptr().get_deleter() == &unmap_file_values ||
         Spill::is_spilled(values);
}

// Lets go of the whole pages of a block; they are read from the file when they are needed again.
void drop_pages(std::span<const float> block) {
  static const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  void* start = const_cast<float*>(block.data());
  std::size_t room = block.size_bytes();
  if (room >= page && std::align(page, page, start, room) != nullptr) {
    ::madvise(start, room / page * page, MADV_DONTNEED);
  }
}

}  // namespace

at::Tensor map_file_values(int descriptor, std::int64_t count) {
  auto mapped = std::make_unique<FileValues>();
  mapped->bytes = static_cast<std::size_t>(count) * sizeof(float);
  mapped->start = ::mmap(nullptr, mapped->bytes, PROT_READ, MAP_PRIVATE, descriptor, 0);
  if (mapped->start == MAP_FAILED) {
    return {};
  }
  void* start = mapped->start;
  return at::for_blob(start, {count})
      .context(mapped.release(), &unmap_file_values)
      .options(at::TensorOptions().dtype(at::kFloat))
      .make_tensor();
}

void each_block(const at::Tensor& values,
                const std::function<void(std::size_t begin, std::span<const float> block)>& visit) {
  const std::span<const float> all{values.data_ptr<float>(),
                                   static_cast<std::size_t>(values.numel())};
  const bool in_file = lies_in_file(values);
  for (std::size_t begin = 0; begin < all.size(); begin += kValuesOfBlock) {
    const auto block = all.subspan(begin, std::min(kValuesOfBlock, all.size() - begin));
    visit(begin, block);
    if (in_file) {
      drop_pages(block);
    }
  }
}

}  // namespace winnow
