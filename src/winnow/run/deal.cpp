#include "winnow/run/deal.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "winnow/base/error.h"
#include "winnow/base/files.h"
#include "winnow/data/npz_writer.h"
#include "winnow/experiment/server_world.h"
#include "winnow/experiment/toml.h"
#include "winnow/experiment/world.h"
#include "winnow/run/charter.h"

namespace winnow {
namespace {

namespace fs = std::filesystem;

constexpr const char* kServeFile = "federation.toml";
constexpr const char* kServerFile = "server.npz";

void check_dealable(const Experiment& experiment) {
  for (std::size_t block = 0; block < experiment.noise.size(); ++block) {
    if (std::holds_alternative<Attack>(experiment.noise[block])) {
      throw Error(
          ErrorKind::experiment,
          fmt::format("noise.{}: an attack is what a client does, and no data holds it", block),
          "remove it, or simulate it with winnow run");
    }
  }
}

// The experiment without what its data is made of, which members and server have as files.
Json served_tree(const Experiment& experiment) {
  Json all = experiment.resolved();
  Json tree;
  for (const char* key : {"name", "seed", "rounds", "eval_every"}) {
    tree[key] = all.at(key);
  }
  if (experiment.local_accuracy) {
    tree["local_accuracy"] = true;  // to be refused
  }
  tree["data"] = {{"name", kServerData}, {"path", kServerFile}, {"layout", "nchw"}};
  tree["federation"] = all.at("federation");
  tree["federation"].erase("partition");
  for (const char* key : {"model", "train", "method"}) {
    tree[key] = all.at(key);
  }
  // What is not there says nothing to who reads the file.
  const auto leave_out = [&tree](const char* table, const char* key, const Json& unset) {
    if (tree[table].at(key) == unset) {
      tree[table].erase(key);
    }
  };
  leave_out("federation", "centralised", false);
  leave_out("federation", "dropout", 0.0);
  leave_out("federation", "absences", "");
  leave_out("federation", "sums", "float");
  leave_out("model", "path", "");
  leave_out("model", "weights", "");
  return tree;
}

void write_members(const World& world, const fs::path& folder) {
  for (std::size_t client = 0; client < world.clients.size(); ++client) {
    const ClientData& held = world.clients[client];
    NpzWriter file;
    file.add("images",
             world.data.train.images.index_select(0, at::tensor(held.samples, at::kLong)));
    file.add("labels", held.given);
    file.write(folder / (member_name(static_cast<std::int64_t>(client)) + ".npz"));
  }
}

void write_server(const World& world, const fs::path& folder) {
  NpzWriter file;
  file.add("test_images", world.data.test.images);
  file.add("test_labels", world.data.test.labels);
  if (world.data.validation.size() > 0) {
    file.add("validation_images", world.data.validation.images);
    file.add("validation_labels", world.data.validation.labels);
  }
  if (world.public_images.defined()) {
    file.add("public_images", world.public_images);
  }
  file.add("class_names", world.data.class_names);
  file.write(folder / kServerFile);
}

}  // namespace

std::string member_name(std::int64_t client) {
  return fmt::format("client-{}", client);
}

Dealt deal_out(const Experiment& experiment, const Registry& registry, const fs::path& folder,
               const fs::path& authority) {
  check_dealable(experiment);
  Json tree = served_tree(experiment);
  check_servable(parse_experiment(tree, registry), registry);
  const fs::path file = folder / kServeFile;
  if (fs::exists(file)) {
    throw Error(ErrorKind::run, fmt::format("{} is there already", file.string()),
                "name another folder with --out, or remove that one");
  }
  const World world = make_world(experiment, registry);
  for (std::size_t client = 0; client < world.clients.size(); ++client) {
    if (world.clients[client].samples.empty()) {
      throw Error(ErrorKind::experiment,
                  fmt::format("client {} holds no samples, and a member needs some", client),
                  "use fewer clients or another federation.partition");
    }
  }
  const DataSet& data = world.data;
  tree["data"]["mean"] = data.normalisation.mean;
  tree["data"]["std"] = data.normalisation.std;
  tree["data"]["augment"] = data.augment ? "on" : "off";
  tree["data"]["crop"] = data.crop;
  tree["serve"] = {{"host", "0.0.0.0"},
                   {"port", 8790},
                   {"certificate", "pki/server.pem"},
                   {"key", "pki/server.key"},
                   {"authority", "pki/authority.pem"}};
  if (!authority.empty()) {
    tree["serve"]["revoked"] =
        (fs::absolute(authority) / "revoked.txt").lexically_normal().string();
  }
  tree["members"] = Json::array();
  for (std::size_t client = 0; client < world.clients.size(); ++client) {
    tree["members"].push_back({{"name", member_name(static_cast<std::int64_t>(client))}});
  }
  std::error_code failed;
  fs::create_directories(folder, failed);
  if (failed) {
    throw Error(ErrorKind::run,
                fmt::format("cannot create {}: {}", folder.string(), failed.message()));
  }
  write_members(world, folder);
  write_server(world, folder);
  write_file_whole(file, write_toml(tree));
  return {std::ssize(world.clients), file};
}

}  // namespace winnow
