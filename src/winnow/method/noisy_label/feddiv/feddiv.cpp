#include "winnow/method/noisy_label/feddiv/feddiv.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "winnow/base/error.h"
#include "winnow/federation/aggregation.h"
#include "winnow/method/base_method.h"
#include "winnow/method/noisy_label/feddiv/client.h"
#include "winnow/method/system/fedcorr/arithmetic.h"

namespace winnow {
namespace {

constexpr const char* kFilters = "filters";
constexpr const char* kNoisyWeight = "noisy_weight";
constexpr std::int64_t kFilterValues = 6;

// The warm-up visits clients as stage 1 of FedCorr does.
fedcorr::Schedule schedule_of(const feddiv::Options& options, std::int64_t clients) {
  fedcorr::Options visits;
  visits.iterations = options.warmup;
  visits.stage1_fraction = options.warmup_fraction;
  visits.finetune_rounds = 0;
  visits.usual_rounds = options.usual_rounds;
  return {visits, clients};
}

}  // namespace

void FedDiv::check(const Setting& /*setting*/) const {
  if (options_.warmup == 0 && options_.usual_rounds == 0) {
    throw Error(ErrorKind::experiment, "method.warmup and method.usual_rounds are both 0",
                "expected at least one round");
  }
}

std::int64_t FedDiv::rounds(const Setting& setting) const {
  return schedule_of(options_, setting.clients).rounds();
}

std::string FedDiv::schedule(const Setting& setting) const {
  return fmt::format("warmup {} x {} turns + usual_rounds {}", options_.warmup,
                     schedule_of(options_, setting.clients).turns(), options_.usual_rounds);
}

std::unique_ptr<ClientSide> FedDiv::client_side() const {
  return std::make_unique<feddiv::Client>(options_);
}

std::vector<Exchange> FedDiv::exchanges(const Setting& /*setting*/) const {
  return {
      {"warm_up",
       {field::round(), field::global_model()},
       "warm_up_done",
       {field::trained_model().summed(Weighting::samples), field::samples()}},
      {"train",
       {field::round(), field::global_model(),
        field::numbers("filter", "the mixture fitted to the losses of all clients; none at first",
                       Length::up_to(kFilterValues, "6"))},
       "train_done",
       {field::trained_model().summed(Weighting::samples), field::samples(),
        field::numbers("filter",
                       "means, variances and weights of its clean and its noisy samples' losses; "
                       "none with filter = \"local\"",
                       Length::up_to(kFilterValues, "6"))
            .any_number()}}};
}

void FedDiv::warm_up(std::int64_t number, Server& server) {
  server.notes["stage"] = "warm-up";
  const fedcorr::Schedule schedule = schedule_of(options_, server.setting.clients);
  std::vector<std::int64_t> turn =
      schedule.turn_clients(schedule.step(number), server.setting.seed);
  std::erase_if(turn, [&](std::int64_t client) { return server.fleet.samples(client) == 0; });
  std::ranges::sort(turn);
  Round round(number, server, turn);
  if (turn.empty()) {
    round.note_clients();
    round.note_standstill();
    return;
  }
  fedavg_.play_round(round, std::ssize(turn), "warm_up");
}

void FedDiv::play(std::int64_t number, Server& server) {
  if (schedule_of(options_, server.setting.clients).step(number).stage == 1) {
    warm_up(number, server);
    return;
  }
  Round round(number, server);
  round.chosen = round.draw();
  round.notes["stage"] = "filter";
  std::vector<double> filter;
  if (!filters_.empty()) {
    const feddiv::Filter mean = feddiv::mean_filter(filters_, options_.literal_code);
    round.notes[kNoisyWeight] = mean.weights[1];
    filter = feddiv::values_of(mean);
  }
  Message task = round.task("train").set("filter", filter);
  WeightedMean mean;
  std::map<std::int64_t, feddiv::Contribution> fresh;
  const auto same = [&](std::int64_t) { return task; };
  const auto hear = [&](std::int64_t client, const Message& numbers) {
    const auto own = feddiv::filter_of(numbers.get<std::vector<double>>("filter"));
    if (own.has_value() != (options_.filter == feddiv::FilterOf::all_clients)) {
      return false;
    }
    if (own) {
      fresh[client] = {*own, static_cast<double>(numbers.get<std::uint32_t>("samples"))};
    }
    return true;
  };
  const std::vector<Exchange> known = exchanges(round.setting);
  if (round.by_sums()) {
    const Sums sums =
        round.ask_for_sums(round.chosen, same, exchange_of("train", known).answers, hear);
    if (!sums.added.empty()) {
      mean.set(sums.mean("model"));
    }
  } else {
    round.ask(round.chosen, same, known, [&](std::int64_t client, const Message& reply) {
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
  for (const auto& [client, own] : fresh) {
    filters_[client] = own;
  }
  round.global = mean.finish();
}

Findings FedDiv::findings() const {
  std::map<std::int64_t, double> weights;
  for (const auto& [client, own] : filters_) {
    weights[client] = own.filter.weights[1];
  }
  return {.scores = {{kNoisyWeight, weights}}};
}

void FedDiv::save(Archive& archive) const {
  archive.put_column(kFilters, filters_, [](const feddiv::Contribution& own) {
    return Json{{"filter", feddiv::values_of(own.filter)}, {"samples", own.samples}};
  });
}

void FedDiv::load(const Archive& archive) {
  const auto read = [](const CheckedJson& entry) {
    std::vector<double> values;
    for (const CheckedJson& value : entry.at("filter").elements()) {
      values.push_back(value.number());
    }
    const auto filter = feddiv::filter_of(values);
    if (!filter) {
      throw Error(ErrorKind::run, fmt::format("{}: expected a mixture", entry.name()));
    }
    return feddiv::Contribution{*filter, entry.at("samples").number(1, 1e15)};
  };
  const auto* kept = archive.column<feddiv::Contribution>(kFilters);
  filters_ =
      kept != nullptr ? *kept : ByClient<feddiv::Contribution>(archive.by_client(kFilters, read));
}

MethodInfo feddiv_info() {
  return {.name = "feddiv",
          .group = "noisy-label",
          .summary = "clients share a filter that finds noisy samples by loss",
          .make = [] { return std::make_unique<FedDiv>(); },
          .smoke = Json::object({{"method.warmup", 1},
                                 {"method.warmup_fraction", 0.5},
                                 {"method.usual_rounds", 4},
                                 {"method.wait", 1},
                                 {"method.zeta", 0.1},
                                 {"method.relabel_above", 0.0},
                                 {"method.clean_below", 0.0}})};
}

}  // namespace winnow
