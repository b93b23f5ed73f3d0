#include "winnow/method/base/fednova/fednova.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <cmath>

#include "winnow/base/error.h"

namespace winnow {
namespace {

constexpr const char* kServerVelocity = "fednova.velocity";
constexpr const char* kRound = "fednova.round";

class NovaClient : public ClientSide {
 public:
  explicit NovaClient(double mu) : mu_(mu) {}

  Message handle(const Message& task, ClientContext& context) const override {
    const std::int64_t round = round_of(task);
    const double pull = mu_ * lr_in(context.options(), round);
    if (pull > 1.0) {
      throw Error(
          ErrorKind::experiment,
          fmt::format(
              "method.mu = {}: expected at most 1 / train.lr, or the proximal term overshoots",
              mu_),
          "lower mu or train.lr");
    }
    TrainOutcome outcome = context.train(task.get<State>("model"), round, {.proximal = mu_});
    Message reply("train_done");
    reply.set("model", std::move(outcome.state))
        .set("samples", static_cast<std::uint32_t>(context.size()))
        .set("a", fednova::amount_of_steps(outcome.steps, context.options().momentum, pull));
    if (mu_ > 0.0) {
      reply.set("tau", static_cast<std::uint32_t>(outcome.steps));
    }
    return reply;
  }

 private:
  double mu_;
};

}  // namespace

double fednova::amount_of_steps(std::int64_t steps, double momentum, double pull) {
  if (steps <= 0) {
    return 0.0;
  }
  double speed = 1.0;
  double reach = 1.0;
  double amount = 1.0;
  for (std::int64_t step = 1; step < steps; ++step) {
    speed = momentum * speed - pull * reach;
    reach += speed;
    amount += std::abs(reach);
  }
  return amount;
}

void FedNova::declare(Params& params) {
  params
      .add(
          "mu", mu_,
          "weight of the clients' proximal term, which keeps them near the received model; 0: none")
      .at_least(0)
      .source("spec: baselines 3");
  params.add("server_momentum", server_momentum_, "momentum of the server's step; 0: none")
      .range(0, 0.9999)
      .source("spec: baselines 3");
  params
      .add("literal", literal_,
           "average parameters with weights n_k / a_k, as the code of Flower and FedNS does")
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

std::string FedNova::needs_sgd() const {
  return "it divides a client's update by what its SGD steps add up to";
}

std::vector<Exchange> FedNova::exchanges(const Setting& setting) const {
  std::vector<Exchange> exchanges = BaseMethod::exchanges(setting);
  std::vector<FieldRule>& answers = exchanges.front().answers;
  answers.push_back(
      field::number("a", "the sum of its steps' coefficients, which follows from their number")
          .at_least(0));
  if (mu_ > 0.0) {
    answers.push_back(field::whole("tau", "how many steps it took"));
  }
  return exchanges;
}

void FedNova::begin(Round& round) {
  BaseMethod::begin(round);
  start_ = round.global.parameters().to(at::kDouble);
  shift_ = at::zeros_like(start_);
  weight_ = shrink_ = stretch_ = amount_ = 0.0;
  alike_ = true;
}

void FedNova::add(Round& round, const Upload& upload) {
  const double amount = upload.reply.get<double>("a");
  if (amount == 0.0) {
    return;
  }
  BaseMethod::add(round, upload);
  amount_ = amount_ == 0.0 ? amount : amount_;
  alike_ = alike_ && amount == amount_;
  const double weight = upload.weight();
  shift_.add_(start_ - upload.model().parameters(), weight / amount);
  weight_ += weight;
  shrink_ += weight / amount;
  stretch_ += weight * (mu_ > 0.0 ? upload.reply.get<std::uint32_t>("tau") : amount);
}

State FedNova::finish(Round& round) {
  State next = BaseMethod::finish(round);  // buffers are averaged; throws when nobody contributed
  // Equal amounts cancel: this is FedAvg bit for bit, from which w - (w - mean) could differ by
  // rounding.
  const bool plain = alike_ && (literal_ || mu_ == 0.0) && server_momentum_ == 0.0;
  if (!plain) {
    next.parameters().copy_(start_ - (server_momentum_ > 0.0 ? carried_on(step(), round) : step()));
  }
  start_.reset();
  shift_.reset();
  return next;
}

at::Tensor FedNova::step() const {
  return literal_ ? shift_ / shrink_ : shift_ * (stretch_ / weight_ / weight_);
}

at::Tensor FedNova::carried_on(const at::Tensor& step, const Round& round) {
  // The velocity is the paper's b times the clients' learning rate, and b divides every step by the
  // rate of its round: what is left of it shrinks as that rate does.
  const double left =
      server_momentum_ * lr_change(round.setting.train, velocity_round_, round.number);
  velocity_ = velocity_.defined() ? velocity_.to(step.device()) * left + step : step;
  velocity_round_ = round.number;
  return velocity_;
}

void FedNova::save(Archive& archive) const {
  archive.put(kServerVelocity, velocity_);
  if (velocity_.defined()) {
    archive.values[kRound] = velocity_round_;
  }
}

void FedNova::load(const Archive& archive) {
  velocity_ = archive.parameters(kServerVelocity, at::kDouble);
  velocity_round_ = archive.count(kRound);
}

MethodInfo fednova_info() {
  return {"fednova", "base", "FedAvg that evens out clients' different numbers of steps",
          [] { return std::make_unique<FedNova>(); }};
}

}  // namespace winnow
