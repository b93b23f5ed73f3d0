#include <fmt/format.h>

#include <algorithm>

#include "winnow/base/error.h"
#include "winnow/base/text.h"
#include "winnow/method/fedavg/fedavg.h"
#include "winnow/method/fedcorr/fedcorr.h"
#include "winnow/method/fedncl/fedncl.h"
#include "winnow/method/fedprox/fedprox.h"
#include "winnow/method/method.h"
#include "winnow/method/oracle/oracle.h"

namespace winnow {

void Registry::add(MethodInfo info) {
  if (std::ranges::count(methods_, info.name, &MethodInfo::name) > 0) {
    throw Error(ErrorKind::internal, fmt::format("there are two methods named '{}'", info.name));
  }
  methods_.push_back(std::move(info));
}

const MethodInfo& Registry::find(const std::string& name) const {
  const auto found = std::ranges::find(methods_, name, &MethodInfo::name);
  if (found != methods_.end()) {
    return *found;
  }
  std::vector<std::string> known;
  std::ranges::transform(methods_, std::back_inserter(known), &MethodInfo::name);
  throw Error(ErrorKind::experiment, fmt::format("unknown method '{}'", name),
              suggestion(name, known));
}

Registry builtin_methods() {
  Registry registry;
  registry.add(fedavg_info());
  registry.add(fedprox_info());
  registry.add(fedcorr_info());
  registry.add(fedncl_info());
  registry.add(oracle_info());
  return registry;
}

}  // namespace winnow
