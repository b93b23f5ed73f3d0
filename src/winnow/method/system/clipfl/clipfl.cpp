#include "winnow/method/system/clipfl/clipfl.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <tuple>

#include "winnow/base/error.h"
#include "winnow/federation/selection.h"

namespace winnow {
namespace {

constexpr const char* kClipState = "clipfl";
constexpr std::uint8_t kReasonNoisy = 1;

// The base method's client, and one answer more. A dismissed client has nothing to forget.
class ClipFLClient : public ClientSide {
 public:
  explicit ClipFLClient(std::unique_ptr<ClientSide> base) : base_(std::move(base)) {}

  Message handle(const Message& task, ClientContext& context) const override {
    return task.kind() == "dismiss"
               ? Message("dismissed")
               : context.as_base([&](ClientContext& base) { return base_->handle(task, base); });
  }
  void check_memory(ClientContext& context) const override {
    context.as_base([&](ClientContext& base) { base_->check_memory(base); });
  }

 private:
  std::unique_ptr<ClientSide> base_;
};

}  // namespace

void ClipFL::declare(Params& params) {
  params.add("base", base_, "base method that trains and aggregates").source("paper: FedAvg first");
  params.add("pre_rounds", options_.pre_rounds, "rounds before noisy clients are pruned (T_pre)")
      .at_least(1)
      .source("paper, of 120 rounds");
  params
      .add("keep", options_.keep,
           "models kept in each round before pruning: the best on the validation set (m)")
      .at_least(1)
      .source("paper");
  params.add("prune", options_.prune, "share of the clients that are pruned (p)")
      .range(0, 1)
      .source("paper: the share of noisy clients");
  params
      .add("fuse", options_.fuse, {{"kept", clipfl::Fuse::kept}, {"all", clipfl::Fuse::all}},
           "models averaged in the rounds before pruning: only those kept, or all")
      .source("kept: the paper's text; all: its listing");
  params
      .add("tie", options_.tie, {{"ratio", clipfl::Tie::ratio}, {"id", clipfl::Tie::id}},
           "how clients with equal noise scores are ordered: by how often they were flagged when "
           "sampled (ratio), or by lower id")
      .source("spec: label-noise C.4 #3");
}

void ClipFL::check(const Setting& setting) const {
  if (setting.validation <= 0) {
    throw Error(ErrorKind::experiment, "clipfl needs a validation set on the server",
                "add a [validation] table, for example source = \"split\", share = 0.1");
  }
  if (options_.pre_rounds > setting.rounds) {
    throw Error(ErrorKind::experiment,
                fmt::format("method.pre_rounds = {}: expected at most the {} rounds of the run",
                            options_.pre_rounds, setting.rounds),
                "two thirds of the rounds is what the paper uses");
  }
  if (prune_count(setting.clients) >= setting.clients) {
    throw Error(ErrorKind::experiment,
                fmt::format("method.prune = {}: expected a share that leaves at least one of {} "
                            "clients",
                            options_.prune, setting.clients),
                "the paper sets it to the share of noisy clients");
  }
  base_->check(setting);
  check_fusions(setting);
}

void ClipFL::check_fusions(const Setting& setting) const {
  const std::string who = fmt::format("base {}", base_.name());
  if (options_.fuse == clipfl::Fuse::kept) {
    base_->check_models(
        {.models = std::min(options_.keep, participants(setting.fraction, setting.clients)),
         .said = fmt::format("method.keep = {}", options_.keep),
         .who = who,
         .cure = "raise method.keep"});
  }
  if (options_.pre_rounds < setting.rounds) {
    const std::int64_t left =
        participants(setting.fraction, setting.clients - prune_count(setting.clients));
    base_->check_models(
        {.models = left,
         .said = fmt::format("method.prune = {}, which leaves {} clients in a round",
                             options_.prune, left),
         .who = who,
         .cure = "lower method.prune, raise federation.fraction"});
  }
}

std::unique_ptr<ClientSide> ClipFL::client_side() const {
  return std::make_unique<ClipFLClient>(base_->client_side());
}

std::vector<Exchange> ClipFL::exchanges(const Setting& setting) const {
  std::vector<Exchange> exchanges = base_->exchanges(setting);
  exchanges.push_back(
      {"dismiss",
       {field::flag("reason", "why it no longer takes part; 1: it was found to be noisy")
            .between(1, 1)},
       "dismissed",
       {}});
  return exchanges;
}

std::int64_t ClipFL::prune_count(std::int64_t clients) const {
  return static_cast<std::int64_t>(
      std::floor(options_.prune * static_cast<double>(clients) + 1e-9));
}

ClientList ClipFL::remaining(const Fleet& fleet) const {
  if (!pruned_ || pruned_->empty()) {
    return selectable_clients(fleet);
  }
  std::vector<std::int64_t> pool = selectable_clients(fleet).ids();
  std::erase_if(pool, [this](std::int64_t client) { return pruned_->contains(client); });
  return pool;
}

void ClipFL::prune(Server& server) {
  const ClientList candidates = selectable_clients(server.fleet);
  const std::vector<std::int64_t> worst =
      ledger_.worst(candidates, prune_count(std::ssize(candidates)), options_.tie);
  pruned_.emplace(worst.begin(), worst.end());
  if (!worst.empty()) {
    // Who does not hear of it is not asked again all the same.
    std::ignore = server.fleet.ask(
        orders_for({pruned_->begin(), pruned_->end()},
                   [](std::int64_t) { return Message("dismiss").set("reason", kReasonNoisy); }),
        [](std::int64_t, const Message&) {});
  }
  server.notes["pruned"] = *pruned_;
  server.notes["pruned_count"] = pruned_->size();
}

void ClipFL::play(std::int64_t number, Server& server) {
  if (number >= options_.pre_rounds && !pruned_) {
    prune(server);
  }
  Round round(number, server, remaining(server.fleet));
  round.notes["phase"] = pruned_ ? "III" : "I";
  if (pruned_) {
    base_->play_round(round, round.share());
  } else {
    play_screening(round);
  }
}

void ClipFL::play_screening(Round& round) {
  round.chosen = base_->select(round, round.share());
  base_->begin(round);
  std::vector<Upload> uploads;
  ask_to_train(*base_, round, "train",
               [&](Upload upload) { uploads.push_back(std::move(upload)); });
  if (round.answered().empty()) {
    return;
  }
  const std::set<std::int64_t> flagged = judge(round, uploads);
  for (const Upload& upload : uploads) {
    if (options_.fuse == clipfl::Fuse::all || !flagged.contains(upload.client)) {
      base_->add(round, upload);
    }
  }
  round.notes["dropped"] = flagged.size();
  if (!round.stands_still(base_->can_finish())) {
    round.global = base_->finish(round);
  }
}

std::set<std::int64_t> ClipFL::judge(const Round& round, const std::vector<Upload>& uploads) {
  std::vector<State> models;
  models.reserve(uploads.size());
  for (const Upload& upload : uploads) {
    models.push_back(upload.model());
  }
  const std::vector<Score> scores = round.server.validate(models);
  std::vector<clipfl::Judgement> judgements;
  for (std::size_t i = 0; i < uploads.size(); ++i) {
    judgements.push_back({uploads[i].client, scores[i].accuracy()});
    ledger_.judge(judgements.back());
  }
  std::set<std::int64_t> flagged = clipfl::below_the_best(std::move(judgements), options_.keep);
  for (const std::int64_t client : flagged) {
    ledger_.flag(client);
  }
  // An absence says nothing about a client's data; a reply that is no use does.
  for (const std::int64_t client : round.rejected) {
    ledger_.reject(client);
    flagged.insert(client);
  }
  return flagged;
}

Findings ClipFL::claims() const {
  Findings findings;
  if (pruned_) {
    findings.flagged.emplace(pruned_->begin(), pruned_->end());
  }
  return findings;
}

Findings ClipFL::findings() const {
  Findings findings = claims();
  findings.scores["ncs"] = ledger_.scores();
  findings.scores["ncs_ratio"] = ledger_.ratios();
  findings.scores["validation_accuracy"] = ledger_.accuracies();
  return findings;
}

void ClipFL::save(Archive& archive) const {
  base_.save(archive);
  ledger_.save(archive, kClipState + std::string("/ledger"));
  if (pruned_) {
    archive.values[kClipState]["pruned"] = *pruned_;
  }
}

void ClipFL::load(const Archive& archive) {
  base_.load(archive);
  pruned_.reset();
  const auto state = archive.find(kClipState);
  ledger_ = clipfl::NcsLedger::load(archive, kClipState + std::string("/ledger"),
                                    state ? state->find("ledger") : std::nullopt);
  if (const auto pruned = state ? state->find("pruned") : std::nullopt) {
    pruned_ = read_clients(pruned, archive.bounds);
  }
}

MethodInfo clipfl_info() {
  return {
      .name = "clipfl",
      .group = "system",
      .summary = "drops clients whose models keep failing on validation data",
      .make = [] { return std::make_unique<ClipFL>(); },
      .smoke = Json::object(
          {{"rounds", 6}, {"method.pre_rounds", 3}, {"method.keep", 3}, {"method.prune", 0.4}})};
}

}  // namespace winnow
