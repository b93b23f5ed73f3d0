// How well noise was found and repaired, measured against the truth (spec: partitions M).
// Only the run layer sees the truth; methods never do.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "winnow/base/json.h"

namespace winnow {

// Client identification. A share of nothing is no number: where no client is flagged there is no
// precision, where none is noisy no recall.
struct Detection {
  std::int64_t flagged = 0;
  std::optional<double> precision;  // flagged clients that are noisy, among the flagged
  std::optional<double> recall;     // the same, among the noisy
  double accuracy = 1.0;            // clients on the right side, among all
};
Detection detect(const std::set<std::int64_t>& flagged, const std::set<std::int64_t>& noisy,
                 std::int64_t clients);

// Mean over the clients of |estimated - real share of wrong labels|; both by client, of one size.
double noise_level_error(std::span<const double> estimated, std::span<const double> real);

// What a relabelling did: labels before and after it beside the true ones, all aligned.
struct Relabelling {
  std::int64_t wrong_to_right = 0;
  std::int64_t wrong_to_wrong = 0;  // changed, but not to the true label
  std::int64_t right_to_wrong = 0;

  Relabelling& operator+=(const Relabelling& other);
};
Relabelling relabelling(std::span<const std::int64_t> before, std::span<const std::int64_t> after,
                        std::span<const std::int64_t> truth);

// A table of all pairs of classes is made and kept for at most this many.
inline constexpr std::int64_t kMostConfusionClasses = 1000;

// confusion[given][true]: how many samples.
std::vector<std::vector<std::int64_t>> confusion(std::span<const std::int64_t> given,
                                                 std::span<const std::int64_t> truth,
                                                 std::int64_t classes);

// Share of samples whose label is not the true one; 0 for none.
double wrong_share(std::span<const std::int64_t> given, std::span<const std::int64_t> truth);

// Sample selection: "positive" means correctly labelled. Denominators are at least 1, so an empty
// selection has precision and recall 0.
struct Selection {
  double label_precision = 0.0;  // right among the selected
  double label_recall = 0.0;     // selected among the right
};
Selection selection(const std::vector<bool>& selected, const std::vector<bool>& right);

// flagged, flag_precision, flag_recall, flag_accuracy: `precision` alone is the number format. A
// precision or recall that there is not becomes null.
Json to_json(const Detection& detection);
// The name above of a key of `detection`; files of earlier versions lack the flag_.
std::string flag_quality_key(const std::string& key);
// Gives the keys of `detection` in a summary or an event these names.
void rename_flag_quality(Json& holder);
Json to_json(const Relabelling& relabelling);

}  // namespace winnow
