#include "winnow/method/base/scaffold/scaffold.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "winnow/method/local_training.h"
#include "winnow/train/options.h"

namespace winnow {
namespace {

constexpr const char* kControl = "scaffold.control";  // of the server and of each client
constexpr const char* kFederation = "scaffold.federation";

class ScaffoldClient : public ClientSide {
 public:
  Message handle(const Message& task, ClientContext& context) const override {
    const std::int64_t round = round_of(task);
    const State& received = task.get<State>("model");
    const State& control = task.get<State>("control");
    const at::Tensor server = control.parameters();
    const at::Tensor own = context.recall(kControl, at::zeros_like(server)).to(server.device());

    TrainOptions& options = context.options();
    options.momentum = 0.0;
    State change = State::zeros(control.layout, server.device());
    TrainOutcome outcome = context.train(received, round, {.drift = server - own});
    const double reach = static_cast<double>(outcome.steps) * lr_in(options, round);
    if (reach > 0.0) {
      State moved = State::zeros(control.layout, server.device());
      moved.parameters().copy_(scaffold::control_change(server, received.parameters(),
                                                        outcome.state.parameters(), reach));
      const at::Tensor next = own + moved.parameters();
      // A training that diverged says nothing about the client's direction. The look at it also
      // waits for the device, so that other streams may read what is kept and sent.
      if (all_finite(outcome.state) && all_finite(moved)) {
        context.remember(kControl, next);
        change = moved;
      }
    }
    return train_done(std::move(outcome.state), context).set("control", std::move(change));
  }

  void check_memory(ClientContext& context) const override {
    context.archive().tensor(kControl, at::kFloat, {context.layout()->parameters()});
  }
};

}  // namespace

at::Tensor scaffold::control_change(const at::Tensor& server, const at::Tensor& start,
                                    const at::Tensor& end, double reach) {
  return (start - end) / reach - server;
}

void Scaffold::declare(Params& params) {
  params.add("server_lr", server_lr_, "server's step size along the clients' mean update (eta_g)")
      .at_least(0)
      .source("spec: baselines 6");
  params
      .add("weighting", weighting_, {{"mean", Weighting::equal}, {"samples", Weighting::samples}},
           "weight of a client: equal for all (mean), or its number of samples")
      .source("mean: paper");
}

std::unique_ptr<ClientSide> Scaffold::client_side() const {
  return std::make_unique<ScaffoldClient>();
}

std::string Scaffold::needs_sgd() const {
  return "it computes a mean gradient as a client's update divided by its steps and the learning "
         "rate";
}

std::vector<Exchange> Scaffold::exchanges(const Setting& /*setting*/) const {
  std::vector<Exchange> exchanges = exchanges_of(weighting_, Weighting::samples);
  exchanges.front().asks.push_back(
      field::model("control", "the mean control variate of all clients, in the layout of a model"));
  exchanges.front().answers.push_back(
      field::model("control",
                   "the change of its control variate, which reveals as much as a gradient")
          .summed(weighting_, weighting_));
  return exchanges;
}

State Scaffold::control_like(const State& global) const {
  State control = State::zeros(global.layout, global.flat.device());
  if (control_.defined()) {
    control.parameters().copy_(control_);
  }
  return control;
}

Message Scaffold::task(const Round& round, std::int64_t client) const {
  return BaseMethod::task(round, client)
      .set("control", message_.layout != nullptr ? message_ : control_like(round.global));
}

void Scaffold::begin(Round& round) {
  BaseMethod::begin(round);
  const auto size = std::ssize(round.pool);
  if (control_.defined() && federation_ > 0 && size != federation_) {
    control_ = control_ * (static_cast<double>(federation_) / static_cast<double>(size));
  }
  federation_ = size;
  message_ = control_like(round.global);
  models_ = {};
  changes_ = {};
  added_ = 0;
}

void Scaffold::add(Round& round, const Upload& upload) {
  const State& change = upload.reply.get<State>("control");
  require_same_layout(*change.layout, *round.global.layout);
  BaseMethod::add(round, upload);
  const double weight = weighting_ == Weighting::equal ? upload.factor : upload.weight();
  models_.add(upload.model(), weight);
  changes_.add(change, weight);
  ++added_;
}

void Scaffold::add_sums(Round& round, const Sums& sums) {
  BaseMethod::add_sums(round, sums);
  models_.set(sums.mean("model"));
  changes_.set(sums.mean("control"));
  added_ = std::ssize(sums.added);
}

State Scaffold::finish(Round& round) {
  State next = BaseMethod::finish(round);  // buffers weigh by samples (spec: baselines 0.1)
  const at::Tensor mean = models_.finish().parameters();
  if (server_lr_ == 1.0) {  // the mean itself: w + (mean - w) could differ from it by rounding
    next.parameters().copy_(mean);
  } else {
    const at::Tensor start = round.global.parameters().to(at::kDouble);
    next.parameters().copy_(start + server_lr_ * (mean - start));
  }
  const double share = static_cast<double>(added_) / static_cast<double>(federation_);
  const at::Tensor gain = changes_.finish().parameters().to(at::kDouble) * share;
  control_ = control_.defined() ? control_.to(gain.device()) + gain : gain;
  message_ = {};
  return next;
}

void Scaffold::save(Archive& archive) const {
  archive.put(kControl, control_);
  if (control_.defined()) {
    archive.values[kFederation] = federation_;
  }
}

void Scaffold::load(const Archive& archive) {
  control_ = archive.parameters(kControl, at::kDouble);
  federation_ = archive.count(kFederation);
  message_ = {};
}

MethodInfo scaffold_info() {
  return {"scaffold", "base", "FedAvg with control variates against client drift",
          [] { return std::make_unique<Scaffold>(); }};
}

}  // namespace winnow
