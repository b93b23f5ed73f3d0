#include "winnow/judge/census.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "winnow/base/files.h"
#include "winnow/experiment/world.h"

namespace winnow {

namespace {

constexpr std::size_t kPiece = 1 << 20;

using Distorted = std::map<std::int64_t, std::int64_t>;  // samples by client

Distorted count_distorted(const World& world) {
  Distorted distorted;
  for (const LedgerSample& entry : world.ledger.samples()) {
    distorted[entry.client] += entry.kind != "label" ? 1 : 0;
  }
  return distorted;
}

ClientCensus count_client(const World& world, std::size_t id, const Distorted& distorted) {
  const auto classes = static_cast<std::size_t>(world.data.classes);
  const ClientData& client = world.clients[id];
  ClientCensus counted;
  counted.samples = std::ssize(client.samples);
  counted.true_counts.resize(classes);
  counted.given_counts.resize(classes);
  std::int64_t wrong = 0;
  for (std::size_t i = 0; i < client.samples.size(); ++i) {
    const std::int64_t truth = world.data.train.labels[static_cast<std::size_t>(client.samples[i])];
    ++counted.true_counts[static_cast<std::size_t>(truth)];
    ++counted.given_counts[static_cast<std::size_t>(client.given[i])];
    wrong += client.given[i] != truth ? 1 : 0;
  }
  const double size = std::max(1.0, static_cast<double>(counted.samples));
  counted.wrong_share = static_cast<double>(wrong) / size;
  const auto touched = distorted.find(static_cast<std::int64_t>(id));
  if (touched != distorted.end()) {
    counted.distorted_share = std::min(1.0, static_cast<double>(touched->second) / size);
  }
  counted.noisy = world.ledger.is_noisy(static_cast<std::int64_t>(id));
  return counted;
}

Json client_json(const World& world, std::size_t id, const ClientCensus& client) {
  const auto if_known = [&](auto value) { return world.truth_known ? Json(value) : Json(); };
  return {{"client", id},
          {"samples", client.samples},
          {"true_classes", client.true_counts},
          {"given_classes", client.given_counts},
          {"wrong_share", if_known(client.wrong_share)},
          {"distorted_share", if_known(client.distorted_share)},
          {"noisy", if_known(client.noisy)}};
}

// All but the clients.
Json frame_json(const World& world) {
  Json json{{"data", world.data.name},
            {"train", world.data.train.size()},
            {"test", world.data.test.size()},
            {"class_names", world.data.class_names},
            {"ledger_hash", world.ledger.hash()}};
  if (!world.truth_known) {
    json["truth_unknown"] = true;
  }
  if (world.only_injected) {
    json["only_injected"] = true;
  }
  if (world.test_unchecked) {
    json["test_labels"] = "unchecked";
  }
  return json;
}

}  // namespace

Census count_clients(const Experiment& experiment, const World& world) {
  const Distorted distorted = count_distorted(world);
  Census picture{
      fmt::format(
          "{}: {} over {} clients, {}", experiment.name, world.data.name, world.clients.size(),
          world.data.owners.empty() ? experiment.federation.partition.name() : "split as it came"),
      world.data.class_names,
      {},
      world.truth_known,
      world.only_injected};
  for (std::size_t id = 0; id < world.clients.size(); ++id) {
    picture.clients.push_back(count_client(world, id, distorted));
  }
  return picture;
}

Json census_json(const World& world, const Census& picture) {
  Json json = frame_json(world);
  Json& clients = json["clients"] = Json::array();
  for (std::size_t id = 0; id < picture.clients.size(); ++id) {
    clients.push_back(client_json(world, id, picture.clients[id]));
  }
  return json;
}

void write_census(const std::filesystem::path& path, const World& world) {
  const Distorted distorted = count_distorted(world);
  WholeFile file(path);
  std::string text = frame_json(world).dump();
  text.pop_back();  // its closing brace
  text += ",\"clients\":[";
  for (std::size_t id = 0; id < world.clients.size(); ++id) {
    text += id == 0 ? "" : ",";
    text += client_json(world, id, count_client(world, id, distorted)).dump();
    if (text.size() >= kPiece) {
      file.write(text);
      text.clear();
    }
  }
  file.write(text + "]}\n");
  file.commit();
}

}  // namespace winnow
