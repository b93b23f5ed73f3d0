#include "winnow/method/base_choice.h"

#include <fmt/format.h>

#include <algorithm>

#include "winnow/base/error.h"
#include "winnow/base/text.h"
#include "winnow/method/base/fedavg/fedavg.h"

namespace winnow {
namespace {

const std::string kPrefix = "base.";  // of the base's tensors in a wrapper's archive

// Null when the method is not one that can be wrapped.
std::unique_ptr<BaseMethod> make_base(const MethodInfo& info) {
  std::unique_ptr<Method> method = info.make();
  if (info.truth != Truth::none || dynamic_cast<BaseMethod*>(method.get()) == nullptr) {
    return nullptr;
  }
  return std::unique_ptr<BaseMethod>(static_cast<BaseMethod*>(method.release()));
}

// A refusal of a method that there is, but that cannot be a base.
Error not_a_base(const MethodInfo& info, const std::string& key,
                 const std::vector<std::string>& known) {
  const char* reason = info.truth == Truth::none
                           ? "a wrapper acts between a base's training and its aggregation"
                           : "a base may not use ground truth";
  return {ErrorKind::experiment, fmt::format("{} = \"{}\": it cannot be wrapped", key, info.name),
          fmt::format("{}; expected one of {}", reason, join(known, ", "))};
}

}  // namespace

BaseChoice::BaseChoice(std::vector<std::string> allowed)
    : allowed_(std::move(allowed)), base_(std::make_unique<FedAvg>()) {}

std::vector<std::string> BaseChoice::names() const {
  if (!allowed_.empty()) {
    return allowed_;
  }
  std::vector<std::string> names;
  for (const MethodInfo& info : methods_) {
    if (make_base(info) != nullptr) {
      names.push_back(info.name);
    }
  }
  return names;
}

Json BaseChoice::value() const {
  Params params;
  base_->declare(params);
  Json value{{"name", name_}};
  value.update(params.values());
  return value;
}

void BaseChoice::set(const Json& value, const std::string& key) {
  const Json table = value.is_string() ? Json{{"name", value}} : value;
  const auto name = table.is_object() ? table.find("name") : table.end();
  if (!table.is_object() || name == table.end() || !name->is_string()) {
    throw Error(ErrorKind::experiment,
                fmt::format("{} = {}: expected a name or a table with a name", key, value.dump()),
                fmt::format("for example {} = \"fedprox\" or {{ name = \"fedprox\", mu = 0.1 }}",
                            split(key, '.').back()));
  }
  const std::vector<std::string> known = names();
  const auto wanted = name->get<std::string>();
  if (std::ranges::count(known, wanted) == 0) {
    const MethodInfo* info = methods_.look_up(wanted);
    if (info != nullptr && make_base(*info) == nullptr) {
      throw not_a_base(*info, key, known);
    }
    throw Error(ErrorKind::experiment,
                fmt::format("{} = \"{}\": expected one of {}", key, wanted, join(known, ", ")),
                suggestion(wanted, known, "winnow list methods"));
  }
  std::unique_ptr<BaseMethod> base = make_base(methods_.find(wanted));
  Params params;
  base->declare(params);
  params.read(table, key, {"name"});
  name_ = wanted;
  base_ = std::move(base);
}

std::string BaseChoice::needs_sgd() const {
  const std::string reason = base_->needs_sgd();
  return reason.empty() ? "" : fmt::format("base {}: {}", name_, reason);
}

void BaseChoice::save(Archive& archive) const {
  Archive own;
  base_->save(own);
  for (auto& [name, tensor] : own.tensors) {
    archive.tensors[kPrefix + name] = std::move(tensor);
  }
  for (auto& [name, column] : own.columns) {
    archive.columns["base/" + name] = std::move(column);
  }
  archive.values["base"] = std::move(own.values);
}

void BaseChoice::load(const Archive& archive) {
  Archive own;
  for (const auto& [name, tensor] : archive.tensors) {
    if (name.starts_with(kPrefix) || name.starts_with("base/")) {  // the latter out of columns
      own.tensors[name.substr(kPrefix.size())] = tensor;
    }
  }
  for (const auto& [name, column] : archive.columns) {
    if (name.starts_with("base/")) {
      own.columns[name.substr(5)] = column;
    }
  }
  own.bounds = archive.bounds;
  if (const auto values = archive.find("base")) {
    own.values = values->json();
  }
  base_->load(own);
}

}  // namespace winnow
