#include "winnow/mpi/node_world.h"

#include <optional>
#include <string>
#include <vector>

#include "winnow/mpi/protocol.h"
#include "winnow/mpi/shared_world.h"

namespace winnow {
namespace {

// All but the first of this node.
std::vector<int> others_of(const Ranks& ranks) {
  return {ranks.node().begin() + 1, ranks.node().end()};
}

void tell(Ranks& ranks, const std::string& bytes) {
  for (const int rank : others_of(ranks)) {
    ranks.send(rank, Tag::world, bytes);
  }
}

World make_for_all(Ranks& ranks, const std::function<World()>& make) {
  std::optional<World> world;
  std::optional<SharedWorld> shared;
  try {
    world = make();
    shared = SharedWorld::of(*world);
  } catch (...) {
    tell(ranks, failure_answer());
    throw;
  }
  const std::string address = shared ? shared->address() : "";
  tell(ranks, ByteWriter().put(Outcome::done).text(address).take());
  for (const int rank : others_of(ranks)) {
    ranks.receive(rank, Tag::world);  // it has found the world, or never will
  }
  if (shared) {
    world.reset();  // with the images that only this rank reads
    world = SharedWorld::at(address);
  }
  return world ? std::move(*world) : make();
}

}  // namespace

World world_of_node(Ranks& ranks, const std::function<World()>& make) {
  if (ranks.node_size() == 1) {
    return make();
  }
  if (ranks.node_rank() == 0) {
    return make_for_all(ranks, make);
  }
  const int first = ranks.node().front();
  const std::string message = ranks.receive(first, Tag::world);
  ByteReader bytes(message);
  check_answer(bytes, ranks.name(first));
  const std::string address = bytes.text();
  std::optional<World> world;
  const auto heard = [&] { ranks.send(first, Tag::world, ""); };
  try {
    world = address.empty() ? std::nullopt : SharedWorld::at(address);
  } catch (...) {
    heard();
    throw;
  }
  heard();
  return world ? std::move(*world) : make();
}

}  // namespace winnow
