// What an experiment is identified by.
#include <fmt/format.h>

#include "winnow/base/sha256.h"
#include "winnow/data/catalog.h"
#include "winnow/experiment/experiment.h"
#include "winnow/experiment/paths.h"
#include "winnow/noise/noise_alias.h"

namespace winnow {
namespace {

void leave_out_defaults(Json& table, Params declared, const std::vector<std::string>& keys) {
  for (const std::string& key : keys) {
    if (table.at(key) == declared.find(key)->default_value()) {
      table.erase(key);
    }
  }
}

// The same settings under other names are the same.
void replace_aliases(Json& tree) {
  if (const auto federation = tree.find("federation");
      federation != tree.end() && federation->contains("partition")) {
    (*federation)["partition"] = without_alias((*federation)["partition"]);
  }
  const auto noise = tree.find("noise");
  for (std::size_t i = 0; noise != tree.end() && noise->is_array() && i < noise->size(); ++i) {
    (*noise)[i] = without_alias((*noise)[i], fmt::format("noise.{}", i));
  }
}

// Takes what `like` does not have out of `tree`.
void keep_keys(const Json& like, Json& tree) {
  if (tree.is_object() && like.is_object()) {
    std::vector<std::string> missing;
    for (auto& [key, value] : tree.items()) {
      if (const auto known = like.find(key); known != like.end()) {
        keep_keys(*known, value);
      } else {
        missing.push_back(key);
      }
    }
    for (const std::string& key : missing) {
      tree.erase(key);
    }
  } else if (tree.is_array() && like.is_array() && tree.size() == like.size()) {
    for (std::size_t i = 0; i < tree.size(); ++i) {
      keep_keys(like[i], tree[i]);
    }
  }
}

}  // namespace

Json Experiment::resolved() const {
  Experiment copy = *this;  // Params want targets they may write
  Json tree = declare_top_level(copy).values();
  tree["data"] = values(data);
  tree["federation"] = declare(copy.federation).values();
  if (data.name != kSplitData) {
    tree["federation"]["partition"] = federation.partition.values();
  }
  tree["validation"] = declare(copy.validation).values();
  tree["public"] = declare(copy.public_images).values();
  if (!noise.empty()) {
    tree["noise"] = Json::array();
    for (const Noise& block : noise) {
      tree["noise"].push_back(values(block));
    }
  }
  tree["model"] = declare(copy.model).values();
  tree["train"] = declare(copy.train).values();
  tree["method"] = Json{{"name", method}};
  tree["method"].update(method_params);
  return tree;
}

std::string Experiment::hash() const {
  return hash_of(resolved());
}

// These keys came later and are left out where they have their defaults: runs that were begun
// before have digests without them.
std::string Experiment::hash_of(const Json& given) const {
  Json tree = resolved();
  DataOptions data_defaults;
  TrainOptions train_defaults;
  leave_out_defaults(
      tree["data"], declare(data_defaults),
      {"class_names", "layout", "float_range", "relabel", "test_from", "test_share", "test_path"});
  leave_out_defaults(
      tree["train"], declare(train_defaults),
      {"optimizer", "lr_schedule", "lr_step_size", "lr_min", "beta1", "beta2", "eps"});
  if (!federation.centralised) {
    tree["federation"].erase("centralised");
  }
  if (federation.dropout == 0.0) {
    tree["federation"].erase("dropout");
  }
  if (federation.sums == SumForm::floating) {
    tree["federation"].erase("sums");
  }
  if (federation.absences.empty()) {
    tree["federation"].erase("absences");
  }
  if (!local_accuracy) {
    tree.erase("local_accuracy");
  }
  keep_keys(given, tree);
  return sha256_hex(tree.dump());
}

std::string cell_hash(Json tree) {
  for (const char* key : {"name", "seed", "checkpoint_every"}) {
    tree.erase(key);
  }
  replace_aliases(tree);
  for_each_path(tree, [](Json& table, const char* key) {
    if (const auto value = table.find(key); value != table.end() && value->is_string()) {
      *value = std::filesystem::path(value->get<std::string>()).filename().string();
    }
  });
  // The order of keys says nothing: this kind of JSON sorts them.
  return sha256_hex(nlohmann::json(tree).dump()).substr(0, 16);
}

}  // namespace winnow
