#include "winnow/method/base/feddyn/feddyn.h"

#include <ATen/ATen.h>

#include "winnow/method/local_training.h"

namespace winnow {
namespace {

constexpr const char* kGradient = "feddyn.gradient";  // g of a client
constexpr const char* kCorrection = "feddyn.correction";
constexpr const char* kDynFederation = "feddyn.federation";

class DynClient : public ClientSide {
 public:
  explicit DynClient(double alpha) : alpha_(alpha) {}

  Message handle(const Message& task, ClientContext& context) const override {
    TrainOutcome outcome = feddyn::train_dynamically(task.get<State>("model"), context.local_set(),
                                                     round_of(task), alpha_, context);
    return train_done(std::move(outcome.state), context);
  }

  void check_memory(ClientContext& context) const override {
    feddyn::check_dynamic_memory(context);
  }

 private:
  double alpha_;
};

}  // namespace

TrainOutcome feddyn::train_dynamically(const State& received, const LocalSet& set,
                                       std::int64_t round, double alpha, ClientContext& context) {
  const at::Tensor start = received.parameters();
  const at::Tensor g = context.recall(kGradient, at::zeros_like(start)).to(start.device());

  TrainOutcome outcome =
      context.train(received, set, round, {.proximal = alpha, .pull = Pull::square, .drift = -g});
  const at::Tensor next = feddyn::next_gradient(g, start, outcome.state.parameters(), alpha);
  // A training that diverged says nothing about the client's gradient. The look at it also waits
  // for the device, so that other streams may read what is kept.
  if (all_finite(outcome.state)) {
    context.remember(kGradient, next);
  }
  return outcome;
}

void feddyn::check_dynamic_memory(ClientContext& context) {
  context.archive().tensor(kGradient, at::kFloat, {context.layout()->parameters()});
}

at::Tensor feddyn::next_gradient(const at::Tensor& g, const at::Tensor& start,
                                 const at::Tensor& end, double alpha) {
  return g - alpha * (end - start);
}

at::Tensor feddyn::next_correction(const at::Tensor& h, const at::Tensor& start,
                                   const at::Tensor& mean, double alpha, double share) {
  return h - alpha * share * (mean - start);
}

void FedDyn::declare(Params& params) {
  params.add("alpha", alpha_, "weight of the dynamic regulariser")
      .above(0)
      .source("FedCorr's paper");
}

std::unique_ptr<ClientSide> FedDyn::client_side() const {
  return std::make_unique<DynClient>(alpha_);
}

std::string FedDyn::needs_sgd() const {
  return "it computes the change of a client's gradient as alpha times its update";
}

void FedDyn::begin(Round& round) {
  BaseMethod::begin(round);
  const auto size = std::ssize(round.pool);
  if (h_.defined() && federation_ > 0 && size != federation_) {
    h_ = h_ * (static_cast<double>(federation_) / static_cast<double>(size));
  }
  federation_ = size;
  models_ = {};
  added_ = 0;
}

std::vector<Exchange> FedDyn::exchanges(const Setting& /*setting*/) const {
  return exchanges_of(Weighting::equal, Weighting::samples);
}

void FedDyn::add_sums(Round& round, const Sums& sums) {
  BaseMethod::add_sums(round, sums);
  models_.set(sums.mean("model"));
  added_ = std::ssize(sums.added);
}

void FedDyn::add(Round& round, const Upload& upload) {
  BaseMethod::add(round, upload);
  models_.add(upload.model(), upload.factor);
  ++added_;
}

State FedDyn::finish(Round& round) {
  State next = BaseMethod::finish(round);  // buffers weigh by samples (spec: baselines 0.1)
  const at::Tensor mean = models_.finish().parameters().to(at::kDouble);
  const at::Tensor start = round.global.parameters().to(at::kDouble);
  const double share = static_cast<double>(added_) / static_cast<double>(federation_);
  h_ = feddyn::next_correction(h_.defined() ? h_.to(mean.device()) : at::zeros_like(mean), start,
                               mean, alpha_, share);
  next.parameters().copy_(mean - h_ / alpha_);
  return next;
}

void FedDyn::save(Archive& archive) const {
  archive.put(kCorrection, h_);
  if (h_.defined()) {
    archive.values[kDynFederation] = federation_;
  }
}

void FedDyn::load(const Archive& archive) {
  h_ = archive.parameters(kCorrection, at::kDouble);
  federation_ = archive.count(kDynFederation);
}

MethodInfo feddyn_info() {
  return {"feddyn", "base", "FedAvg with a dynamic regulariser on the clients",
          [] { return std::make_unique<FedDyn>(); }};
}

}  // namespace winnow
