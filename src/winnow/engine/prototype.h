// The experiment's network before any training.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "winnow/data/data_set.h"
#include "winnow/model/net.h"

namespace winnow {

class Prototype {
 public:
  // A network for the images of `data`, as they are or resized to a square where `resize` > 0. Its
  // models are made on the device.
  Prototype(const NetInfo& net, const DataSet& data, std::int64_t resize, at::Device device);

  const NetShape& shape() const { return shape_; }
  at::Device device() const { return device_; }
  State initial_state(std::uint64_t seed) const;
  const std::string& head_name() const { return net_->head_name(); }
  // Throws Error(kind experiment) where the network has no features.
  void check_features() const { net_->check_features(); }

 private:
  NetShape shape_;
  at::Device device_;
  std::unique_ptr<Net> net_;
};

}  // namespace winnow
