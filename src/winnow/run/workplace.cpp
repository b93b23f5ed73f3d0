#include "winnow/run/workplace.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <thread>

#include "winnow/base/error.h"
#include "winnow/engine/crew.h"
#include "winnow/engine/keeping_client.h"
#include "winnow/engine/local_examiner.h"
#include "winnow/engine/members.h"
#include "winnow/engine/threads.h"
#include "winnow/federation/fixed_sum.h"
#include "winnow/model/projected_net.h"
#include "winnow/train/gpu/device.h"

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

std::int64_t choose_input_size(const ModelOptions& model, const Networks& known) {
  if (model.resize > 0 || model.name == kTorchScript) {
    return model.resize;
  }
  return known.find(model.name).resize;
}

std::unique_ptr<Crew> make_crew(const Experiment& experiment, const Networks& known,
                                const World& world, const std::optional<ScriptModel>& own_model,
                                const Runtime& runtime, const std::atomic<bool>* stop) {
  use_one_thread_per_operation();
  const NetInfo plain = own_model ? own_model->info() : known.find(experiment.model.name);
  const NetInfo net =
      experiment.model.projection > 0 ? projected(plain, experiment.model.projection) : plain;
  CrewOptions options;
  options.device = device_for(experiment.model, runtime.device);
  options.lanes = choose_lanes(runtime.lanes, options.device);
  options.precision = choose_precision(runtime.precision, options.device);
  allow_tf32_on_gpu(options.precision != Precision::fp32);
  go_first(options.device);  // lanes wait for the fold, so it must not queue behind them
  options.augment = world.data.augment;
  options.resize = choose_input_size(experiment.model, known);
  return std::make_unique<Crew>(world.data, net, options, stop);
}

// A round of all clients must not outgrow a fixed sum.
void check_weights(const Members& members) {
  std::int64_t samples = 0;
  for (std::int64_t client = 0; client < members.size(); ++client) {
    samples += members.samples(client);
  }
  if (samples > kMostWeight) {
    throw Error(ErrorKind::experiment,
                fmt::format("federation.sums = \"fixed\": the clients hold {} samples, expected at "
                            "most {}",
                            samples, kMostWeight),
                "set federation.sums = \"float\"");
  }
}

}  // namespace

Workplace::Workplace(const Experiment& experiment, const Registry& registry, const Runtime& runtime,
                     const std::atomic<bool>* stop)
    : Workplace(experiment, make_world(experiment, registry), registry, runtime, stop) {}

Workplace::Workplace(const Experiment& experiment, World world, const Registry& registry,
                     const Runtime& runtime, const std::atomic<bool>* stop)
    : world_(std::move(world)),
      keeps_last_(experiment.local_accuracy),
      own_model_(read_own_model(experiment.model)),
      crew_(make_crew(experiment, registry.networks, world_, own_model_, runtime, stop)) {
  const std::int64_t resize = choose_input_size(experiment.model, registry.networks);
  members_ = std::make_unique<Members>(world_.data, world_.clients, experiment.train,
                                       experiment.seed, resize, world_.public_images, *crew_);
  members_->spill_beyond(runtime.spill());
  examiner_ = std::make_unique<LocalExaminer>(world_.data, resize, experiment.train.eval_batch,
                                              *crew_, *members_);
  setting_ = {.seed = experiment.seed,
              .rounds = experiment.rounds,
              .clients = members_->size(),
              .fraction = experiment.federation.fraction,
              .classes = world_.data.classes,
              .validation = world_.data.validation.size() > 0 ? world_.data.validation.size()
                                                              : world_.validation_elsewhere,
              .layout = crew_->layout(),
              .sums = experiment.federation.sums};
  const Slot* head = setting_.layout->find(prototype().head_name() + ".weight");
  if (head != nullptr && head->shape.size() == 2) {
    setting_.features = head->shape[1];
  }
  if (experiment.truth == Truth::clients) {
    const auto& noisy = world_.ledger.noisy_clients();
    setting_.noisy_clients.assign(noisy.begin(), noisy.end());
  }
  setting_.public_images = world_.public_images.defined() ? world_.public_images.size(0) : 0;
  setting_.train = experiment.train;
  if (setting_.sums == SumForm::fixed) {
    check_weights(*members_);
  }
  method_ = make_method(experiment, registry, setting_);
  if (method_->needs_features()) {
    prototype().check_features();
  }
  std::vector<NetInfo> networks;
  for (const std::string& name : method_->networks()) {
    networks.push_back(registry.networks.find(name));
  }
  crew_->use_networks(networks);
  exchanges_ = method_->exchanges(setting_);
}

Workplace::~Workplace() = default;

const Prototype& Workplace::prototype() const {
  return crew_->prototype();
}

std::unique_ptr<ClientSide> Workplace::client_side() const {
  std::unique_ptr<ClientSide> side = method_->client_side();
  if (keeps_last_ && method_->measured() == Measured::global) {
    return std::make_unique<KeepingClient>(std::move(side));
  }
  return side;
}

}  // namespace winnow
