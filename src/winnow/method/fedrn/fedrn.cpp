#include "winnow/method/fedrn/fedrn.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>

#include "winnow/base/error.h"
#include "winnow/federation/aggregation.h"
#include "winnow/federation/selection.h"
#include "winnow/method/base_method.h"

namespace winnow {
namespace {

constexpr const char* kModelPrefix = "model/";
constexpr const char* kOutputs = "outputs";
constexpr const char* kExpertise = "expertise";
constexpr std::size_t kMostCompared = 120;  // clients in the matrix of a report

Message warmup_task(std::int64_t round, const State& global) {
  return Message("warmup").set("round", static_cast<std::uint32_t>(round)).set("model", global);
}

bool finite(const Message& reply) {
  return all_finite(reply.get<State>("model")) && std::isfinite(reply.get<double>("accuracy")) &&
         std::ranges::all_of(reply.get<std::vector<float>>("output"),
                             [](float value) { return std::isfinite(value); });
}

// Wrong values would spoil the ranges that everybody's reliability is measured in.
void check_reply(std::int64_t client, const Message& reply, std::int64_t classes) {
  const auto accuracy = reply.get<double>("accuracy");
  if (accuracy < 0.0 || accuracy > 1.0) {
    throw Error(ErrorKind::peer,
                fmt::format("client {} sent an accuracy of {}, expected 0 to 1", client, accuracy));
  }
  const auto outputs = static_cast<std::int64_t>(reply.get<std::vector<float>>("output").size());
  if (outputs != classes) {
    throw Error(ErrorKind::peer, fmt::format("client {} sent {} outputs, expected one for each of "
                                             "{} classes",
                                             client, outputs, classes));
  }
}

}  // namespace

void FedRN::declare(Params& params) {
  params.add("neighbours", neighbours_, "models of other clients that help to find clean samples")
      .at_least(0)
      .source("paper: 1 or 2");
  params.add("warmup", warmup_, "rounds of plain FedAvg at the start, part of `rounds`")
      .at_least(0)
      .source("paper");
  params.add("alpha", alpha_, "weight of expertise in reliability; the rest is similarity")
      .range(0, 1)
      .source("paper");
  params
      .add("threshold", client_.threshold,
           "a sample counts as clean when its probability of being so is above this")
      .range(0, 1)
      .source("paper");
  params.add("choice", choice_, "neighbours: the most reliable, or random ones")
      .choices({"reliable", "random"})
      .source("paper; random is its ablation");
  params
      .add("random_weights", random_weights_,
           "what the votes of random neighbours weigh: all the same, or their reliability")
      .choices({"equal", "reliability"})
      .source("authors' code; reliability: the paper's text");
  params
      .add("fresh", fresh_,
           "lend models that were updated in the same round: clients train one after the other")
      .source("here false: what a network can do; authors' code: true");
  params
      .add("finetune", client_.finetune,
           "fit the heads of the neighbours' models to the client's samples first")
      .source("paper; false is its ablation");
  params
      .add("finetune_epochs", client_.finetune_epochs,
           "epochs in which the neighbours' heads are fitted")
      .at_least(1)
      .source("paper");
  params
      .add("own_model", client_.own_model,
           "what a client judges its samples with first: its last local model, or the global one")
      .choices({"last", "global"})
      .source("released code; the paper leaves it open");
  params.add("similarity", similarity_, "what outputs are compared by")
      .choices({"logits", "softmax"})
      .source("released code; the paper says softmax");
  params
      .add("score_view", client_.score_view,
           "images that models are scored on: augmented as in training, or as they are")
      .choices({"augmented", "clean"})
      .source("released code");
  params.add("score_batch", client_.score_batch, "batch size when models are scored")
      .at_least(1)
      .source("released code");
  params
      .add("store_limit_mb", store_limit_mb_,
           "MiB of client models the server keeps in memory; the rest goes to files")
      .range(0, 1e9)
      .source("here");
  params
      .add("store_folder", store_folder_,
           "folder for the client models that memory does not hold; empty: the temporary folder")
      .source("here");
}

void FedRN::check(const Setting& setting) const {
  if (setting.clients - 1 < neighbours_) {
    throw Error(ErrorKind::experiment,
                fmt::format("method.neighbours = {}: expected fewer than federation.clients, {}",
                            neighbours_, setting.clients));
  }
  if (warmup_ >= setting.rounds) {
    throw Error(ErrorKind::experiment,
                fmt::format("method.warmup = {}: expected fewer than the {} rounds of the run",
                            warmup_, setting.rounds),
                "a run that ends with its warm-up is FedAvg");
  }
  std::error_code ignored;
  if (!store_folder_.empty() && !std::filesystem::is_directory(store_folder_, ignored)) {
    throw Error(ErrorKind::experiment,
                fmt::format("method.store_folder = \"{}\": expected a folder", store_folder_));
  }
}

std::unique_ptr<ClientSide> FedRN::client_side() const {
  return std::make_unique<FedRNClient>(client_);
}

std::vector<Schema> FedRN::schemas() const {
  return {{"warmup", {{"round", FieldType::u32}, {"model", FieldType::state}}, "local_done"},
          {"robust",
           {{"round", FieldType::u32},
            {"model", FieldType::state},
            {"neighbours", FieldType::states},
            {"reliability", FieldType::f64s}},
           "local_done"},
          {"local_done",
           {{"model", FieldType::state},
            {"samples", FieldType::u32},
            {"accuracy", FieldType::f64},
            {"output", FieldType::f32s}}}};
}

ModelStoreOptions FedRN::store_options() const {
  return {.limit = store_limit_mb_ << 20, .folder = store_folder_};
}

FedRN::Neighbours FedRN::choose(std::int64_t client, std::int64_t round,
                                const Setting& setting) const {
  std::vector<std::int64_t> drawn;
  if (choice_ == "random") {
    drawn = random_neighbours(profiles_, client, neighbours_,
                              Stream(setting.seed, "fedrn neighbours", round, client));
    if (random_weights_ == "equal") {
      const std::size_t voters = drawn.size() + 1;
      return {std::move(drawn), std::vector<double>(voters, 1.0)};
    }
  }
  const Reliability known = reliability(profiles_, client, alpha_, compared_by());
  Neighbours result{choice_ == "random" ? std::move(drawn) : most_reliable(known, neighbours_),
                    {known.self}};
  for (const std::int64_t neighbour : result.clients) {
    result.reliability.push_back(known.others.at(neighbour));
  }
  return result;
}

Message FedRN::robust_task(std::int64_t round, const Neighbours& neighbours,
                           const State& global) const {
  std::vector<State> models;
  models.reserve(neighbours.clients.size());
  for (const std::int64_t neighbour : neighbours.clients) {
    models.push_back(models_->get(neighbour, global.layout));
  }
  return warmup_task(round, global)
      .renamed("robust")
      .set("neighbours", std::move(models))
      .set("reliability", neighbours.reliability);
}

Message FedRN::task(std::int64_t client, std::int64_t round, const Server& server,
                    Json& asked) const {
  if (round < warmup_) {
    return warmup_task(round, server.global);
  }
  const Neighbours neighbours = choose(client, round, server.setting);
  asked[std::to_string(client)] = neighbours.clients;
  return robust_task(round, neighbours, server.global);
}

bool FedRN::accept(std::int64_t client, const Message& reply, const Setting& setting) {
  if (!finite(reply)) {
    return false;
  }
  check_reply(client, reply, setting.classes);
  models_->put(client, reply.get<State>("model"));
  profiles_[client] = {reply.get<double>("accuracy"), reply.get<std::vector<float>>("output")};
  return true;
}

void FedRN::play(std::int64_t round, Server& server) {
  if (!models_) {
    models_.emplace(store_options());
  }
  const std::vector<std::int64_t> pool = selectable_clients(server.fleet);
  const std::vector<std::int64_t> chosen = select_uniform(
      pool, participants(server.setting.fraction, static_cast<std::int64_t>(pool.size())),
      server.setting.seed, round);
  const bool robust = round >= warmup_;
  Json asked = Json::object();
  WeightedMean mean;
  std::vector<std::int64_t> rejected;
  const Fleet::Fold fold = [&](std::int64_t client, const Message& reply) {
    if (accept(client, reply, server.setting)) {
      mean.add(reply.get<State>("model"), reply.get<std::uint32_t>("samples"));
    } else {
      rejected.push_back(client);
    }
  };
  if (robust && fresh_) {
    // In a random order: ids may say something about the clients, as in the authors' noise.
    std::vector<std::int64_t> order = chosen;
    Stream(server.setting.seed, "fedrn order", round).shuffle(std::span(order));
    for (const std::int64_t client : order) {
      server.fleet.ask({{client, task(client, round, server, asked)}}, fold);
    }
  } else {
    // All tasks are made before any reply comes: neighbours are those of the round's start (spec:
    // label-noise B.4 #6).
    std::vector<Order> orders;
    orders.reserve(chosen.size());
    for (const std::int64_t client : chosen) {
      orders.push_back({client, task(client, round, server, asked)});
    }
    server.fleet.ask(orders, fold);
  }
  note_replies(round, chosen, rejected, server.notes);
  server.global = mean.finish();
  server.notes["phase"] = robust ? "robust" : "warm-up";
  if (robust) {
    server.notes["neighbours"] = asked;
  }
}

Findings FedRN::findings() const {
  std::map<std::int64_t, double> expertise;
  for (const auto& [client, profile] : profiles_) {
    expertise[client] = profile.expertise;
  }
  Findings findings;
  findings.scores[kExpertise] = std::move(expertise);
  return findings;
}

Details FedRN::details() const {
  Details details;
  if (profiles_.size() > 1) {
    details.likeness = likeness(profiles_, compared_by(), kMostCompared);
  }
  return details;
}

Similarity FedRN::compared_by() const {
  return similarity_ == "softmax" ? Similarity::softmax : Similarity::logits;
}

void FedRN::save(Archive& archive) const {
  if (!models_ || profiles_.empty()) {
    return;
  }
  models_->save(archive, kModelPrefix);
  std::map<std::int64_t, double> expertise;
  std::vector<at::Tensor> rows;
  for (const auto& [client, profile] : profiles_) {
    expertise[client] = profile.expertise;
    rows.push_back(at::tensor(profile.output));
  }
  archive.values[kExpertise] = save_by_client(expertise);
  archive.tensors[kOutputs] = at::stack(rows);  // in the order of `expertise`
}

void FedRN::load(const Archive& archive) {
  models_.emplace(store_options()).load(archive, kModelPrefix);
  profiles_.clear();
  const auto expertise = read_numbers(archive.find(kExpertise), archive.bounds, 0.0, 1.0);
  if (expertise.empty() && models_->clients().empty()) {
    return;
  }
  const auto found = archive.tensors.find(kOutputs);
  if (found == archive.tensors.end() || found->second.dim() != 2) {
    throw Error(ErrorKind::run, fmt::format("tensor '{}' is missing or not a table", kOutputs));
  }
  const std::int64_t width =
      archive.bounds.classes > 0 ? archive.bounds.classes : found->second.size(1);
  const at::Tensor rows =
      archive.tensor(kOutputs, at::kFloat, {static_cast<std::int64_t>(expertise.size()), width})
          .contiguous();
  const float* row = rows.data_ptr<float>();
  for (const auto& [client, accuracy] : expertise) {
    profiles_[client] = {accuracy, {row, row + width}};
    row += width;
  }
  std::vector<std::int64_t> known;
  for (const auto& [client, profile] : profiles_) {
    known.push_back(client);
  }
  if (known != models_->clients()) {
    throw Error(ErrorKind::run,
                fmt::format("{} is of other clients than the stored models", kExpertise));
  }
}

MethodInfo fedrn_info() {
  return {"fedrn", "system",
          "clients find their clean samples with the models of reliable neighbours",
          [] { return std::make_unique<FedRN>(); }};
}

}  // namespace winnow
