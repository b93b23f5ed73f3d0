// An experiment: everything that decides a run's result, read from TOML, checked, with all defaults
// filled in.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "winnow/base/params.h"
#include "winnow/data/catalog.h"
#include "winnow/data/partition.h"
#include "winnow/experiment/paths.h"
#include "winnow/experiment/public_images.h"
#include "winnow/experiment/registry.h"
#include "winnow/experiment/validation.h"
#include "winnow/method/method.h"
#include "winnow/noise/noise.h"
#include "winnow/train/options.h"

namespace winnow {

struct FederationOptions {
  std::int64_t clients = 100;
  double fraction = 0.1;
  bool centralised = false;
  double dropout = 0.0;
  SumForm sums = SumForm::floating;
  std::string absences;  // events of a run whose absences are played again; empty: none
  Partition partition;

  // Of the clients that take part: one where their samples are brought together.
  std::int64_t size() const { return centralised ? 1 : clients; }
};

struct ModelOptions {
  std::string name = "lenet5";
  std::string path;         // TorchScript file, where the name says so; empty otherwise
  std::string weights;      // safetensors file to start from; empty: fresh values from the seed
  std::int64_t resize = 0;  // square input size; 0: what the model was made for
  std::int64_t projection = -1;  // width of a projection before the head; 0: none, -1: the method's
};

struct Experiment {
  std::string name = "experiment";
  std::uint64_t seed = 1;
  std::int64_t rounds = 60;
  bool rounds_given = false;  // by the user; no part of resolved(), which has every key
  // Keys of [train] that the user set. A table with every key, as run directories have, says
  // nothing.
  std::vector<std::string> train_given;
  std::int64_t eval_every = 1;
  std::int64_t checkpoint_every = 5;
  bool local_accuracy = false;
  DataOptions data;
  FederationOptions federation;
  ValidationOptions validation;
  PublicOptions public_images;
  std::vector<Noise> noise;
  ModelOptions model;
  TrainOptions train;
  std::string method = "fedavg";
  Json method_params = Json::object();  // resolved: every parameter of the method
  Truth truth = Truth::none;            // what the method is told of it

  // The tree with all defaults, in the order of the file format; parse() reads it back.
  Json resolved() const;
  // Digest of resolved().
  std::string hash() const;
  // The same of the keys that `given`, a run's own file, has. Options that came after the run was
  // begun do not count: they are at their defaults, which must mean what was done before.
  std::string hash_of(const Json& given) const;
};

// Checks a tree and fills in the defaults. Throws Error(kind experiment) naming the key.
Experiment parse_experiment(const Json& tree, const Registry& registry);

// One `--set key=value`.
struct Override {
  std::string key;
  std::string value;
};
// Throws Error(kind usage) when it is not that, or not UTF-8.
Override parse_override(const std::string& text);

// The tree of a file with overrides applied, and its paths made absolute by anchor_paths() with the
// file's folder.
Json load_experiment_tree(const std::filesystem::path& file,
                          const std::vector<Override>& overrides);

// Digest of the settings that a tree gives, before defaults are filled in: new options do not
// change it. Where files lie, the name, the seed and checkpoint_every do not count.
std::string cell_hash(Json tree);

// Both steps; errors name the file.
Experiment load_experiment(const std::filesystem::path& file,
                           const std::vector<Override>& overrides, const Registry& registry);

// A method with the experiment's parameters, checked against its setting.
std::unique_ptr<Method> make_method(const Experiment& experiment, const Registry& registry,
                                    const Setting& setting);

// The parameters of the plain tables, for `describe` and the docs. Targets must outlive the result.
Params declare_top_level(Experiment& experiment);
Params declare(FederationOptions& options);
Params declare(ModelOptions& options);

}  // namespace winnow
