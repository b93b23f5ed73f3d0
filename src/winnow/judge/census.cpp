#include "winnow/judge/census.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "winnow/experiment/world.h"

namespace winnow {

Census count_clients(const Experiment& experiment, const World& world) {
  std::map<std::int64_t, std::int64_t> distorted;
  for (const LedgerSample& entry : world.ledger.samples()) {
    distorted[entry.client] += entry.kind != "label" ? 1 : 0;
  }
  Census picture{
      fmt::format(
          "{}: {} over {} clients, {}", experiment.name, world.data.name, world.clients.size(),
          world.data.owners.empty() ? experiment.federation.partition.name() : "split as it came"),
      world.data.class_names,
      {},
      world.truth_known,
      world.only_injected};
  const auto classes = static_cast<std::size_t>(world.data.classes);
  for (std::size_t id = 0; id < world.clients.size(); ++id) {
    const ClientData& client = world.clients[id];
    ClientCensus counted;
    counted.samples = static_cast<std::int64_t>(client.samples.size());
    counted.true_counts.resize(classes);
    counted.given_counts.resize(classes);
    std::int64_t wrong = 0;
    for (std::size_t i = 0; i < client.samples.size(); ++i) {
      const std::int64_t truth =
          world.data.train.labels[static_cast<std::size_t>(client.samples[i])];
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
    picture.clients.push_back(std::move(counted));
  }
  return picture;
}

Json census_json(const World& world, const Census& picture) {
  const auto if_known = [&](auto value) { return world.truth_known ? Json(value) : Json(); };
  Json clients = Json::array();
  for (std::size_t id = 0; id < picture.clients.size(); ++id) {
    const ClientCensus& client = picture.clients[id];
    clients.push_back({{"client", id},
                       {"samples", client.samples},
                       {"true_classes", client.true_counts},
                       {"given_classes", client.given_counts},
                       {"wrong_share", if_known(client.wrong_share)},
                       {"distorted_share", if_known(client.distorted_share)},
                       {"noisy", if_known(client.noisy)}});
  }
  Json json{{"data", world.data.name},
            {"train", world.data.train.size()},
            {"test", world.data.test.size()},
            {"class_names", world.data.class_names},
            {"ledger_hash", world.ledger.hash()},
            {"clients", clients}};
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

}  // namespace winnow
