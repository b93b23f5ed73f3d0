#include "winnow/method/noisy_label/rhfl/rhfl.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <tuple>

#include "winnow/base/error.h"
#include "winnow/federation/firewall.h"
#include "winnow/federation/selection.h"
#include "winnow/method/noisy_label/rhfl/arithmetic.h"
#include "winnow/model/net.h"

namespace winnow {

void RHFL::declare(Params& params) {
  params
      .add("beta", options_.beta,
           "how much the decrease of a client's loss raises its weight; 0: not at all")
      .at_least(0)
      .source("RHFL's paper; spec: baselines 17");
  params
      .add("networks", options_.networks,
           "models of the clients: client k has number k mod n of this list; empty: all have the "
           "experiment's")
      .source("RHFL's paper: ResNet-10, ResNet-12, ShuffleNet, MobileNetV2");
  params
      .add("pretrain_epochs", options_.client.pretrain_epochs,
           "epochs on a client's own data before the first round")
      .range(1, 100000)
      .source("RHFL's code");
  params
      .add("local_epochs", options_.client.local_epochs,
           "epochs on a client's own data in a round; 0: max(1, public / own images)")
      .range(0, 100000)
      .source("0: RHFL's code");
  params.add("batch_size", options_.client.batch_size, "batch size of training on own data")
      .range(1, 1e6)
      .source("RHFL's code");
  params
      .add("public_batch", options_.client.public_batch, "batch size of training on public images")
      .range(1, 1e6)
      .source("RHFL's code");
  params
      .add("optimiser", options_.client.optimiser,
           {{"adam", Optimizer::adam}, {"sgd", Optimizer::sgd}},
           "optimiser of training on own data; sgd: with the values of [train]")
      .source("RHFL's code");
  params.add("lr", options_.client.lr, "learning rate of Adam, on own data and on public images")
      .at_least(0)
      .source("RHFL's code");
  params
      .add("sce_alpha", options_.client.alpha,
           "weight of cross-entropy in the symmetric cross-entropy")
      .at_least(0)
      .source("RHFL's code; spec: baselines 25");
  params
      .add("sce_beta", options_.client.beta,
           "weight of reverse cross-entropy in the symmetric cross-entropy; 0: plain cross-entropy")
      .at_least(0)
      .source("RHFL's code; spec: baselines 25");
  params
      .add("evaluate", options_.evaluate,
           {{"mean", Measured::clients}, {"ensemble", Measured::ensemble}},
           "test accuracy of the run: the mean of the clients' accuracies, or that of their "
           "averaged probabilities (ensemble)")
      .source("mean: RHFL's paper; spec: baselines 17");
}

void RHFL::check(const Setting& setting) const {
  if (setting.public_images == 0) {
    throw Error(ErrorKind::experiment,
                "public.source = \"none\": rhfl's clients learn from each other on public images",
                "add a [public] table with source = \"split\", \"data\" or \"folder\"");
  }
  if (participants(setting.fraction, setting.clients) < 2) {
    throw Error(ErrorKind::experiment,
                fmt::format("federation.clients = {} with fraction = {}: rhfl needs at least two "
                            "clients in a round",
                            setting.clients, setting.fraction),
                "set federation.fraction to 1, or have more clients");
  }
  for (const std::string& name : options_.networks) {
    offered_.find(name);
  }
}

std::unique_ptr<ClientSide> RHFL::client_side() const {
  return std::make_unique<rhfl::Client>(options_.client);
}

std::vector<Exchange> RHFL::exchanges(const Setting& setting) const {
  // Rounding may take the symmetric loss of a perfect model below zero.
  const FieldRule loss =
      field::number("loss", "the mean loss of its model on its samples").any_number();
  const FieldRule batch = field::whole("batch", "the number of a public batch");
  // The last batch may be smaller.
  const Length values = Length::up_to(options_.client.public_batch * setting.classes, "b C");
  return {{"pretrain", {}, "trained", {loss}},
          {"train", {field::round()}, "trained", {loss}},
          {"probabilities",
           {batch},
           "probabilities_done",
           {field::floats("probabilities", "the outputs of its model for public images", values)
                .any_number()}},
          {"learn",
           {field::round(), batch,
            field::floats("target", "the mixed outputs of the others' models for these images",
                          values)},
           "learn_done",
           {}}};
}

void RHFL::play(std::int64_t number, Server& server) {
  Round round(number, server);
  if (number == 0) {
    pretrain(round, round.pool);
  }
  round.chosen = round.draw();
  if (!waiting_.empty()) {
    std::vector<std::int64_t> without;
    std::ranges::copy_if(round.chosen, std::back_inserter(without),
                         [this](std::int64_t client) { return waiting_.contains(client); });
    if (number > 0 && !without.empty()) {
      pretrain(round, without);
    }
    std::erase_if(round.chosen, [this](std::int64_t client) { return waiting_.contains(client); });
    round.notes["waiting"] = waiting_;
    round.notes.erase("standstill");  // of those that have models it is not said yet
  }
  if (round.chosen.empty()) {
    round.note_standstill();
    return;
  }
  const std::vector<double> weights = weigh(round.chosen);
  for (std::size_t k = 0; k < round.chosen.size(); ++k) {
    confidence_[round.chosen[k]] = weights[k];
  }
  round.notes["confidence"] = weights;
  if (round.chosen.size() > 1) {
    collaborate(round, weights);
  }
  ask_to_train(round, "train");
}

void RHFL::pretrain(const Round& round, const std::vector<std::int64_t>& clients) {
  waiting_.insert(clients.begin(), clients.end());
  Round first(round.number, round.server, round.pool);
  first.chosen = clients;
  ask_to_train(first, "pretrain");
  for (const std::int64_t client : first.answered()) {
    waiting_.erase(client);
  }
}

void RHFL::ask_to_train(Round& round, const std::string& kind) {
  round.ask(
      round.chosen,
      [&](std::int64_t) {
        Message task(kind);
        return kind == "train" ? task.set("round", round.stamp()) : task;
      },
      exchanges(round.setting),
      [&](std::int64_t client, const Message& reply) {
        const auto before = loss_.extract(client);
        loss_before_.erase(client);
        loss_[client] = reply.get<double>("loss");
        if (!before.empty()) {
          loss_before_[client] = before.mapped();
        }
      });
  for (const std::int64_t client : round.rejected) {
    loss_.erase(client);
    loss_before_.erase(client);
  }
  if (round.rejected.size() == round.chosen.size()) {
    throw Error(
        ErrorKind::run,
        fmt::format("round {}: no client's loss is finite after {}ing", round.number + 1, kind),
        "the training diverged: lower method.lr");
  }
  std::ignore = round.note_replies();
}

std::vector<double> RHFL::weigh(const std::vector<std::int64_t>& clients) const {
  std::vector<std::size_t> places;
  std::vector<double> before;
  std::vector<double> now;
  bool first = true;
  for (std::size_t k = 0; k < clients.size(); ++k) {
    const auto loss = loss_.find(clients[k]);
    if (loss == loss_.end()) {
      continue;
    }
    const auto earlier = loss_before_.find(clients[k]);
    first = first && earlier == loss_before_.end();
    places.push_back(k);
    now.push_back(loss->second);
    before.push_back(earlier == loss_before_.end() ? loss->second : earlier->second);
  }
  std::vector<double> trusted =
      rhfl::confidence_weights(rhfl::improvement_shares(before, now), options_.beta);
  if (first && places.size() > 1) {
    std::ranges::fill(trusted, 1.0 / static_cast<double>(places.size() - 1));
  }
  std::vector<double> weights(clients.size(), 0.0);
  for (std::size_t i = 0; i < places.size(); ++i) {
    weights[places[i]] = trusted[i];
  }
  return weights;
}

std::vector<std::vector<float>> RHFL::hear(std::uint32_t batch, std::size_t values,
                                           const Round& round, std::vector<double>& weights) const {
  const std::vector<std::int64_t>& clients = round.chosen;
  const std::vector<Order> orders = orders_for(
      clients, [&](std::int64_t) { return Message("probabilities").set("batch", batch); });
  const std::vector<Exchange> known = exchanges(round.setting);
  std::vector<std::vector<float>> outputs(clients.size());
  const auto absent = round.fleet.ask(orders, [&](std::int64_t client, const Message& reply) {
    const auto place =
        static_cast<std::size_t>(std::ranges::lower_bound(clients, client) - clients.begin());
    const auto& output = reply.get<std::vector<float>>("probabilities");
    if (output.size() != values) {
      throw Error(ErrorKind::peer,
                  fmt::format("client {} sent {} probabilities for public batch {}, expected {}",
                              client, output.size(), batch, values));
    }
    outputs[place] = output;
    if (!usable(reply, known)) {
      weights[place] = 0.0;
    }
  });
  for (const Absence& absence : absent) {
    weights[static_cast<std::size_t>(std::ranges::lower_bound(clients, absence.client) -
                                     clients.begin())] = 0.0;
  }
  return outputs;
}

void RHFL::collaborate(const Round& round, const std::vector<double>& weights) const {
  const std::vector<std::int64_t>& clients = round.chosen;
  const std::int64_t images = round.setting.public_images;
  for (std::int64_t start = 0; start < images; start += options_.client.public_batch) {
    const auto batch = static_cast<std::uint32_t>(start / options_.client.public_batch);
    const std::int64_t size = std::min(options_.client.public_batch, images - start);
    std::vector<double> heard = weights;
    const std::vector<std::vector<float>> outputs =
        hear(batch, static_cast<std::size_t>(size * round.setting.classes), round, heard);
    if (std::ranges::all_of(outputs, [](const auto& output) { return output.empty(); })) {
      continue;  // nobody was heard
    }
    std::vector<std::vector<float>> targets = rhfl::mixtures(heard, outputs);
    std::vector<Order> orders;
    for (std::size_t k = 0; k < clients.size(); ++k) {
      orders.push_back({clients[k], Message("learn")
                                        .set("round", round.stamp())
                                        .set("batch", batch)
                                        .set("target", std::move(targets[k]))});
    }
    // Who is absent misses the batch.
    std::ignore = round.fleet.ask(orders, [](std::int64_t, const Message&) {});
  }
}

Findings RHFL::findings() const {
  Findings findings;
  if (!confidence_.empty()) {
    findings.scores["confidence"] = confidence_;
    findings.scores["own_loss"] = loss_;
  }
  return findings;
}

void RHFL::save(Archive& archive) const {
  archive.put_by_client("loss", loss_);
  archive.put_by_client("loss_before", loss_before_);
  archive.put_by_client("confidence", confidence_);
  archive.put_clients("waiting", waiting_);
}

void RHFL::load(const Archive& archive) {
  loss_ = archive.numbers("loss");
  loss_before_ = archive.numbers("loss_before");
  confidence_ = archive.numbers("confidence");
  waiting_ = archive.clients("waiting");
}

MethodInfo rhfl_info() {
  return {.name = "rhfl",
          .group = "noisy-label",
          .summary = "clients keep their own models, learn on public images",
          .make = [] { return std::make_unique<RHFL>(); },
          .smoke = Json::object({{"public.source", "split"},
                                 {"public.size", 20},
                                 {"method.pretrain_epochs", 1},
                                 {"method.public_batch", 10},
                                 {"method.batch_size", 10},
                                 {"method.networks", {"lenet5", "cnn2"}}})};
}

}  // namespace winnow
