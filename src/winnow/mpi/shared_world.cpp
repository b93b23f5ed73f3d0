#include "winnow/mpi/shared_world.h"

#include <ATen/ATen.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <memory>
#include <random>
#include <type_traits>
#include <utility>
#include <vector>

#include "winnow/mpi/bytes.h"

namespace winnow {
namespace {

// In memory: the start, the head with everything but images, and the images in the order of the
// head, each aligned.
struct Start {
  std::uint64_t key = 0;
  std::uint64_t head = 0;  // bytes
};
constexpr std::size_t kImagesAt = 64;  // and multiples

template <typename T>
concept Plain = std::is_trivially_copyable_v<T>;

class Packer {
 public:
  template <Plain T>
  void take(T& value) {
    head_.put(value);
  }
  template <Plain T>
  void take(std::vector<T>& values) {
    head_.list(values);
  }
  void take(std::string& text) { head_.text(text); }
  void take(Ledger& ledger) { head_.text(ledger.text()); }
  void take(at::Tensor& images) {
    head_.put(images.defined());
    if (images.defined()) {
      images_.push_back(images.contiguous());
      head_.list(images.sizes().vec());
    }
  }
  template <typename T>
  void count(std::vector<T>& list) {
    head_.put(static_cast<std::uint64_t>(list.size()));
  }

  std::string head() { return head_.take(); }
  const std::vector<at::Tensor>& images() const { return images_; }

 private:
  ByteWriter head_;
  std::vector<at::Tensor> images_;
};

class Unpacker {
 public:
  explicit Unpacker(std::string_view head) : head_(head) {}

  template <Plain T>
  void take(T& value) {
    value = head_.get<T>();
  }
  template <Plain T>
  void take(std::vector<T>& values) {
    values = head_.list<T>();
  }
  void take(std::string& text) { text = head_.text(); }
  void take(Ledger& ledger) { ledger = Ledger::parse(head_.text(), "the ledger of another rank"); }
  void take(at::Tensor& images) {
    if (head_.get<bool>()) {
      images_.push_back({&images, head_.list<std::int64_t>()});
    }
  }
  template <typename T>
  void count(std::vector<T>& list) {
    list.resize(head_.get<std::uint64_t>());
  }

  struct Images {
    at::Tensor* place;
    std::vector<std::int64_t> sizes;
  };
  const std::vector<Images>& images() const { return images_; }

 private:
  ByteReader head_;
  std::vector<Images> images_;
};

template <typename Bytes, typename... Fields>
void take_all(Bytes& bytes, Fields&... fields) {
  (bytes.take(fields), ...);
}

template <typename Bytes>
void pass(Bytes& bytes, std::vector<std::string>& texts) {
  bytes.count(texts);
  for (std::string& text : texts) {
    bytes.take(text);
  }
}

// What follows names every field of a struct, or does not compile.

template <typename Bytes>
void pass(Bytes& bytes, Samples& samples) {
  auto& [images, labels] = samples;
  take_all(bytes, images, labels);
}

template <typename Bytes>
void pass(Bytes& bytes, Normalisation& normalisation) {
  auto& [mean, std] = normalisation;
  take_all(bytes, mean, std);
}

template <typename Bytes>
void pass(Bytes& bytes, DataSet& data) {
  auto& [name, train, test, validation, given, classes, class_names, normalisation, test_drawn,
         augment, crop, owners, client_names, names, test_names, unused_columns] = data;
  pass(bytes, train);
  pass(bytes, test);
  pass(bytes, validation);
  pass(bytes, normalisation);
  take_all(bytes, name, given, classes, test_drawn, augment, crop, owners);
  for (auto* texts : {&class_names, &client_names, &names, &test_names, &unused_columns}) {
    pass(bytes, *texts);
  }
}

template <typename Bytes>
void pass(Bytes& bytes, std::vector<ClientData>& clients) {
  bytes.count(clients);
  for (auto& [samples, given] : clients) {
    take_all(bytes, samples, given);
  }
}

template <typename Bytes>
void pass(Bytes& bytes, World& world) {
  auto& [data, clients, ledger, public_images, truth_known, only_injected, test_unchecked,
         validation_unchecked, validation_elsewhere] = world;
  pass(bytes, data);
  pass(bytes, clients);
  take_all(bytes, ledger, public_images, truth_known, only_injected, test_unchecked,
           validation_unchecked, validation_elsewhere);
}

std::size_t aligned(std::size_t place) {
  return (place + kImagesAt - 1) / kImagesAt * kImagesAt;
}

// A file in memory, of which images are parts.
struct Mapping {
  char* place;
  std::size_t size;
  Mapping(int file, std::size_t length, int protection)
      : place(static_cast<char*>(::mmap(nullptr, length, protection, MAP_SHARED, file, 0))),
        size(length) {}
  ~Mapping() {
    if (there()) {
      ::munmap(place, size);
    }
  }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  bool there() const { return place != MAP_FAILED; }
};

std::uint64_t any_key() {
  std::random_device random;
  return (std::uint64_t{random()} << 32U) | random();
}

}  // namespace

std::optional<SharedWorld> SharedWorld::of(const World& world) {
  Packer packer;
  pass(packer, const_cast<World&>(world));  // which only reads it
  const std::string head = packer.head();
  std::size_t size = aligned(sizeof(Start) + head.size());
  for (const at::Tensor& images : packer.images()) {
    size = aligned(size + images.nbytes());
  }
  SharedWorld shared(::memfd_create("winnow-world", MFD_CLOEXEC | MFD_ALLOW_SEALING), any_key(),
                     size);
  // Memory that is not there must be an error here and not a signal below.
  if (shared.file_ < 0 || ::posix_fallocate(shared.file_, 0, static_cast<off_t>(size)) != 0) {
    return std::nullopt;
  }
  {
    const Mapping mapping(shared.file_, size, PROT_READ | PROT_WRITE);
    if (!mapping.there()) {
      return std::nullopt;
    }
    const Start start{shared.key_, head.size()};
    std::memcpy(mapping.place, &start, sizeof start);
    std::memcpy(mapping.place + sizeof start, head.data(), head.size());
    std::size_t place = aligned(sizeof start + head.size());
    for (const at::Tensor& images : packer.images()) {
      std::memcpy(mapping.place + place, images.data_ptr(), images.nbytes());
      place = aligned(place + images.nbytes());
    }
  }
  if (::fcntl(shared.file_, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) != 0) {
    return std::nullopt;
  }
  return shared;
}

std::optional<World> SharedWorld::at(const std::string& address) {
  ByteReader reader(address);
  const std::string file_name = reader.text();
  const auto key = reader.get<std::uint64_t>();
  const auto size = reader.get<std::size_t>();
  // In a container of its own the name may be that of something else, even of a pipe to wait for.
  const int file = ::open(file_name.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  if (file < 0) {
    return std::nullopt;
  }
  struct stat found = {};
  const int seals = ::fcntl(file, F_GET_SEALS);  // -1: not a file in memory
  const bool sealed = ::fstat(file, &found) == 0 && S_ISREG(found.st_mode) &&
                      static_cast<std::size_t>(found.st_size) == size && seals >= 0 &&
                      (seals & F_SEAL_WRITE) != 0;
  const auto mapping = sealed ? std::make_shared<Mapping>(file, size, PROT_READ) : nullptr;
  ::close(file);
  if (mapping == nullptr || !mapping->there()) {
    return std::nullopt;
  }
  Start start;
  std::memcpy(&start, mapping->place, sizeof start);
  if (start.key != key) {
    return std::nullopt;
  }
  Unpacker unpacker({mapping->place + sizeof start, start.head});
  World world{.data = {}, .clients = {}, .ledger = Ledger(0, 0, 0)};
  pass(unpacker, world);
  std::size_t place = aligned(sizeof start + start.head);
  for (const auto& [images, sizes] : unpacker.images()) {
    *images = at::from_blob(
        mapping->place + place, sizes, [mapping](void*) {}, at::dtype(at::kByte));
    place = aligned(place + images->nbytes());
  }
  return world;
}

SharedWorld::~SharedWorld() {
  if (file_ >= 0) {
    ::close(file_);
  }
}

SharedWorld::SharedWorld(SharedWorld&& other) noexcept
    : file_(std::exchange(other.file_, -1)), key_(other.key_), size_(other.size_) {}

SharedWorld& SharedWorld::operator=(SharedWorld&& other) noexcept {
  std::swap(file_, other.file_);
  std::swap(key_, other.key_);
  std::swap(size_, other.size_);
  return *this;
}

std::string SharedWorld::address() const {
  return ByteWriter()
      .text(fmt::format("/proc/{}/fd/{}", ::getpid(), file_))
      .put(key_)
      .put(size_)
      .take();
}

}  // namespace winnow
