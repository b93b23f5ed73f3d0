#include "winnow/model/script_trace.h"

#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/ir/constants.h>
#include <torch/csrc/jit/passes/inliner.h>

#include <algorithm>
#include <array>
#include <string_view>

namespace winnow {
namespace {

using torch::jit::Block;
using torch::jit::Node;
using torch::jit::Value;

// The file keeps where each operation came from. For a scripted one that is an expression, a part
// of a source; for a traced one the call stack, "file(line): function" a line each, as a whole.
bool is_traced(const Node& node) {
  const auto origin = node.sourceRange().findSourceRangeThatGenerated();
  if (!origin || !origin->source()) {
    return false;
  }
  const std::string text = origin->text().str();
  return origin->start() == 0 && origin->end() == origin->source()->size() &&
         text.find("): ") != std::string::npos;
}

// The argument of this name, or null.
const Value* argument(const Node& node, const char* name) {
  const auto* schema = node.maybeSchema();
  if (schema == nullptr) {
    return nullptr;
  }
  const auto index = schema->argumentIndexWithName(name);
  return index ? node.input(static_cast<std::size_t>(*index)) : nullptr;
}

bool is_zero(const Value* value) {
  const auto constant =
      value == nullptr ? decltype(torch::jit::toIValue(value)){} : torch::jit::toIValue(value);
  return constant && constant->isDouble() && constant->toDouble() == 0.0;
}

// Whether the mode is a constant and makes a difference: dropout of nothing is the same in both,
// and so is a norm that keeps no statistics.
bool is_fixed(const Node& node) {
  constexpr std::array<const char*, 3> kModes{"train", "training", "use_input_stats"};
  const bool constant = std::ranges::any_of(kModes, [&](const char* name) {
    const Value* mode = argument(node, name);
    return mode != nullptr && torch::jit::toIValue(mode);
  });
  const Value* statistics = argument(node, "running_mean");
  return constant && !is_zero(argument(node, "p")) && !is_zero(argument(node, "dropout")) &&
         (statistics == nullptr || !statistics->mustBeNone());
}

void add_once(std::vector<std::string>& names, std::string name) {
  if (name.ends_with('_')) {  // in place; the same to a user
    name.pop_back();
  }
  if (std::ranges::find(names, name) == names.end()) {
    names.push_back(name);
  }
}

void look(const Block& block, TraceFindings& found) {
  for (const Node* node : block.nodes()) {
    const bool traced = is_traced(*node);
    found.traced = found.traced || traced;
    if (is_fixed(*node)) {
      add_once(traced ? found.fixed_by_trace : found.fixed_in_code, node->kind().toUnqualString());
    }
    for (const Block* inner : node->blocks()) {
      look(*inner, found);
    }
  }
}

}  // namespace

TraceFindings find_traces(const torch::jit::Module& module) {
  TraceFindings found;
  for (const char* name : {"forward", "features"}) {
    if (const auto method = module.find_method(name)) {
      const std::shared_ptr<torch::jit::Graph> graph = method->graph()->copy();
      torch::jit::Inline(*graph);
      look(*graph->block(), found);
    }
  }
  return found;
}

}  // namespace winnow
