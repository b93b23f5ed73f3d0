#include "winnow/federation/model_store.h"

#include <ATen/ATen.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <system_error>

#include "winnow/base/error.h"

namespace winnow {
namespace {

struct Mapping {
  void* start = nullptr;
  std::size_t bytes = 0;
};

// The deleter of a mapped tensor, by which it is also known as one.
void release_mapping(void* context) {
  const std::unique_ptr<Mapping> mapping(static_cast<Mapping*>(context));
  ::munmap(mapping->start, mapping->bytes);
}

bool is_mapped(const at::Tensor& tensor) {
  return tensor.storage().data_ptr().get_deleter() == &release_mapping;
}

std::int64_t bytes_of(const at::Tensor& flat) {
  return is_mapped(flat) ? 0 : flat.numel() * flat.element_size();
}

[[noreturn]] void fail(const std::filesystem::path& folder, int error) {
  throw Error(ErrorKind::run,
              fmt::format("cannot store a client's model in {}: {}", folder.string(),
                          std::generic_category().message(error)),
              "choose a folder on a disk with room for one model per client, or allow the stored "
              "models more memory");
}

// A new file without a name; open until it is mapped.
class UnnamedFile {
 public:
  UnnamedFile(const std::filesystem::path& folder, std::int64_t bytes) : folder_(folder) {
    std::string name = (folder / "winnow-model-XXXXXX").string();
    descriptor_ = ::mkostemp(name.data(), O_CLOEXEC);
    if (descriptor_ < 0) {
      fail(folder_, errno);
    }
    ::unlink(name.c_str());
    // Room is taken now: on a full disk a store into a mapping would kill the process.
    int error = EINTR;
    while (error == EINTR) {
      error = ::posix_fallocate(descriptor_, 0, bytes);
    }
    if (error != 0) {
      ::close(descriptor_);
      fail(folder_, error);
    }
  }
  ~UnnamedFile() { ::close(descriptor_); }
  UnnamedFile(const UnnamedFile&) = delete;
  UnnamedFile& operator=(const UnnamedFile&) = delete;

  void* map(std::size_t bytes) const {
    void* start = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor_, 0);
    if (start == MAP_FAILED) {
      fail(folder_, errno);
    }
    return start;
  }

 private:
  std::filesystem::path folder_;
  int descriptor_ = -1;
};

// A copy of `flat` that lives in a file of its own.
at::Tensor mapped_copy(const at::Tensor& flat, const std::filesystem::path& folder) {
  const at::Tensor host = flat.cpu().contiguous();
  const std::int64_t bytes = host.numel() * host.element_size();
  const UnnamedFile file(folder, bytes);
  auto mapping = std::make_unique<Mapping>();
  mapping->bytes = static_cast<std::size_t>(bytes);
  mapping->start = file.map(mapping->bytes);
  std::memcpy(mapping->start, host.data_ptr(), mapping->bytes);
  void* start = mapping->start;
  return at::for_blob(start, host.sizes())
      .context(mapping.release(), &release_mapping)
      .options(host.options())
      .make_tensor();
}

}  // namespace

void ModelStore::put(std::int64_t client, const State& state) {
  put_flat(client, state.flat);
}

void ModelStore::put_flat(std::int64_t client, const at::Tensor& flat) {
  const auto old = models_.find(client);
  const std::int64_t others = in_memory_ - (old == models_.end() ? 0 : bytes_of(old->second));
  const bool fits = others + bytes_of(flat) <= options_.limit;
  at::Tensor kept = fits || is_mapped(flat) ? flat : mapped_copy(flat, folder());
  in_memory_ = others + bytes_of(kept);
  models_[client] = std::move(kept);
}

State ModelStore::get(std::int64_t client, const LayoutPtr& layout) const {
  const auto found = models_.find(client);
  if (found == models_.end()) {
    throw Error(ErrorKind::internal, fmt::format("no model of client {} is stored", client));
  }
  if (found->second.numel() != layout->total()) {
    throw Error(ErrorKind::internal,
                fmt::format("the stored model of client {} has {} values, expected {}", client,
                            found->second.numel(), layout->total()));
  }
  return {layout, found->second};
}

std::vector<std::int64_t> ModelStore::clients() const {
  std::vector<std::int64_t> clients;
  clients.reserve(models_.size());
  for (const auto& [client, flat] : models_) {
    clients.push_back(client);
  }
  return clients;
}

void ModelStore::save(Archive& archive, const std::string& prefix) const {
  for (const auto& [client, flat] : models_) {
    archive.tensors[fmt::format("{}{}", prefix, client)] = flat;
  }
}

void ModelStore::load(const Archive& archive, const std::string& prefix) {
  models_.clear();
  in_memory_ = 0;
  for (auto saved = archive.tensors.lower_bound(prefix);
       saved != archive.tensors.end() && saved->first.starts_with(prefix); ++saved) {
    const std::int64_t client =
        saved_client(saved->first.substr(prefix.size()), fmt::format("tensor '{}'", saved->first),
                     archive.bounds);
    put_flat(client, archive.model(saved->first));
  }
}

std::filesystem::path ModelStore::folder() const {
  return options_.folder.empty() ? std::filesystem::temp_directory_path() : options_.folder;
}

}  // namespace winnow
