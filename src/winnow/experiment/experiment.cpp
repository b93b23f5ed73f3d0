#include "winnow/experiment/experiment.h"

#include <fmt/format.h>

#include <algorithm>

#include "winnow/base/error.h"
#include "winnow/base/files.h"
#include "winnow/base/json.h"
#include "winnow/base/text.h"
#include "winnow/data/catalog.h"
#include "winnow/experiment/key_hint.h"
#include "winnow/experiment/toml.h"
#include "winnow/federation/fixed_sum.h"
#include "winnow/model/net.h"
#include "winnow/model/script_net.h"

namespace winnow {
namespace {

const std::vector<std::string> kTables{"data",  "federation", "validation", "public",
                                       "noise", "model",      "train",      "method"};

const Json& table_or_empty(const Json& tree, const char* key) {
  static const Json empty = Json::object();
  const auto found = tree.find(key);
  return found == tree.end() ? empty : *found;
}

void read_federation(const Json& tree, const Partitions& known, FederationOptions& options) {
  const Json& table = table_or_empty(tree, "federation");
  declare(options).read(table, "federation", {"partition"});
  if (const auto found = table.find("partition"); found != table.end()) {
    options.partition = Partition::parse(*found, known);
  }
}

// Data that comes split says itself how many clients there are and what each of them holds.
void follow_split_data(const Json& tree, const DataSets& known, Experiment& experiment) {
  if (experiment.data.name != kSplitData) {
    return;
  }
  const Json& table = table_or_empty(tree, "federation");
  if (table.contains("partition")) {
    throw Error(ErrorKind::experiment,
                fmt::format("federation.partition: the data set {} says what each client holds",
                            kSplitData),
                "remove it, or read the images with another data.name to deal them out anew");
  }
  if (!table.contains("clients")) {
    // A set that is not there is reported when it is loaded.
    experiment.federation.clients = std::max<std::int64_t>(1, clients_in(experiment.data, known));
  }
}

void read_noise(const Json& tree, const Registry& registry, std::vector<Noise>& blocks) {
  const auto found = tree.find("noise");
  if (found == tree.end()) {
    return;
  }
  if (!found->is_array()) {
    throw Error(ErrorKind::experiment, "noise: expected a list of tables",
                "write [[noise]], with two brackets on each side");
  }
  for (std::size_t block = 0; block < found->size(); ++block) {
    blocks.push_back(parse_noise((*found)[block], registry.label_noises, registry.distortions,
                                 fmt::format("noise.{}", block)));
  }
}

void read_train(const Json& table, Experiment& experiment) {
  Params params = declare(experiment.train);
  params.read(table, "train");
  check(experiment.train);
  if (table.size() < params.all().size()) {
    for (const auto& [key, value] : table.items()) {
      experiment.train_given.push_back(key);
    }
  }
}

void check_optimizer(const Experiment& experiment, const Method& method) {
  const std::string reason = method.needs_sgd();
  if (experiment.train.optimizer != "sgd" && !reason.empty()) {
    throw Error(ErrorKind::experiment,
                fmt::format("train.optimizer = \"{}\": {} needs \"sgd\": {}",
                            experiment.train.optimizer, experiment.method, reason),
                "set train.optimizer = \"sgd\", or choose another method");
  }
}

void check_sums(const Experiment& experiment, const Method& method) {
  if (experiment.federation.sums == SumForm::floating) {
    return;
  }
  const ServerNeeds needs = method.server_needs();
  if (!needs.plays_sums) {
    throw Error(ErrorKind::experiment,
                fmt::format("federation.sums = \"fixed\": the server of {} needs {}",
                            experiment.method, needs.said()),
                "set federation.sums = \"float\", or choose another method; 'winnow describe "
                "METHOD' says what its server needs");
  }
  if (experiment.federation.size() > kMostWeight / kEqualWeight) {
    throw Error(ErrorKind::experiment,
                fmt::format("federation.clients = {}: fixed sums take at most {}",
                            experiment.federation.size(), kMostWeight / kEqualWeight),
                "set federation.sums = \"float\"");
  }
}

void read_method(const Json& tree, const Registry& registry, Experiment& experiment) {
  Json table = table_or_empty(tree, "method");
  if (table.is_string()) {
    table = Json{{"name", table}};
  }
  if (!table.is_object()) {
    throw Error(ErrorKind::experiment, "method: expected a table with a name");
  }
  if (const auto name = table.find("name"); name != table.end()) {
    if (!name->is_string()) {
      throw Error(ErrorKind::experiment,
                  fmt::format("method.name = {}: expected a text in quotes", name->dump()));
    }
    experiment.method = name->get<std::string>();
  }
  experiment.truth = registry.methods.find(experiment.method).truth;
  const std::unique_ptr<Method> method = registry.make(experiment.method);
  Params params;
  method->declare(params);
  params.read(table, "method", {"name"});
  experiment.method_params = params.values();
  check_optimizer(experiment, *method);
  check_sums(experiment, *method);
  if (experiment.train.lr_schedule == "cosine") {
    const Setting setting{.seed = experiment.seed,
                          .rounds = experiment.rounds,
                          .clients = experiment.federation.size(),
                          .fraction = experiment.federation.fraction};
    experiment.train.rounds = method->rounds(setting);
  }
  if (experiment.model.projection < 0) {
    const bool brings_all = experiment.model.name == kTorchScript;  // its features are its own
    experiment.model.projection = brings_all ? 0 : method->projection();
  }
}

void check(const ModelOptions& model, const Networks& known) {
  if (model.name != kTorchScript) {
    known.find(model.name);
  }
  if (model.name == kTorchScript && model.path.empty()) {
    throw Error(ErrorKind::experiment, "model.path = \"\": expected the network's TorchScript file",
                "write it in Python with torch.jit.script(model).save(path)");
  }
  if (model.name != kTorchScript && !model.path.empty()) {
    throw Error(
        ErrorKind::experiment,
        fmt::format("model.path = \"{}\": only the model {} has a file", model.path, kTorchScript),
        fmt::format("set model.name = \"{}\", or use model.weights for weights to start from",
                    kTorchScript));
  }
  if (model.name == kTorchScript && model.projection > 0) {
    throw Error(ErrorKind::experiment,
                fmt::format("model.projection = {}: a {} model brings all its layers itself",
                            model.projection, kTorchScript),
                "write the projection into the module's features(x)");
  }
}

[[noreturn]] void rethrow_with_file(const Error& error, const std::filesystem::path& file) {
  throw Error(error.kind(), fmt::format("{}: {}", file.string(), error.what()), error.hint());
}

}  // namespace

Params declare_top_level(Experiment& experiment) {
  Params params;
  params.add("name", experiment.name, "name of the experiment, and of its run directory");
  params.add("seed", experiment.seed, "seed of every random draw in the run");
  params.add("rounds", experiment.rounds, "number of communication rounds").range(1, 1e9);
  params
      .add("eval_every", experiment.eval_every,
           "rounds between evaluations on the test set; the last ten rounds are always evaluated")
      .range(1, 1e9);
  params.add("checkpoint_every", experiment.checkpoint_every, "rounds between checkpoints")
      .range(1, 1e9);
  params.add("local_accuracy", experiment.local_accuracy,
             "keep every client's last model and measure it on the test set when the run ends");
  return params;
}

Params declare(FederationOptions& options) {
  Params params;
  params.add("clients", options.clients, "number of clients").range(1, 10'000'000);
  params.add("fraction", options.fraction, "share of the clients that take part in a round")
      .above(0)
      .range(0, 1);
  params.add("centralised", options.centralised,
             "put the samples of all clients, with their noise, into one client: training without "
             "a federation");
  params
      .add("dropout", options.dropout,
           "probability that a client does not answer a task, drawn anew for every task")
      .range(0, 0.99);
  params.add("sums", options.sums, {{"float", SumForm::floating}, {"fixed", SumForm::fixed}},
             "how models are summed: one by one in double precision (float), or as whole numbers, "
             "exactly and in any order (fixed), which works for all methods whose server needs "
             "only sums of models");
  params.add(
      "absences", options.absences,
      "events.jsonl of another run: clients that did not answer there do not answer here either");
  return params;
}

Params declare(ModelOptions& options) {
  Params params;
  params.add("name", options.name, "name of the network, one of `winnow list models`");
  params.add("path", options.path, "torchscript: file with the network");
  params.add(
      "weights", options.weights,
      "safetensors file with the initial weights; empty: random weights drawn with the seed");
  params
      .add("resize", options.resize,
           "width and height that images are scaled to; 0: the model's own")
      .range(0, 4096);
  params
      .add("projection", options.projection,
           "width of a two-layer projection between the features and the head; 0: none, -1: what "
           "the method needs")
      .range(-1, 65536);
  return params;
}

namespace {

Experiment parse_tree(const Json& tree, const Registry& registry) {
  Experiment experiment;
  declare_top_level(experiment).read(tree, "", kTables);
  experiment.rounds_given = tree.contains("rounds");
  if (!is_plain_name(experiment.name)) {
    throw Error(ErrorKind::experiment,
                fmt::format("name = {}: expected the name of a folder: 1 to 200 bytes, no '/', no "
                            "control characters, no '.' at its beginning",
                            Json(experiment.name).dump()),
                "it names the run directory; --out puts it elsewhere");
  }
  read_data_options(table_or_empty(tree, "data"), registry.data_sets, experiment.data);
  read_federation(tree, registry.partitions, experiment.federation);
  follow_split_data(tree, registry.data_sets, experiment);
  declare(experiment.validation).read(table_or_empty(tree, "validation"), "validation");
  check(experiment.validation, registry.distortions);
  declare(experiment.public_images).read(table_or_empty(tree, "public"), "public");
  check(experiment.public_images, registry.data_sets);
  read_noise(tree, registry, experiment.noise);
  declare(experiment.model).read(table_or_empty(tree, "model"), "model");
  check(experiment.model, registry.networks);
  read_train(table_or_empty(tree, "train"), experiment);
  read_method(tree, registry, experiment);
  return experiment;
}

}  // namespace

Experiment parse_experiment(const Json& tree, const Registry& registry) {
  try {
    return parse_tree(tree, registry);
  } catch (const UnknownKey& error) {
    throw Error(error.kind(), error.what(), key_hint(error, tree, registry));
  }
}

Override parse_override(const std::string& text) {
  const std::size_t at = text.find('=');
  if (at == std::string::npos || at == 0) {
    throw Error(ErrorKind::usage, fmt::format("--set {}: expected key=value", text),
                "for example --set train.lr=0.03");
  }
  if (!is_utf8(text)) {
    throw Error(ErrorKind::usage, "--set: expected key=value in UTF-8");
  }
  return {std::string(trim(text.substr(0, at))), std::string(trim(text.substr(at + 1)))};
}

Json load_experiment_tree(const std::filesystem::path& file,
                          const std::vector<Override>& overrides) {
  Json tree = read_toml(file);
  const std::filesystem::path folder = std::filesystem::absolute(file).parent_path();
  for (const Override& change : overrides) {
    try {
      set_by_path(tree, change.key, parse_toml_value(change.value));
    } catch (const Error& error) {
      throw Error(ErrorKind::usage, fmt::format("--set {}", error.what()), error.hint());
    }
  }
  anchor_paths(tree, folder);
  return tree;
}

Experiment load_experiment(const std::filesystem::path& file,
                           const std::vector<Override>& overrides, const Registry& registry) {
  const Json tree = load_experiment_tree(file, overrides);
  for (const auto& [key, part] : {std::pair{"grid", "[grid]"},
                                  {"row", "[[row]]"},
                                  {"column", "[[column]]"},
                                  {"methods", "list of methods"}}) {
    if (tree.contains(key)) {
      throw Error(ErrorKind::experiment,
                  fmt::format("{} has a {}: it is a sweep", file.string(), part),
                  fmt::format("run it with: winnow sweep {}", file.string()));
    }
  }
  try {
    return parse_experiment(tree, registry);
  } catch (const Error& error) {
    rethrow_with_file(error, file);
  }
}

std::unique_ptr<Method> make_method(const Experiment& experiment, const Registry& registry,
                                    const Setting& setting) {
  std::unique_ptr<Method> method = registry.make(experiment.method);
  Params params;
  method->declare(params);
  params.read(experiment.method_params, "method");
  method->check(setting);
  return method;
}

}  // namespace winnow
