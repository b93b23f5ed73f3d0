// The members of a process: clients as their own side sees them, with their data and memory.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "winnow/engine/crew.h"
#include "winnow/engine/examiner.h"
#include "winnow/federation/client.h"
#include "winnow/federation/fleet.h"
#include "winnow/federation/memory.h"

namespace winnow {

// Memory changes in steps: what answers changed since the last commit() can be taken back with
// rollback(), so that an interrupted round leaves no trace.
class Members {
 public:
  // `clients` must outlive it: a million of them are not copied. `public_images`: bytes, shaped as
  // the data set's; undefined: there are none.
  Members(const DataSet& data, const std::vector<ClientData>& clients, const TrainOptions& train,
          std::uint64_t seed, std::int64_t resize, const at::Tensor& public_images, Crew& crew);

  // The method's client side; must be set before answer().
  void serve(std::unique_ptr<ClientSide> side) { side_ = std::move(side); }
  bool served() const { return side_ != nullptr; }

  std::int64_t size() const { return std::ssize(clients_); }
  std::int64_t samples(std::int64_t client) const;
  // Who holds any.
  const ClientList& with_samples() const { return with_samples_; }

  struct Answer {
    Message reply;
    ClientMemory memory;  // as the task left it
    std::int64_t steps = 0;
    TrainingLoss loss = {};
    Passes passes = {};
  };
  // What the client replies, given what it remembers, worked out by one of the crew's workers.
  // Several workers may do this at once, also beside keep(), which makes a memory the client's.
  Answer answer(std::int64_t client, ClientMemory memory, const Message& task,
                std::size_t worker) const;
  // With all pending changes.
  ClientMemory memory(std::int64_t client) const;
  void keep(std::int64_t client, ClientMemory memory);
  // Whether there is any.
  bool remembers(std::int64_t client) const { return memory_of(client) != nullptr; }

  // Returns the clients whose memory changed, ascending.
  std::vector<std::int64_t> commit();
  void rollback();

  // How much of what they remember may stay in memory, and where the rest goes. To be said before
  // anything is kept.
  void spill_beyond(SpillOptions options) { spill_ = Spill(std::move(options)); }

  // The clients whose committed memory changed since the last call, ascending; after restore() all
  // that have any.
  std::vector<std::int64_t> take_changed();
  // Committed, of clients that have any.
  const std::map<std::int64_t, ClientMemory>& memories() const { return memories_; }
  ClientMemory committed(std::int64_t client) const;
  const Traces& traces() const { return traces_; }
  // With what has not been committed: the models that are the clients' own, and the last ones that
  // they have sent.
  ModelsByClient models(Kept kept) const;
  ModelsByClient own_models() const { return models(Kept::own); }

  // Replaces all memory by what a checkpoint holds, which may be forged: throws Error(kind run)
  // that names the client where it does not fit the data, the networks or the client side.
  void restore(std::map<std::int64_t, ClientMemory> memories);

 private:
  void check(std::int64_t client, ClientMemory& memory) const;
  ClientContext context(std::int64_t client, ClientMemory& memory, Lane& lane) const;
  // The client's memory with all pending changes; null when it has none.
  const ClientMemory* memory_of(std::int64_t client) const;

  TrainOptions train_;
  std::uint64_t seed_;
  Crew& crew_;
  const std::vector<ClientData>& clients_;
  ClientList with_samples_;
  std::optional<Feed> public_feed_;
  std::unique_ptr<ClientSide> side_;
  std::map<std::int64_t, ClientMemory> memories_;
  Spill spill_;
  std::int64_t in_memory_ = 0;  // bytes of what they remember after commit(), but for those on disk
  std::map<std::int64_t, ClientMemory> pending_;  // changed since the last commit
  std::set<std::int64_t> changed_;                // since the last take_changed()
  Traces traces_;
};

}  // namespace winnow
