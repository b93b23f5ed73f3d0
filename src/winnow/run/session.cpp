#include "winnow/run/session.h"
#include "winnow/run/absences.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "winnow/base/error.h"
#include "winnow/base/sha256.h"
#include "winnow/engine/prototype.h"
#include "winnow/judge/judge.h"
#include "winnow/model/script_export.h"
#include "winnow/model/script_text.h"
#include "winnow/run/notices.h"
#include "winnow/run/workplace.h"

namespace winnow {
namespace {

// Who attacks how, block by block.
std::vector<Attackers> attackers_of(const Experiment& experiment) {
  std::vector<Attackers> blocks;
  for (std::size_t block = 0; block < experiment.noise.size(); ++block) {
    const auto* attack = std::get_if<Attack>(&experiment.noise[block]);
    if (attack == nullptr) {
      continue;
    }
    if (experiment.federation.centralised) {
      throw Error(ErrorKind::experiment,
                  fmt::format("noise.{}: an attack needs clients of its own", block),
                  "federation.centralised brings all samples to one client");
    }
    const std::vector<std::int64_t> clients =
        attack->attackers(experiment.federation.clients, experiment.seed, block);
    blocks.push_back({attack->options(), {clients.begin(), clients.end()}});
  }
  return blocks;
}

std::vector<double> counts_by_class(const Labels& labels, std::int64_t classes) {
  std::vector<double> counts(static_cast<std::size_t>(classes));
  for (const std::int64_t label : labels) {
    counts.at(static_cast<std::size_t>(label)) += 1.0;
  }
  return counts;
}

// The rounds of a checkpoint, which may be forged: they count up from 1, and so do their totals.
History history_of(const Json& saved) {
  History history;
  Traffic before;
  for (const CheckedJson& record : CheckedJson(saved, "history").elements()) {
    const std::int64_t number = std::ssize(history) + 1;
    record.at("round").whole(number, number);
    for (const char* share : {"accuracy", "label_precision", "label_recall", "top5",
                              "macro_precision", "macro_recall", "macro_f1"}) {
      if (const auto value = record.find(share); value && !value->is_null()) {
        value->number(0.0, 1.0);
      }
    }
    for (const char* name : {"loss", "train_loss"}) {
      if (const auto loss = record.find(name); loss && !loss->is_null()) {
        loss->number();
      }
    }
    for (const auto& [name, least] : {std::pair{"participations", before.participations},
                                      {"bytes_up", before.bytes_up},
                                      {"bytes_down", before.bytes_down},
                                      {"client_steps", before.client_steps}}) {
      record.at(name).whole(least, CheckedJson::kMost);
    }
    for (const auto& [name, least] : {std::pair{"forward_passes", before.passes.forward},
                                      {"backward_passes", before.passes.backward}}) {
      if (const auto count = record.find(name)) {
        count->whole(least, CheckedJson::kMost);
      }
    }
    record.at("train_seconds").number(0.0);
    record.at("seconds").number(0.0);
    record.at("hash").text();
    history.push_back(RoundRecord::from_json(record.json()));
    before = history.back().traffic;
  }
  return history;
}

}  // namespace

Session::Session(const Experiment& experiment, const Registry& registry, const Runtime& runtime,
                 const std::atomic<bool>* stop)
    : Session(experiment,
              runtime.engines.find(runtime.engine).host(experiment, registry, runtime, stop),
              stop) {}

Session::Session(const Experiment& experiment, Hosted hosted, const std::atomic<bool>* stop)
    : experiment_(experiment),
      stop_(stop),
      hosted_(std::move(hosted)),
      setting_(hosted_.place->setting()),
      world_(hosted_.place->world()),
      prototype_(hosted_.place->prototype()),
      examiner_(hosted_.examiner),
      engine_(hosted_.engine.get()),
      method_(&hosted_.place->method()),
      started_(std::chrono::steady_clock::now()) {
  const FederationOptions& federation = experiment.federation;
  Fleet* fleet = engine_;
  if (std::vector<Attackers> attackers = attackers_of(experiment); !attackers.empty()) {
    hostile_ = std::make_unique<HostileFleet>(*engine_, std::move(attackers), experiment.seed);
    fleet = hostile_.get();
  }
  fleet_ = std::make_unique<AbsentFleet>(*fleet, federation.dropout, experiment.seed,
                                         federation.absences.empty()
                                             ? Absences()
                                             : read_absences(federation.absences, engine_->size()));
  rounds_ = method_->rounds(setting_);
  notices_ = make_notices(experiment, *method_, setting_, world_);
  notices_.insert(notices_.end(), hosted_.notices.begin(), hosted_.notices.end());
  if (const auto& own = hosted_.place->own_model(); own && !own->notice().empty()) {
    notices_.push_back(own->notice());
  }
  global_ = prototype_.initial_state(experiment.seed);
  if (!experiment.model.weights.empty()) {
    if (!std::filesystem::exists(experiment.model.weights)) {
      throw Error(
          ErrorKind::data,
          fmt::format("model.weights = \"{}\": no such file", experiment.model.weights),
          fmt::format("put weights of {} there or into data/: timm's, torchvision's or those "
                      "of another run, as safetensors; docs/experiment.md, [model]",
                      experiment.model.name));
    }
    LoadedWeights loaded = load_weights(experiment.model.weights, global_, prototype_.head_name());
    global_ = loaded.state.to(prototype_.device());
    weight_source_ = std::move(loaded.source);
  }
}

Session::~Session() = default;

bool Session::has_script() const {
  return hosted_.place->own_model().has_value() || has_script_text(experiment_.model.name);
}

void Session::write_script(const ScriptSink& sink) const {
  const Normalisation& normalisation = world_.data.normalisation;
  if (const auto& own = hosted_.place->own_model()) {
    own->write_trained(global_, normalisation, sink);
  } else {
    export_script(experiment_.model.name, prototype_.shape(), global_, normalisation, sink);
  }
}

double Session::seconds() const {
  return seconds_before_ +
         std::chrono::duration<double>(std::chrono::steady_clock::now() - started_).count();
}

std::string Session::model_hash() const {
  if (measured() == Measured::global) {
    return hash(global_);
  }
  Sha256 all;
  for (const auto& [client, hash] : engine_->own_hashes()) {
    all.update(fmt::format("{} {}\n", client, hash));
  }
  return all.hex();
}

bool Session::measures() const {
  return measured() == Measured::global || engine_->shows_own_models();
}

Score Session::evaluate() {
  switch (measured()) {
    case Measured::clients:
      return examiner_->evaluate_each();
    case Measured::ensemble:
      return examiner_->evaluate_ensemble();
    default:
      return examiner_->evaluate(global_);
  }
}

Session::Played Session::play() {
  const std::int64_t round = rounds_done();
  if (!knows_kept_) {
    note_method();
  }
  const Traffic traffic_before = engine_->traffic();
  const State global_before = global_;
  Played played;
  try {
    engine_->begin(round);
    fleet_->begin(round);
    if (hostile_) {
      hostile_->begin(round);
    }
    Server server{setting_, *fleet_, global_, played.notes};
    server.pause = [this] {
      if (stop_ != nullptr && *stop_) {
        throw Interrupted();
      }
    };
    server.initial = [this](std::uint64_t seed) { return prototype_.initial_state(seed); };
    if (setting_.validation > 0) {
      server.validate = [this](const std::vector<State>& models) {
        return examiner_->validate(models);
      };
    }
    method_->play(round, server);
    engine_->end();
    if (!fleet_->absences().empty()) {
      played.notes["absent"] = absences_to_json(fleet_->absences());
    }
    if (const auto present = engine_->present()) {
      played.notes["present"] = *present;
    }
    // The last rounds always, so that last10 is a mean over ten rounds and not ten evaluations.
    const bool due = (round + 1) % experiment_.eval_every == 0 || round >= rounds_ - kLastRounds;
    if (due && measures()) {
      const Score score = evaluate();
      played.record.accuracy = score.accuracy();
      played.record.loss = score.mean_loss();
      if (setting_.classes > 5) {
        played.record.top5 = score.top5();
      }
      const MacroScore macro = score.macro();
      played.record.macro_precision = macro.precision;
      played.record.macro_recall = macro.recall;
      played.record.macro_f1 = macro.f1;
      for (const auto& [name, model] : method_->also_measured(setting_)) {
        played.notes[name] = examiner_->evaluate(model.to(prototype_.device())).accuracy();
      }
    }
  } catch (...) {
    engine_->rollback();
    engine_->restore(traffic_before);
    global_ = global_before;
    method_->load(kept_);
    throw;
  }
  const bool keeps = !method_->keeps_labels_as(round, setting_).empty();
  const Traces traces_before = keeps ? engine_->traces() : Traces();
  played.record.train_loss = engine_->training_loss().mean();
  const std::vector<std::int64_t> changed = engine_->commit();
  played.record.round = round + 1;
  played.record.traffic = engine_->traffic();
  played.record.seconds = seconds();
  played.record.hash = model_hash();
  if (const auto chosen = judge_selection(world_, engine_->traces(), changed)) {
    played.record.label_precision = chosen->label_precision;
    played.record.label_recall = chosen->label_recall;
  }
  played.labels = labels_after(round, traces_before);
  played.quality = judge(world_, method_->claims(), engine_->traces());
  history_.push_back(played.record);
  note_method();
  return played;
}

void Session::note_method() {
  Archive now;
  method_->save(now);
  each_changed_client(kept_, now, [this](std::int64_t client) { server_changes_.insert(client); });
  kept_ = std::move(now);
  knows_kept_ = true;
}

Json Session::labels_after(std::int64_t round, const Traces& before) const {
  const std::string name = method_->keeps_labels_as(round, setting_);
  if (name.empty() || !world_.truth_known) {
    return nullptr;
  }
  Json json{{"name", name}, {"round", round + 1}};
  json.update(judge_labels(world_, before, engine_->traces()));
  return json;
}

Json Session::first_labels() const {
  return labels_after(-1, {});
}

void Session::measure_local_models() {
  if (!experiment_.local_accuracy || !engine_->shows_own_models()) {
    return;
  }
  const Labels& labels = world_.data.test.labels;
  const std::vector<double> of_class = counts_by_class(labels, setting_.classes);
  const Kept kept = measured() == Measured::global ? Kept::last : Kept::own;
  for (const auto& [client, right] : examiner_->right_by_class(kept)) {
    const ClientData& held = world_.clients[static_cast<std::size_t>(client)];
    Labels truth;
    for (const std::int64_t sample : held.samples) {
      truth.push_back(world_.data.train.labels[static_cast<std::size_t>(sample)]);
    }
    const std::vector<double> own = counts_by_class(truth, setting_.classes);
    double all_right = 0.0;
    double own_right = 0.0;
    double own_all = 0.0;
    for (std::size_t c = 0; c < right.size(); ++c) {
      all_right += static_cast<double>(right[c]);
      if (of_class[c] > 0.0) {
        own_right += own[c] * static_cast<double>(right[c]) / of_class[c];
        own_all += own[c];
      }
    }
    local_scores_["local_accuracy"][client] =
        all_right / std::max(1.0, static_cast<double>(labels.size()));
    if (own_all > 0.0) {
      local_scores_["local_accuracy_own"][client] = own_right / own_all;
    }
  }
}

Findings Session::findings() const {
  Findings findings = method_->findings();
  findings.scores.insert(local_scores_.begin(), local_scores_.end());
  return findings;
}

std::vector<MemoryPart> Session::save_parts(const std::filesystem::path& folder) {
  return engine_->save_parts(folder, rounds_done());
}

Checkpoint Session::head() const {
  Checkpoint head;
  head.experiment_hash = experiment_.hash();
  head.rounds_done = rounds_done();
  head.global = global_;
  if (knows_kept_) {
    head.method = kept_;
  } else {
    method_->save(head.method);
  }
  head.traffic = engine_->traffic();
  head.wall_seconds = seconds();
  return head;
}

Checkpoint Session::checkpoint() const {
  Checkpoint checkpoint = head();
  checkpoint.clients = engine_->memories();
  for (const RoundRecord& record : history_) {
    checkpoint.history.push_back(record.to_json());
  }
  return checkpoint;
}

void Session::save_changes(SegmentLog& log) {
  const std::vector<std::int64_t> remembering = engine_->take_changed();
  std::set<std::int64_t> changed = std::exchange(server_changes_, {});
  changed.insert(remembering.begin(), remembering.end());
  for (const std::int64_t client : changed) {
    ClientRecord record{.server = server_entry(kept_, client)};
    if (log.has_memory(client) || std::ranges::binary_search(remembering, client)) {
      record.memory = engine_->memory(client);
    }
    log.append(client, encode_record(client, record), record.memory.has_value());
    if (record.memory) {
      drop_pages(*record.memory);
    }
  }
}

void Session::forget_changes() {
  engine_->take_changed();
  server_changes_.clear();
}

Bounds Session::bounds() const {
  Bounds bounds{
      .classes = setting_.classes, .features = setting_.features, .layout = setting_.layout};
  for (std::int64_t client = 0; client < engine_->size(); ++client) {
    bounds.samples.push_back(engine_->samples(client));
  }
  return bounds;
}

void Session::check_restored() const {
  const Traffic last = history_.empty() ? Traffic() : history_.back().traffic;
  const Traffic& now = engine_->traffic();
  if (last.participations != now.participations || last.bytes_down != now.bytes_down ||
      last.bytes_up != now.bytes_up || last.client_steps != now.client_steps ||
      last.passes.forward != now.passes.forward || last.passes.backward != now.passes.backward) {
    throw Error(ErrorKind::run, "traffic is not what it was after the last round of the history");
  }
  if (history_.empty()) {
    return;
  }
  // Who was absent when models were made has none yet; its method knows.
  const FederationOptions& federation = experiment_.federation;
  const bool all_answer = federation.dropout == 0.0 && federation.absences.empty();
  if (measured() != Measured::global && all_answer && engine_->shows_own_models()) {
    const auto hashes = engine_->own_hashes();
    for (const std::int64_t client : engine_->with_samples()) {
      if (!hashes.contains(client)) {
        throw Error(ErrorKind::run, fmt::format("client {} has no model", client));
      }
    }
  }
  if (model_hash() != history_.back().hash) {
    throw Error(ErrorKind::run,
                fmt::format("the model is not the one of round {}", history_.back().round));
  }
}

void Session::restore(Checkpoint checkpoint) {
  History history = history_of(checkpoint.history);
  if (checkpoint.rounds_done != std::ssize(history) || checkpoint.rounds_done > rounds_) {
    throw Error(ErrorKind::run,
                fmt::format("rounds_done = {}: there are {} rounds in the history, and {} in the "
                            "experiment",
                            checkpoint.rounds_done, history.size(), rounds_));
  }
  for (const auto& [client, place] : checkpoint.places) {
    if (client < 0 || client >= engine_->size()) {
      throw Error(ErrorKind::run, fmt::format("client {}: it is not one of the {} clients", client,
                                              engine_->size()));
    }
  }
  global_ = checkpoint.global.to(prototype_.device());
  checkpoint.method.bounds = bounds();
  method_->load(checkpoint.method);
  checkpoint.method = {};
  engine_->restore(std::move(checkpoint.clients));
  engine_->restore(checkpoint.traffic);
  engine_->settled(checkpoint.rounds_done);
  history_ = std::move(history);
  check_restored();
  kept_ = {};
  server_changes_.clear();
  note_method();
  seconds_before_ = checkpoint.wall_seconds;
  started_ = std::chrono::steady_clock::now();
}

}  // namespace winnow
