#include "winnow/method/scaffold/scaffold.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "winnow/base/error.h"
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
    auto& tensors = context.memory().archive.tensors;
    const auto known = tensors.find(kControl);
    const at::Tensor own =
        known == tensors.end() ? at::zeros_like(server) : known->second.to(server.device());

    TrainOptions& options = context.options();
    options.momentum = 0.0;
    State change = State::zeros(control.layout, server.device());
    TrainOutcome outcome = context.train(received, round, {.drift = server - own});
    const double reach = static_cast<double>(outcome.steps) * lr_in(options, round);
    if (reach > 0.0) {
      State moved = State::zeros(control.layout, server.device());
      moved.parameters().copy_(
          control_change(server, received.parameters(), outcome.state.parameters(), reach));
      const at::Tensor next = own + moved.parameters();
      // A training that diverged says nothing about the client's direction. The look at it also
      // waits for the device, so that other streams may read what is kept and sent.
      if (all_finite(outcome.state) && all_finite(moved)) {
        tensors[kControl] = next;
        change = moved;
      }
    }
    return train_done(std::move(outcome.state), context).set("control", std::move(change));
  }

  void check_memory(ClientContext& context) const override {
    context.memory().archive.tensor(kControl, at::kFloat, {context.lane().layout()->parameters()});
  }
};

}  // namespace

at::Tensor control_change(const at::Tensor& server, const at::Tensor& start, const at::Tensor& end,
                          double reach) {
  return (start - end) / reach - server;
}

void Scaffold::declare(Params& params) {
  params.add("server_lr", server_lr_, "step of the server along the mean displacement (eta_g)")
      .at_least(0)
      .source("spec: baselines 6");
  params.add("weighting", weighting_, "what clients weigh: all the same, or their samples")
      .choices({"mean", "samples"})
      .source("mean: paper");
}

std::unique_ptr<ClientSide> Scaffold::client_side() const {
  return std::make_unique<ScaffoldClient>();
}

std::vector<Schema> Scaffold::schemas() const {
  std::vector<Schema> schemas = BaseMethod::schemas();
  for (Schema& schema : schemas) {
    schema.fields.emplace_back("control", FieldType::state);
  }
  return schemas;
}

std::vector<std::int64_t> Scaffold::select(std::span<const std::int64_t> pool, std::int64_t count,
                                           std::int64_t round, Server& server) {
  const auto size = std::ssize(pool);
  if (control_.defined() && federation_ > 0 && size != federation_) {
    control_ = control_ * (static_cast<double>(federation_) / static_cast<double>(size));
  }
  federation_ = size;
  return BaseMethod::select(pool, count, round, server);
}

State Scaffold::control_like(const State& global) const {
  State control = State::zeros(global.layout, global.flat.device());
  if (control_.defined()) {
    control.parameters().copy_(control_);
  }
  return control;
}

Message Scaffold::task(std::int64_t round, std::int64_t client, const State& global) const {
  return BaseMethod::task(round, client, global)
      .set("control", message_.layout != nullptr ? message_ : control_like(global));
}

void Scaffold::begin(const State& global) {
  BaseMethod::begin(global);
  start_ = global;
  message_ = control_like(global);
  models_ = {};
  changes_ = {};
  added_ = 0;
}

void Scaffold::add(const Upload& upload) {
  const State& change = upload.reply.get<State>("control");
  if (!all_finite(change)) {
    throw Error(ErrorKind::peer,
                fmt::format("client {} sent a control that is not finite", upload.client));
  }
  require_same_layout(*change.layout, *start_.layout);
  BaseMethod::add(upload);
  const double weight = weighting_ == "mean" ? upload.factor : upload.weight();
  models_.add(upload.model(), weight);
  changes_.add(change, weight);
  ++added_;
}

State Scaffold::finish() {
  if (federation_ == 0) {
    throw Error(ErrorKind::internal, "scaffold: a round was finished that no select() began");
  }
  State next = BaseMethod::finish();  // buffers weigh by samples (spec: baselines 0.1)
  const at::Tensor mean = models_.finish().parameters();
  if (server_lr_ == 1.0) {  // the mean itself: w + (mean - w) could differ from it by rounding
    next.parameters().copy_(mean);
  } else {
    const at::Tensor start = start_.parameters().to(at::kDouble);
    next.parameters().copy_(start + server_lr_ * (mean - start));
  }
  const double share = static_cast<double>(added_) / static_cast<double>(federation_);
  const at::Tensor gain = changes_.finish().parameters().to(at::kDouble) * share;
  control_ = control_.defined() ? control_.to(gain.device()) + gain : gain;
  start_ = {};
  message_ = {};
  return next;
}

void Scaffold::save(Archive& archive) const {
  if (control_.defined()) {
    archive.tensors[kControl] = control_;
    archive.values[kFederation] = federation_;
  }
}

void Scaffold::load(const Archive& archive) {
  control_ = archive.parameters(kControl, at::kDouble);
  const auto federation = archive.find(kFederation);
  federation_ = federation ? federation->count() : 0;
  message_ = {};
}

MethodInfo scaffold_info() {
  return {"scaffold", "base", "FedAvg whose clients correct every step by control variates",
          [] { return std::make_unique<Scaffold>(); }};
}

}  // namespace winnow
