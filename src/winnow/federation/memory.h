// What a client remembers between tasks, in three drawers.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "winnow/data/data_set.h"
#include "winnow/federation/archive.h"
#include "winnow/federation/spill.h"

namespace winnow {

// What a client did with its labels and samples. A simulation measures it against the truth; in a
// real federation it never leaves the client.
struct Trace {
  std::optional<Labels> labels = {};  // the labels in use, once a method has corrected some
  // The labels the client last trained on, where it corrects them anew each time and keeps none.
  std::optional<Labels> last_labels = {};
  // Which of its samples the client last trained on, where the method chooses; by place.
  std::optional<std::vector<bool>> selected = {};
  // Which of its samples it last took for wrongly labelled; by place.
  std::optional<std::vector<bool>> suspected = {};

  bool empty() const { return !labels && !last_labels && !selected && !suspected; }
};

using Traces = std::map<std::int64_t, Trace>;  // by client

// Empty for methods without client state.
struct ClientMemory {
  // Private state: the method's, and apart from it that of the method it wraps. A name in one says
  // nothing about the other.
  Archive own = {};
  Archive base = {};
  // The model that is the client's own, flat, in methods without a global one: it is what such a
  // run measures, hashes and writes down.
  at::Tensor model = {};
  // The last finite model it has sent, flat, on the host, where the run wants to measure it.
  at::Tensor last_model = {};
  Trace trace = {};

  bool empty() const {
    return own.empty() && base.empty() && !model.defined() && !last_model.defined() &&
           trace.empty();
  }
};

// What its tensors take in memory, those that are worth a place on the disk. (On a GPU they stay
// where they are.)
std::int64_t bytes_in_memory(const ClientMemory& memory);
// Counts the tensors to `in_memory`; those for which there is no room within the limit are copied
// to the disk.
void keep_within(ClientMemory& memory, Spill& spill, std::int64_t& in_memory);
// Lets go of the pages that reading it has brought into memory.
void drop_pages(const ClientMemory& memory);

}  // namespace winnow
