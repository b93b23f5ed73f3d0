// The clients of a world, counted: what each holds by true and by given label, and its noise.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "winnow/base/json.h"

namespace winnow {

struct Experiment;
struct World;

// One client, counted.
struct ClientCensus {
  std::int64_t samples = 0;
  std::vector<std::int64_t> true_counts;   // samples of each class, by true label
  std::vector<std::int64_t> given_counts;  // the same by given label
  double wrong_share = 0.0;                // of its samples, 0..1
  double distorted_share = 0.0;
  bool noisy = false;
};

struct Census {
  std::string title;
  std::vector<std::string> class_names;
  std::vector<ClientCensus> clients;  // the place in the list is the client's number
  bool truth_known = true;            // false: wrong labels and noisy clients are not known
  bool only_injected = false;         // true: known is only what was injected
};

Census count_clients(const Experiment& experiment, const World& world);

// What `inspect --json` prints and a run directory holds as partition.json: data, train, test,
// class_names, ledger_hash and, for every client, samples, true_classes, given_classes,
// wrong_share, distorted_share and noisy. Where the truth is unknown the last three are null,
// true_classes are the labels as found, and truth_unknown says so; only_injected where noise was
// put on such labels. test_labels is "unchecked" where they were drawn from such labels.
Json census_json(const World& world, const Census& picture);
// The same as a file, one client after the other: of a million clients it is never in memory.
void write_census(const std::filesystem::path& path, const World& world);

}  // namespace winnow
