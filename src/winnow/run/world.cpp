#include "winnow/run/world.h"

#include "winnow/data/catalog.h"

namespace winnow {

World make_world(const Experiment& experiment) {
  DataSet data = load(experiment.data);
  Assignment assign = experiment.federation.partition.make(
      data.train.labels, data.classes, experiment.federation.clients, experiment.seed);
  // Noise comes after the partition and touches only what clients see (spec: partitions).
  GivenLabels given =
      labels_of_clients(assign, data.given.empty() ? data.train.labels : data.given);
  Ledger ledger(experiment.seed, data.train.size(), experiment.federation.clients);
  for (std::size_t block = 0; block < experiment.noise.size(); ++block) {
    experiment.noise[block].apply(
        {assign, data.train.labels, data.classes, experiment.seed, block}, given, ledger);
  }
  std::vector<ClientData> clients;
  clients.reserve(assign.size());
  for (std::size_t client = 0; client < assign.size(); ++client) {
    clients.push_back({std::move(assign[client]), std::move(given[client])});
  }
  return {std::move(data), std::move(clients), std::move(ledger)};
}

}  // namespace winnow
