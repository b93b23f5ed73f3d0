// A method of your own in one file: FedMid keeps, of the clients of a round, the half whose models
// moved least, and averages those. The program has every command of winnow, with `fedmid` added.
#include <ATen/ATen.h>
#include <winnow/cli/cli.h>
#include <winnow/federation/aggregation.h>
#include <winnow/federation/selection.h>
#include <winnow/method/fedavg/fedavg.h>

#include <algorithm>
#include <numeric>

namespace {

using namespace winnow;

class FedMid : public FedAvg {
 public:
  void declare(Params& params) override {
    params.add("keep", keep_, "share of the round's clients that is kept").above(0).range(0, 1);
  }

  // The client side and the messages are FedAvg's; only what the server does with replies differs.
  void play(std::int64_t round, Server& server) override {
    std::vector<std::int64_t> everybody(static_cast<std::size_t>(server.setting.clients));
    std::iota(everybody.begin(), everybody.end(), std::int64_t{0});
    std::vector<Order> orders;
    for (const std::int64_t client :
         select_uniform(everybody, participants(server.setting.fraction, server.setting.clients),
                        server.setting.seed, round)) {
      orders.push_back({client, Message("train")
                                    .set("round", static_cast<std::uint32_t>(round))
                                    .set("model", server.global)});
    }
    struct Candidate {
      double moved;
      State model;
      double samples;
    };
    std::vector<Candidate> candidates;
    server.fleet.ask(orders, [&](std::int64_t, const Message& reply) {
      const State& model = reply.get<State>("model");
      const double moved = (model.flat - server.global.flat).norm().item<double>();
      candidates.push_back(
          {moved, model, static_cast<double>(reply.get<std::uint32_t>("samples"))});
    });
    std::ranges::stable_sort(candidates, {}, &Candidate::moved);
    const auto kept =
        static_cast<std::size_t>(participants(keep_, static_cast<std::int64_t>(candidates.size())));
    WeightedMean mean;
    for (std::size_t i = 0; i < kept; ++i) {
      mean.add(candidates[i].model, candidates[i].samples);
    }
    server.global = mean.finish();
    server.notes["kept"] = kept;
  }

 private:
  double keep_ = 0.5;
};

}  // namespace

int main(int argc, char** argv) {
  Registry registry = builtin_methods();
  registry.add({"fedmid", "own", "average of the clients that moved least",
                [] { return std::make_unique<FedMid>(); }});
  return run_program(argc, argv, registry);
}
