#include "winnow/model/projected_net.h"

#include <fmt/format.h>

#include <memory>
#include <utility>

#include "winnow/model/init.h"
#include "winnow/model/layers.h"

namespace winnow {
namespace {

// Width of what a network's head takes.
std::int64_t feature_width(const Net& net) {
  return net.weights().layout()->find(net.head_name() + ".weight")->shape.at(1);
}

class ProjectedNet final : public Net {
 public:
  // `body` gives as many values as its head takes.
  ProjectedNet(std::unique_ptr<Net> body, std::int64_t width, std::int64_t classes)
      : features_(feature_width(*body)),
        body_(std::move(body)),
        projection_(take_over(body_->weights()), "projection", features_, width) {
    declare_head("output", width, classes, init::fan_in_uniform(width),
                 init::fan_in_uniform(width));
  }

  at::Tensor features(const at::Tensor& images, const Pass& pass) const override {
    return projection_(relu_in_place(body_->forward(images, pass)), pass);
  }

 private:
  // The body's layers point at its tensors, which stay where they are when a Weights moves.
  Weights& take_over(Weights& weights) {
    weights_ = std::move(weights);
    return weights_;
  }

  std::int64_t features_;
  std::unique_ptr<Net> body_;
  Linear projection_;
};

}  // namespace

NetInfo projected(const NetInfo& net, std::int64_t width) {
  NetInfo info = net;
  info.summary = fmt::format("{}; projected to {} values", net.summary, width);
  info.make = [make = net.make, width](const NetShape& shape) -> std::unique_ptr<Net> {
    NetShape inner = shape;
    inner.classes = feature_width(*make(shape));
    return std::make_unique<ProjectedNet>(make(inner), width, shape.classes);
  };
  return info;
}

}  // namespace winnow
