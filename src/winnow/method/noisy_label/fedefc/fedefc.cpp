#include "winnow/method/noisy_label/fedefc/fedefc.h"

#include "winnow/federation/aggregation.h"
#include "winnow/method/local_training.h"
#include "winnow/method/noisy_label/fedefc/client.h"
#include "winnow/method/round.h"

namespace winnow {
namespace {

constexpr const char* kWatch = "watch";

}  // namespace

void FedEfc::declare(Params& params) {
  params.add("from", from_, "round after which the training accuracy is watched")
      .at_least(0)
      .source("released code");
  params
      .add("patience", patience_,
           "rounds without a better training accuracy after which losses are corrected")
      .at_least(1)
      .source("paper: gamma");
  params
      .add("prior", prior_,
           "weight the estimated confusions by how often the client has each label")
      .source("released code: an option");
}

void FedEfc::check(const Setting& setting) const {
  check_pairs("fedefc", setting);
}

std::unique_ptr<ClientSide> FedEfc::client_side() const {
  return std::make_unique<fedefc::Client>(prior_);
}

std::vector<Exchange> FedEfc::exchanges(const Setting& /*setting*/) const {
  return {{"train",
           {field::round(), field::global_model(),
            field::flag("corrected", "whether to correct the loss").between(0, 1)},
           "train_done",
           {field::trained_model().summed(Weighting::samples), field::samples(),
            field::number("accuracy", "how often its model predicted its labels during training")
                .between(0, 1)}}};
}

void FedEfc::play(std::int64_t number, Server& server) {
  Round round(number, server);
  round.chosen = round.draw();
  round.notes["corrected"] = watch_.stopped;
  Message task =
      round.task("train").set("corrected", static_cast<std::uint8_t>(watch_.stopped ? 1 : 0));
  WeightedMean mean;
  double accuracy = 0.0;
  double count = 0.0;
  const auto same = [&](std::int64_t) { return task; };
  const auto hear = [&](std::int64_t, const Message& numbers) {
    accuracy += numbers.get<double>("accuracy");
    count += 1.0;
    return true;
  };
  if (round.by_sums()) {
    const Sums sums =
        round.ask_for_sums(round.chosen, same, exchanges(round.setting).front().answers, hear);
    if (!sums.added.empty()) {
      mean.set(sums.mean("model"));
    }
  } else {
    round.ask(round.chosen, same, exchanges(round.setting),
              [&](std::int64_t client, const Message& reply) {
                mean.add(reply.get<State>("model"),
                         static_cast<double>(reply.get<std::uint32_t>("samples")));
                hear(client, reply);
              });
  }
  if (!round.note_replies()) {
    return;
  }
  round.notes["training_accuracy"] = accuracy / count;
  watch_.see(accuracy / count, number, from_, patience_);
  round.global = mean.finish();
}

void FedEfc::save(Archive& archive) const {
  archive.values[kWatch] = {
      {"best", watch_.best}, {"waited", watch_.waited}, {"stopped", watch_.stopped}};
}

void FedEfc::load(const Archive& archive) {
  watch_ = {};
  if (const auto saved = archive.find(kWatch)) {
    watch_ = {saved->at("best").number(0, 1), saved->at("waited").count(),
              saved->at("stopped").truth()};
  }
}

MethodInfo fedefc_info() {
  return {.name = "fedefc",
          .group = "noisy-label",
          .summary = "corrects the loss by the label confusions a client finds",
          .make = [] { return std::make_unique<FedEfc>(); },
          .smoke = Json::object({{"rounds", 5}, {"method.from", 0}, {"method.patience", 1}})};
}

}  // namespace winnow
