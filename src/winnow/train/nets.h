// The networks of a lane: what its trainer and its scorer share. Their weights, the images that go
// into them, and what stops the work on them; all memory is allocated once and used for every
// client that the lane serves.
#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include <atomic>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "winnow/model/net.h"
#include "winnow/train/feed.h"
#include "winnow/train/gpu/gpu_trainer.h"
#include "winnow/train/plan.h"

namespace winnow {

// Thrown out of a lane when the run is asked to stop; not an error.
class Interrupted : public std::exception {
 public:
  const char* what() const noexcept override { return "interrupted"; }
};

// Not thread-safe.
class Nets {
 public:
  Nets(MakeNet make, const Feed& feed, bool augment, const std::atomic<bool>* stop, bool low);

  // A model on a CPU, or on a GPU what scores it.
  struct Replica {
    std::unique_ptr<Net> net;
    State state;          // what the network's weights are views of
    at::Tensor gradient;  // flat, parameters only
  };
  Replica& operator[](std::size_t number) { return replicas_[number]; }
  const Replica& operator[](std::size_t number) const { return replicas_[number]; }
  std::size_t size() const { return replicas_.size(); }
  // Makes those that are missing of so many.
  void have(std::size_t count);

  const Feed& feed() const { return *feed_; }  // the training images
  at::Device device() const { return feed_->device(); }
  Augment augment() const { return augment_; }
  const LayoutPtr& layout() const { return replicas_.front().state.layout; }
  at::Generator& dropout() { return dropout_; }
  // Where batches of images are made.
  at::Tensor& input() { return input_; }
  // What trains on a GPU; null on a CPU.
  GpuTrainer* gpu() const { return gpu_.get(); }
  void on_stream(const std::function<void()>& work) const;
  // Throws Interrupted once the run is to stop.
  void check_stop() const;

 private:
  MakeNet make_;
  const Feed* feed_;
  Augment augment_;
  const std::atomic<bool>* stop_;
  at::Generator dropout_;
  std::unique_ptr<GpuTrainer> gpu_;
  std::deque<Replica> replicas_;
  at::Tensor input_;
};

// Numbers of samples or labels as a tensor on the device.
at::Tensor index_tensor(std::span<const std::int64_t> values, at::Device device);

}  // namespace winnow
