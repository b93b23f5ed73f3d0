// What an experiment tells FedNS, and whether it fits the base and the network.
#include <fmt/format.h>

#include <string>
#include <vector>

#include "winnow/base/error.h"
#include "winnow/base/text.h"
#include "winnow/federation/selection.h"
#include "winnow/method/system/fedns/fedns.h"

namespace winnow {

void FedNS::declare(Params& params) {
  params.add("base", base_, "base method that trains and aggregates")
      .source("the paper's table II; FedNova is its headline");
  params.add("alpha", options_.alpha, "factor on the weight of a clean client")
      .above(0)
      .source("paper; the code has 1.5 or 1.2 for other bases");
  params
      .add("beta", options_.beta, "factor on the weight of a noisy client; 0 leaves the client out")
      .at_least(0)
      .source("paper; the code has 0.1 for other bases");
  params.add("use_counts", options_.use_counts, "also weight clients by their number of samples")
      .source("paper; false is the code");
  params
      .add("renormalise", options_.renormalise,
           "rescale the weights to sum to 1; false: the update of the parameters is scaled by the "
           "mean factor")
      .source("the code; false is the paper's equation 6");
  params
      .add("trim_literal", options_.trim_literal,
           "with the base trimmed_mean: average all models, weighted by the factors, without "
           "trimming")
      .source("spec: input-noise 1.4; true is the code");
  params
      .add("first_round_fraction", options_.first_round_fraction,
           "share of the clients that take part in the first round")
      .range(0, 1)
      .source("paper");
  if (flags_ == fedns::Flags::scores) {
    declare_score(params);
  }
}

void FedNS::declare_score(Params& params) {
  params.add("score_batch", options_.score.batch, "batch size of the gradients that score a client")
      .at_least(1)
      .source("code");
  params
      .add("score_norm", options_.score.norm,
           "norm of the gradients that score a client: 1 or 2 (L1 or L2)")
      .range(1, 2)
      .source("paper");
  params
      .add("score_loss", options_.score.loss,
           {{"uniform", fedns::ScoreTarget::uniform}, {"label", fedns::ScoreTarget::label}},
           "target of the loss whose gradients score a client: all classes alike (uniform), or the "
           "given label")
      .source("the code; label is the paper's equation");
  params
      .add("score_temperature", options_.score.temperature,
           "temperature of the softmax in the loss whose gradients score a client")
      .above(0)
      .source("code");
  params
      .add("score_stat", options_.score.statistic,
           {{"mean", fedns::Statistic::mean},
            {"var", fedns::Statistic::var},
            {"median", fedns::Statistic::median}},
           "statistic of a client's gradient norms that becomes its score")
      .source("the code; var is the paper's text, median ours");
  params
      .add("score_bn", options_.score.batch_norm,
           {{"train_restore", fedns::ScoreNorm::train_restore},
            {"train_update", fedns::ScoreNorm::train_update},
            {"eval", fedns::ScoreNorm::eval}},
           "batch normalisation while a client is scored: batch statistics, after which the "
           "running statistics are restored (train_restore) or kept (train_update), or the running "
           "statistics (eval)")
      .source("spec: input-noise 1.2; train_update is the code");
  params
      .add("score_layer", options_.score.layer,
           "weight tensor whose gradients score a client; empty: the weight of the head")
      .source("paper");
  params
      .add("refresh", options_.refresh,
           "let all participants score again until no scores are missing")
      .source("spec: input-noise 1.5");
  params
      .add("debug_density", options_.debug_density,
           "send every gradient norm and write it to the events, for the density picture")
      .source("the code sends them");
  params
      .add("norms_every", options_.norms_every,
           "rounds between measurements of the norms that are only for pictures; 0: measure in "
           "scoring rounds only")
      .at_least(0)
      .source("the paper's figure 4 is of norms during training");
}

void FedNS::check_base(const Setting& setting) const {
  if (!base_->weighs()) {
    throw Error(ErrorKind::experiment,
                fmt::format("method.base = \"{}\": FedNS weights clients, but {} weights all "
                            "models equally",
                            base_.name(), base_.name()),
                "choose a base that averages, such as fedavg, fednova or trimmed_mean");
  }
  if (options_.trim_literal && base_.name() != "trimmed_mean") {
    throw Error(ErrorKind::experiment,
                fmt::format("method.trim_literal = true: expected base = \"trimmed_mean\", not {}",
                            base_.name()),
                "leave trim_literal out");
  }
  if (options_.trim_literal) {
    return;  // the base's rule is never used
  }
  base_->check(setting);
  base_->check_models({.models = participants(options_.first_round_fraction, setting.clients),
                       .said = fmt::format("method.first_round_fraction = {} of {} clients",
                                           options_.first_round_fraction, setting.clients),
                       .who = fmt::format("base {}", base_.name()),
                       .cure = "change method.first_round_fraction"});
}

void FedNS::check(const Setting& setting) const {
  check_base(setting);
  if (options_.score.layer.empty() || setting.layout == nullptr) {
    return;
  }
  const Slot* slot = setting.layout->find(options_.score.layer);
  if (slot == nullptr || slot->kind != SlotKind::parameter) {
    std::vector<std::string> known;
    for (const Slot& each : setting.layout->slots()) {
      if (each.kind == SlotKind::parameter) {
        known.push_back(each.name);
      }
    }
    throw Error(
        ErrorKind::experiment,
        fmt::format("method.score_layer = \"{}\": the network has no parameter of that name",
                    options_.score.layer),
        suggestion(options_.score.layer, known));
  }
}

}  // namespace winnow
