// What a run needs of whatever runs its clients.
#pragma once

#include <cstdint>
#include <exception>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "winnow/engine/examiner.h"
#include "winnow/engine/workforce.h"
#include "winnow/federation/client.h"
#include "winnow/federation/exchange.h"
#include "winnow/federation/fleet.h"
#include "winnow/federation/memory.h"

namespace winnow {

// A file of a checkpoint with what clients remember.
struct MemoryPart {
  std::string file;          // its name in the folder
  std::string hash;          // of what is in it
  std::uintmax_t bytes = 0;  // how much of it counts; what follows is of a process that died
};

// Thrown where too few clients have answered for a round to count; not an error. The round is taken
// back and played again.
class Undecided : public std::exception {
 public:
  const char* what() const noexcept override { return "too few clients have answered"; }
};

// A fleet whose clients remember in steps: what tasks changed since the last commit() can be taken
// back with rollback(), so that an interrupted round leaves no trace.
class Engine : public Fleet {
 public:
  virtual Workforce workforce() const = 0;

  // The first so many rounds are on the disk and will not be played again.
  virtual void settled(std::int64_t /*rounds*/) {}
  // Between these two the asks belong to this round, counted from 0. Either may throw Undecided.
  virtual void begin(std::int64_t /*round*/) {}
  virtual void end() {}
  // The clients that were there when the round began, ascending; nothing where all always are.
  virtual std::optional<std::vector<std::int64_t>> present() const { return std::nullopt; }

  // What clients have minimised since the last commit() or rollback().
  virtual const TrainingLoss& training_loss() const = 0;

  // Returns the clients whose memory changed, ascending.
  virtual std::vector<std::int64_t> commit() = 0;
  virtual void rollback() = 0;

  // What committed memory tells the judge.
  virtual const Traces& traces() const = 0;
  // With what has not been committed: the models that are the clients' own, and hash() of each.
  virtual ModelsByClient own_models() const = 0;
  // Whether it has them: in a real federation they stay with the clients.
  virtual bool shows_own_models() const { return true; }
  virtual std::map<std::int64_t, std::string> own_hashes() const = 0;

  // Committed memory of the clients that this process holds, for a checkpoint.
  virtual std::map<std::int64_t, ClientMemory> memories() const = 0;
  // Of those, who changed since the last call, ascending, and what one of them remembers.
  virtual std::vector<std::int64_t> take_changed() { return {}; }
  virtual ClientMemory memory(std::int64_t /*client*/) const { return {}; }
  // Throws Error(kind run) where another process that has something to remember does not see the
  // run directory, where it will have to write it.
  virtual void check_directory(const std::filesystem::path& /*run*/) {}
  // Has every other process write what changed there into files of the folder, for the checkpoint
  // of that round, and returns all files that hold what their clients remember.
  [[nodiscard]] virtual std::vector<MemoryPart> save_parts(const std::filesystem::path& folder,
                                                           std::int64_t round) = 0;
  // Replaces memory by what a checkpoint holds of all clients, which may be forged: throws
  // Error(kind run) that names the client where it does not fit the data, the networks or the
  // method's client side.
  virtual void restore(std::map<std::int64_t, ClientMemory> memories) = 0;
  virtual void restore(const Traffic& traffic) = 0;
};

// Refuses orders that break the contract of ask().
void check_orders(const std::vector<Order>& orders, std::int64_t clients,
                  const std::vector<Exchange>& exchanges);

// A reply's models are a lane's memory, which it may use again once the reply is gone.
void keep_models_until_read(const Message& reply);

// hash() of each.
std::map<std::int64_t, std::string> hashes_of(const ModelsByClient& models);

}  // namespace winnow
