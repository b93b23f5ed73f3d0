#include "winnow/method/trainer/mixup/mixup.h"

namespace winnow {
namespace {

class MixupClient final : public ClientSide {
 public:
  MixupClient(double alpha, std::unique_ptr<ClientSide> plain)
      : alpha_(alpha), plain_(std::move(plain)) {}

  Message handle(const Message& task, ClientContext& context) const override {
    context.options().mixup = alpha_;
    return plain_->handle(task, context);
  }

 private:
  double alpha_;
  std::unique_ptr<ClientSide> plain_;
};

}  // namespace

void Mixup::declare(Params& params) {
  params
      .add("alpha", alpha_,
           "alpha of the Beta(alpha, alpha) distribution of mixup weights; 0: FedAvg; replaces "
           "train.mixup")
      .at_least(0)
      .source("FedCorr");
}

std::unique_ptr<ClientSide> Mixup::client_side() const {
  return std::make_unique<MixupClient>(alpha_, BaseMethod::client_side());
}

MethodInfo mixup_info() {
  return {"mixup", "local trainer", "FedAvg on mixtures of two samples and their labels",
          [] { return std::make_unique<Mixup>(); }};
}

}  // namespace winnow
