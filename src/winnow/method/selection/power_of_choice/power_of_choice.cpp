#include "winnow/method/selection/power_of_choice/power_of_choice.h"

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

constexpr const char* kChoiceState = "power_of_choice";
constexpr const char* kLosses = "power_of_choice/losses";
constexpr const char* kTimesChosen = "power_of_choice/times_chosen";
constexpr double kInfinity = std::numeric_limits<double>::infinity();

class ChoiceClient : public ClientSide {
 public:
  explicit ChoiceClient(power_of_choice::Loss loss) : loss_(loss) {}

  Message handle(const Message& task, ClientContext& context) const override {
    const std::int64_t round = round_of(task);
    const State& received = task.get<State>("model");
    if (task.kind() == "evaluate") {
      return Message("evaluate_done").set("loss", evaluate(received, round, context));
    }
    TrainOutcome outcome = context.train(received, round, {});
    Message reply = train_done(std::move(outcome.state), context);
    if (loss_ == power_of_choice::Loss::last) {
      reply.set("loss", outcome.mean_loss);
    }
    return reply;
  }

 private:
  // Mean cross-entropy over all local samples with the labels in use, or over one random batch.
  double evaluate(const State& model, std::int64_t round, ClientContext& context) const {
    const LocalSet set = context.local_set();
    if (loss_ != power_of_choice::Loss::batch) {
      return context.score(model).mean_loss();
    }
    Stream stream(context.seed(), "power_of_choice batch", round, context.id());
    std::vector<std::int64_t> samples;
    std::vector<std::int64_t> labels;
    for (const std::int64_t place :
         stream.sample(set.size(), std::min(set.size(), context.options().batch_size))) {
      samples.push_back(set.samples[static_cast<std::size_t>(place)]);
      labels.push_back(set.labels[static_cast<std::size_t>(place)]);
    }
    return context.score(model, {samples, labels}).mean_loss();
  }

  power_of_choice::Loss loss_;
};

power_of_choice::KnownLoss known(double loss) {
  return std::isfinite(loss) ? power_of_choice::KnownLoss(loss) : std::nullopt;
}

}  // namespace

std::vector<std::int64_t> power_of_choice::draw_by_weight(std::span<const std::int64_t> pool,
                                                          std::vector<double> weights,
                                                          std::int64_t count, Stream& stream) {
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

std::vector<std::int64_t> power_of_choice::largest_losses(
    std::vector<power_of_choice::Candidate> candidates, std::int64_t count) {
  std::ranges::sort(candidates,
                    [](const power_of_choice::Candidate& a, const power_of_choice::Candidate& b) {
                      return a.loss != b.loss ? a.loss > b.loss : a.client < b.client;
                    });
  std::vector<std::int64_t> largest;
  for (const power_of_choice::Candidate& candidate : candidates) {
    if (std::ssize(largest) < count) {
      largest.push_back(candidate.client);
    }
  }
  return largest;
}

void PowerOfChoice::declare(Params& params) {
  params
      .add("candidates", candidates_,
           "clients drawn as candidates in a round (d); all where there are fewer")
      .at_least(1)
      .source("FedCorr's paper, of 100 clients");
  params
      .add("draw", draw_,
           {{"samples", power_of_choice::Draw::samples},
            {"uniform", power_of_choice::Draw::uniform}},
           "how candidates are drawn: in proportion to their number of samples, or uniformly")
      .source("samples: paper; uniform: FedLab");
  params
      .add("loss", loss_,
           {{"whole", power_of_choice::Loss::whole},
            {"batch", power_of_choice::Loss::batch},
            {"last", power_of_choice::Loss::last}},
           "loss by which candidates are compared: on all their data (whole), on one batch, or of "
           "their last training")
      .source("whole: paper");
  params
      .add("weighting", weighting_, {{"mean", Weighting::equal}, {"samples", Weighting::samples}},
           "weight of a chosen client: equal for all (mean), or its number of samples")
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

std::vector<Exchange> PowerOfChoice::exchanges(const Setting& /*setting*/) const {
  std::vector<Exchange> exchanges = exchanges_of(weighting_, Weighting::samples);
  if (loss_ == power_of_choice::Loss::last) {
    exchanges.front().answers.push_back(
        field::number("loss", "its mean loss while it trained").at_least(0).finite_or_not());
  } else {
    exchanges.push_back(
        {"evaluate",
         {field::round(), field::global_model()},
         "evaluate_done",
         {field::number("loss", loss_ == power_of_choice::Loss::batch
                                    ? "the mean loss of the global model on one of its batches"
                                    : "the mean loss of the global model on its samples")
              .at_least(0)
              .finite_or_not()}});
  }
  return exchanges;
}

std::vector<std::int64_t> PowerOfChoice::draw(const Round& round, std::int64_t count) const {
  if (draw_ == power_of_choice::Draw::uniform) {
    return round.draw(count);
  }
  std::vector<double> samples;
  for (const std::int64_t client : round.pool) {
    samples.push_back(static_cast<double>(round.fleet.samples(client)));
  }
  Stream stream(round.setting.seed, "power_of_choice candidates", round.number);
  return power_of_choice::draw_by_weight(round.pool, std::move(samples), count, stream);
}

std::vector<Absence> PowerOfChoice::evaluate(const Round& round,
                                             const std::vector<std::int64_t>& candidates) {
  return round.fleet.ask(
      orders_for(candidates, [&](std::int64_t) { return round.task("evaluate"); }),
      [this](std::int64_t client, const Message& reply) {
        losses_[client] = known(reply.get<double>("loss"));
      });
}

std::vector<std::int64_t> PowerOfChoice::best_of(const Round& round,
                                                 const std::vector<std::int64_t>& candidates,
                                                 const std::vector<Absence>& absent,
                                                 std::int64_t count) const {
  std::vector<power_of_choice::Candidate> ranked;
  Json losses = Json::array();
  for (const std::int64_t client : candidates) {
    if (is_absent(client, absent)) {  // who does not say how it does is not asked to train either
      losses.push_back(nullptr);
      continue;
    }
    const auto found = losses_.find(client);
    // Who was never tried comes first, who could not say a number last.
    double rank = kInfinity;
    Json loss = nullptr;
    if (found != losses_.end()) {
      rank = found->second.value_or(-kInfinity);
      if (std::isfinite(rank)) {
        loss = rank;
      }
    }
    ranked.push_back({client, rank});
    losses.push_back(std::move(loss));
  }
  round.notes["losses"] = std::move(losses);
  return power_of_choice::largest_losses(std::move(ranked), count);
}

std::vector<std::int64_t> PowerOfChoice::select(Round& round, std::int64_t count) {
  // A wrapper may train more clients in a round than the experiment says.
  const std::vector<std::int64_t> candidates = draw(round, std::max(candidates_, count));
  round.notes["candidates"] = candidates;
  std::vector<std::int64_t> chosen = candidates;
  if (std::ssize(candidates) > count) {
    std::vector<Absence> absent;
    if (loss_ != power_of_choice::Loss::last) {
      absent = evaluate(round, candidates);
    }
    chosen = best_of(round, candidates, absent, count);
    std::ranges::sort(chosen);
  }
  for (const std::int64_t client : candidates) {
    times_chosen_[client] += std::ranges::binary_search(chosen, client) ? 1 : 0;
  }
  if (loss_ == power_of_choice::Loss::last) {
    for (const std::int64_t client : chosen) {
      losses_.emplace(client, std::nullopt);  // until its upload says more
    }
  }
  return chosen;
}

void PowerOfChoice::begin(Round& round) {
  BaseMethod::begin(round);
  models_ = {};
}

void PowerOfChoice::add(Round& round, const Upload& upload) {
  BaseMethod::add(round, upload);
  if (weighting_ == Weighting::equal) {
    models_.add(upload.model(), upload.factor);
  }
  hear(round, upload.client, upload.reply);
}

void PowerOfChoice::hear(Round& /*round*/, std::int64_t client, const Message& numbers) {
  if (loss_ == power_of_choice::Loss::last) {
    losses_[client] = known(numbers.get<double>("loss"));
  }
}

void PowerOfChoice::add_sums(Round& round, const Sums& sums) {
  BaseMethod::add_sums(round, sums);
  if (weighting_ == Weighting::equal) {
    models_.set(sums.mean("model"));
  }
}

State PowerOfChoice::finish(Round& round) {
  State next = BaseMethod::finish(round);
  // Buffers weigh by samples all the same (spec: baselines 0.1).
  if (weighting_ == Weighting::equal) {
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
  archive.put_column(kLosses, losses_, [](const power_of_choice::KnownLoss& loss) {
    return loss ? Json(*loss) : Json(nullptr);
  });
  archive.put_column(kTimesChosen, times_chosen_);
}

void PowerOfChoice::load(const Archive& archive) {
  losses_.clear();
  times_chosen_.clear();
  if (const auto* kept = archive.column<power_of_choice::KnownLoss>(kLosses)) {
    losses_ = *kept;
    times_chosen_ = *archive.column<std::int64_t>(kTimesChosen);
  } else if (const auto state = archive.find(kChoiceState)) {
    losses_ = read_known_numbers(state->find("losses"), archive.bounds);
    times_chosen_ = read_by_client(state->find("times_chosen"), archive.bounds,
                                   [](const CheckedJson& times) { return times.count(); });
  }
}

MethodInfo power_of_choice_info() {
  return {.name = "power_of_choice",
          .group = "selection",
          .summary = "trains the candidates with the largest loss",
          .make = [] { return std::make_unique<PowerOfChoice>(); },
          .smoke = Json::object({{"method.candidates", 6}})};
}

}  // namespace winnow
