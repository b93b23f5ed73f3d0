#include "winnow/method/base_method.h"

#include <fmt/format.h>

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

std::vector<Schema> BaseMethod::schemas() const {
  return {{"train", {{"round", FieldType::u32}, {"model", FieldType::state}}},
          {"train_done", {{"model", FieldType::state}, {"samples", FieldType::u32}}}};
}

std::vector<std::int64_t> BaseMethod::select(std::span<const std::int64_t> pool, std::int64_t count,
                                             std::int64_t round, Server& server) {
  return select_uniform(pool, count, server.setting.seed, round);
}

Message BaseMethod::task(std::int64_t round, std::int64_t /*client*/, const State& global) const {
  return Message("train").set("round", static_cast<std::uint32_t>(round)).set("model", global);
}

void BaseMethod::begin(const State& /*global*/) {
  mean_ = {};
}

void BaseMethod::add(const Upload& upload) {
  mean_.add(upload.model(), upload.weight());
}

State BaseMethod::finish() {
  return mean_.finish();
}

void BaseMethod::play(std::int64_t round, Server& server) {
  const std::vector<std::int64_t> pool = selectable_clients(server.fleet);
  play_among(pool, participants(server.setting.fraction, std::ssize(pool)), "train", round, server);
}

void BaseMethod::play_among(std::span<const std::int64_t> pool, std::int64_t count,
                            const std::string& kind, std::int64_t round, Server& server) {
  const std::vector<std::int64_t> chosen = select(pool, count, round, server);
  begin(server.global);
  ask_to_train(*this, kind, round, chosen, server, [this](const Upload& upload) { add(upload); });
  server.global = finish();
  note(server.notes);
}

void ask_to_train(const BaseMethod& base, const KindOf& kind_of, std::int64_t round,
                  const std::vector<std::int64_t>& chosen, Server& server,
                  const std::function<void(Upload)>& take) {
  std::vector<Order> orders;
  orders.reserve(chosen.size());
  for (const std::int64_t client : chosen) {
    orders.push_back({client, base.task(round, client, server.global).renamed(kind_of(client))});
  }
  std::vector<std::int64_t> rejected;
  server.fleet.ask(orders, [&](std::int64_t client, const Message& reply) {
    if (!all_finite(reply.get<State>("model"))) {
      rejected.push_back(client);
      return;
    }
    take({client, reply, static_cast<double>(reply.get<std::uint32_t>("samples"))});
  });
  note_replies(round, chosen, rejected, server.notes);
}

void ask_to_train(const BaseMethod& base, const std::string& kind, std::int64_t round,
                  const std::vector<std::int64_t>& chosen, Server& server,
                  const std::function<void(Upload)>& take) {
  ask_to_train(
      base, [&kind](std::int64_t) { return kind; }, round, chosen, server, take);
}

void note_replies(std::int64_t round, const std::vector<std::int64_t>& chosen,
                  const std::vector<std::int64_t>& rejected, Json& notes) {
  if (rejected.size() == chosen.size()) {
    throw Error(ErrorKind::run,
                fmt::format("round {}: every reply held values that are not finite", round),
                "the training diverged: lower train.lr");
  }
  notes["clients"] = chosen;
  if (!rejected.empty()) {
    notes["rejected"] = rejected;
  }
}

std::vector<std::int64_t> selectable_clients(const Fleet& fleet) {
  std::vector<std::int64_t> pool = clients_with_samples(fleet);
  if (pool.empty()) {
    throw Error(ErrorKind::run, "no client holds a sample");
  }
  return pool;
}

}  // namespace winnow
