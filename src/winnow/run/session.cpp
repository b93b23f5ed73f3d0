#include "winnow/run/session.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <torch/cuda.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include "winnow/base/error.h"
#include "winnow/base/sha256.h"
#include "winnow/engine/keeping_client.h"
#include "winnow/engine/threads.h"
#include "winnow/model/projected_net.h"
#include "winnow/model/script_export.h"
#include "winnow/run/judge.h"
#include "winnow/run/notices.h"

namespace winnow {
namespace {

std::int64_t choose_lanes(std::int64_t wanted, at::Device device) {
  if (wanted > 0 || device.is_cuda()) {
    return wanted;  // 0: a GPU's are found by measuring
  }
  return std::max<std::int64_t>(1, std::thread::hardware_concurrency());
}

std::optional<ScriptModel> read_own_model(const ModelOptions& model) {
  return model.name == kTorchScript ? std::make_optional<ScriptModel>(model.path) : std::nullopt;
}

// On a GPU steps are captured as graphs and weights are kept in copies. User modules may not
// support this, so they run on the CPU.
at::Device device_for(const ModelOptions& model, const std::string& name) {
  if (model.name != kTorchScript) {
    return choose_device(name);
  }
  if (name.starts_with("cuda")) {
    throw Error(ErrorKind::usage,
                fmt::format("--device {}: torchscript models train on a CPU", name),
                "leave --device out, or use --device cpu");
  }
  return choose_device(name == "auto" ? "cpu" : name);
}

std::int64_t input_size(const ModelOptions& model) {
  if (model.resize > 0 || model.name == kTorchScript) {
    return model.resize;
  }
  return find_net(model.name).resize;
}

std::unique_ptr<LocalEngine> make_engine(const Experiment& experiment, const World& world,
                                         const std::optional<ScriptModel>& own_model,
                                         const Runtime& runtime, const std::atomic<bool>* stop) {
  use_one_thread_per_operation();
  const NetInfo plain = own_model ? own_model->info() : find_net(experiment.model.name);
  const NetInfo net =
      experiment.model.projection > 0 ? projected(plain, experiment.model.projection) : plain;
  LocalEngineOptions options;
  options.device = device_for(experiment.model, runtime.device);
  options.lanes = choose_lanes(runtime.lanes, options.device);
  options.precision = choose_precision(runtime.precision, options.device);
  allow_tf32_on_gpu(options.precision != Precision::fp32);
  go_first(options.device);  // lanes wait for the fold, so it must not queue behind them
  options.augment = world.data.augment;
  options.resize = input_size(experiment.model);
  options.seed = experiment.seed;
  options.public_images = world.public_images;
  return std::make_unique<LocalEngine>(world.data, world.clients, net, experiment.train, options,
                                       stop);
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
    const auto number = static_cast<std::int64_t>(history.size()) + 1;
    record.at("round").whole(number, number);
    for (const char* share : {"accuracy", "label_precision", "label_recall", "top5"}) {
      if (const auto value = record.find(share); value && !value->is_null()) {
        value->number(0.0, 1.0);
      }
    }
    if (const auto loss = record.find("loss"); loss && !loss->is_null()) {
      loss->number();
    }
    for (const auto& [name, least] : {std::pair{"participations", before.participations},
                                      {"bytes_up", before.bytes_up},
                                      {"bytes_down", before.bytes_down},
                                      {"client_steps", before.client_steps}}) {
      record.at(name).whole(least, CheckedJson::kMost);
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

std::string precision_name(Precision precision) {
  switch (precision) {
    case Precision::tf32:
      return "tf32";
    case Precision::bf16:
      return "bf16";
    default:
      return "fp32";
  }
}

Precision choose_precision(const std::string& name, at::Device device) {
  if (name == "auto") {
    return device.is_cpu() ? Precision::fp32 : Precision::tf32;
  }
  if (name == "fp32") {
    return Precision::fp32;
  }
  if (name != "tf32" && name != "bf16") {
    throw Error(ErrorKind::usage,
                fmt::format("--precision {}: expected fp32, tf32, bf16 or auto", name));
  }
  if (device.is_cpu()) {
    throw Error(ErrorKind::usage, fmt::format("--precision {}: a CPU computes in fp32", name),
                "leave --precision out, or use --device cuda");
  }
  return name == "tf32" ? Precision::tf32 : Precision::bf16;
}

at::Device choose_device(const std::string& name) {
  // More hardware queues than the default 8, so that the streams of many lanes do not wait for each
  // other. Read once, when CUDA starts; what the user has set is left alone.
  setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", /*overwrite=*/0);  // NOLINT(concurrency-mt-unsafe)
  const bool has_cuda = torch::cuda::is_available();
  if (name == "auto") {
    return has_cuda ? at::Device(at::kCUDA, 0) : at::Device(at::kCPU);
  }
  if (name == "cpu") {
    return at::kCPU;
  }
  if (name != "cuda" && !name.starts_with("cuda:")) {
    throw Error(ErrorKind::usage,
                fmt::format("--device {}: expected cpu, cuda, cuda:N or auto", name));
  }
  if (!has_cuda) {
    throw Error(ErrorKind::usage, fmt::format("--device {}: no CUDA device can be used here", name),
                "use --device cpu, or a LibTorch built with CUDA on a machine that has a GPU");
  }
  int index = 0;
  if (name.size() > 5) {
    const char* end = name.data() + name.size();
    const auto [rest, error] = std::from_chars(name.data() + 5, end, index);
    const auto count = static_cast<int>(torch::cuda::device_count());
    if (error != std::errc() || rest != end || index < 0 || index >= count) {
      throw Error(
          ErrorKind::usage,
          fmt::format("--device {}: there are {} CUDA devices, counted from 0", name, count));
    }
  }
  return {at::kCUDA, static_cast<at::DeviceIndex>(index)};
}

Session::Session(const Experiment& experiment, const Registry& registry, const Runtime& runtime,
                 const std::atomic<bool>* stop)
    : experiment_(experiment),
      world_(make_world(experiment)),
      own_model_(read_own_model(experiment.model)),
      engine_(make_engine(experiment, world_, own_model_, runtime, stop)),
      started_(std::chrono::steady_clock::now()) {
  setting_ = {.seed = experiment.seed,
              .rounds = experiment.rounds,
              .clients = engine_->size(),
              .fraction = experiment.federation.fraction,
              .classes = world_.data.classes,
              .validation = world_.data.validation.size(),
              .layout = engine_->layout()};
  if (experiment.truth == Truth::clients) {
    const auto& noisy = world_.ledger.noisy_clients();
    setting_.noisy_clients.assign(noisy.begin(), noisy.end());
  }
  setting_.public_images = world_.public_images.defined() ? world_.public_images.size(0) : 0;
  setting_.lr_decay = experiment.train.lr_decay;
  method_ = make_method(experiment, registry, setting_);
  if (method_->needs_features()) {
    engine_->check_features();
  }
  std::vector<NetInfo> networks;
  for (const std::string& name : method_->networks()) {
    networks.push_back(find_net(name));
  }
  std::unique_ptr<ClientSide> client_side = method_->client_side();
  if (experiment.local_accuracy && measured() == Measured::global) {
    client_side = std::make_unique<KeepingClient>(std::move(client_side));
  }
  engine_->serve(std::move(client_side), method_->schemas(), networks);
  rounds_ = method_->rounds(setting_);
  notices_ = make_notices(experiment, *method_, setting_, world_);
  if (own_model_ && !own_model_->notice().empty()) {
    notices_.push_back(own_model_->notice());
  }
  global_ = engine_->initial_state(experiment.seed);
  if (!experiment.model.weights.empty()) {
    if (!std::filesystem::exists(experiment.model.weights)) {
      throw Error(
          ErrorKind::data,
          fmt::format("model.weights = \"{}\": no such file", experiment.model.weights),
          fmt::format("put weights of {} there or into data/: timm's, torchvision's or those "
                      "of another run, as safetensors; docs/experiment.md, [model]",
                      experiment.model.name));
    }
    LoadedWeights loaded = load_weights(experiment.model.weights, global_, engine_->head_name());
    global_ = loaded.state.to(engine_->device());
    weight_source_ = std::move(loaded.source);
  }
}

std::string Session::script() const {
  const DataSet& data = world_.data;
  if (own_model_) {
    return own_model_->trained(global_, data.normalisation);
  }
  const std::int64_t size = input_size(experiment_.model);
  const NetShape shape{data.classes, data.channels(), size > 0 ? size : data.height(),
                       size > 0 ? size : data.width()};
  return export_script(experiment_.model.name, shape, global_, data.normalisation);
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
  for (const auto& [client, model] : engine_->own_models()) {
    all.update(fmt::format("{} {}\n", client, hash(model)));
  }
  return all.hex();
}

Score Session::evaluate() {
  switch (measured()) {
    case Measured::clients:
      return engine_->evaluate_clients();
    case Measured::ensemble:
      return engine_->evaluate_ensemble();
    default:
      return engine_->evaluate(global_);
  }
}

Session::Played Session::play() {
  const std::int64_t round = rounds_done();
  Archive before;
  method_->save(before);
  const Traffic traffic_before = engine_->traffic();
  const State global_before = global_;
  Played played;
  try {
    Server server{setting_, *engine_, global_, played.notes};
    server.initial = [this](std::uint64_t seed) { return engine_->initial_state(seed); };
    if (setting_.validation > 0) {
      server.validate = [this](const std::vector<State>& models) {
        return engine_->validate(models);
      };
    }
    method_->play(round, server);
    // The last rounds always, so that last10 is a mean over ten rounds and not ten evaluations.
    const bool due = (round + 1) % experiment_.eval_every == 0 || round >= rounds_ - kLastRounds;
    if (due) {
      const Score score = evaluate();
      played.record.accuracy = score.accuracy();
      played.record.loss = score.mean_loss();
      if (setting_.classes > 5) {
        played.record.top5 = score.top5();
      }
      for (const auto& [name, model] : method_->also_measured(setting_)) {
        played.notes[name] = engine_->evaluate(model.to(engine_->device())).accuracy();
      }
    }
  } catch (...) {
    engine_->rollback();
    engine_->restore(traffic_before);
    global_ = global_before;
    method_->load(before);
    throw;
  }
  const bool keeps = !method_->keeps_labels_as(round, setting_).empty();
  const Memories memories_before = keeps ? engine_->memories() : Memories();
  const std::vector<std::int64_t> changed = engine_->commit();
  played.record.round = round + 1;
  played.record.traffic = engine_->traffic();
  played.record.seconds = seconds();
  played.record.hash = model_hash();
  if (const auto chosen = judge_selection(world_, engine_->memories(), changed)) {
    played.record.label_precision = chosen->label_precision;
    played.record.label_recall = chosen->label_recall;
  }
  played.labels = labels_after(round, memories_before);
  played.quality = judge(world_, method_->findings(), engine_->memories());
  history_.push_back(played.record);
  return played;
}

Json Session::labels_after(std::int64_t round, const Memories& before) const {
  const std::string name = method_->keeps_labels_as(round, setting_);
  if (name.empty() || !world_.truth_known) {
    return nullptr;
  }
  Json json{{"name", name}, {"round", round + 1}};
  json.update(judge_labels(world_, before, engine_->memories()));
  return json;
}

Json Session::first_labels() const {
  return labels_after(-1, {});
}

void Session::measure_local_models() {
  if (!experiment_.local_accuracy) {
    return;
  }
  const Labels& labels = world_.data.test.labels;
  const std::vector<double> of_class = counts_by_class(labels, setting_.classes);
  for (const auto& [client, right] :
       engine_->right_by_class(measured() == Measured::global ? kLastModel : kOwnModel)) {
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

Checkpoint Session::checkpoint() const {
  Checkpoint checkpoint;
  checkpoint.experiment_hash = experiment_.hash();
  checkpoint.rounds_done = rounds_done();
  checkpoint.global = global_;
  method_->save(checkpoint.method);
  checkpoint.clients = engine_->memories();
  checkpoint.traffic = engine_->traffic();
  for (const RoundRecord& record : history_) {
    checkpoint.history.push_back(record.to_json());
  }
  checkpoint.wall_seconds = seconds();
  return checkpoint;
}

Bounds Session::bounds() const {
  Bounds bounds{.classes = setting_.classes, .layout = setting_.layout};
  for (std::int64_t client = 0; client < engine_->size(); ++client) {
    bounds.samples.push_back(engine_->samples(client));
  }
  const Slot* head = setting_.layout->find(engine_->head_name() + ".weight");
  if (head != nullptr && head->shape.size() == 2) {
    bounds.features = head->shape[1];
  }
  return bounds;
}

void Session::check_restored() const {
  const Traffic last = history_.empty() ? Traffic() : history_.back().traffic;
  const Traffic& now = engine_->traffic();
  if (last.participations != now.participations || last.bytes_down != now.bytes_down ||
      last.bytes_up != now.bytes_up || last.client_steps != now.client_steps) {
    throw Error(ErrorKind::run, "traffic is not what it was after the last round of the history");
  }
  if (history_.empty()) {
    return;
  }
  if (measured() != Measured::global) {
    const std::map<std::int64_t, State> models = engine_->own_models();
    for (const std::int64_t client : clients_with_samples(*engine_)) {
      if (!models.contains(client)) {
        throw Error(ErrorKind::run, fmt::format("client {} has no model", client));
      }
    }
  }
  if (model_hash() != history_.back().hash) {
    throw Error(ErrorKind::run,
                fmt::format("the model is not the one of round {}", history_.back().round));
  }
}

void Session::restore(const Checkpoint& checkpoint) {
  History history = history_of(checkpoint.history);
  if (checkpoint.rounds_done != static_cast<std::int64_t>(history.size()) ||
      checkpoint.rounds_done > rounds_) {
    throw Error(ErrorKind::run,
                fmt::format("rounds_done = {}: there are {} rounds in the history, and {} in the "
                            "experiment",
                            checkpoint.rounds_done, history.size(), rounds_));
  }
  global_ = checkpoint.global.to(engine_->device());
  Archive saved = checkpoint.method;
  saved.bounds = bounds();
  method_->load(saved);
  engine_->restore(checkpoint.clients);
  engine_->restore(checkpoint.traffic);
  history_ = std::move(history);
  check_restored();
  seconds_before_ = checkpoint.wall_seconds;
  started_ = std::chrono::steady_clock::now();
}

}  // namespace winnow
