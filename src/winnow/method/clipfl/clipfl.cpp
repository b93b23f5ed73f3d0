#include "winnow/method/clipfl/clipfl.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "winnow/base/error.h"
#include "winnow/federation/selection.h"

namespace winnow {
namespace {

constexpr const char* kState = "clipfl";
constexpr std::uint8_t kReasonNoisy = 1;

// The base method's client, and one answer more. A dismissed client has nothing to forget.
class ClipFLClient : public ClientSide {
 public:
  explicit ClipFLClient(std::unique_ptr<ClientSide> base) : base_(std::move(base)) {}

  Message handle(const Message& task, ClientContext& context) const override {
    return task.kind() == "dismiss" ? Message("dismissed") : base_->handle(task, context);
  }
  void check_memory(ClientContext& context) const override { base_->check_memory(context); }

 private:
  std::unique_ptr<ClientSide> base_;
};

}  // namespace

void ClipFL::declare(Params& params) {
  params.add("base", base_, "the method that trains and fuses").source("paper: FedAvg first");
  params.add("pre_rounds", pre_rounds_, "rounds before pruning (T_pre)")
      .at_least(1)
      .source("paper, of 120 rounds");
  params.add("keep", keep_, "models kept per round before pruning (m)").at_least(1).source("paper");
  params.add("prune", prune_, "share of the clients that is dismissed (p)")
      .range(0, 1)
      .source("paper: the share of noisy clients");
  params.add("fuse", fuse_, "which models are fused before pruning")
      .choices({"kept", "all"})
      .source("kept: the paper's text; all: its listing");
  params.add("tie", tie_, "how equal scores are ordered: flagged per time sampled, or lower id")
      .choices({"ratio", "id"})
      .source("spec: label-noise C.4 #3");
}

void ClipFL::check(const Setting& setting) const {
  if (setting.validation <= 0) {
    throw Error(ErrorKind::experiment, "clipfl needs a validation set at the server",
                "add a [validation] table, for example source = \"split\", share = 0.1");
  }
  if (pre_rounds_ > setting.rounds) {
    throw Error(ErrorKind::experiment,
                fmt::format("method.pre_rounds = {}: expected at most the {} rounds of the run",
                            pre_rounds_, setting.rounds),
                "two thirds of the rounds is what the paper uses");
  }
  if (prune_count(setting.clients) >= setting.clients) {
    throw Error(ErrorKind::experiment,
                fmt::format("method.prune = {}: expected a share that leaves at least one of {} "
                            "clients",
                            prune_, setting.clients),
                "the paper sets it to the share of noisy clients");
  }
  base_->check(setting);
  check_fusions(setting);
}

void ClipFL::check_fusions(const Setting& setting) const {
  const std::string who = fmt::format("base {}", base_.name());
  if (fuse_ == "kept") {
    base_->check_models({.models = std::min(keep_, participants(setting.fraction, setting.clients)),
                         .said = fmt::format("method.keep = {}", keep_),
                         .who = who,
                         .cure = "raise method.keep"});
  }
  if (pre_rounds_ < setting.rounds) {
    const std::int64_t left =
        participants(setting.fraction, setting.clients - prune_count(setting.clients));
    base_->check_models(
        {.models = left,
         .said = fmt::format("method.prune = {}, which leaves {} clients in a round", prune_, left),
         .who = who,
         .cure = "lower method.prune, raise federation.fraction"});
  }
}

std::unique_ptr<ClientSide> ClipFL::client_side() const {
  return std::make_unique<ClipFLClient>(base_->client_side());
}

std::vector<Schema> ClipFL::schemas() const {
  std::vector<Schema> schemas = base_->schemas();
  schemas.push_back({"dismiss", {{"reason", FieldType::u8}}, "dismissed"});
  schemas.push_back({"dismissed", {}});
  return schemas;
}

std::int64_t ClipFL::prune_count(std::int64_t clients) const {
  return static_cast<std::int64_t>(std::floor(prune_ * static_cast<double>(clients) + 1e-9));
}

std::vector<std::int64_t> ClipFL::remaining(const Fleet& fleet) const {
  std::vector<std::int64_t> pool = selectable_clients(fleet);
  std::erase_if(pool, [this](std::int64_t client) { return pruned_ && pruned_->contains(client); });
  return pool;
}

void ClipFL::prune(Server& server) {
  const std::vector<std::int64_t> candidates = selectable_clients(server.fleet);
  const std::vector<std::int64_t> worst =
      ledger_.worst(candidates, prune_count(static_cast<std::int64_t>(candidates.size())),
                    tie_ == "ratio" ? NcsTie::ratio : NcsTie::id);
  pruned_.emplace(worst.begin(), worst.end());
  std::vector<Order> orders;
  for (const std::int64_t client : *pruned_) {
    orders.push_back({client, Message("dismiss").set("reason", kReasonNoisy)});
  }
  if (!orders.empty()) {
    server.fleet.ask(orders, [](std::int64_t, const Message&) {});
  }
  server.notes["pruned"] = *pruned_;
  server.notes["pruned_count"] = pruned_->size();
}

void ClipFL::play(std::int64_t round, Server& server) {
  if (round >= pre_rounds_ && !pruned_) {
    prune(server);
  }
  const std::vector<std::int64_t> pool = remaining(server.fleet);
  const std::int64_t count =
      participants(server.setting.fraction, static_cast<std::int64_t>(pool.size()));
  server.notes["phase"] = pruned_ ? "III" : "I";
  if (pruned_) {
    base_->play_among(pool, count, "train", round, server);
  } else {
    play_screening(round, base_->select(pool, count, round, server), server);
  }
}

void ClipFL::play_screening(std::int64_t round, const std::vector<std::int64_t>& chosen,
                            Server& server) {
  base_->begin(server.global);
  std::vector<Upload> uploads;
  ask_to_train(*base_, "train", round, chosen, server,
               [&](Upload upload) { uploads.push_back(std::move(upload)); });
  const std::set<std::int64_t> flagged = judge(chosen, uploads, server);
  for (const Upload& upload : uploads) {
    if (fuse_ == "all" || !flagged.contains(upload.client)) {
      base_->add(upload);
    }
  }
  server.notes["dropped"] = flagged.size();
  server.global = base_->finish();
  base_->note(server.notes);
}

std::set<std::int64_t> ClipFL::judge(const std::vector<std::int64_t>& chosen,
                                     const std::vector<Upload>& uploads, Server& server) {
  std::vector<State> models;
  models.reserve(uploads.size());
  for (const Upload& upload : uploads) {
    models.push_back(upload.model());
  }
  const std::vector<Score> scores = server.validate(models);
  std::vector<Judgement> judgements;
  std::set<std::int64_t> rejected(chosen.begin(), chosen.end());
  for (std::size_t i = 0; i < uploads.size(); ++i) {
    judgements.push_back({uploads[i].client, scores[i].accuracy()});
    ledger_.judge(judgements.back());
    rejected.erase(uploads[i].client);
  }
  std::set<std::int64_t> flagged = below_the_best(std::move(judgements), keep_);
  for (const std::int64_t client : flagged) {
    ledger_.flag(client);
  }
  for (const std::int64_t client : rejected) {
    ledger_.reject(client);
  }
  flagged.merge(rejected);
  return flagged;
}

Findings ClipFL::findings() const {
  Findings findings;
  if (pruned_) {
    findings.flagged.emplace(pruned_->begin(), pruned_->end());
  }
  findings.scores["ncs"] = ledger_.scores();
  findings.scores["ncs_ratio"] = ledger_.ratios();
  findings.scores["validation_accuracy"] = ledger_.accuracies();
  return findings;
}

void ClipFL::save(Archive& archive) const {
  base_.save(archive);
  Json& state = archive.values[kState];
  state["ledger"] = ledger_.to_json();
  if (pruned_) {
    state["pruned"] = *pruned_;
  }
}

void ClipFL::load(const Archive& archive) {
  base_.load(archive);
  ledger_ = {};
  pruned_.reset();
  const auto state = archive.find(kState);
  if (!state) {
    return;
  }
  ledger_ = NcsLedger::from_json(state->at("ledger"), archive.bounds);
  if (const auto pruned = state->find("pruned")) {
    pruned_ = read_clients(pruned, archive.bounds);
  }
}

MethodInfo clipfl_info() {
  return {"clipfl", "system",
          "dismisses the clients whose models keep failing on the server's validation set",
          [] { return std::make_unique<ClipFL>(); }};
}

}  // namespace winnow
