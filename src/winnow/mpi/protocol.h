// What rank 0 asks of the others and what they answer. A command is one message: its kind, then
// what it needs. Models travel behind it, and behind an answer, as bare values.
#pragma once

#include <cstdint>
#include <exception>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "winnow/federation/client.h"
#include "winnow/federation/fleet.h"
#include "winnow/federation/memory.h"
#include "winnow/mpi/bytes.h"
#include "winnow/mpi/ranks.h"
#include "winnow/train/lane.h"

namespace winnow {

enum class Command : std::uint8_t {
  open,            // make the world of an experiment: runtime, experiment
  close,           // forget it; no answer
  ask,             // number, form if models are kept, models, orders; an answer for each order
  fold,            // plan for what is kept; no answer but values
  score,           // models, pieces
  score_each,      // the clients' own models on the test set
  right_by_class,  // which models
  own_hashes,      //
  own_models,      // values follow the answer
  commit,          //
  rollback,        // no answer
  look,            // path of a file: whether it is there
  save,            // folder
  restore,         // memories
  stop,            // exit code; no answer, the last command
};

// The start of an answer.
enum class Outcome : std::uint8_t { done, failed, interrupted };

// An answer that says why there is none. Must be called while an exception is handled.
std::string failure_answer();
// Throws what a rank has said in such an answer, with its name in front; returns otherwise.
void check_answer(ByteReader& answer, const std::string& rank);

// Of the sum for which the models of an ask are kept, if they are.
void put(ByteWriter& bytes, const std::optional<SumForm>& form);
std::optional<SumForm> get_form(ByteReader& bytes);

void put(ByteWriter& bytes, const Score& score);
Score get_score(ByteReader& bytes);

void put(ByteWriter& bytes, const Trace& trace);
Trace get_trace(ByteReader& bytes);

// A model on its way to some ranks, as the place of a rank in the tree over all who get it: rank 0
// and then `receivers`.
struct TreePlace {
  int parent = 0;
  std::vector<int> children = {};
};
TreePlace place_in_tree(const std::vector<int>& receivers, int rank);

}  // namespace winnow
