// What the ranks but 0 do: they serve rank 0 until it stops them.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "winnow/method/method.h"
#include "winnow/mpi/bytes.h"
#include "winnow/mpi/protocol.h"
#include "winnow/mpi/ranks.h"
#include "winnow/mpi/segments.h"
#include "winnow/mpi/shelf.h"
#include "winnow/run/segment_log.h"
#include "winnow/run/workplace.h"

namespace winnow {

class Worker {
 public:
  // `stop`, when set, ends what it is at work on; rank 0 learns of it.
  Worker(Ranks& ranks, const Registry& registry, const std::atomic<bool>* stop)
      : ranks_(ranks), registry_(registry), stop_(stop) {}

  // Returns the exit code that rank 0 ends with.
  int serve();

 private:
  void obey(Command command, ByteReader& bytes);
  void answer(Command command, ByteReader& bytes, ByteWriter& answer);
  void open(ByteReader& bytes, ByteWriter& answer);
  void save(ByteReader& bytes, ByteWriter& answer);
  void ask(ByteReader& bytes);
  void fold(ByteReader& bytes);
  void score(ByteReader& bytes, ByteWriter& answer);
  // The models of a command, and on to the ranks below this one.
  std::map<std::string, State> receive_models(ByteReader& bytes);
  bool is_cancelled(std::uint64_t ask);
  bool is_stopped() const { return stop_ != nullptr && *stop_; }

  Ranks& ranks_;
  const Registry& registry_;
  const std::atomic<bool>* stop_;
  std::atomic<bool> halt_ = false;  // what the lanes look at
  std::unique_ptr<Workplace> place_;
  std::optional<SegmentLog> log_;  // of what its clients remember
  Shelf shelf_;
  std::vector<ReplyModels> kept_;      // for a sum, of the last ask
  std::vector<at::Tensor> following_;  // values that go behind the answer
};

// The runtime of this rank: as asked for, with a number of lanes and a device of its own.
Runtime settled(const Runtime& runtime, const Ranks& ranks);

// What two ranks must agree on to be in the same world.
std::string digest_of(const Workplace& place);

}  // namespace winnow
