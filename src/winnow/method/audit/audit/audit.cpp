#include "winnow/method/audit/audit/audit.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "winnow/base/error.h"
#include "winnow/method/audit/audit/letters.h"
#include "winnow/method/base_method.h"
#include "winnow/method/local_training.h"

namespace winnow {
namespace {

// The numbers that an audit ends with for every client.
constexpr const char* kNoiseRate = "noise_rate";
constexpr std::array kFoundNames{
    kNoiseRate,  "noise_rate_low",  "noise_rate_high", "excess_rate",   "kind",
    "judged",    "p_nothing_wrong", "p_label_noise",   "p_input_noise", "p_rare_but_honest",
    "p_hostile", "label_issues",    "input_issues"};
constexpr std::size_t kFirstVerdict = 6;

std::string model_name(std::int64_t fold) {
  return fmt::format("model_{}", fold);
}

// FedAvg over the clients of other folds; tasks say for which fold they are.
class FoldTraining final : public BaseMethod {
 public:
  FoldTraining(std::int64_t fold, const std::vector<std::int64_t>& trainers) : fold_(fold) {
    for (std::size_t i = 0; i < trainers.size(); ++i) {
      places_[trainers[i]] = static_cast<std::int64_t>(i);
    }
  }
  // Every client under a number of its choice.
  FoldTraining(std::int64_t fold, std::map<std::int64_t, std::int64_t> places)
      : fold_(fold), places_(std::move(places)) {}

  std::vector<Exchange> exchanges(const Setting& setting) const override {
    return audit::exchanges(setting.classes);
  }
  Message task(const Round& round, std::int64_t client) const override {
    return round.task("train")
        .set("fold", static_cast<std::uint32_t>(fold_))
        .set("place", static_cast<std::uint32_t>(places_.at(client)));
  }

 private:
  std::int64_t fold_;
  std::map<std::int64_t, std::int64_t> places_;
};

}  // namespace

void AuditMethod::declare(Params& params) {
  params
      .add("folds", options_.folds,
           "number of models, each trained without one part of the clients, which it then judges")
      .range(2, 100);
  params
      .add("label_smoothing", options_.label_smoothing,
           "label smoothing of the models that judge, instead of train.label_smoothing")
      .range(0.0, 0.999)
      .source("spec: audit 1");
  params
      .add("least", options_.least,
           "classes of which a client has fewer samples are left out of its sums, so that no sum "
           "is over so few samples; clients with fewer samples in total are not judged")
      .range(1, 1'000'000);
}

void AuditMethod::check(const Setting& setting) const {
  if (setting.clients < options_.folds) {
    throw Error(ErrorKind::experiment,
                fmt::format("method.folds = {}: expected at most as many as there are clients, {}",
                            options_.folds, setting.clients),
                "lower method.folds");
  }
  check_pairs("audit", setting);
}

std::int64_t AuditMethod::rounds(const Setting& setting) const {
  return options_.folds * setting.rounds + 1;
}

std::string AuditMethod::schedule(const Setting& setting) const {
  return fmt::format("folds {} x rounds {} + 1", options_.folds, setting.rounds);
}

std::unique_ptr<ClientSide> AuditMethod::client_side() const {
  return std::make_unique<audit::Client>(options_);
}

std::vector<Exchange> AuditMethod::exchanges(const Setting& setting) const {
  return audit::exchanges(setting.classes);
}

void AuditMethod::deal(Server& server, std::int64_t number) {
  const std::vector<std::int64_t> holders = selectable_clients(server.fleet);
  if (number == 0) {
    if (std::ssize(holders) < options_.folds) {
      throw Error(ErrorKind::run,
                  fmt::format("{} clients hold samples, fewer than method.folds = {}",
                              holders.size(), options_.folds),
                  "lower method.folds");
    }
    folds_ = audit::deal_folds(holders, options_.folds, server.setting.seed, 0);
    return;
  }
  for (const std::int64_t client : holders) {
    folds_.try_emplace(client, std::ssize(folds_) % options_.folds);
  }
}

std::vector<std::int64_t> AuditMethod::members_of(std::int64_t fold, const Fleet& fleet) const {
  std::vector<std::int64_t> clients;
  for (const auto& [client, own] : folds_) {
    if (own == fold && fleet.samples(client) > 0) {
      clients.push_back(client);
    }
  }
  return clients;
}

std::vector<std::int64_t> AuditMethod::trainers_of(std::int64_t fold) const {
  std::vector<std::int64_t> clients;
  for (const auto& [client, own] : folds_) {
    if (own != fold) {
      clients.push_back(client);
    }
  }
  return clients;
}

void AuditMethod::play(std::int64_t number, Server& server) {
  deal(server, number);
  const std::int64_t fold = number / server.setting.rounds;
  if (fold < options_.folds) {
    server.notes["fold"] = fold + 1;
    play_fold(fold, number % server.setting.rounds, server);
    return;
  }
  std::vector<std::int64_t> judged;
  for (const auto& [client, own] : folds_) {
    if (server.fleet.samples(client) >= options_.least) {
      judged.push_back(client);
    }
  }
  Round round(number, server, std::move(judged));
  judge(round);
}

// As a run of the clients of the other folds alone, with a seed of its own.
void AuditMethod::play_fold(std::int64_t fold, std::int64_t number, Server& server) {
  Setting setting = server.setting;
  setting.seed = audit::fold_seed(server.setting.seed, fold);
  if (number == 0) {
    if (!server.initial) {
      throw Error(ErrorKind::internal, "an audit needs Server::initial");
    }
    server.global = server.initial(setting.seed);
  }
  Server own{setting, server.fleet, server.global, server.notes, server.validate, server.initial};
  const std::vector<std::int64_t> trainers = trainers_of(fold);
  std::vector<std::int64_t> pool = trainers;
  std::erase_if(pool, [&](std::int64_t client) { return server.fleet.samples(client) == 0; });
  Round round(number, own, std::move(pool));
  FoldTraining training(fold, trainers);
  training.play_round(round, round.share());
  if (number + 1 == server.setting.rounds) {
    models_[fold] = server.global.flat;
    probe(fold, own);
  }
}

void AuditMethod::probe(std::int64_t fold, Server& server) {
  const std::vector<std::int64_t> clients = members_of((fold + 1) % options_.folds, server.fleet);
  std::map<std::int64_t, std::int64_t> places;
  for (const std::int64_t client : clients) {
    places[client] = client;
  }
  Round round(server.setting.rounds, server, clients);
  const FoldTraining training(fold, std::move(places));
  std::map<std::int64_t, at::Tensor> updates;
  round.ask(
      clients, [&](std::int64_t client) { return training.task(round, client); },
      exchanges(server.setting),
      [&](std::int64_t client, const Message& reply) {
        updates[client] = audit::thinned_update(round.global, reply.get<State>("model"));
      });
  std::vector<at::Tensor> each;
  for (const auto& [client, update] : updates) {
    each.push_back(update);
  }
  const std::vector<audit::UpdateShape> shapes = audit::compare_updates(each);
  std::size_t next = 0;
  for (const auto& [client, update] : updates) {
    update_cosine_[client] = shapes[next].cosine;
    update_norm_[client] = shapes[next].norm;
    ++next;
  }
}

std::map<std::int64_t, audit::FirstSums> AuditMethod::ask_first(Round& round) const {
  const audit::Scale scale{round.setting.classes, options_.least};
  std::map<std::int64_t, audit::FirstSums> first;
  round.ask(
      round.chosen,
      [&](std::int64_t client) {
        const at::Tensor& flat = models_.at(folds_.at(client));
        return Message("sums").set("model",
                                   State{round.global.layout, flat.to(round.global.flat.device())});
      },
      exchanges(round.setting),
      [&](std::int64_t client, const Message& reply) {
        auto sums = audit::read_first(reply, scale, round.fleet.samples(client));
        if (sums) {
          first.emplace(client, std::move(*sums));
        } else {
          round.reject(client);
        }
      });
  return first;
}

std::map<std::int64_t, audit::SecondSums> AuditMethod::ask_second(
    Round& round, std::map<std::int64_t, audit::FirstSums>& first) const {
  const audit::Scale scale{round.setting.classes, options_.least};
  const auto classes = static_cast<std::size_t>(scale.classes);
  // A class that nobody outside of a fold holds is unknown to its model: spec: audit 1
  std::vector<std::vector<bool>> known(static_cast<std::size_t>(options_.folds),
                                       std::vector<bool>(classes, false));
  std::vector<StatHistogram> distances(known.size());
  for (const auto& [client, sums] : first) {
    const auto own = static_cast<std::size_t>(folds_.at(client));
    distances[own] += sums.distance;
    for (std::size_t fold = 0; fold < known.size(); ++fold) {
      for (std::size_t c = 0; c < classes; ++c) {
        known[fold][c] = known[fold][c] || (fold != own && sums.held[c] > 0);
      }
    }
  }
  audit::Population all(scale.classes);
  for (auto& [client, sums] : first) {
    const auto own = static_cast<std::size_t>(folds_.at(client));
    for (std::size_t c = 0; c < classes; ++c) {
      if (!known[own][c]) {
        sums.labels.forget(static_cast<std::int64_t>(c));
      }
    }
    all += sums;
  }
  const audit::Told told = audit::tell(all);
  std::vector<ThresholdSums> labels(known.size(), ThresholdSums(scale.classes));
  for (const auto& [client, sums] : first) {
    labels[static_cast<std::size_t>(folds_.at(client))] += sums.labels;
  }
  std::vector<std::int64_t> clients;
  for (const auto& [client, sums] : first) {
    clients.push_back(client);
  }
  std::map<std::int64_t, audit::SecondSums> second;
  round.ask(
      clients,
      [&](std::int64_t client) {
        const auto fold = static_cast<std::size_t>(folds_.at(client));
        audit::Told own = told;
        own.distance = audit::middle_distance(distances[fold]);
        own.thresholds = audit::fold_thresholds(labels[fold], all.labels);
        return audit::write_told(own, known[fold]);
      },
      exchanges(round.setting),
      [&](std::int64_t client, const Message& reply) {
        auto sums = audit::read_second(reply, scale, first.at(client));
        if (sums) {
          second.emplace(client, std::move(*sums));
        } else {
          round.reject(client);
        }
      });
  return second;
}

void AuditMethod::judge(Round& round) {
  round.chosen = round.pool;
  std::map<std::int64_t, audit::FirstSums> first = ask_first(round);
  const std::map<std::int64_t, audit::SecondSums> second = ask_second(round, first);
  if (!round.note_replies() || second.empty()) {
    round.note_standstill();
    return;
  }
  // Who has said the first thing only is part of the population, and nothing is said of it.
  audit::Population all(round.setting.classes);
  for (const auto& [client, sums] : first) {
    all += sums;
  }
  std::vector<audit::Member> members;
  ThresholdSums judged(round.setting.classes);
  for (const auto& [client, sums] : second) {
    members.push_back({&first.at(client), &sums, folds_.at(client)});
    judged += first.at(client).labels;
  }
  const audit::Pooled pooled(round.setting.classes, members);
  std::map<std::int64_t, ClientFinding> found;
  std::size_t place = 0;
  for (const auto& [client, sums] : second) {
    const auto cosine = update_cosine_.find(client);
    audit::UpdateShape update;
    if (cosine != update_cosine_.end()) {
      update = {cosine->second, update_norm_.at(client)};
    }
    found.emplace(client, audit::describe(first.at(client), sums, all, pooled, place++, update));
  }
  const double rate =
      noise_rate(calibrated_joint(pooled.counts, judged.samples()), round.setting.classes);
  round.notes["noise_rate"] = rate;
  close(round, found, pooled.bars);
}

void AuditMethod::close(Round& round, const std::map<std::int64_t, ClientFinding>& found,
                        const std::vector<double>& bars) {
  found_.clear();
  Json verdicts = Json::object();
  std::vector<std::int64_t> clients;
  for (const auto& [client, finding] : found) {
    clients.push_back(client);
    const std::array<double, kFirstVerdict> numbers{finding.noise_rate,
                                                    finding.interval.low,
                                                    finding.interval.high,
                                                    finding.kind.rate,
                                                    static_cast<double>(finding.kind.kind),
                                                    static_cast<double>(finding.judged)};
    for (std::size_t n = 0; n < kFirstVerdict; ++n) {
      found_[kFoundNames[n]][client] = numbers[n];
    }
    for (std::size_t v = 0; v < kVerdicts; ++v) {
      found_[kFoundNames[kFirstVerdict + v]][client] = finding.probabilities[v];
    }
    verdicts[std::to_string(client)] = {{"verdict", verdict_name(finding.verdict)},
                                        {"probability", finding.probability()},
                                        {"noise_rate", finding.noise_rate},
                                        {"kind", finding.kind_text()},
                                        {"too_few_to_say", finding.too_few}};
  }
  round.ask(
      clients,
      [&](std::int64_t client) {
        const ClientFinding& finding = found.at(client);
        return audit::write_outcome({.bars = bars,
                                     .noise_rate = finding.noise_rate,
                                     .interval = finding.interval,
                                     .kind = finding.kind.kind,
                                     .excess_rate = finding.kind.rate,
                                     .probabilities = finding.probabilities});
      },
      exchanges(round.setting),
      [&](std::int64_t client, const Message& reply) {
        found_["label_issues"][client] = reply.get<std::uint32_t>("label_issues");
        found_["input_issues"][client] = reply.get<std::uint32_t>("input_issues");
      });
  round.notes["verdicts"] = std::move(verdicts);
}

Findings AuditMethod::findings() const {
  if (found_.empty()) {
    return {};
  }
  std::vector<std::int64_t> flagged;
  for (const auto& [client, rate] : found_.at(kNoiseRate)) {
    std::array<double, kVerdicts> probabilities{};
    for (std::size_t v = 0; v < kVerdicts; ++v) {
      probabilities[v] = found_.at(kFoundNames[kFirstVerdict + v]).at(client);
    }
    const Verdict verdict = likeliest_verdict(probabilities);
    if (verdict != Verdict::nothing_wrong && verdict != Verdict::rare_but_honest) {
      flagged.push_back(client);
    }
  }
  return {.flagged = std::move(flagged), .noise_levels = found_.at(kNoiseRate), .scores = found_};
}

std::string AuditMethod::keeps_labels_as(std::int64_t round, const Setting& setting) const {
  return round + 1 == rounds(setting) ? "audit" : "";
}

void AuditMethod::save(Archive& archive) const {
  archive.put_by_client("folds", folds_);
  for (const auto& [fold, model] : models_) {
    archive.put(model_name(fold), model);
  }
  archive.put_by_client("update_cosine", update_cosine_);
  archive.put_by_client("update_norm", update_norm_);
  for (const auto& [name, values] : found_) {
    archive.put_by_client(name, values);
  }
}

void AuditMethod::load(const Archive& archive) {
  folds_ = archive.by_client(
      "folds", [this](const CheckedJson& fold) { return fold.whole(0, options_.folds - 1); });
  models_.clear();
  for (std::int64_t fold = 0; fold < options_.folds; ++fold) {
    if (const at::Tensor model = archive.model(model_name(fold)); model.defined()) {
      models_[fold] = model;
    }
  }
  update_cosine_ = archive.numbers("update_cosine");
  update_norm_ = archive.numbers("update_norm", 0.0);
  found_.clear();
  for (const char* name : kFoundNames) {
    if (archive.find(name)) {
      found_[name] = archive.numbers(name, 0.0);
    }
  }
  if (!found_.empty()) {
    for (std::size_t n = 0; n < kFirstVerdict + kVerdicts; ++n) {
      const auto values = found_.find(kFoundNames[n]);
      if (values == found_.end() || values->second.size() != found_.begin()->second.size()) {
        throw Error(ErrorKind::run,
                    fmt::format("{}: not of the clients that were judged", kFoundNames[n]));
      }
    }
  }
}

MethodInfo audit_info() {
  return {.name = "audit",
          .group = "audit",
          .summary = "judges labels and images with models that never saw them",
          .make = [] { return std::make_unique<AuditMethod>(); },
          .smoke = Json::object({{"method.folds", 2}, {"method.least", 2}}),
          .competes = false};
}

}  // namespace winnow
