// What the tests of training, federation, methods and engines share: tiny networks and data, model
// states written as numbers, a scripted client and a fake fleet.
#pragma once

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "testing/errors.h"
#include "testing/exchanges.h"
#include "winnow/base/error.h"
#include "winnow/data/data_set.h"
#include "winnow/data/synthetic.h"
#include "winnow/engine/threads.h"
#include "winnow/federation/archive.h"
#include "winnow/federation/client.h"
#include "winnow/federation/fleet.h"
#include "winnow/federation/message.h"
#include "winnow/model/init.h"
#include "winnow/model/layers.h"
#include "winnow/model/net.h"
#include "winnow/model/state.h"

namespace winnow {

// An archive as a checkpoint's file would give it back: columns are values and tensors by client.
inline Archive out_of_a_file(const Archive& archive) {
  Archive filed = archive;
  filed.columns.clear();
  for (const auto& [name, column] : archive.columns) {
    column->each_change(nullptr, [&, &name = name, &column = column](std::int64_t client) {
      if (const at::Tensor tensor = column->tensor(client); tensor.defined()) {
        filed.take_entry(name, client, tensor);
      } else {
        filed.take_entry(name, client, column->value(client));
      }
    });
  }
  return filed;
}

// Every program that includes this file computes as a run does.
class OneThreadPerOperation : public testing::Environment {
 public:
  void SetUp() override { use_one_thread_per_operation(); }
};
inline testing::Environment* const kOneThreadPerOperation =
    testing::AddGlobalTestEnvironment(new OneThreadPerOperation);

inline ErrorKind error_kind(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.kind();
  }
  ADD_FAILURE() << "no error";
  return ErrorKind::internal;
}

// A state of one parameter tensor "w", one buffer "b" and one counter tensor "c"; empty ones are
// left out.
inline State state_of(std::initializer_list<float> parameters,
                      std::initializer_list<float> buffers = {},
                      std::initializer_list<float> counters = {}) {
  std::vector<Slot> slots;
  std::vector<float> values;
  const auto add = [&](const char* name, std::initializer_list<float> part, SlotKind kind) {
    if (part.size() > 0) {
      slots.push_back({name, {static_cast<std::int64_t>(part.size())}, kind, 0, 0});
      values.insert(values.end(), part);
    }
  };
  add("w", parameters, SlotKind::parameter);
  add("b", buffers, SlotKind::buffer);
  add("c", counters, SlotKind::counter);
  return {std::make_shared<const Layout>(std::move(slots)), at::tensor(values)};
}

inline std::vector<float> values_of(const at::Tensor& tensor) {
  const at::Tensor flat = tensor.detach().to(at::kFloat).contiguous().view(-1);
  return {flat.data_ptr<float>(), flat.data_ptr<float>() + flat.numel()};
}
inline std::vector<float> values_of(const State& state) {
  return values_of(state.flat);
}

inline std::vector<std::int64_t> numbers_of(const at::Tensor& tensor) {
  const at::Tensor flat = tensor.contiguous().view(-1);
  return {flat.data_ptr<std::int64_t>(), flat.data_ptr<std::int64_t>() + flat.numel()};
}

inline double distance(const State& a, const State& b) {
  return (a.parameters() - b.parameters()).norm().item<double>();
}

// Bytes reach the network as they are: 7 becomes 7.0.
inline Normalisation bytes_as_they_are(std::size_t channels = 1) {
  return {std::vector<double>(channels, 0.0), std::vector<double>(channels, 1.0 / 255.0)};
}

// Grey images of 1 x width pixels, one per row.
inline at::Tensor rows_as_images(const std::vector<std::vector<std::uint8_t>>& rows) {
  const auto width = static_cast<std::int64_t>(rows.front().size());
  at::Tensor images = at::empty({static_cast<std::int64_t>(rows.size()), 1, 1, width}, at::kByte);
  auto* to = images.data_ptr<std::uint8_t>();
  for (const auto& row : rows) {
    to = std::copy(row.begin(), row.end(), to);
  }
  return images;
}

// The head alone: "fc.weight" [classes, pixels] and "fc.bias".
class LinearNet final : public Net {
 public:
  explicit LinearNet(const NetShape& shape) {
    const std::int64_t pixels = shape.channels * shape.height * shape.width;
    declare_head("fc", pixels, shape.classes, init::fan_in_uniform(pixels),
                 init::fan_in_uniform(pixels));
  }
  at::Tensor features(const at::Tensor& images, const Pass& /*pass*/) const override {
    return images.flatten(1);
  }
};

// Linear, tanh, linear.
class TwoLayerNet final : public Net {
 public:
  static constexpr std::int64_t kWidth = 6;

  explicit TwoLayerNet(const NetShape& shape)
      : hidden_(weights_, "hidden", shape.channels * shape.height * shape.width, kWidth) {
    declare_head("fc", kWidth, shape.classes, init::fan_in_uniform(kWidth),
                 init::fan_in_uniform(kWidth));
  }
  at::Tensor features(const at::Tensor& images, const Pass& pass) const override {
    return hidden_(images.flatten(1), pass).tanh();
  }

 private:
  Linear hidden_;
};

// Convolution, batch norm with running statistics, ReLU, mean, linear.
class NormNet final : public Net {
 public:
  static constexpr std::int64_t kWidth = 5;

  explicit NormNet(const NetShape& shape)
      : conv_(weights_, "conv", {.in = shape.channels, .out = kWidth, .padding = 1}),
        norm_(weights_, "norm", kWidth) {
    declare_head("fc", kWidth, shape.classes, init::fan_in_uniform(kWidth),
                 init::fan_in_uniform(kWidth));
  }
  at::Tensor features(const at::Tensor& images, const Pass& pass) const override {
    return global_average_pool(relu_in_place(norm_(conv_(images, pass), pass)));
  }

 private:
  Conv conv_;
  BatchNorm norm_;
};

template <typename T>
NetInfo net_info(const std::string& name) {
  return {
      name, "for tests", {}, 0, [](const NetShape& shape) { return std::make_unique<T>(shape); }};
}

// A generated data set, complete but for its size small: grey, three classes, 8 x 8 pixels.
inline DataSet tiny_data(std::int64_t samples = 60, std::int64_t test_samples = 30,
                         std::int64_t size = 8) {
  DataSet data = make_synthetic({.samples = samples,
                                 .test_samples = test_samples,
                                 .classes = 3,
                                 .channels = 1,
                                 .size = size,
                                 .difficulty = 0.3,
                                 .seed = 3});
  data.name = "tiny";
  data.normalisation = {{0.5}, {0.25}};
  return data;
}

inline NetShape shape_of(const DataSet& data) {
  return {data.classes, data.channels(), data.height(), data.width()};
}

// What a lane makes its networks with.
template <typename T>
MakeNet make_net(const DataSet& data) {
  return [shape = shape_of(data)] { return std::make_unique<T>(shape); };
}
inline MakeNet make_net(const NetInfo& net, const DataSet& data) {
  return [make = net.make, shape = shape_of(data)] { return make(shape); };
}

// Clients that hold the given numbers of samples, one after the other, with true labels.
inline std::vector<ClientData> deal(const DataSet& data, const std::vector<std::int64_t>& sizes) {
  std::vector<ClientData> clients;
  std::int64_t next = 0;
  for (const std::int64_t size : sizes) {
    ClientData client;
    for (std::int64_t i = 0; i < size; ++i, ++next) {
      client.samples.push_back(next);
      client.given.push_back(data.train.labels.at(static_cast<std::size_t>(next)));
    }
    clients.push_back(std::move(client));
  }
  return clients;
}

// A client side that does what a function says.
class ScriptedClient final : public ClientSide {
 public:
  using Script = std::function<Message(const Message& task, ClientContext& context)>;

  explicit ScriptedClient(Script script) : script_(std::move(script)) {}
  Message handle(const Message& task, ClientContext& context) const override {
    return script_(task, context);
  }

 private:
  Script script_;
};

// A fleet whose replies come from a function, on the caller's thread and in the promised order.
class FakeFleet final : public Fleet {
 public:
  using Answer = std::function<Message(std::int64_t client, const Message& task)>;

  FakeFleet(std::vector<std::int64_t> sizes, Answer answer)
      : sizes_(std::move(sizes)), answer_(std::move(answer)) {}

  std::int64_t size() const override { return static_cast<std::int64_t>(sizes_.size()); }
  std::int64_t samples(std::int64_t client) const override {
    return sizes_.at(static_cast<std::size_t>(client));
  }
  std::vector<Absence> ask(const std::vector<Order>& orders, const Fold& fold) override {
    std::vector<Absence> absent;
    for (const std::size_t place : fold_order(orders, *this)) {
      const Order& order = orders[place];
      if (away && away(order.client, order.task)) {
        absent.push_back({order.client, AbsenceReason::silent});
        continue;
      }
      const Message reply = answer_(order.client, order.task);
      asked.push_back(order);
      replies.push_back(reply);
      traffic_.bytes_down += order.task.bytes();
      traffic_.bytes_up += reply.bytes();
      fold(order.client, reply);
    }
    std::ranges::sort(absent, {}, &Absence::client);
    return absent;
  }
  const Traffic& traffic() const override { return traffic_; }

  // Who does not answer which task; nobody where it is empty.
  std::function<bool(std::int64_t client, const Message& task)> away;
  std::vector<Order> asked;      // in the order of folding
  std::vector<Message> replies;  // likewise

 private:
  std::vector<std::int64_t> sizes_;
  Answer answer_;
  Traffic traffic_;
};

}  // namespace winnow
