// Every method as a real federation: TLS on loopback between its server and its members, and the
// bits, the traffic and the number of trainings of the simulation.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>

#include "cli/program.h"
#include "net/served.h"
#include "run/method_schedules.h"
#include "testing/errors.h"
#include "winnow/base/random.h"
#include "winnow/run/charter.h"

namespace winnow::net_every_method_test {

using ::testing::HasSubstr;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

// Methods that know nothing of the truth; the others are oracles, which a server refuses. In the
// short form some of them, with every kind of exchange among them: models, corrections of models,
// numbers, samples' scores, predictions on public images, networks of the members' own.
std::vector<std::string> methods_to_serve() {
  if (!all_of_it()) {
    return {"fedavg", "scaffold",        "fedcorr", "fedrn", "clipfl", "fedns",
            "fedncl", "power_of_choice", "rhfl",    "clc",   "feddiv", "audit"};
  }
  std::vector<std::string> names;
  for (const MethodInfo& method : builtin_methods()) {
    if (method.truth == Truth::none) {
      names.push_back(method.name);
    }
  }
  return names;
}

void expect_same_end(const Json& summary, const Json& expected) {
  for (const char* key : {"model_hash", "rounds", "participations", "bytes_up", "bytes_down",
                          "client_steps", "forward_passes", "backward_passes"}) {
    EXPECT_EQ(summary.at(key), expected.at(key)) << key;
  }
}

class ServedMethod : public ::testing::TestWithParam<std::string> {};

TEST_P(ServedMethod, EndsLikeTheSimulation) {
  const TestFolder folder;
  const Experiment experiment = experiment_with(GetParam());
  const RunOutcome outcome = served(experiment, folder / "served", {});
  expect_same_end(outcome.summary, simulated(experiment, methods()));
}

INSTANTIATE_TEST_SUITE_P(All, ServedMethod, ::testing::ValuesIn(methods_to_serve()),
                         [](const auto& info) { return info.param; });

// No method is left out above but for a reason that the server gives.
TEST(ServedMethods, WhatIsNotServedIsRefusedWithTheReason) {
  std::map<std::string, std::string> refused;
  for (const MethodInfo& method : builtin_methods()) {
    Experiment experiment = experiment_with(method.name);
    // As winnow deal has it: these are in the files.
    experiment.noise.clear();
    experiment.validation.source = "none";
    experiment.public_images = {};
    if (std::string text = error_text([&] { check_servable(experiment, methods()); });
        text != "no error") {
      refused[method.name] = std::move(text);
    }
  }
  EXPECT_THAT(refused,
              UnorderedElementsAre(Pair("oracle", HasSubstr("it is told the truth")),
                                   Pair("fedns_oracle_flags", HasSubstr("it is told the truth"))));
}

// ---- members that stay silent

// A number for the content of a task.
struct NumberOf {
  template <typename T>
  std::uint64_t operator()(const T& value) const {
    if constexpr (std::is_integral_v<T>) {
      return value;
    } else if constexpr (std::is_floating_point_v<T>) {
      return std::bit_cast<std::uint64_t>(static_cast<double>(value));
    } else if constexpr (std::is_same_v<T, State>) {
      return (*this)(value.flat.sum().template item<double>());
    } else {
      std::uint64_t mixed = value.size();
      for (const auto& each : value) {
        mixed = mixed * 31 + (*this)(each);
      }
      return mixed;
    }
  }
  std::uint64_t operator()(const Message& task) const {
    std::uint64_t mixed = std::hash<std::string>()(task.kind());
    for (const auto& [name, field] : task.fields()) {
      mixed = mixed * 31 + std::visit(*this, field);
    }
    return mixed;
  }
};

// A method whose clients leave three of ten tasks unanswered, the same whenever they are asked.
class Shy final : public Method {
 public:
  explicit Shy(std::unique_ptr<Method> inner) : inner_(std::move(inner)) {}

  void know(const Offered& offered) override { inner_->know(offered); }
  void declare(Params& params) override { inner_->declare(params); }
  void check(const Setting& setting) const override { inner_->check(setting); }
  std::int64_t rounds(const Setting& setting) const override { return inner_->rounds(setting); }
  std::vector<std::string> networks() const override { return inner_->networks(); }
  Measured measured() const override { return inner_->measured(); }
  bool needs_features() const override { return inner_->needs_features(); }
  std::string needs_sgd() const override { return inner_->needs_sgd(); }
  ServerNeeds server_needs() const override { return inner_->server_needs(); }
  std::int64_t projection() const override { return inner_->projection(); }
  std::vector<Exchange> exchanges(const Setting& setting) const override {
    return inner_->exchanges(setting);
  }
  void play(std::int64_t /*round*/, Server& /*server*/) override {
    throw Error(ErrorKind::internal, "only members are shy");
  }

  std::unique_ptr<ClientSide> client_side() const override {
    class Side final : public ClientSide {
     public:
      explicit Side(std::unique_ptr<ClientSide> inner) : inner_(std::move(inner)) {}
      Message handle(const Message& task, ClientContext& context) const override {
        if (Stream(1, "shy", context.id(), NumberOf()(task)).bernoulli(0.3)) {
          throw Error(ErrorKind::run, "not today");
        }
        return inner_->handle(task, context);
      }
      void check_memory(ClientContext& context) const override { inner_->check_memory(context); }

     private:
      std::unique_ptr<ClientSide> inner_;
    };
    return std::make_unique<Side>(inner_->client_side());
  }

 private:
  std::unique_ptr<Method> inner_;
};

// All methods, of which this one is shy.
Registry registry_with_shy(const std::string& shy) {
  Registry registry = methods();
  Methods all("method", "winnow list methods");
  for (MethodInfo method : registry.methods) {
    if (method.name == shy) {
      method.make = [make = method.make] { return std::make_unique<Shy>(make()); };
    }
    all.add(std::move(method));
  }
  registry.methods = std::move(all);
  return registry;
}

class ServedShyMethod : public ::testing::TestWithParam<std::string> {};

TEST_P(ServedShyMethod, EndsLikeTheSimulationWithTheSameAbsences) {
  const TestFolder folder;
  const std::string silent =
      "federation.absences=\"" + (folder / "served/run/events.jsonl").string() + "\"";
  const RunOutcome outcome = served(experiment_with(GetParam()), folder / "served",
                                    {.members_registry = registry_with_shy(GetParam()),
                                     .settings = {{"serve.deadline", "1"}, {"serve.quorum", "0"}}});
  const Json expected = simulated(experiment_with(GetParam(), {silent}), methods());
  expect_same_end(outcome.summary, expected);
  EXPECT_LT(outcome.summary.at("participations"),
            simulated(experiment_with(GetParam()), methods()).at("participations"))
      << "nobody was absent";
}

// In the long form all five systems are among them.
std::vector<std::string> shy_methods() {
  std::vector<std::string> names{"fedavg", "fedcorr", "fedrn", "clipfl", "scaffold"};
  if (all_of_it()) {
    names.insert(names.end(), {"fedns", "fedncl"});
  }
  return names;
}

INSTANTIATE_TEST_SUITE_P(Some, ServedShyMethod, ::testing::ValuesIn(shy_methods()),
                         [](const auto& info) { return info.param; });

}  // namespace winnow::net_every_method_test
