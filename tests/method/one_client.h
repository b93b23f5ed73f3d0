// A client of a local trainer with everything it needs: a tiny data set, a lane and a memory.
#pragma once

#include <memory>
#include <utility>

#include "testing/support.h"
#include "winnow/method/method.h"

namespace winnow {

// A method with parameters as an experiment would set them.
template <typename T>
std::unique_ptr<T> make_with(const Json& table = Json::object()) {
  auto method = std::make_unique<T>();
  Params params;
  method->declare(params);
  params.read(table, "method");
  return method;
}

// Every parameter of a method as it is when nothing is set.
template <typename T>
Json defaults_of() {
  T method;
  Params params;
  method.declare(params);
  return params.values();
}

template <typename NetType = TwoLayerNet>
struct OneClient {
  static constexpr std::int64_t kId = 7;
  static constexpr std::uint64_t kSeed = 5;

  explicit OneClient(TrainOptions its_options = {.epochs = 2, .batch_size = 5, .lr = 0.1},
                     std::int64_t samples = 12, bool augment = false)
      : options(its_options),
        data(tiny_data(60, 30, augment ? 16 : 8)),
        feed(data.train.images, data.normalisation, 0, at::kCPU),
        lane(make_net<NetType>(data), feed, augment),
        held(deal(data, {samples}).front()) {}

  State initial(std::uint64_t seed) const {
    return NetType(shape_of(data)).weights().initial(seed);
  }
  LocalSet set() const { return {held.samples, held.given}; }
  // What FedAvg's client would make of it.
  State plain(const State& start, std::int64_t round) {
    return lane.trainer().train(start, set(), options, {}, {kSeed, round, kId}).state;
  }
  Message handle(const Method& method, const Message& task) {
    ClientContext context(kId, held, memory, lane, options, kSeed);
    Message reply = method.client_side()->handle(task, context);
    steps = context.steps();
    EXPECT_NO_THROW(check(reply, method.exchanges({})));
    return reply;
  }
  Message train(const Method& method, std::int64_t round, const State& start) {
    return handle(
        method,
        Message("train").set("round", static_cast<std::uint32_t>(round)).set("model", start));
  }
  Message train(const Method& method, std::int64_t round, const State& start, const State& second) {
    return handle(method, Message("train")
                              .set("round", static_cast<std::uint32_t>(round))
                              .set("model", start)
                              .set("second", second));
  }

  TrainOptions options;
  DataSet data;
  Feed feed;
  Lane lane;
  ClientData held;
  ClientMemory memory;
  std::int64_t steps = 0;
};

inline std::string model_hash(const Message& reply, const std::string& field = "model") {
  return hash(reply.get<State>(field));
}

}  // namespace winnow
