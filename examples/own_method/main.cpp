// A method of your own in one file. The program has every command of winnow, with `fednear` added.
#include <ATen/ATen.h>
#include <winnow/cli/cli.h>
#include <winnow/method/base/fedavg/fedavg.h>

using namespace winnow;

// FedAvg that gives a model less weight the further it moved from the global model.
class FedNear : public FedAvg {
 public:
  void declare(Params& params) override {
    params.add("strength", strength_, "how fast the weight falls; 0 is FedAvg").at_least(0);
  }
  // It looks at every model, so sums of them (federation.sums = "fixed") are not enough.
  ServerNeeds server_needs() const override {
    return ServerNeeds::models("it weighs every model by how far it moved");
  }
  void add(Round& round, const Upload& upload) override {
    const double moved = (upload.model().flat - round.global.flat).norm().item<double>();
    Upload weighed = upload;
    weighed.factor /= 1 + strength_ * moved;
    FedAvg::add(round, weighed);
  }

 private:
  double strength_ = 1.0;
};

int main(int argc, char** argv) {
  Registry registry = builtin_registry();
  registry.methods.add({"fednear", "own", "FedAvg in which models that moved far count less",
                        [] { return std::make_unique<FedNear>(); }});
  return run_program(argc, argv, registry);
}
