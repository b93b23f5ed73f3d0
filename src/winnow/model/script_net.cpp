#include "winnow/model/script_net.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/passes/inliner.h>
#include <torch/csrc/jit/serialization/import.h>

#include <algorithm>
#include <array>
#include <map>
#include <mutex>
#include <optional>
#include <sstream>
#include <string_view>
#include <utility>
#include <vector>

#include "winnow/base/error.h"
#include "winnow/base/files.h"
#include "winnow/base/text.h"
#include "winnow/model/script_export.h"
#include "winnow/model/script_trace.h"

namespace winnow {
namespace {

using torch::jit::Module;

constexpr const char* kHead = "head";
constexpr const char* kFeatures = "features";

// What is wrong, out of the many lines of an exception of LibTorch.
std::string last_line(const std::exception& error) {
  const auto* known = dynamic_cast<const c10::Error*>(&error);
  std::string found;
  for (const std::string& line :
       split(known ? known->what_without_backtrace() : error.what(), '\n')) {
    if (const std::string_view text = trim(line); !text.empty()) {
      found = text;
    }
  }
  return found;
}

Module read_module(const std::string& bytes, const std::string& file) {
  try {
    std::istringstream stream(bytes);
    return torch::jit::load(stream, at::kCPU);
  } catch (const std::exception& error) {
    throw Error(ErrorKind::experiment,
                fmt::format("{} is not a TorchScript file: {}", file, last_line(error)),
                "write it in Python with torch.jit.script(model).save(path)");
  }
}

// The part of a module that holds a tensor, and the tensor's place in it.
struct Place {
  c10::intrusive_ptr<c10::ivalue::Object> owner;
  std::size_t slot;

  void set(const at::Tensor& tensor) const { owner->setSlot(slot, tensor); }
};

Place find_place(const Module& module, const std::string& name) {
  Module owner = module;
  const std::vector<std::string> parts = split(name, '.');
  for (std::size_t i = 0; i + 1 < parts.size(); ++i) {
    owner = owner.attr(parts[i]).toModule();
  }
  return {owner._ivalue(), owner.type()->getAttributeSlot(parts.back())};
}

// A tensor of the module that is part of a model's state.
struct Held {
  std::string name;
  at::Tensor value;
  SlotKind kind;
};

[[noreturn]] void refuse(const std::string& file, const std::string& fault,
                         const std::string& hint) {
  throw Error(ErrorKind::experiment, fmt::format("{}: {}", file, fault), hint);
}

// Parameters, then running statistics and counters. Whatever else a module keeps is its own.
std::vector<Held> held_tensors(const Module& module, const std::string& file) {
  std::vector<Held> held;
  for (const auto& [name, value] : module.named_parameters()) {
    if (value.scalar_type() != at::kFloat) {
      refuse(file,
             fmt::format("parameter '{}' is {}: expected float32", name,
                         c10::toString(value.scalar_type())),
             "convert the model with .float() before it is saved");
    }
    held.push_back({name, value, value.requires_grad() ? SlotKind::parameter : SlotKind::buffer});
  }
  if (std::ranges::none_of(held, [](const Held& h) { return h.kind == SlotKind::parameter; })) {
    refuse(file, "it has no parameters to train",
           "do not freeze it (torch.jit.freeze), and leave requires_grad on");
  }
  for (const auto& [name, value] : module.named_buffers()) {
    if (value.defined() && value.scalar_type() == at::kFloat) {
      held.push_back({name, value, SlotKind::buffer});
    } else if (value.defined() && value.scalar_type() == at::kLong && value.numel() == 1 &&
               name.ends_with("num_batches_tracked")) {
      held.push_back({name, value, SlotKind::counter});
    }
  }
  std::map<const void*, std::string> seen;
  for (const Held& tensor : held) {
    if (tensor.value.numel() == 0) {
      continue;
    }
    const auto [other, fresh] = seen.emplace(tensor.value.data_ptr(), tensor.name);
    if (!fresh) {
      refuse(file, fmt::format("'{}' and '{}' share their values", other->second, tensor.name),
             "give each a tensor of its own");
    }
  }
  return held;
}

// Refuses a module whose layers a trace has fixed; returns what else is to be said of it.
std::string check_trace(const Module& module, const std::string& file) {
  const TraceFindings found = find_traces(module);
  if (!found.fixed_by_trace.empty()) {
    refuse(file,
           fmt::format("it was made with torch.jit.trace, so its {} would stay in the mode of the "
                       "trace in training and in evaluation",
                       join(found.fixed_by_trace, " and ")),
           "write it in Python with torch.jit.script(model).save(path)");
  }
  if (found.traced) {
    return fmt::format(
        "{} was made with torch.jit.trace: branches and loops of its Python code are fixed as they "
        "went in the trace; torch.jit.script keeps them",
        file);
  }
  if (!found.fixed_in_code.empty()) {
    return fmt::format(
        "{}: the mode of its {} is a constant, the same in training and in evaluation", file,
        join(found.fixed_in_code, " and "));
  }
  return "";
}

Init values_of(const at::Tensor& tensor) {
  return [values = tensor.detach().to(at::kFloat).contiguous()](Stream&, std::span<float> to) {
    std::copy_n(values.data_ptr<float>(), to.size(), to.data());
  };
}

// Whether a graph draws random numbers; taking one too many for such costs time only.
bool draws(at::ArrayRef<const torch::jit::Block*> blocks) {
  constexpr std::array<std::string_view, 7> kDrawing{
      "dropout", "rand", "bernoulli", "multinomial", "normal", "uniform", "poisson"};
  for (const torch::jit::Block* block : blocks) {
    for (const torch::jit::Node* node : block->nodes()) {
      const std::string_view name = node->kind().toUnqualString();
      if (std::ranges::any_of(kDrawing, [&](auto part) { return name.find(part) != name.npos; }) ||
          draws(node->blocks())) {
        return true;
      }
    }
  }
  return false;
}

bool draws(const Module& module, const char* method) {
  const auto found = module.find_method(method);
  if (!found) {
    return false;
  }
  const std::shared_ptr<torch::jit::Graph> graph = found->graph()->copy();
  torch::jit::Inline(*graph);
  const torch::jit::Block* body = graph->block();
  return draws(body);
}

// TorchScript draws from the library's one generator, so modules that draw do so one at a time.
std::mutex& drawing() {
  static std::mutex mutex;
  return mutex;
}

void seed_from(const at::Generator* dropout) {
  at::Generator shared = at::detail::getDefaultCPUGenerator();
  const std::lock_guard lock(shared.mutex());
  shared.set_current_seed(dropout ? dropout->get<at::CPUGeneratorImpl>()->random64() : 0);
}

std::string shape_text(const at::Tensor& tensor) {
  return c10::str(tensor.sizes());
}

class ScriptNet final : public Net {
 public:
  ScriptNet(const Module& original, std::string file, const NetShape& shape)
      : file_(std::move(file)),
        module_(original.deepcopy()),
        draws_(winnow::draws(module_, "forward") || winnow::draws(module_, kFeatures)) {
    set_training(module_, false);
    const std::vector<Held> held = held_tensors(module_, file_);
    check_forward(shape);
    missing_ = find_missing(shape);
    declare(held);
    classes_ = shape.classes;
  }

  at::Tensor forward(const at::Tensor& images, const Pass& pass) const override {
    prepare(pass);
    return run("forward", images, pass);
  }

  at::Tensor features(const at::Tensor& images, const Pass& pass) const override {
    check_features();
    prepare(pass);
    return run(kFeatures, images, pass);
  }

  void check_features() const override {
    if (!missing_.empty()) {
      refuse(file_, fmt::format("this method needs features, but {}", missing_),
             "give the module a method features(x) and a Linear `head`, its logits being "
             "head(features(x)); see docs/own-model.md");
    }
  }

 private:
  struct Bound {
    Place place;
    const at::Tensor* tensor;  // float, a view of a flat buffer
  };
  struct Counter {
    at::Tensor own;  // int64, what the module sees
    const at::Tensor* tensor;
  };

  bool has_head() const {
    const auto part = module_.attr(kHead, c10::IValue());
    if (!part.isModule()) {
      return false;
    }
    const Module head = part.toModule();
    const auto weight = head.attr("weight", c10::IValue());
    const auto bias = head.attr("bias", c10::IValue());
    return weight.isTensor() && bias.isTensor() && weight.toTensor().dim() == 2 &&
           bias.toTensor().dim() == 1 && weight.toTensor().requires_grad() &&
           bias.toTensor().requires_grad();
  }

  void declare(const std::vector<Held>& held) {
    const bool head = has_head();
    for (const auto& [name, value, kind] : held) {
      if (head && (name == "head.weight" || name == "head.bias")) {
        continue;
      }
      const at::Tensor* tensor = weights_.add(name, value.sizes().vec(), values_of(value), kind);
      if (kind == SlotKind::counter) {
        counters_.push_back({value, tensor});
      } else {
        bound_.push_back({find_place(module_, name), tensor});
      }
    }
    if (head) {
      declare_own_head();
    }
  }

  // Weight and bias side by side, as for every head.
  void declare_own_head() {
    const Module head = module_.attr(kHead).toModule();
    const at::Tensor weight = head.attr("weight").toTensor();
    declare_head(kHead, weight.size(1), weight.size(0), values_of(weight),
                 values_of(head.attr("bias").toTensor()));
    bound_.push_back({find_place(head, "weight"), head_weight()});
    bound_.push_back({find_place(head, "bias"), head_bias()});
  }

  // Makes the module's tensors those that the weights are bound to, and its mode that of the pass.
  void prepare(const Pass& pass) const {
    // bind() replaces all tensors at once, and the module keeps the old ones alive until then.
    if (bound_.front().tensor->unsafeGetTensorImpl() != attached_) {
      for (const Bound& bound : bound_) {
        bound.place.set(*bound.tensor);
      }
      attached_ = bound_.front().tensor->unsafeGetTensorImpl();
    }
    if (pass.training != training_) {
      set_training(module_, pass.training);
      training_ = pass.training;
    }
    if (pass.training) {
      // Whoever takes the steps counts them; the module sees the count they started from.
      for (const Counter& counter : counters_) {
        counter.own.copy_(*counter.tensor);
      }
    }
  }

  at::Tensor run(const char* method, const at::Tensor& images, const Pass& pass) const {
    const torch::jit::GraphOptimizerEnabledGuard as_written(false);
    std::unique_lock<std::mutex> alone(drawing(), std::defer_lock);
    if (draws_ && pass.training) {
      alone.lock();
      seed_from(pass.dropout);
    }
    c10::IValue result;
    try {
      const auto found = module_.find_method(method);
      result = found ? (*found)({images})
                     : module_.attr(method).toModule().get_method("forward")({images});
    } catch (const std::exception& error) {
      throw Error(ErrorKind::experiment, fmt::format("{}: its {} failed on input {}: {}", file_,
                                                     method, shape_text(images), last_line(error)));
    }
    if (!result.isTensor()) {
      refuse(file_, fmt::format("its {} returns {}: expected a tensor", method, result.tagKind()),
             "");
    }
    return result.toTensor();
  }

  // A few values of all sizes, to see what the module makes of images.
  static at::Tensor sample_images(const NetShape& shape) {
    const std::int64_t count = 2 * shape.channels * shape.height * shape.width;
    return at::linspace(-1, 1, count).sin().view({2, shape.channels, shape.height, shape.width});
  }

  void check_forward(const NetShape& shape) const {
    const c10::NoGradGuard no_gradient;
    const at::Tensor logits = run("forward", sample_images(shape), {});
    if (logits.dim() != 2 || logits.size(0) != 2 || logits.size(1) != shape.classes ||
        logits.scalar_type() != at::kFloat) {
      refuse(file_,
             fmt::format("its forward gives {} for 2 images: expected float32 [2, {}], a logit for "
                         "every class",
                         shape_text(logits), shape.classes),
             "");
    }
  }

  // Why features() cannot be had; empty if it can.
  std::string find_missing(const NetShape& shape) const {
    if (!module_.find_method(kFeatures) && !module_.attr(kFeatures, c10::IValue()).isModule()) {
      return "the module has no method `features`";
    }
    if (!has_head()) {
      return "the module has no Linear submodule `head` with trainable weight and bias";
    }
    const c10::NoGradGuard no_gradient;
    const Module head = module_.attr(kHead).toModule();
    const at::Tensor weight = head.attr("weight").toTensor();
    const at::Tensor images = sample_images(shape);
    const at::Tensor features = run(kFeatures, images, {});
    if (features.dim() != 2 || features.size(1) != weight.size(1)) {
      return fmt::format("its features(x) gives {} where `head` takes [batch, {}]",
                         shape_text(features), weight.size(1));
    }
    const at::Tensor logits = at::linear(features, weight, head.attr("bias").toTensor());
    if (!at::allclose(logits, run("forward", images, {}), 1e-4, 1e-5)) {
      return "its forward(x) is not head(features(x))";
    }
    return "";
  }

  std::string file_;
  Module module_;
  bool draws_;
  std::string missing_;
  std::vector<Bound> bound_;
  std::vector<Counter> counters_;
  mutable const void* attached_ = nullptr;
  mutable bool training_ = false;
};

}  // namespace

ScriptModel::ScriptModel(const std::filesystem::path& file)
    : file_(file.string()),
      bytes_(std::make_shared<const std::string>(read_file(file))),
      module_(std::make_shared<const Module>(read_module(*bytes_, file_))) {
  if (!module_->find_method("forward")) {
    refuse(file_, "the module has no forward", "");
  }
  held_tensors(*module_, file_);
  notice_ = check_trace(*module_, file_);
}

NetInfo ScriptModel::info() const {
  return {kTorchScript,
          kTorchScriptSummary,
          {},
          0,
          [module = module_, file = file_](const NetShape& shape) -> std::unique_ptr<Net> {
            return std::make_unique<ScriptNet>(*module, file, shape);
          }};
}

void ScriptModel::write_trained(const State& state, const Normalisation& input,
                                const ScriptSink& sink) const {
  const State host{state.layout, state.flat.to(at::kCPU).contiguous()};
  // Read anew: an attribute added to a module appears in all that share its type.
  Module module = read_module(*bytes_, file_);
  for (const Held& tensor : held_tensors(module, file_)) {
    const at::Tensor value = lent(host, *host.layout->find(tensor.name));
    find_place(module, tensor.name)
        .set(tensor.kind == SlotKind::counter
                 ? value.to(at::kLong)
                 : value.set_requires_grad(tensor.kind == SlotKind::parameter));
  }
  set_training(module, false);
  add_normalisation(module, input);
  write_script(module, sink);
}

}  // namespace winnow
