#include "winnow/method/base_method.h"

#include <fmt/format.h>

#include <tuple>
#include <utility>

#include "winnow/base/error.h"
#include "winnow/federation/selection.h"
#include "winnow/method/local_training.h"

namespace winnow {
namespace {

class PlainClient : public ClientSide {
 public:
  explicit PlainClient(LocalRule rule) : rule_(rule) {}

  Message handle(const Message& task, ClientContext& context) const override {
    const std::int64_t round = round_of(task);
    return train_done(context.train(task.get<State>("model"), round, rule_).state, context);
  }

 private:
  LocalRule rule_;
};

}  // namespace

ModelCount whole_round(const Setting& setting, std::string who) {
  return {.models = participants(setting.fraction, setting.clients),
          .said = fmt::format("federation.fraction = {} of {} clients", setting.fraction,
                              setting.clients),
          .who = std::move(who),
          .cure = "raise federation.fraction"};
}

std::unique_ptr<ClientSide> BaseMethod::client_side() const {
  return std::make_unique<PlainClient>(local_rule());
}

std::vector<Exchange> BaseMethod::exchanges(const Setting& /*setting*/) const {
  return exchanges_of(Weighting::samples, Weighting::samples);
}

std::vector<Exchange> BaseMethod::exchanges_of(Weighting parameters, Weighting buffers) {
  return {{"train",
           {field::round(), field::global_model()},
           "train_done",
           {field::trained_model().summed(parameters, buffers), field::samples()}}};
}

ServerNeeds BaseMethod::needs_of_derived() {
  return ServerNeeds::models(
      "it is derived from a method of sums and does not say itself that sums are enough");
}

std::vector<std::int64_t> BaseMethod::select(Round& round, std::int64_t count) {
  return round.draw(count);
}

Message BaseMethod::task(const Round& round, std::int64_t /*client*/) const {
  return round.task("train");
}

void BaseMethod::begin(Round& /*round*/) {
  mean_ = {};
}

void BaseMethod::add(Round& /*round*/, const Upload& upload) {
  mean_.add(upload.model(), upload.weight());
}

void BaseMethod::add_sums(Round& /*round*/, const Sums& sums) {
  mean_.set(sums.mean("model"));
}

State BaseMethod::finish(Round& /*round*/) {
  return mean_.finish();
}

void BaseMethod::play(std::int64_t number, Server& server) {
  Round round(number, server);
  play_round(round, round.share());
}

void BaseMethod::play_round(Round& round, std::int64_t count, const std::string& kind) {
  round.chosen = select(round, count);
  begin(round);
  const bool sums_will_do = server_needs().plays_sums;
  if (round.setting.sums == SumForm::fixed && !sums_will_do) {
    // The method around it has promised that single models stay with the clients.
    throw Error(ErrorKind::internal, "a method that reads single models was played for sums alone");
  }
  if (round.by_sums() && sums_will_do) {
    if (const Sums sums = ask_for_training_sums(*this, round, kind); !sums.added.empty()) {
      add_sums(round, sums);
    }
  } else {
    ask_to_train(*this, round, kind, [&](const Upload& upload) { add(round, upload); });
  }
  if (!round.stands_still(can_finish())) {
    round.global = finish(round);
  }
}

void ask_to_train(const BaseMethod& base, Round& round, const KindOf& kind_of,
                  const std::function<void(Upload)>& take) {
  round.ask(
      round.chosen,
      [&](std::int64_t client) { return base.task(round, client).renamed(kind_of(client)); },
      exchange_of("train", base.exchanges(round.setting)).answers,
      [&](std::int64_t client, const Message& reply) {
        take({client, reply, static_cast<double>(reply.get<std::uint32_t>("samples"))});
      });
  std::ignore = round.note_replies();
}

void ask_to_train(const BaseMethod& base, Round& round, const std::string& kind,
                  const std::function<void(Upload)>& take) {
  ask_to_train(base, round, KindOf([&kind](std::int64_t) { return kind; }), take);
}

Sums ask_for_training_sums(BaseMethod& base, Round& round, const std::string& kind) {
  Sums sums = round.ask_for_sums(
      round.chosen, [&](std::int64_t client) { return base.task(round, client).renamed(kind); },
      exchange_of("train", base.exchanges(round.setting)).answers,
      [&](std::int64_t client, const Message& numbers) {
        base.hear(round, client, numbers);
        return true;
      });
  std::ignore = round.note_replies();
  return sums;
}

}  // namespace winnow
