#include "winnow/method/power_of_choice/power_of_choice.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "winnow/base/error.h"
#include "winnow/federation/selection.h"
#include "winnow/method/local_training.h"

namespace winnow {
namespace {

constexpr const char* kState = "power_of_choice";
constexpr double kInfinity = std::numeric_limits<double>::infinity();

class ChoiceClient : public ClientSide {
 public:
  explicit ChoiceClient(std::string loss) : loss_(std::move(loss)) {}

  Message handle(const Message& task, ClientContext& context) const override {
    const std::int64_t round = round_of(task);
    const State& received = task.get<State>("model");
    if (task.kind() == "evaluate") {
      return Message("evaluate_done").set("loss", evaluate(received, round, context));
    }
    TrainOutcome outcome = context.train(received, round, {});
    Message reply = train_done(std::move(outcome.state), context);
    if (loss_ == "last") {
      reply.set("loss", outcome.mean_loss);
    }
    return reply;
  }

 private:
  // Mean cross-entropy over all local samples with the labels in use, or over one random batch.
  double evaluate(const State& model, std::int64_t round, ClientContext& context) const {
    const LocalSet set = context.local_set();
    Lane& lane = context.lane();
    lane.load(model);
    const std::int64_t batch = context.options().eval_batch;
    if (loss_ != "batch") {
      return lane.score(lane.feed(), set, batch).mean_loss();
    }
    Stream stream(context.seed(), "power_of_choice batch", round, context.id());
    std::vector<std::int64_t> samples;
    std::vector<std::int64_t> labels;
    for (const std::int64_t place :
         stream.sample(set.size(), std::min(set.size(), context.options().batch_size))) {
      samples.push_back(set.samples[static_cast<std::size_t>(place)]);
      labels.push_back(set.labels[static_cast<std::size_t>(place)]);
    }
    return lane.score(lane.feed(), {samples, labels}, batch).mean_loss();
  }

  std::string loss_;
};

KnownLoss known(double loss) {
  return std::isfinite(loss) ? KnownLoss(loss) : std::nullopt;
}

}  // namespace

std::vector<std::int64_t> draw_by_weight(std::span<const std::int64_t> pool,
                                         std::vector<double> weights, std::int64_t count,
                                         Stream& stream) {
  const auto possible = std::ranges::count_if(weights, [](double weight) { return weight > 0.0; });
  std::vector<std::int64_t> drawn;
  for (std::int64_t i = 0; i < std::min<std::int64_t>(count, possible); ++i) {
    const std::size_t place = stream.categorical(weights);
    drawn.push_back(pool[place]);
    weights[place] = 0.0;
  }
  std::ranges::sort(drawn);
  return drawn;
}

std::vector<std::int64_t> largest_losses(std::vector<Candidate> candidates, std::int64_t count) {
  std::ranges::sort(candidates, [](const Candidate& a, const Candidate& b) {
    return a.loss != b.loss ? a.loss > b.loss : a.client < b.client;
  });
  std::vector<std::int64_t> largest;
  for (const Candidate& candidate : candidates) {
    if (std::ssize(largest) < count) {
      largest.push_back(candidate.client);
    }
  }
  return largest;
}

void PowerOfChoice::declare(Params& params) {
  params.add("candidates", candidates_, "clients drawn in a round (d); all where there are fewer")
      .at_least(1)
      .source("FedCorr's paper, of 100 clients");
  params.add("draw", draw_, "how candidates are drawn: in proportion to their samples, or alike")
      .choices({"samples", "uniform"})
      .source("samples: paper; uniform: FedLab");
  params
      .add("loss", loss_,
           "what is compared: the loss on the whole data, on one batch, or of the last training")
      .choices({"whole", "batch", "last"})
      .source("whole: paper");
  params.add("weighting", weighting_, "what the chosen weigh: all the same, or their samples")
      .choices({"mean", "samples"})
      .source("mean: paper");
}

void PowerOfChoice::check(const Setting& setting) const {
  const std::int64_t trained = participants(setting.fraction, setting.clients);
  if (candidates_ < trained) {
    throw Error(ErrorKind::experiment,
                fmt::format("method.candidates = {}: expected at least the {} clients of a round",
                            candidates_, trained),
                "raise it, or lower federation.fraction");
  }
}

std::unique_ptr<ClientSide> PowerOfChoice::client_side() const {
  return std::make_unique<ChoiceClient>(loss_);
}

std::vector<Schema> PowerOfChoice::schemas() const {
  std::vector<Schema> schemas = BaseMethod::schemas();
  if (loss_ == "last") {
    std::ranges::find(schemas, "train_done", &Schema::kind)
        ->fields.emplace_back("loss", FieldType::f64);
  } else {
    schemas.push_back({"evaluate", {{"round", FieldType::u32}, {"model", FieldType::state}}});
    schemas.push_back({"evaluate_done", {{"loss", FieldType::f64}}});
  }
  return schemas;
}

std::vector<std::int64_t> PowerOfChoice::draw(std::span<const std::int64_t> pool,
                                              std::int64_t count, std::int64_t round,
                                              const Server& server) const {
  if (draw_ == "uniform") {
    return select_uniform(pool, count, server.setting.seed, round);
  }
  std::vector<double> samples;
  for (const std::int64_t client : pool) {
    samples.push_back(static_cast<double>(server.fleet.samples(client)));
  }
  Stream stream(server.setting.seed, "power_of_choice candidates", round);
  return draw_by_weight(pool, std::move(samples), count, stream);
}

void PowerOfChoice::evaluate(const std::vector<std::int64_t>& candidates, std::int64_t round,
                             const Server& server) {
  std::vector<Order> orders;
  for (const std::int64_t client : candidates) {
    orders.push_back({client, Message("evaluate")
                                  .set("round", static_cast<std::uint32_t>(round))
                                  .set("model", server.global)});
  }
  server.fleet.ask(orders, [this](std::int64_t client, const Message& reply) {
    losses_[client] = known(reply.get<double>("loss"));
  });
}

std::vector<std::int64_t> PowerOfChoice::best_of(const std::vector<std::int64_t>& candidates,
                                                 std::int64_t count, Json& notes) const {
  std::vector<Candidate> ranked;
  Json losses = Json::array();
  for (const std::int64_t client : candidates) {
    const auto found = losses_.find(client);
    const KnownLoss loss = found == losses_.end() ? std::nullopt : found->second;
    // Who was never tried comes first, who could not say a number last.
    ranked.push_back({client, loss.value_or(found == losses_.end() ? kInfinity : -kInfinity)});
    losses.push_back(loss ? Json(*loss) : Json(nullptr));
  }
  notes["losses"] = std::move(losses);
  return largest_losses(std::move(ranked), count);
}

std::vector<std::int64_t> PowerOfChoice::select(std::span<const std::int64_t> pool,
                                                std::int64_t count, std::int64_t round,
                                                Server& server) {
  // A wrapper may train more clients in a round than the experiment says.
  const std::vector<std::int64_t> candidates =
      draw(pool, std::max(candidates_, count), round, server);
  server.notes["candidates"] = candidates;
  std::vector<std::int64_t> chosen = candidates;
  if (std::ssize(candidates) > count) {
    if (loss_ != "last") {
      evaluate(candidates, round, server);
    }
    chosen = best_of(candidates, count, server.notes);
    std::ranges::sort(chosen);
  }
  for (const std::int64_t client : candidates) {
    times_chosen_[client] += std::ranges::binary_search(chosen, client) ? 1 : 0;
  }
  if (loss_ == "last") {
    for (const std::int64_t client : chosen) {
      losses_.try_emplace(client, std::nullopt);  // until its upload says more
    }
  }
  return chosen;
}

void PowerOfChoice::begin(const State& global) {
  BaseMethod::begin(global);
  models_ = {};
}

void PowerOfChoice::add(const Upload& upload) {
  BaseMethod::add(upload);
  if (weighting_ == "mean") {
    models_.add(upload.model(), upload.factor);
  }
  if (loss_ == "last") {
    losses_[upload.client] = known(upload.reply.get<double>("loss"));
  }
}

State PowerOfChoice::finish() {
  State next = BaseMethod::finish();
  if (weighting_ == "mean") {  // buffers weigh by samples all the same (spec: baselines 0.1)
    next.parameters().copy_(models_.finish().parameters());
  }
  return next;
}

Findings PowerOfChoice::findings() const {
  Findings findings;
  for (const auto& [client, loss] : losses_) {
    if (loss) {
      findings.scores["loss"][client] = *loss;
    }
  }
  for (const auto& [client, times] : times_chosen_) {
    findings.scores["times_chosen"][client] = static_cast<double>(times);
  }
  return findings;
}

void PowerOfChoice::save(Archive& archive) const {
  archive.values[kState] = {{"losses", save_by_client(losses_)},
                            {"times_chosen", save_by_client(times_chosen_)}};
}

void PowerOfChoice::load(const Archive& archive) {
  losses_.clear();
  times_chosen_.clear();
  if (const auto state = archive.find(kState)) {
    losses_ = read_known_numbers(state->at("losses"), archive.bounds);
    times_chosen_ = read_by_client(state->at("times_chosen"), archive.bounds,
                                   [](const CheckedJson& times) { return times.count(); });
  }
}

MethodInfo power_of_choice_info() {
  return {"power_of_choice", "selection", "trains the candidates with the largest loss",
          [] { return std::make_unique<PowerOfChoice>(); }};
}

}  // namespace winnow
