#include "winnow/method/fednova/fednova.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <cmath>

#include "winnow/base/error.h"

namespace winnow {
namespace {

constexpr const char* kVelocity = "fednova.velocity";

class NovaClient : public ClientSide {
 public:
  explicit NovaClient(double mu) : mu_(mu) {}

  Message handle(const Message& task, ClientContext& context) const override {
    const auto round = static_cast<std::int64_t>(task.get<std::uint32_t>("round"));
    const double pull = mu_ * context.options().lr *
                        std::pow(context.options().lr_decay, static_cast<double>(round));
    if (pull > 1.0) {
      throw Error(
          ErrorKind::experiment,
          fmt::format("method.mu = {}: expected at most 1 / train.lr, or the pull overshoots", mu_),
          "lower mu or train.lr");
    }
    TrainOutcome outcome = context.train(task.get<State>("model"), round, {.proximal = mu_});
    Message reply("train_done");
    reply.set("model", std::move(outcome.state))
        .set("samples", static_cast<std::uint32_t>(context.size()));
    if (mu_ > 0.0) {
      reply.set("a", proximal_steps(outcome.steps, pull))
          .set("tau", static_cast<std::uint32_t>(outcome.steps));
    } else {
      reply.set("a", momentum_steps(outcome.steps, context.options().momentum));
    }
    return reply;
  }

 private:
  double mu_;
};

}  // namespace

double momentum_steps(std::int64_t steps, double momentum) {
  double coefficient = 0.0;
  double amount = 0.0;
  for (std::int64_t step = 0; step < steps; ++step) {
    coefficient = momentum * coefficient + 1.0;
    amount += coefficient;
  }
  return amount;
}

double proximal_steps(std::int64_t steps, double pull) {
  double amount = 0.0;
  for (std::int64_t step = 0; step < steps; ++step) {
    amount = (1.0 - pull) * amount + 1.0;
  }
  return amount;
}

void FedNova::declare(Params& params) {
  params.add("mu", mu_, "strength of the clients' pull towards the received model; 0 is none")
      .at_least(0)
      .source("spec: baselines 3");
  params.add("server_momentum", server_momentum_, "momentum of the server's step; 0 is none")
      .range(0, 0.9999)
      .source("spec: baselines 3");
  params
      .add("literal", literal_,
           "average parameters with weights n_k / a_k, as the codes of Flower and FedNS do")
      .source("false: the paper's update; spec: input-noise 1.4");
}

void FedNova::check(const Setting& /*setting*/) const {
  if (literal_ && server_momentum_ > 0.0) {
    throw Error(ErrorKind::experiment,
                "method.server_momentum: expected 0 together with literal = true",
                "the literal form averages parameters and has no step to give momentum to");
  }
}

std::unique_ptr<ClientSide> FedNova::client_side() const {
  return std::make_unique<NovaClient>(mu_);
}

std::vector<Schema> FedNova::schemas() const {
  std::vector<Schema> schemas = BaseMethod::schemas();
  for (Schema& schema : schemas) {
    if (schema.kind == "train_done") {
      schema.fields.emplace_back("a", FieldType::f64);
      if (mu_ > 0.0) {
        schema.fields.emplace_back("tau", FieldType::u32);
      }
    }
  }
  return schemas;
}

void FedNova::begin(const State& global) {
  BaseMethod::begin(global);
  start_ = global.parameters().to(at::kDouble);
  shift_ = at::zeros_like(start_);
  weight_ = shrink_ = stretch_ = 0.0;
}

void FedNova::add(const Upload& upload) {
  const double amount = upload.reply.get<double>("a");
  if (!std::isfinite(amount) || amount < 0.0) {
    throw Error(ErrorKind::peer,
                fmt::format("client {} sent a = {}: expected a finite number, not negative",
                            upload.client, amount));
  }
  if (amount == 0.0) {
    return;
  }
  BaseMethod::add(upload);
  const double weight = upload.weight();
  shift_.add_(start_ - upload.model().parameters(), weight / amount);
  weight_ += weight;
  shrink_ += weight / amount;
  stretch_ += weight * (mu_ > 0.0 ? upload.reply.get<std::uint32_t>("tau") : amount);
}

State FedNova::finish() {
  State next = BaseMethod::finish();  // buffers are averaged; throws when nobody contributed
  at::Tensor step;
  if (literal_) {
    step = shift_ / shrink_;
  } else {
    step = shift_ * (stretch_ / weight_ / weight_);
  }
  if (server_momentum_ > 0.0) {
    // The paper's b times the client's learning rate, which cancels while that rate is constant.
    velocity_ = velocity_.defined() ? velocity_.to(step.device()) * server_momentum_ + step : step;
    step = velocity_;
  }
  next.parameters().copy_(start_ - step);
  start_.reset();
  shift_.reset();
  return next;
}

void FedNova::save(Archive& archive) const {
  if (velocity_.defined()) {
    archive.tensors[kVelocity] = velocity_;
  }
}

void FedNova::load(const Archive& archive) {
  const auto saved = archive.tensors.find(kVelocity);
  velocity_ = saved == archive.tensors.end() ? at::Tensor() : saved->second;
}

MethodInfo fednova_info() {
  return {"fednova", "base", "FedAvg that evens out how many steps each client takes",
          [] { return std::make_unique<FedNova>(); }};
}

}  // namespace winnow
