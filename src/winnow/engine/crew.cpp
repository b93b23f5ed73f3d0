#include "winnow/engine/crew.h"

#include "winnow/engine/threads.h"
#include "winnow/train/gpu/device.h"

namespace winnow {
namespace {

// Numbers of lanes that are compared where none is asked for.
const std::vector<std::int64_t> kNumbersTried{5, 10, 20};

}  // namespace

Crew::Crew(const DataSet& data, const NetInfo& net, const CrewOptions& options,
           const std::atomic<bool>* stop)
    : precision_(options.precision),
      augment_(options.augment),
      stop_(stop),
      feed_(data.train.images, data.normalisation, options.resize, options.device, data.crop),
      prototype_(net, data, options.resize, feed_.device()),
      choice_(options.lanes > 0 ? std::vector{options.lanes} : kNumbersTried),
      net_(net),
      pool_(static_cast<std::size_t>(choice_.most())) {
  make_lanes();
}

void Crew::make_lanes() {
  while (std::ssize(lanes_) < choice_.lanes()) {
    lanes_.push_back(make_lane(net_));
  }
}

std::unique_ptr<Lane> Crew::make_lane(const NetInfo& net) const {
  return std::make_unique<Lane>(
      [make = net.make, shape = prototype_.shape()] { return make(shape); }, feed_, augment_, stop_,
      precision_ == Precision::bf16);
}

void Crew::use_networks(const std::vector<NetInfo>& networks) {
  networks_.clear();
  for (const NetInfo& net : networks) {
    networks_.push_back({net, net.make(prototype_.shape())->weights().layout()});
    networks_.back().lanes.resize(static_cast<std::size_t>(choice_.most()));
  }
}

void Crew::run(std::size_t count,
               const std::function<void(std::size_t worker, std::size_t item)>& work,
               const std::function<void(std::size_t item)>& take) {
  make_lanes();
  wait_for(device());
  pool_.run(
      count,
      [&work](std::size_t worker, std::size_t item) {
        keep_one_thread_per_operation();
        work(worker, item);
      },
      take, static_cast<std::size_t>(choice_.lanes()));
}

Lane& Crew::lane_for(std::size_t worker, std::int64_t client) {
  if (networks_.empty()) {
    return *lanes_[worker];
  }
  OtherNetwork& network = networks_[static_cast<std::size_t>(client) % networks_.size()];
  std::unique_ptr<Lane>& lane = network.lanes[worker];
  if (lane == nullptr) {
    lane = make_lane(network.net);
    wait_for(device());  // it works on a stream of its own
  }
  return *lane;
}

const LayoutPtr& Crew::layout_of(std::int64_t client) const {
  return networks_.empty() ? layout()
                           : networks_[static_cast<std::size_t>(client) % networks_.size()].layout;
}

std::vector<LayoutPtr> Crew::layouts() const {
  std::vector<LayoutPtr> all{layout()};
  for (const OtherNetwork& network : networks_) {
    all.push_back(network.layout);
  }
  return all;
}

Workforce Crew::workforce() const {
  return {.lanes = choice_.lanes(),
          .own_lanes = choice_.lanes(),
          .settled = choice_.settled(),
          .device = device(),
          .precision = precision_};
}

}  // namespace winnow
