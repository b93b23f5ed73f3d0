// A method played over a few real clients, for what has to hold over whole rounds.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "testing/simulation.h"
#include "testing/support.h"
#include "winnow/method/method.h"

namespace winnow {

struct SmallFederation {
  std::vector<std::int64_t> sizes{10, 25, 5, 20};
  TrainOptions train{.epochs = 2, .batch_size = 5, .lr = 0.05, .momentum = 0.9};
};

// The hash of the global model after each of three rounds, in which three of four clients train.
inline std::vector<std::string> round_hashes(Method& method,
                                             const SmallFederation& federation = {}) {
  DataSet data = tiny_data();
  data.validation = data.test;
  Simulation engine(data, deal(data, federation.sizes), net_info<NormNet>("norm"), federation.train,
                    {.lanes = 2, .seed = 5}, nullptr);
  engine.serve(method.client_side(), method.exchanges({}));
  const Setting setting{.seed = 5,
                        .rounds = 3,
                        .clients = engine.size(),
                        .fraction = 0.75,
                        .classes = data.classes,
                        .validation = data.validation.size(),
                        .train = federation.train};
  State global = engine.initial_state(5);
  std::vector<std::string> hashes;
  for (std::int64_t round = 0; round < setting.rounds; ++round) {
    Json notes = Json::object();
    Server server{setting, engine, global, notes};
    server.validate = [&engine](const std::vector<State>& models) {
      return engine.validate(models);
    };
    method.play(round, server);
    engine.commit();
    hashes.push_back(hash(global));
  }
  return hashes;
}

// What a method of two models notes in a round with one client, which returns what it got.
inline Json notes_of_twins(Method& method, std::int64_t round) {
  FakeFleet fleet({5}, [](std::int64_t, const Message& task) {
    return Message("train_done")
        .set("model", task.get<State>("model"))
        .set("second", task.get<State>("second"))
        .set("samples", std::uint32_t{5});
  });
  const Setting setting{.seed = 4, .rounds = 9, .clients = 1, .fraction = 1.0, .classes = 3};
  State global = state_of({1});
  Json notes = Json::object();
  Server server{setting, fleet, global, notes};
  server.initial = [](std::uint64_t) { return state_of({2}); };
  method.play(round, server);
  return notes;
}

// What one round of a method sends over two clients of five samples each that return the model they
// got: 3 parameters, a buffer and a counter.
struct SentInARound {
  Traffic traffic;
  std::vector<std::string> kinds;  // of the first task and its reply
};
inline SentInARound sent_in_a_round(Method& method) {
  FakeFleet fleet({5, 5}, [](std::int64_t, const Message& task) {
    return Message("train_done")
        .set("model", task.get<State>("model"))
        .set("samples", std::uint32_t{5});
  });
  const Setting setting{.seed = 4, .rounds = 1, .clients = 2, .fraction = 1.0, .classes = 3};
  State global = state_of({1, 2, 3}, {4}, {5});
  Json notes = Json::object();
  Server server{setting, fleet, global, notes};
  method.play(0, server);
  for (const Order& order : fleet.asked) {
    EXPECT_NO_THROW(check(order.task, method.exchanges({})));
  }
  for (const Message& reply : fleet.replies) {
    EXPECT_NO_THROW(check(reply, method.exchanges({})));
  }
  return {fleet.traffic(), {fleet.asked.at(0).task.kind(), fleet.replies.at(0).kind()}};
}

}  // namespace winnow
