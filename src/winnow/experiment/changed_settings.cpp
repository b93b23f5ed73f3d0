#include "winnow/experiment/changed_settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <memory>

#include "winnow/base/error.h"
#include "winnow/experiment/experiment.h"

namespace winnow {
namespace {

// The tree may come from anybody: what is not of the expected type counts as not there.
Json table_in(const Json& tree, const std::string& key) {
  const auto found = tree.is_object() ? tree.find(key) : tree.end();
  return found != tree.end() && found->is_object() ? *found : Json::object();
}

std::string name_in(const Json& table) {
  const auto found = table.is_object() ? table.find("name") : table.end();
  return found != table.end() && found->is_string() ? found->get<std::string>() : "";
}

// Nothing where this program does not know what is named.
Json or_nothing(const std::function<Json()>& defaults) {
  try {
    return defaults();
  } catch (const Error&) {
    return Json::object();
  }
}

Json noise_defaults(const Json& block, const std::vector<NoiseInfo>& known) {
  Json defaults = Json::object();
  const auto info = std::ranges::find(known, name_in(block), &NoiseInfo::name);
  if (info != known.end()) {
    info->declared([&](const Params& params) {
      for (const Param& param : params.all()) {
        defaults[param.name()] = param.default_value();
      }
    });
  }
  return defaults;
}

Json method_defaults(const Json& table, Method& method) {
  Params params;
  method.declare(params);
  Json defaults = params.values();
  for (const auto& [key, value] : table.items()) {
    // A base method is chosen by name and has parameters of its own.
    if (Param* param = params.find(key); param != nullptr && value.is_object()) {
      param->set(name_in(value), "method");
      defaults[key] = param->value();
      defaults[key]["name"] = param->default_value();
    }
  }
  return defaults;
}

Json defaults_of(const Json& experiment, const Registry& registry) {
  Json defaults = Experiment().resolved();
  if (const DataSetInfo* info = registry.data_sets.look_up(name_in(table_in(experiment, "data")))) {
    visit_own_params(*info, [&](const Params& own) { defaults["data"].update(own.values()); });
  }
  for (const char* key : {"data", "model"}) {
    defaults[key].erase("name");
  }
  const Json partition = table_in(table_in(experiment, "federation"), "partition");
  defaults["federation"]["partition"] = or_nothing(
      [&] { return Partition::parse(name_in(partition), registry.partitions).values(); });
  defaults["federation"]["partition"].erase("name");
  defaults["noise"] = Json::array();
  if (const auto blocks = experiment.find("noise"); blocks != experiment.end()) {
    const std::vector<NoiseInfo> known = noises(registry.label_noises);
    std::ranges::transform(*blocks, std::back_inserter(defaults["noise"]),
                           [&](const Json& block) { return noise_defaults(block, known); });
  }
  const Json method = table_in(experiment, "method");
  defaults["method"] = or_nothing([&] {
    const std::unique_ptr<Method> made = registry.make(name_in(method));
    Json own = method_defaults(method, *made);
    defaults["model"]["projection"] = made->projection();  // that of its base, where it has one
    return own;
  });
  return defaults;
}

void collect(const Json& value, const Json& standard, const std::string& path,
             std::vector<std::string>& changed) {
  const bool is_tree =
      value.is_object() || (value.is_array() && std::ranges::any_of(value, [](const Json& entry) {
                              return entry.is_structured();
                            }));
  if (!is_tree) {
    if (value != standard) {
      changed.push_back(path);
    }
    return;
  }
  std::size_t place = 0;
  for (const auto& [key, entry] : value.items()) {
    Json of_entry;
    if (value.is_object() && standard.is_object()) {
      of_entry = standard.value(key, Json());
    } else if (value.is_array() && standard.is_array() && place < standard.size()) {
      of_entry = standard[place];
    }
    ++place;
    collect(entry, of_entry, path.empty() ? key : fmt::format("{}.{}", path, key), changed);
  }
}

}  // namespace

std::vector<std::string> changed_settings(const Json& experiment, const Registry& registry) {
  std::vector<std::string> changed;
  collect(experiment, defaults_of(experiment, registry), "", changed);
  return changed;
}

void add_changed_settings(Json& report, const Registry& registry) {
  for (Json& run : report.at("runs")) {
    if (const auto experiment = run.find("experiment"); experiment != run.end()) {
      run["changed"] = changed_settings(*experiment, registry);
    }
  }
}

}  // namespace winnow
