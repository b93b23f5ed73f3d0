#include "winnow/run/workplace.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <torch/cuda.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <thread>

#include "winnow/base/error.h"
#include "winnow/engine/keeping_client.h"
#include "winnow/engine/threads.h"
#include "winnow/federation/fixed_sum.h"
#include "winnow/model/projected_net.h"

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

FoldBy fold_by(const std::string& name) {
  constexpr std::array<const char*, 3> kNames{"best", "gather", "segments"};
  const auto found = std::ranges::find(kNames, name);
  if (found == kNames.end()) {
    throw Error(ErrorKind::usage, fmt::format("--fold {}: unknown", name),
                "expected best, gather or segments");
  }
  return static_cast<FoldBy>(found - kNames.begin());
}

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

Workplace::Workplace(const Experiment& experiment, const Registry& registry, const Runtime& runtime,
                     const std::atomic<bool>* stop)
    : Workplace(experiment, make_world(experiment, registry), registry, runtime, stop) {}

Workplace::Workplace(const Experiment& experiment, World world, const Registry& registry,
                     const Runtime& runtime, const std::atomic<bool>* stop)
    : world_(std::move(world)),
      keeps_last_(experiment.local_accuracy),
      own_model_(read_own_model(experiment.model)),
      input_size_(choose_input_size(experiment.model, registry.networks)),
      crew_(make_crew(experiment, registry.networks, world_, own_model_, runtime, stop)),
      members_(std::make_unique<Members>(world_.data, world_.clients, experiment.train,
                                         experiment.seed, input_size_, world_.public_images,
                                         *crew_)),
      examiner_(std::make_unique<LocalExaminer>(world_.data, input_size_,
                                                experiment.train.eval_batch, *crew_, *members_)) {
  members_->spill_beyond({.limit = runtime.client_memory_mb << 20});
  setting_ = {.seed = experiment.seed,
              .rounds = experiment.rounds,
              .clients = members_->size(),
              .fraction = experiment.federation.fraction,
              .classes = world_.data.classes,
              .validation = world_.data.validation.size() > 0 ? world_.data.validation.size()
                                                              : world_.validation_elsewhere,
              .layout = crew_->layout(),
              .sums = experiment.federation.sums};
  const Slot* head = setting_.layout->find(crew_->head_name() + ".weight");
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
    crew_->check_features();
  }
  std::vector<NetInfo> networks;
  for (const std::string& name : method_->networks()) {
    networks.push_back(registry.networks.find(name));
  }
  crew_->use_networks(networks);
  exchanges_ = method_->exchanges(setting_);
}

std::unique_ptr<ClientSide> Workplace::client_side() const {
  std::unique_ptr<ClientSide> side = method_->client_side();
  if (keeps_last_ && method_->measured() == Measured::global) {
    return std::make_unique<KeepingClient>(std::move(side));
  }
  return side;
}

}  // namespace winnow
