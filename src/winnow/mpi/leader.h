// What rank 0 does to have the other ranks work: commands, answers, and models on their way.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "winnow/model/state.h"
#include "winnow/mpi/protocol.h"
#include "winnow/mpi/ranks.h"
#include "winnow/mpi/shelf.h"

namespace winnow {

class Leader {
 public:
  explicit Leader(Ranks& ranks) : ranks_(ranks), shelves_(static_cast<std::size_t>(ranks.size())) {}

  Ranks& ranks() { return ranks_; }
  const Ranks& ranks() const { return ranks_; }

  // The same command for all others.
  void command_all(const std::string& bytes);
  // An answer of each of these ranks, in order, to `take`. If one of them has failed, or `take`
  // throws, the rest is heard first; then the first failure is thrown.
  void collect(const std::vector<int>& ranks,
               const std::function<void(int rank, ByteReader& answer)>& take);
  // Both, for all others.
  void ask_all(const std::string& bytes,
               const std::function<void(int rank, ByteReader& answer)>& take);
  std::vector<int> others() const;

  Shelf& shelf(int rank) { return shelves_[static_cast<std::size_t>(rank)]; }
  // Nobody holds anything any more; the ranks must have been told.
  void clear_shelves();

 private:
  Ranks& ranks_;
  std::vector<Shelf> shelves_;  // what each rank holds
};

// The models that go with commands, each sent once to those who do not hold it.
class Delivery {
 public:
  explicit Delivery(Leader& leader) : leader_(leader) {}

  // The digest of a model, which is worked out once for the same tensor.
  std::string add(const State& model);
  void need(int rank, const std::string& digest);
  const std::map<std::string, State>& models() const { return models_; }

  // Settles who gets what; to be called once, when all is known.
  void settle();
  // What a rank is told of the models that it needs.
  void write(int rank, ByteWriter& command) const;
  // Sends the values, after the commands.
  void send() const;

 private:
  struct Entry {
    std::string digest;
    std::set<int> needed_by = {};
    std::set<int> sent_to = {};
  };
  Leader& leader_;
  std::vector<Entry> entries_;  // in the order of add()
  std::map<std::string, State> models_;
  std::map<const void*, std::pair<State, std::string>> known_;  // by tensor, which is kept alive
};

}  // namespace winnow
