#include "winnow/method/feddyn/feddyn.h"

#include <ATen/ATen.h>

#include "winnow/base/error.h"
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
    const std::int64_t round = round_of(task);
    const State& received = task.get<State>("model");
    auto& tensors = context.memory().archive.tensors;
    const auto known = tensors.find(kGradient);
    const at::Tensor start = received.parameters();
    const at::Tensor g =
        known == tensors.end() ? at::zeros_like(start) : known->second.to(start.device());

    TrainOutcome outcome =
        context.train(received, round, {.proximal = alpha_, .pull = Pull::square, .drift = -g});
    const at::Tensor next = next_gradient(g, start, outcome.state.parameters(), alpha_);
    // A training that diverged says nothing about the client's gradient. The look at it also waits
    // for the device, so that other streams may read what is kept.
    if (all_finite(outcome.state)) {
      tensors[kGradient] = next;
    }
    return train_done(std::move(outcome.state), context);
  }

  void check_memory(ClientContext& context) const override {
    context.memory().archive.tensor(kGradient, at::kFloat, {context.lane().layout()->parameters()});
  }

 private:
  double alpha_;
};

}  // namespace

at::Tensor next_gradient(const at::Tensor& g, const at::Tensor& start, const at::Tensor& end,
                         double alpha) {
  return g - alpha * (end - start);
}

at::Tensor next_correction(const at::Tensor& h, const at::Tensor& start, const at::Tensor& mean,
                           double alpha, double share) {
  return h - alpha * share * (mean - start);
}

void FedDyn::declare(Params& params) {
  params.add("alpha", alpha_, "strength of the regulariser").above(0).source("FedCorr's paper");
}

std::unique_ptr<ClientSide> FedDyn::client_side() const {
  return std::make_unique<DynClient>(alpha_);
}

std::vector<std::int64_t> FedDyn::select(std::span<const std::int64_t> pool, std::int64_t count,
                                         std::int64_t round, Server& server) {
  const auto size = std::ssize(pool);
  if (h_.defined() && federation_ > 0 && size != federation_) {
    h_ = h_ * (static_cast<double>(federation_) / static_cast<double>(size));
  }
  federation_ = size;
  return BaseMethod::select(pool, count, round, server);
}

void FedDyn::begin(const State& global) {
  BaseMethod::begin(global);
  start_ = global.parameters().to(at::kDouble);
  models_ = {};
  added_ = 0;
}

void FedDyn::add(const Upload& upload) {
  BaseMethod::add(upload);
  models_.add(upload.model(), upload.factor);
  ++added_;
}

State FedDyn::finish() {
  if (federation_ == 0) {
    throw Error(ErrorKind::internal, "feddyn: a round was finished that no select() began");
  }
  State next = BaseMethod::finish();  // buffers weigh by samples (spec: baselines 0.1)
  const at::Tensor mean = models_.finish().parameters().to(at::kDouble);
  const double share = static_cast<double>(added_) / static_cast<double>(federation_);
  h_ = next_correction(h_.defined() ? h_.to(mean.device()) : at::zeros_like(mean), start_, mean,
                       alpha_, share);
  next.parameters().copy_(mean - h_ / alpha_);
  start_.reset();
  return next;
}

void FedDyn::save(Archive& archive) const {
  if (h_.defined()) {
    archive.tensors[kCorrection] = h_;
    archive.values[kDynFederation] = federation_;
  }
}

void FedDyn::load(const Archive& archive) {
  h_ = archive.parameters(kCorrection, at::kDouble);
  const auto federation = archive.find(kDynFederation);
  federation_ = federation ? federation->count() : 0;
}

MethodInfo feddyn_info() {
  return {"feddyn", "base", "FedAvg with a regulariser that makes the clients' minima meet",
          [] { return std::make_unique<FedDyn>(); }};
}

}  // namespace winnow
