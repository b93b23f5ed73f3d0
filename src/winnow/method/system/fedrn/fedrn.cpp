#include "winnow/method/system/fedrn/fedrn.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>

#include "winnow/base/error.h"
#include "winnow/federation/aggregation.h"

namespace winnow {
namespace {

constexpr const char* kModels = "model";
constexpr const char* kOutput = "output";
constexpr const char* kOutputs = "outputs";  // of all clients, in older checkpoints
constexpr const char* kExpertise = "expertise";
constexpr std::size_t kMostCompared = 120;  // clients in the matrix of a report

}  // namespace

void FedRN::declare(Params& params) {
  params
      .add("neighbours", options_.neighbours,
           "number of other clients' models that help a client find its clean samples")
      .at_least(0)
      .source("paper: 1 or 2");
  params
      .add("warmup", options_.warmup,
           "rounds of plain FedAvg at the start; they count towards `rounds`")
      .at_least(0)
      .source("paper");
  params
      .add("alpha", options_.alpha,
           "weight of a neighbour's expertise in its reliability; the rest is its similarity")
      .range(0, 1)
      .source("paper");
  params
      .add("threshold", options_.client.threshold,
           "probability above which a sample counts as clean")
      .range(0, 1)
      .source("paper");
  params
      .add("choice", options_.choice,
           {{"reliable", fedrn::Helpers::reliable}, {"random", fedrn::Helpers::random}},
           "which neighbours help: the most reliable ones, or random ones")
      .source("paper; random is its ablation");
  params
      .add("random_weights", options_.random_weights,
           {{"equal", fedrn::Votes::equal}, {"reliability", fedrn::Votes::by_reliability}},
           "weight of a random neighbour's vote: equal for all, or its reliability")
      .source("authors' code; reliability: the paper's text");
  params
      .add("fresh", options_.fresh,
           "give clients models that were updated in the same round, so that clients train one "
           "after the other")
      .source("here false: what a network can do; authors' code: true");
  params
      .add("finetune", options_.client.finetune,
           "first fit the heads of the neighbours' models to the client's own samples")
      .source("paper; false is its ablation");
  params
      .add("finetune_epochs", options_.client.finetune_epochs,
           "epochs in which the neighbours' heads are fitted to the client's samples")
      .at_least(1)
      .source("paper");
  params
      .add("own_model", options_.client.own_model,
           {{"last", fedrn::OwnModel::last}, {"global", fedrn::OwnModel::global}},
           "model with which a client first judges its samples: its own of its last turn (last), "
           "or the global one")
      .source("released code; the paper leaves it open");
  params
      .add("similarity", options_.similarity,
           {{"logits", fedrn::Similarity::logits}, {"softmax", fedrn::Similarity::softmax}},
           "outputs by which the models of two clients are compared: logits, or softmax "
           "probabilities")
      .source("released code; the paper says softmax");
  params
      .add("score_view", options_.client.score_view,
           {{"augmented", ScoreView::augmented}, {"clean", ScoreView::clean}},
           "images on which models are scored: augmented as in training, or unchanged (clean)")
      .source("released code");
  params.add("score_batch", options_.client.score_batch, "batch size in which models are scored")
      .at_least(1)
      .source("released code");
  params
      .add("store_limit_mb", options_.store_limit_mb,
           "MiB of client models that the server keeps in memory; the rest goes to files")
      .range(0, 1e9)
      .source("here");
  params
      .add("store_folder", options_.store_folder,
           "folder for client models that do not fit in memory; empty: the system's temporary "
           "folder")
      .source("here");
}

void FedRN::check(const Setting& setting) const {
  if (setting.clients - 1 < options_.neighbours) {
    throw Error(ErrorKind::experiment,
                fmt::format("method.neighbours = {}: expected fewer than federation.clients, {}",
                            options_.neighbours, setting.clients));
  }
  if (options_.warmup >= setting.rounds) {
    throw Error(ErrorKind::experiment,
                fmt::format("method.warmup = {}: expected fewer than the {} rounds of the run",
                            options_.warmup, setting.rounds),
                "a run that ends with its warm-up is FedAvg");
  }
  std::error_code ignored;
  if (!options_.store_folder.empty() &&
      !std::filesystem::is_directory(options_.store_folder, ignored)) {
    throw Error(
        ErrorKind::experiment,
        fmt::format("method.store_folder = \"{}\": expected a folder", options_.store_folder));
  }
}

std::unique_ptr<ClientSide> FedRN::client_side() const {
  return std::make_unique<fedrn::Client>(options_.client);
}

std::vector<Exchange> FedRN::exchanges(const Setting& setting) const {
  const std::vector<FieldRule> answers{
      field::model("model", "its model after training, which is sent unchanged to other clients"),
      field::samples(),
      field::number("accuracy", "how many of its labels its model agrees with").between(0, 1),
      field::floats("output", "the output of its model for an image of random values",
                    Length::exactly(setting.classes, "C"))
          .any_number()};
  return {{"warmup", {field::round(), field::global_model()}, "local_done", answers},
          {"robust",
           {field::round(), field::global_model(),
            field::models("neighbours", "the models of other clients",
                          {0, std::max<std::int64_t>(options_.neighbours, 0), "k"}),
            field::numbers("reliability", "how reliable it and each of these models is",
                           {1, options_.neighbours + 1, "k + 1"})},
           "local_done",
           answers}};
}

ModelStoreOptions FedRN::store_options() const {
  return {.limit = options_.store_limit_mb << 20, .folder = options_.store_folder};
}

FedRN::Neighbours FedRN::choose(const Round& round, std::int64_t client) const {
  std::vector<std::int64_t> drawn;
  if (options_.choice == fedrn::Helpers::random) {
    drawn = fedrn::random_neighbours(
        profiles_, client, options_.neighbours,
        Stream(round.setting.seed, "fedrn neighbours", round.number, client));
    if (options_.random_weights == fedrn::Votes::equal) {
      const std::size_t voters = drawn.size() + 1;
      return {std::move(drawn), std::vector<double>(voters, 1.0)};
    }
  }
  const fedrn::Reliability known =
      fedrn::reliability(profiles_, client, options_.alpha, options_.similarity);
  Neighbours result{options_.choice == fedrn::Helpers::random
                        ? std::move(drawn)
                        : fedrn::most_reliable(known, options_.neighbours),
                    {known.self}};
  for (const std::int64_t neighbour : result.clients) {
    result.reliability.push_back(known.others.at(neighbour));
  }
  return result;
}

Message FedRN::robust_task(const Round& round, const Neighbours& neighbours) const {
  std::vector<State> models;
  models.reserve(neighbours.clients.size());
  for (const std::int64_t neighbour : neighbours.clients) {
    models.push_back(models_->get(neighbour, round.global.layout));
  }
  return round.task("robust")
      .set("neighbours", std::move(models))
      .set("reliability", neighbours.reliability);
}

Message FedRN::task(const Round& round, std::int64_t client, Json& asked) const {
  if (round.number < options_.warmup) {
    return round.task("warmup");
  }
  const Neighbours neighbours = choose(round, client);
  asked[std::to_string(client)] = neighbours.clients;
  return robust_task(round, neighbours);
}

void FedRN::keep(std::int64_t client, const Message& reply) {
  models_->put(client, reply.get<State>("model"));
  profiles_[client] = {reply.get<double>("accuracy"), reply.get<std::vector<float>>("output")};
}

void FedRN::play(std::int64_t number, Server& server) {
  if (!models_) {
    models_.emplace(store_options());
  }
  Round round(number, server);
  round.chosen = round.draw();
  const bool robust = number >= options_.warmup;
  Json asked = Json::object();
  WeightedMean mean;
  const std::vector<Exchange> known = exchanges(round.setting);
  const auto ask = [&](const std::vector<std::int64_t>& clients) {
    round.ask(
        clients, [&](std::int64_t client) { return task(round, client, asked); }, known,
        [&](std::int64_t client, const Message& reply) {
          keep(client, reply);
          mean.add(reply.get<State>("model"), reply.get<std::uint32_t>("samples"));
        });
  };
  if (robust && options_.fresh) {
    // In a random order: ids may say something about the clients, as in the authors' noise.
    std::vector<std::int64_t> order = round.chosen;
    Stream(round.setting.seed, "fedrn order", number).shuffle(std::span(order));
    for (const std::int64_t client : order) {
      ask({client});
    }
  } else {
    // All tasks are made before any reply comes: neighbours are those of the round's start (spec:
    // label-noise B.4 #6).
    ask(round.chosen);
  }
  if (round.note_replies()) {
    round.global = mean.finish();
  }
  round.notes["phase"] = robust ? "robust" : "warm-up";
  if (robust) {
    round.notes["neighbours"] = asked;
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
    details.likeness = fedrn::likeness(profiles_, options_.similarity, kMostCompared);
  }
  return details;
}

void FedRN::save(Archive& archive) const {
  if (!models_ || profiles_.empty()) {
    return;
  }
  models_->save(archive, kModels);
  archive.put_column(kExpertise, profiles_,
                     [](const fedrn::Profile& profile) { return Json(profile.expertise); });
  archive.put_column(kOutput, profiles_,
                     [](const fedrn::Profile& profile) { return at::tensor(profile.output); });
}

void FedRN::load_profiles(const Archive& archive) {
  const auto expertise = archive.numbers(kExpertise, 0.0, 1.0);
  const auto take = [&](std::int64_t client, double accuracy, const at::Tensor& output) {
    const float* row = output.data_ptr<float>();
    profiles_[client] = {accuracy, {row, row + output.numel()}};
  };
  const auto table = archive.tensors.find(kOutputs);
  if (table != archive.tensors.end() && table->second.dim() == 2) {
    const std::int64_t width =
        archive.bounds.classes > 0 ? archive.bounds.classes : table->second.size(1);
    const at::Tensor rows =
        archive.tensor(kOutputs, at::kFloat, {std::ssize(expertise), width}).contiguous();
    std::int64_t row = 0;
    for (const auto& [client, accuracy] : expertise) {
      take(client, accuracy, rows[row++]);
    }
    return;
  }
  for (const auto& [client, accuracy] : expertise) {
    const std::string name = fmt::format("{}/{}", kOutput, client);
    const auto output = archive.tensors.find(name);
    if (output == archive.tensors.end()) {
      throw Error(ErrorKind::run, fmt::format("tensor '{}' is missing", name));
    }
    const std::int64_t width =
        archive.bounds.classes > 0 ? archive.bounds.classes : output->second.numel();
    take(client, accuracy, archive.tensor(name, at::kFloat, {width}).contiguous());
  }
}

void FedRN::load(const Archive& archive) {
  models_.emplace(store_options()).load(archive, kModels);
  profiles_.clear();
  if (const auto* kept = archive.column<fedrn::Profile>(kExpertise)) {
    profiles_ = *kept;
    return;
  }
  load_profiles(archive);
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
  return {.name = "fedrn",
          .group = "system",
          .summary = "clients find clean samples with their neighbours' models",
          .make = [] { return std::make_unique<FedRN>(); },
          .smoke = Json::object({{"rounds", 7}, {"method.warmup", 3}, {"method.neighbours", 2}})};
}

}  // namespace winnow
