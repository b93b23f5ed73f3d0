// A desk: how one rank, also rank 0, answers the orders that it is dealt. Everything goes through
// the codec.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "winnow/federation/codec.h"
#include "winnow/federation/fleet.h"
#include "winnow/mpi/ranks.h"
#include "winnow/mpi/shift.h"
#include "winnow/run/workplace.h"

namespace winnow {

// An order as a rank gets it: the parcel of its task, without the values of models.
struct DeskOrder {
  std::int64_t client = 0;
  std::string parcel;
};

// What a client has answered.
struct DeskReply {
  std::string task;                     // its kind
  std::string parcel;                   // without values
  std::map<std::string, State> models;  // by the digest in the parcel
  ClientMemory memory;                  // as the task left it
  bool remembers = false;
  std::int64_t steps = 0;
  TrainingLoss loss = {};
  Passes passes = {};
  // Where models are kept for a sum: whether they fit into it. The rank that made them keeps them,
  // and others have stand-ins without values.
  bool fits = true;
  bool here = true;
};

class Desk {
 public:
  // Models of tasks by digest.
  using Models = std::map<std::string, State>;

  // With a form, replies are for a sum of that form.
  Desk(Workplace& place, std::vector<DeskOrder> orders, Models models,
       std::optional<SumForm> form = {});

  // The next reply when it is ready, in the order of the orders; see Shift::next().
  std::optional<DeskReply> next(std::chrono::microseconds wait);
  // Tells the crew how fast it was.
  void note();

 private:
  void work(std::size_t worker, std::size_t item);

  Workplace& place_;
  std::vector<DeskOrder> orders_;
  Models models_;
  std::optional<SumForm> form_;
  std::vector<ClientMemory> memories_;
  std::vector<std::optional<DeskReply>> replies_;
  std::int64_t steps_ = 0;
  Shift shift_;  // last: it works with all of these
};

// What unpacks a message of that client, given the models that came with it.
Known known_of(const Workplace& place, std::int64_t client, const Desk::Models& models);

// The models of a reply, which are taken out of it, on the CPU.
std::vector<State> take_models(DeskReply& reply);

// A reply as the answer of another rank; the values of its models follow, unless they stay here.
// And back.
void send_reply(Ranks& ranks, const DeskReply& reply, bool with_values = true);
DeskReply receive_reply(Ranks& ranks, int from, const std::string& answer, const Workplace& place,
                        std::int64_t client);

}  // namespace winnow
