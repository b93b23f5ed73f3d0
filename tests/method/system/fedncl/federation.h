// Fed-NCL's server side over clients with given replies, for its tests.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "testing/support.h"
#include "winnow/method/system/fedncl/fedncl.h"

namespace winnow::fedncl {

struct Reply {
  State model;
  double loss = 1.0;
  std::uint32_t samples = 100;
};

// Fed-NCL's server side over clients whose replies may be changed between rounds.
struct Federation {
  explicit Federation(State start, std::vector<Reply> answers, const Json& parameters = {},
                      double fraction = 1.0)
      : setting{.seed = 4,
                .rounds = 100,
                .clients = static_cast<std::int64_t>(answers.size()),
                .fraction = fraction,
                .classes = 3},
        replies(std::move(answers)),
        fleet(std::vector<std::int64_t>(replies.size(), 100),
              [this](std::int64_t client, const Message&) {
                const Reply& reply = replies[static_cast<std::size_t>(client)];
                return Message("train_done")
                    .set("model", reply.model)
                    .set("samples", reply.samples)
                    .set("loss", reply.loss);
              }),
        global(std::move(start)) {
    Params params;
    method.declare(params);
    if (!parameters.is_null()) {
      params.read(parameters, "method");
    }
    method.check(setting);
  }

  void play(std::int64_t round = 0) {
    notes = Json::object();
    fleet.asked.clear();
    fleet.replies.clear();
    Server server{setting, fleet, global, notes};
    method.play(round, server);
  }
  void play_rounds(std::int64_t from, std::int64_t to) {
    for (std::int64_t round = from; round < to; ++round) {
      play(round);
    }
  }
  std::vector<std::int64_t> asked_to_correct() const {
    std::vector<std::int64_t> clients;
    for (const Order& order : fleet.asked) {
      if (order.task.get<std::uint8_t>("correct") != 0) {
        clients.push_back(order.client);
      }
    }
    return clients;
  }

  Setting setting;
  std::vector<Reply> replies;
  FakeFleet fleet;
  State global;
  Json notes = Json::object();
  FedNCL method;
};

// Clients that answer 1 whatever they get: from 0 the score is twice the loss, from 1 the loss.
inline std::vector<Reply> with_losses(const std::vector<double>& losses) {
  std::vector<Reply> replies;
  for (const double loss : losses) {
    replies.push_back({state_of({1}), loss});
  }
  return replies;
}

}  // namespace winnow::fedncl
