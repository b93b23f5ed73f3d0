#include "winnow/model/script_export.h"

#include <ATen/ATen.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/serialization/export.h>

#include <exception>
#include <map>
#include <memory>
#include <utility>

#include "winnow/model/script_text.h"

namespace winnow {
namespace {

using torch::jit::Module;

// Modules nested as the dots in the names say.
class Tree {
 public:
  explicit Tree(const std::string& name) : root_(add_type("__torch__.winnow." + name)) {}

  void add(const Slot& slot, at::Tensor value) {
    const std::size_t dot = slot.name.rfind('.');
    Module owner = dot == std::string::npos ? root_ : part(slot.name.substr(0, dot));
    const std::string name = slot.name.substr(dot == std::string::npos ? 0 : dot + 1);
    if (slot.kind == SlotKind::parameter) {
      owner.register_parameter(name, value.set_requires_grad(true), /*is_buffer=*/false);
    } else {
      owner.register_buffer(name, std::move(value));
    }
  }

  Module& root() { return root_; }

 private:
  Module add_type(const std::string& name) {
    Module module(name, unit_, /*shouldMangle=*/true);
    module.register_attribute("training", c10::BoolType::get(), false);
    return module;
  }

  Module part(const std::string& path) {
    if (const auto found = parts_.find(path); found != parts_.end()) {
      return found->second;
    }
    const std::size_t dot = path.rfind('.');
    Module parent = dot == std::string::npos ? root_ : part(path.substr(0, dot));
    Module made = add_type("__torch__.winnow.Part");
    parent.register_module(path.substr(dot == std::string::npos ? 0 : dot + 1), made);
    parts_.emplace(path, made);
    return made;
  }

  std::shared_ptr<torch::jit::CompilationUnit> unit_ =
      std::make_shared<torch::jit::CompilationUnit>();
  Module root_;
  std::map<std::string, Module> parts_;
};

}  // namespace

void add_normalisation(Module& module, const Normalisation& input) {
  for (const auto& [name, values] : {std::pair{"mean", &input.mean}, {"std", &input.std}}) {
    if (!module.hasattr(name) && !module.find_method(name)) {
      module.register_attribute(name, c10::ListType::ofFloats(), c10::List<double>(*values));
    }
  }
}

void set_training(const Module& module, bool training) {
  for (const Module& part : module.modules()) {
    if (const auto slot = part.type()->findAttributeSlot("training")) {
      part._ivalue()->setSlot(*slot, training);
    }
  }
}

at::Tensor lent(const State& state, const Slot& slot) {
  return at::from_blob(state.flat.data_ptr<float>() + slot.offset, slot.shape, at::kFloat);
}

void write_script(const Module& module, const ScriptSink& sink) {
  // LibTorch ends the file in a destructor, where an error would end the program.
  std::exception_ptr failed;
  torch::jit::ExportModule(module, [&](const void* bytes, std::size_t count) {
    try {
      if (!failed) {
        sink({static_cast<const char*>(bytes), count});
      }
    } catch (...) {
      failed = std::current_exception();
    }
    return count;
  });
  if (failed) {
    std::rethrow_exception(failed);
  }
}

void script_file(const std::string& name, const std::string& text, const State& state,
                 const Normalisation& input, const ScriptSink& sink) {
  const State host{state.layout, state.flat.to(at::kCPU).contiguous()};
  Tree tree(name);
  for (const Slot& slot : host.layout->slots()) {
    const at::Tensor value = lent(host, slot);
    tree.add(slot, slot.kind == SlotKind::counter ? value.to(at::kLong) : value);
  }
  add_normalisation(tree.root(), input);
  tree.root().define(text);
  write_script(tree.root(), sink);
}

void export_script(const std::string& model, const NetShape& shape, const State& state,
                   const Normalisation& input, const ScriptSink& sink) {
  script_file(model, script_text(model, shape, *state.layout), state, input, sink);
}

}  // namespace winnow
