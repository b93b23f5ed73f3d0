#include "winnow/train/nets.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace winnow {
namespace {

// A generator of the lane's own, so that dropout never touches the library's global one.
at::Generator make_generator(at::Device device) {
  if (device.is_cpu()) {
    return at::make_generator<at::CPUGeneratorImpl>();
  }
  return at::globalContext().defaultGenerator(device).clone();
}

// Zeros that take memory only once they are written: the lanes of a server never train. On a CPU
// fresh pages of the system are that.
at::Tensor zeros_for_later(std::int64_t count, at::Device device) {
  const at::TensorOptions options = at::device(device).dtype(at::kFloat);
  const std::size_t bytes = static_cast<std::size_t>(count) * sizeof(float);
  void* pages = device.is_cpu() && bytes > 0 ? ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                                                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
                                             : MAP_FAILED;
  if (pages == MAP_FAILED) {
    return at::zeros({count}, options);
  }
  return at::from_blob(
      pages, {count}, [bytes](void* start) { ::munmap(start, bytes); }, options);
}

}  // namespace

Nets::Nets(MakeNet make, const Feed& feed, bool augment, const std::atomic<bool>* stop, bool low)
    : make_(std::move(make)),
      feed_(&feed),
      augment_(augment ? Augment(feed.places()) : Augment()),
      stop_(stop),
      dropout_(make_generator(feed.device())) {
  if (feed.device().is_cuda()) {
    gpu_ = std::make_unique<GpuTrainer>(make_, feed, low, dropout_);
  }
  have(1);
}

void Nets::have(std::size_t count) {
  while (replicas_.size() < count) {
    Replica replica;
    replica.net = make_();
    replica.state = State::zeros(replica.net->weights().layout(), device());
    replica.gradient = zeros_for_later(replica.state.layout->parameters(), device());
    replica.net->weights().bind(replica.state.flat, replica.gradient);
    if (gpu_ != nullptr) {
      gpu_->add(replica.state);
    }
    replicas_.push_back(std::move(replica));
  }
}

void Nets::on_stream(const std::function<void()>& work) const {
  if (gpu_ != nullptr) {
    gpu_->on_stream(work);
  } else {
    work();
  }
}

void Nets::check_stop() const {
  if (stop_ != nullptr && stop_->load(std::memory_order_relaxed)) {
    throw Interrupted();
  }
}

at::Tensor index_tensor(std::span<const std::int64_t> values, at::Device device) {
  at::Tensor tensor = at::empty({std::ssize(values)}, at::kLong);
  std::ranges::copy(values, tensor.data_ptr<std::int64_t>());
  return tensor.to(device);
}

}  // namespace winnow
