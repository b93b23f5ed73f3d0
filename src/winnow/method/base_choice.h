// The `base` parameter of a method that wraps another.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "winnow/base/params.h"
#include "winnow/method/base_method.h"

namespace winnow {

// base = "fedprox", or base = { name = "fedprox", mu = 0.1 }. A base named in one place and
// declared in another keeps its own parameters out of the wrapper's.
class BaseChoice final : public Choice {
 public:
  // What may be chosen: the names given, or every base method there is. Before know() these are the
  // built-in ones.
  explicit BaseChoice(std::vector<std::string> allowed = {});
  void know(const Offered& offered) { methods_ = offered.methods; }

  Json value() const override;
  std::string name() const override { return name_; }
  std::vector<std::string> names() const override;
  void set(const Json& value, const std::string& key) override;

  // Method::needs_sgd() of the chosen base, and which one that is.
  std::string needs_sgd() const;
  // The state of the chosen base, under names of its own in the wrapper's archive.
  void save(Archive& archive) const;
  void load(const Archive& archive);

  BaseMethod& operator*() const { return *base_; }
  BaseMethod* operator->() const { return base_.get(); }

 private:
  std::vector<std::string> allowed_;
  Methods methods_ = builtin_methods();
  std::string name_ = "fedavg";
  std::unique_ptr<BaseMethod> base_;
};

}  // namespace winnow
