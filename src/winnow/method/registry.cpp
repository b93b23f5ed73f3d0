#include <fmt/format.h>

#include <algorithm>

#include "winnow/base/error.h"
#include "winnow/base/text.h"
#include "winnow/method/arfl/arfl.h"
#include "winnow/method/bulyan/bulyan.h"
#include "winnow/method/clc/clc.h"
#include "winnow/method/clipfl/clipfl.h"
#include "winnow/method/coteaching/coteaching.h"
#include "winnow/method/dividemix/dividemix.h"
#include "winnow/method/fedavg/fedavg.h"
#include "winnow/method/fedavgm/fedavgm.h"
#include "winnow/method/fedcorr/fedcorr.h"
#include "winnow/method/feddyn/feddyn.h"
#include "winnow/method/fedlsr/fedlsr.h"
#include "winnow/method/fedncl/fedncl.h"
#include "winnow/method/fednova/fednova.h"
#include "winnow/method/fedns/fedns.h"
#include "winnow/method/fedopt/fedopt.h"
#include "winnow/method/fedprox/fedprox.h"
#include "winnow/method/fedrn/fedrn.h"
#include "winnow/method/focus/focus.h"
#include "winnow/method/geometric_median/geometric_median.h"
#include "winnow/method/joint_optimisation/joint_optimisation.h"
#include "winnow/method/krum/krum.h"
#include "winnow/method/median/median.h"
#include "winnow/method/method.h"
#include "winnow/method/mixup/mixup.h"
#include "winnow/method/moon/moon.h"
#include "winnow/method/oracle/oracle.h"
#include "winnow/method/power_of_choice/power_of_choice.h"
#include "winnow/method/rhfl/rhfl.h"
#include "winnow/method/rofl/rofl.h"
#include "winnow/method/scaffold/scaffold.h"
#include "winnow/method/sce/sce.h"
#include "winnow/method/selfie/selfie.h"
#include "winnow/method/trimmed_mean/trimmed_mean.h"

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

std::unique_ptr<Method> Registry::make(const std::string& name) const {
  std::unique_ptr<Method> method = find(name).make();
  method->know(*this);
  return method;
}

Registry builtin_methods() {
  Registry registry;
  // In groups, as `winnow list methods` shows them.
  registry.add(fedcorr_info());
  registry.add(fedrn_info());
  registry.add(clipfl_info());
  registry.add(fedns_info());
  registry.add(fedncl_info());
  registry.add(fedavg_info());
  registry.add(fedprox_info());
  registry.add(fednova_info());
  registry.add(fedavgm_info());
  registry.add(fedadam_info());
  registry.add(fedyogi_info());
  registry.add(fedadagrad_info());
  registry.add(scaffold_info());
  registry.add(feddyn_info());
  registry.add(moon_info());
  registry.add(trimmed_mean_info());
  registry.add(median_info());
  registry.add(krum_info());
  registry.add(multi_krum_info());
  registry.add(bulyan_info());
  registry.add(geometric_median_info());
  registry.add(arfl_info());
  registry.add(power_of_choice_info());
  registry.add(rofl_info());
  registry.add(rhfl_info());
  registry.add(fedlsr_info());
  registry.add(focus_info());
  registry.add(clc_info());
  registry.add(coteaching_info());
  registry.add(joint_optimisation_info());
  registry.add(selfie_info());
  registry.add(dividemix_info());
  registry.add(sce_info());
  registry.add(mixup_info());
  registry.add(oracle_info());
  registry.add(fedns_oracle_flags_info());
  return registry;
}

}  // namespace winnow
