#include "winnow/experiment/server_world.h"

#include "winnow/data/catalog.h"

namespace winnow {

World server_world(const Experiment& experiment, const Registry& registry) {
  ServerSet server = load_server_set(experiment.data, registry.data_sets);
  const std::int64_t clients = experiment.federation.clients;
  World world{std::move(server.set), std::vector<ClientData>(static_cast<std::size_t>(clients)),
              Ledger(experiment.seed, 0, clients), std::move(server.public_images)};
  world.truth_known = false;
  return world;
}

}  // namespace winnow
