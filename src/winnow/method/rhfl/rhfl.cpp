#include "winnow/method/rhfl/rhfl.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "winnow/base/error.h"
#include "winnow/federation/selection.h"
#include "winnow/method/base_method.h"
#include "winnow/method/rhfl/collaboration.h"
#include "winnow/model/net.h"

namespace winnow {

void RHFL::declare(Params& params) {
  params.add("beta", beta_, "how much a client's fall of loss counts in its weight; 0: nothing")
      .at_least(0)
      .source("RHFL's paper; spec: baselines 17");
  params
      .add("networks", networks_,
           "models of the zoo; client k has number k mod n of them (empty: the experiment's)")
      .source("RHFL's paper: ResNet-10, ResNet-12, ShuffleNet, MobileNetV2");
  params
      .add("pretrain_epochs", client_.pretrain_epochs,
           "epochs on a client's own data before round 1")
      .range(1, 100000)
      .source("RHFL's code");
  params
      .add("local_epochs", client_.local_epochs,
           "epochs on a client's own data in a round; 0: max(1, public / own images)")
      .range(0, 100000)
      .source("0: RHFL's code");
  params.add("batch_size", client_.batch_size, "own samples in one step")
      .range(1, 1e6)
      .source("RHFL's code");
  params.add("public_batch", client_.public_batch, "public images in one step")
      .range(1, 1e6)
      .source("RHFL's code");
  params
      .add("optimiser", client_.optimiser,
           "optimiser of training on own data; sgd: as [train] has it")
      .choices({"adam", "sgd"})
      .source("RHFL's code");
  params.add("lr", client_.lr, "learning rate of Adam, on public images too")
      .at_least(0)
      .source("RHFL's code");
  params.add("sce_alpha", client_.alpha, "weight of cross-entropy")
      .at_least(0)
      .source("RHFL's code; spec: baselines 25");
  params.add("sce_beta", client_.beta, "weight of reverse cross-entropy; 0: plain cross-entropy")
      .at_least(0)
      .source("RHFL's code; spec: baselines 25");
  params
      .add("evaluate", evaluate_,
           "mean: of the clients' test accuracies; ensemble: of their mean probabilities")
      .choices({"mean", "ensemble"})
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
  for (const std::string& name : networks_) {
    find_net(name);
  }
}

std::unique_ptr<ClientSide> RHFL::client_side() const {
  return std::make_unique<RHFLClient>(client_);
}

std::vector<Schema> RHFL::schemas() const {
  return {{"pretrain", {}, "trained"},
          {"train", {{"round", FieldType::u32}}, "trained"},
          {"trained", {{"loss", FieldType::f64}}},
          {"probabilities", {{"batch", FieldType::u32}}},
          {"probabilities_done", {{"probabilities", FieldType::f32s}}},
          {"learn",
           {{"round", FieldType::u32}, {"batch", FieldType::u32}, {"target", FieldType::f32s}}},
          {"learn_done", {}}};
}

void RHFL::play(std::int64_t round, Server& server) {
  const std::vector<std::int64_t> pool = selectable_clients(server.fleet);
  if (round == 0) {
    ask_to_train("pretrain", round, pool, server);
  }
  const std::vector<std::int64_t> chosen = select_uniform(
      pool, participants(server.setting.fraction, std::ssize(pool)), server.setting.seed, round);
  const std::vector<double> weights = weigh(chosen);
  for (std::size_t k = 0; k < chosen.size(); ++k) {
    confidence_[chosen[k]] = weights[k];
  }
  server.notes["confidence"] = weights;
  if (chosen.size() > 1) {
    collaborate(round, chosen, weights, server);
  }
  ask_to_train("train", round, chosen, server);
}

void RHFL::ask_to_train(const std::string& kind, std::int64_t round,
                        const std::vector<std::int64_t>& clients, Server& server) {
  std::vector<Order> orders;
  for (const std::int64_t client : clients) {
    Message task(kind);
    if (kind == "train") {
      task.set("round", static_cast<std::uint32_t>(round));
    }
    orders.push_back({client, std::move(task)});
  }
  std::vector<std::int64_t> rejected;
  server.fleet.ask(orders, [&](std::int64_t client, const Message& reply) {
    const auto before = loss_.extract(client);
    loss_before_.erase(client);
    const double loss = reply.get<double>("loss");
    if (!std::isfinite(loss)) {
      rejected.push_back(client);
      return;
    }
    loss_[client] = loss;
    if (!before.empty()) {
      loss_before_[client] = before.mapped();
    }
  });
  if (rejected.size() == clients.size()) {
    throw Error(ErrorKind::run,
                fmt::format("round {}: no client's loss is finite after {}ing", round, kind),
                "the training diverged: lower method.lr");
  }
  note_replies(round, clients, rejected, server.notes);
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
  std::vector<double> trusted = confidence_weights(improvement_shares(before, now), beta_);
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
                                           const std::vector<std::int64_t>& clients,
                                           std::vector<double>& weights, Server& server) const {
  std::vector<Order> orders;
  for (const std::int64_t client : clients) {
    orders.push_back({client, Message("probabilities").set("batch", batch)});
  }
  std::vector<std::vector<float>> outputs(clients.size());
  server.fleet.ask(orders, [&](std::int64_t client, const Message& reply) {
    const auto place =
        static_cast<std::size_t>(std::ranges::lower_bound(clients, client) - clients.begin());
    std::vector<float>& output = outputs[place];
    output = reply.get<std::vector<float>>("probabilities");
    if (output.size() != values) {
      throw Error(ErrorKind::peer,
                  fmt::format("client {} sent {} probabilities for public batch {}, expected {}",
                              client, output.size(), batch, values));
    }
    if (!std::ranges::all_of(output, [](float p) { return std::isfinite(p); })) {
      weights[place] = 0.0;
    }
  });
  return outputs;
}

void RHFL::collaborate(std::int64_t round, const std::vector<std::int64_t>& clients,
                       const std::vector<double>& weights, Server& server) const {
  const std::int64_t images = server.setting.public_images;
  for (std::int64_t start = 0; start < images; start += client_.public_batch) {
    const auto batch = static_cast<std::uint32_t>(start / client_.public_batch);
    const std::int64_t size = std::min(client_.public_batch, images - start);
    std::vector<double> heard = weights;
    const std::vector<std::vector<float>> outputs = hear(
        batch, static_cast<std::size_t>(size * server.setting.classes), clients, heard, server);
    std::vector<std::vector<float>> targets = mixtures(heard, outputs);
    std::vector<Order> orders;
    for (std::size_t k = 0; k < clients.size(); ++k) {
      orders.push_back({clients[k], Message("learn")
                                        .set("round", static_cast<std::uint32_t>(round))
                                        .set("batch", batch)
                                        .set("target", std::move(targets[k]))});
    }
    server.fleet.ask(orders, [](std::int64_t, const Message&) {});
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
  archive.values["loss"] = save_by_client(loss_);
  archive.values["loss_before"] = save_by_client(loss_before_);
  archive.values["confidence"] = save_by_client(confidence_);
}

void RHFL::load(const Archive& archive) {
  loss_ = read_numbers(archive.find("loss"), archive.bounds);
  loss_before_ = read_numbers(archive.find("loss_before"), archive.bounds);
  confidence_ = read_numbers(archive.find("confidence"), archive.bounds);
}

MethodInfo rhfl_info() {
  return {"rhfl", "noisy-label",
          "clients keep models of their own and learn from each other on public images",
          [] { return std::make_unique<RHFL>(); }};
}

}  // namespace winnow
