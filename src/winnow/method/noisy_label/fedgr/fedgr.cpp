#include "winnow/method/noisy_label/fedgr/fedgr.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "winnow/base/error.h"
#include "winnow/federation/aggregation.h"
#include "winnow/method/noisy_label/fedgr/client.h"
#include "winnow/method/round.h"

namespace winnow {
namespace {

constexpr const char* kEstimates = "estimates";

std::vector<double> six(const MixtureParameters& mixture) {
  return {mixture.means[0],     mixture.means[1],   mixture.variances[0],
          mixture.variances[1], mixture.weights[0], mixture.weights[1]};
}

}  // namespace

void FedGr::check(const Setting& setting) const {
  if (options_.sniff_rounds >= setting.rounds) {
    throw Error(
        ErrorKind::experiment,
        fmt::format("method.sniff_rounds = {}: expected fewer than the {} rounds of the run",
                    options_.sniff_rounds, setting.rounds),
        "a run that ends with its sniffing refines no label");
  }
}

std::unique_ptr<ClientSide> FedGr::client_side() const {
  return std::make_unique<fedgr::Client>(options_);
}

std::vector<Exchange> FedGr::exchanges(const Setting& /*setting*/) const {
  return {
      {"train",
       {field::round(), field::global_model(),
        field::numbers("mixture",
                       "the mixture of losses of the round it last took part in; none at first "
                       "and with selection = \"intra\"",
                       Length::up_to(6, "6"))},
       "train_done",
       {field::trained_model().summed(Weighting::samples), field::samples(),
        field::floats("losses",
                      "the mean loss of the global models on every one of its samples; none with "
                      "selection = \"intra\"",
                      Length::up_to_samples())
            .at_least(0)}}};
}

// spec: rivals 4.1
void FedGr::estimate(const std::map<std::int64_t, std::vector<double>>& told) {
  std::vector<double> pooled;
  for (const auto& [client, losses] : told) {
    pooled.insert(pooled.end(), losses.begin(), losses.end());
  }
  const Mixture mixture = gmm2(pooled, fedgr::kFit);
  std::size_t place = 0;
  for (const auto& [client, losses] : told) {
    std::int64_t noisy = 0;
    for (std::size_t i = 0; i < losses.size(); ++i) {
      noisy += mixture.clean_posterior[place++] < 0.5 ? 1 : 0;
    }
    estimates_[client] = {parameters_of(mixture),
                          static_cast<double>(noisy) / static_cast<double>(losses.size())};
  }
}

void FedGr::play(std::int64_t number, Server& server) {
  Round round(number, server);
  round.chosen = round.draw();
  round.notes["stage"] = number < options_.sniff_rounds ? "sniffing" : "refining";
  const auto task = [&](std::int64_t client) {
    const auto known = estimates_.find(client);
    return round.task("train").set(
        "mixture", known == estimates_.end() ? std::vector<double>() : six(known->second.mixture));
  };
  WeightedMean mean;
  std::map<std::int64_t, std::vector<double>> told;
  const auto hear = [&](std::int64_t client, const Message& numbers) {
    const auto& losses = numbers.get<std::vector<float>>("losses");
    const auto samples = numbers.get<std::uint32_t>("samples");
    if (losses.size() != (options_.selection == fedgr::Selection::inter ? samples : 0U)) {
      return false;
    }
    if (!losses.empty()) {
      told[client] = {losses.begin(), losses.end()};
    }
    return true;
  };
  if (round.by_sums()) {
    const Sums sums =
        round.ask_for_sums(round.chosen, task, exchanges(round.setting).front().answers, hear);
    if (!sums.added.empty()) {
      mean.set(sums.mean("model"));
    }
  } else {
    round.ask(round.chosen, task, exchanges(round.setting),
              [&](std::int64_t client, const Message& reply) {
                if (hear(client, reply)) {
                  mean.add(reply.get<State>("model"),
                           static_cast<double>(reply.get<std::uint32_t>("samples")));
                } else {
                  round.reject(client);
                }
              });
  }
  if (!round.note_replies()) {
    return;
  }
  if (!told.empty()) {
    estimate(told);
  }
  round.global = mean.finish();
}

Findings FedGr::findings() const {
  Findings findings;
  for (const auto& [client, own] : estimates_) {
    findings.noise_levels[client] = own.noisy;
  }
  return findings;
}

void FedGr::save(Archive& archive) const {
  archive.put_column(kEstimates, estimates_, [](const Estimate& own) {
    return Json{{"mixture", six(own.mixture)}, {"noisy", own.noisy}};
  });
}

void FedGr::load(const Archive& archive) {
  const auto read = [](const CheckedJson& entry) {
    std::vector<double> values;
    for (const CheckedJson& value : entry.at("mixture").elements()) {
      values.push_back(value.number());
    }
    if (values.size() != 6 || !(values[2] > 0.0) || !(values[3] > 0.0) ||
        !(std::min(values[4], values[5]) >= 0.0)) {
      throw Error(ErrorKind::run, fmt::format("{}: expected a mixture", entry.name()));
    }
    return Estimate{{{values[0], values[1]}, {values[2], values[3]}, {values[4], values[5]}},
                    entry.at("noisy").number(0, 1)};
  };
  const auto* kept = archive.column<Estimate>(kEstimates);
  estimates_ = kept != nullptr ? *kept : ByClient<Estimate>(archive.by_client(kEstimates, read));
}

MethodInfo fedgr_info() {
  return {.name = "fedgr",
          .group = "noisy-label",
          .summary = "the global model sieves samples and refines their labels",
          .make = [] { return std::make_unique<FedGr>(); },
          .smoke = Json::object({{"rounds", 5},
                                 {"method.sniff_rounds", 2},
                                 {"method.ema_rounds", 3},
                                 {"method.confidence", 0.1}})};
}

}  // namespace winnow
