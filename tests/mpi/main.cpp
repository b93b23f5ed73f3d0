// The main() of the tests that mpirun starts.
#include <gtest/gtest.h>

#include <cstdlib>
#include <stdexcept>

#include "mpi/in_job.h"
#include "testing/with_arithmetic.h"
#include "winnow/base/error.h"

namespace winnow {
namespace {

int number_in(const char* name, int otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::atoi(text);
}

// Fails in its second round, on the last rank only: with an Error, or for even clients with
// something that no part of Winnow throws.
class Failing final : public FedAvg {
 public:
  ServerNeeds server_needs() const override { return ServerNeeds::sums("it averages the models"); }
  std::unique_ptr<ClientSide> client_side() const override {
    return std::make_unique<ScriptedClient>([](const Message& task, ClientContext& context) {
      const bool last = number_in("OMPI_COMM_WORLD_RANK", 0) == last_rank();
      if (task.get<std::uint32_t>("round") == 1 && last) {
        throw Error(ErrorKind::data, "the tape is torn", "mend it");
      }
      TrainOutcome outcome = context.train(task.get<State>("model"), 0, {});
      return Message("train_done")
          .set("model", std::move(outcome.state))
          .set("samples", static_cast<std::uint32_t>(context.size()));
    });
  }
};

// Its server chokes on the third reply of its second round, the first time.
class Choking final : public FedAvg {
 public:
  ServerNeeds server_needs() const override { return ServerNeeds::sums("it averages the models"); }
  void begin(Round& round) override {
    FedAvg::begin(round);
    heard_ = 0;
  }
  void hear(Round& round, std::int64_t client, const Message& numbers) override {
    FedAvg::hear(round, client, numbers);
    choke(round);
  }
  void add(Round& round, const Upload& upload) override {
    FedAvg::add(round, upload);
    choke(round);
  }

 private:
  void choke(const Round& round) {
    if (round.number == 1 && ++heard_ == 3 && !choked_) {
      choked_ = true;
      throw Error(ErrorKind::data, "too much at once");
    }
  }

  std::int64_t heard_ = 0;
  bool choked_ = false;
};

Registry registry_of_tests() {
  Registry registry = methods();
  registry.methods.add(
      {"choking", "test", "chokes once", [] { return std::make_unique<Choking>(); }});
  registry.methods.add(
      {"failing", "test", "fails on the last rank", [] { return std::make_unique<Failing>(); }});
  return registry;
}

}  // namespace

InJob& in_job() {
  static Registry registry = registry_of_tests();
  static InJob made{registry, Job(made.registry)};
  return made;
}

int last_rank() {
  return number_in("OMPI_COMM_WORLD_SIZE", 1) - 1;
}

}  // namespace winnow

int main(int argc, char** argv) {
  return winnow::with_arithmetic(argv, [&] {
    winnow::Job& job = winnow::in_job().job;
    std::optional<int> code = job.enter(60.0, nullptr);
    if (!code) {
      testing::InitGoogleTest(&argc, argv);
      code = RUN_ALL_TESTS();
    }
    return job.finish(*code);
  });
}
