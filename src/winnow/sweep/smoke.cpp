#include "winnow/sweep/smoke.h"

#include <algorithm>
#include <charconv>

#include "winnow/base/error.h"
#include "winnow/base/text.h"
#include "winnow/data/catalog.h"
#include "winnow/experiment/experiment.h"
#include "winnow/experiment/toml.h"

namespace winnow {
namespace {

constexpr std::int64_t kClients = 10;
constexpr std::int64_t kSamplesEach = 40;

Json small_data(const DataOptions& full, const DataSets& known) {
  const std::int64_t classes =
      full.name == "synthetic" ? full.classes : known.find(full.name).classes;
  return {{"name", "synthetic"},
          {"classes", classes == 0 ? 10 : std::min<std::int64_t>(classes, 10)},
          {"channels", 3},
          {"size", 32},
          {"samples", kClients * kSamplesEach},
          {"test_samples", 100},
          {"augment", full.augment}};
}

void shrink_noise(Json& tree) {
  const auto blocks = tree.find("noise");
  if (blocks == tree.end()) {
    return;
  }
  for (Json& block : *blocks) {
    if (block.contains("file")) {
      block = {{"name", "fedcorr_labels"}, {"rho", block.value("rho", 0.6)}, {"tau", 0.3}};
    }
  }
}

// Whether a run has a setting, given or by default. A number is a place in a list.
bool has_setting(const Json& resolved, const std::string& key) {
  const Json* place = &resolved;
  for (const std::string& part : split(key, '.')) {
    if (place->is_array()) {
      std::size_t index = 0;
      const char* end = part.data() + part.size();
      const auto [rest, error] = std::from_chars(part.data(), end, index);
      if (error != std::errc() || rest != end || index >= place->size()) {
        return false;
      }
      place = &(*place)[index];
    } else if (place->is_object() && place->contains(part)) {
      place = &place->at(part);
    } else {
      return false;
    }
  }
  return true;
}

}  // namespace

void shrink(Json& tree, const Json& also, const Registry& registry) {
  const Experiment full = parse_experiment(tree, registry);
  tree["data"] = small_data(full.data, registry.data_sets);
  tree["federation"]["clients"] = std::min(full.federation.clients, kClients);
  tree["federation"]["fraction"] = std::max(full.federation.fraction, 0.4);
  tree["model"] = {{"name", "lenet5"}, {"projection", full.model.projection}};
  tree["rounds"] = 3;
  tree["eval_every"] = 1;
  tree["train"]["epochs"] = 1;
  tree["train"]["batch_size"] = std::min<std::int64_t>(full.train.batch_size, 10);
  if (full.validation.source == "folder") {
    tree["validation"]["source"] = "split";
    tree["validation"].erase("path");
  }
  if (full.public_images.source != "none") {
    tree["public"] = {{"source", "split"}, {"size", 20}};
  }
  shrink_noise(tree);
  if (also.is_null()) {
    return;
  }
  if (!also.is_object()) {
    throw Error(ErrorKind::experiment, "smoke: expected a table of keys to values");
  }
  const Json resolved = parse_experiment(tree, registry).resolved();
  for (const auto& [key, value] : also.items()) {
    if (has_setting(resolved, key)) {
      set_by_path(tree, key, value);
    }
  }
}

}  // namespace winnow
