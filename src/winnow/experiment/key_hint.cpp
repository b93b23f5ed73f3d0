#include "winnow/experiment/key_hint.h"

#include <fmt/format.h>

#include <algorithm>

#include "winnow/base/text.h"
#include "winnow/experiment/experiment.h"

namespace winnow {
namespace {

// What other programs and papers call the keys.
const std::vector<Synonym>& words_of_others() {
  static const std::vector<Synonym> words{{"learning_rate", "train.lr"},
                                          {"local_lr", "train.lr"},
                                          {"client_lr", "train.lr"},
                                          {"batch", "train.batch_size"},
                                          {"local_bs", "train.batch_size"},
                                          {"local_epochs", "train.epochs"},
                                          {"local_ep", "train.epochs"},
                                          {"num_epochs", "train.epochs"},
                                          {"wd", "train.weight_decay"},
                                          {"num_clients", "federation.clients"},
                                          {"n_clients", "federation.clients"},
                                          {"num_users", "federation.clients"},
                                          {"n_parties", "federation.clients"},
                                          {"frac", "federation.fraction"},
                                          {"participation", "federation.fraction"},
                                          {"participation_rate", "federation.fraction"},
                                          {"sample_fraction", "federation.fraction"},
                                          {"client_fraction", "federation.fraction"},
                                          {"join_ratio", "federation.fraction"},
                                          {"num_rounds", "rounds"},
                                          {"n_rounds", "rounds"},
                                          {"comm_round", "rounds"},
                                          {"comm_rounds", "rounds"},
                                          {"global_rounds", "rounds"},
                                          {"random_seed", "seed"},
                                          {"dirichlet_alpha", "federation.partition.alpha"},
                                          {"dataset", "data.name"},
                                          {"data_dir", "data.path"},
                                          {"root", "data.path"},
                                          {"arch", "model.name"},
                                          {"network", "model.name"},
                                          {"backbone", "model.name"},
                                          {"pretrained", "model.weights"},
                                          {"algorithm", "method.name"},
                                          {"strategy", "method.name"}};
  return words;
}

std::string last_part(const std::string& key) {
  return key.substr(key.rfind('.') + 1);
}

void add_keys(const std::string& table, const Params& params, std::vector<std::string>& keys) {
  for (const Param& param : params.all()) {
    keys.push_back(table.empty() ? param.name() : fmt::format("{}.{}", table, param.name()));
  }
}

void add_method_keys(const Json& tree, const Registry& registry, std::vector<std::string>& keys) {
  const Json table = tree.value("method", Json());
  const Json name = table.is_object() ? table.value("name", Json("fedavg")) : table;
  if (name.is_string() && registry.methods.look_up(name.get<std::string>()) != nullptr) {
    const std::unique_ptr<Method> method = registry.make(name.get<std::string>());
    Params params;
    method->declare(params);
    add_keys("method", params, keys);
  }
}

void add_data_keys(const Json& tree, const Registry& registry, std::vector<std::string>& keys) {
  const Json table = tree.value("data", Json());
  const Json name = table.is_object() ? table.value("name", Json()) : Json();
  const DataSetInfo* info =
      name.is_string() ? registry.data_sets.look_up(name.get<std::string>()) : nullptr;
  if (info != nullptr) {
    visit_own_params(*info, [&](const Params& params) { add_keys("data", params, keys); });
  }
}

std::vector<std::string> all_keys(const Json& tree, const Registry& registry) {
  Experiment experiment;
  std::vector<std::string> keys;
  add_keys("", declare_top_level(experiment), keys);
  add_keys("data", declare(experiment.data), keys);
  add_data_keys(tree, registry, keys);
  add_keys("federation", declare(experiment.federation), keys);
  keys.emplace_back("federation.partition");
  for (const PartitionInfo& info : registry.partitions) {
    const std::unique_ptr<PartitionRule> rule = info.make();
    Params params;
    rule->declare(params);
    add_keys("federation.partition", params, keys);
  }
  add_keys("validation", declare(experiment.validation), keys);
  add_keys("public", declare(experiment.public_images), keys);
  add_keys("model", declare(experiment.model), keys);
  add_keys("train", declare(experiment.train), keys);
  add_method_keys(tree, registry, keys);
  std::ranges::sort(keys);
  keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
  return keys;
}

std::string did_you_mean(const std::vector<std::string>& keys) {
  std::vector<std::string> quoted;
  for (const std::string& key : keys) {
    quoted.push_back(fmt::format("'{}'", key));
  }
  return fmt::format("did you mean {}?", join(quoted, " or "));
}

}  // namespace

std::string key_hint(const UnknownKey& error, const Json& tree, const Registry& registry) {
  constexpr std::size_t kFew = 3;
  const std::string full =
      error.table().empty() ? error.key() : fmt::format("{}.{}", error.table(), error.key());
  if (const std::string name = meant(error.key(), words_of_others()); name != error.key()) {
    return did_you_mean({name});
  }
  const std::vector<std::string> keys = all_keys(tree, registry);
  std::vector<std::string> elsewhere;
  std::ranges::copy_if(keys, std::back_inserter(elsewhere), [&](const std::string& key) {
    return last_part(key) == error.key() && key != full;
  });
  if (!elsewhere.empty() && elsewhere.size() <= kFew) {
    return did_you_mean(elsewhere);
  }
  if (const std::string offer = "did you mean '"; error.hint().starts_with(offer)) {
    // A key of the same table, with the table's name, as --set takes it.
    return error.table().empty() ? error.hint()
                                 : offer + error.table() + "." + error.hint().substr(offer.size());
  }
  std::vector<std::string> names;
  std::ranges::transform(keys, std::back_inserter(names), last_part);
  const std::string near = nearest(error.key(), names);
  if (near.empty()) {
    return error.hint();
  }
  return did_you_mean(
      {keys[static_cast<std::size_t>(std::ranges::find(names, near) - names.begin())]});
}

}  // namespace winnow
