#include "winnow/federation/spill.h"

#include <ATen/ATen.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>
#include <system_error>
#include <vector>

#include "winnow/base/error.h"

namespace winnow {
namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kLargestSlab = std::size_t{256} << 20;
constexpr std::size_t kGrowth = 8;  // a slab has this part of what is stored already

[[noreturn]] void fail(const std::filesystem::path& folder, int error) {
  throw Error(ErrorKind::run,
              fmt::format("cannot store a client's model in {}: {}", folder.string(),
                          std::generic_category().message(error)),
              "choose a folder on a disk with room for one model per client, or allow the stored "
              "models more memory");
}

}  // namespace

// A mapped file without a name.
class SpillSlab {
 public:
  SpillSlab(const std::filesystem::path& folder, std::size_t bytes) : bytes_(bytes) {
    std::string name = (folder / "winnow-model-XXXXXX").string();
    const int file = ::mkostemp(name.data(), O_CLOEXEC);
    if (file < 0) {
      fail(folder, errno);
    }
    ::unlink(name.c_str());
    // Room is taken now: on a full disk a store into a mapping would kill the process.
    int error = EINTR;
    while (error == EINTR) {
      error = ::posix_fallocate(file, 0, static_cast<off_t>(bytes));
    }
    if (error == 0) {
      start_ = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
      error = start_ == MAP_FAILED ? errno : 0;
    }
    ::close(file);
    if (error != 0) {
      fail(folder, error);
    }
  }
  ~SpillSlab() { ::munmap(start_, bytes_); }
  SpillSlab(const SpillSlab&) = delete;
  SpillSlab& operator=(const SpillSlab&) = delete;

  std::size_t taken = 0;  // places that are in use

  std::size_t bytes() const { return bytes_; }
  char* at(std::size_t offset) const { return static_cast<char*>(start_) + offset; }

 private:
  std::size_t bytes_;
  void* start_ = nullptr;
};

// A place in a slab.
struct SpillRoom {
  std::shared_ptr<SpillSlab> slab;
  std::size_t offset = 0;
  std::size_t bytes = 0;  // whole pages

  void drop_pages() const { ::madvise(slab->at(offset), bytes, MADV_DONTNEED); }
};

// The slabs of one store, and what is free in them. Slabs grow with what is stored, so that a few
// models do not take much more room than they need.
class Spill::Arena {
 public:
  explicit Arena(std::filesystem::path folder) : folder_(std::move(folder)) {}

  // What a tensor's memory belongs to.
  struct Lease {
    std::shared_ptr<Arena> arena;
    SpillRoom room;
  };
  // The deleter of a spilled tensor, by which it is also known as one.
  static void release(void* context) {
    const std::unique_ptr<Lease> lease(static_cast<Lease*>(context));
    lease->room.drop_pages();
    const std::shared_ptr<Arena> arena = std::move(lease->arena);
    arena->take_back(std::move(lease->room));
  }

  SpillRoom take(std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    const std::size_t pages = std::max(kPage, (bytes + kPage - 1) / kPage * kPage);
    std::vector<SpillRoom>& free = free_[pages];
    if (!free.empty()) {
      SpillRoom room = std::move(free.back());
      free.pop_back();
      ++room.slab->taken;
      return room;
    }
    if (slab_ == nullptr || slab_->bytes() - used_ < pages) {
      const std::size_t wanted =
          std::max(pages, std::min(kLargestSlab, given_ / kGrowth / kPage * kPage));
      slab_ = std::make_shared<SpillSlab>(folder(), wanted);
      used_ = 0;
      given_ += wanted;
    }
    SpillRoom room{slab_, used_, pages};
    used_ += pages;
    ++slab_->taken;
    return room;
  }

 private:
  // Looked for only when something is stored: most runs store nothing.
  std::filesystem::path folder() const {
    if (!folder_.empty()) {
      return folder_;
    }
    std::error_code failed;
    std::filesystem::path found = std::filesystem::temp_directory_path(failed);
    if (failed) {
      fail("the temporary folder ($TMPDIR)", failed.value());
    }
    return found;
  }
  void take_back(SpillRoom room) {
    const std::lock_guard lock(mutex_);
    const std::shared_ptr<SpillSlab> slab = room.slab;
    const std::size_t bytes = room.bytes;
    free_[bytes].push_back(std::move(room));
    if (--slab->taken > 0) {
      return;
    }
    // Nothing is stored in it any more: the file goes.
    for (auto& [size, free] : free_) {
      std::erase_if(free, [&slab](const SpillRoom& other) { return other.slab == slab; });
    }
    given_ -= slab->bytes();
    if (slab_ == slab) {
      slab_.reset();
    }
  }

  std::filesystem::path folder_;
  std::mutex mutex_;
  std::map<std::size_t, std::vector<SpillRoom>> free_;  // by size
  std::shared_ptr<SpillSlab> slab_;                     // the last one
  std::size_t used_ = 0;                                // of it
  std::size_t given_ = 0;                               // bytes of all slabs
};

Spill::Spill(SpillOptions options)
    : options_(std::move(options)), arena_(std::make_shared<Arena>(options_.folder)) {}

at::Tensor Spill::copy(const at::Tensor& tensor) {
  const at::Tensor host = tensor.cpu().contiguous();
  auto lease = std::make_unique<Arena::Lease>();
  lease->room = arena_->take(host.nbytes());
  lease->arena = arena_;
  char* start = lease->room.slab->at(lease->room.offset);
  std::memcpy(start, host.data_ptr(), host.nbytes());
  lease->room.drop_pages();
  return at::for_blob(start, host.sizes())
      .context(lease.release(), &Arena::release)
      .options(host.options())
      .make_tensor();
}

bool Spill::is_spilled(const at::Tensor& tensor) {
  return tensor.storage().data_ptr().get_deleter() == &Arena::release;
}

std::int64_t Spill::bytes_in_memory(const at::Tensor& tensor) {
  return is_spilled(tensor) ? 0 : static_cast<std::int64_t>(tensor.nbytes());
}

void Spill::drop_pages(const at::Tensor& tensor) {
  if (is_spilled(tensor)) {
    static_cast<Arena::Lease*>(tensor.storage().data_ptr().get_context())->room.drop_pages();
  }
}

}  // namespace winnow
