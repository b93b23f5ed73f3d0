// The noise candidacy score of ClipFL (spec: label-noise C.3): how often each client's model fell
// below the best ones of its round, and who is pruned for it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "winnow/federation/archive.h"

namespace winnow::clipfl {

// A client's model as the server found it on the validation set.
struct Judgement {
  std::int64_t client = 0;
  double accuracy = 0.0;
};

// The clients that are not among the `keep` most accurate; of equal ones the lower id counts as
// better (spec: label-noise C.4 #2). Empty when no more than `keep` are judged.
std::set<std::int64_t> below_the_best(std::vector<Judgement> round, std::int64_t keep);

// How equal scores are ordered when clients are pruned (spec: label-noise C.4 #3).
enum class Tie {
  ratio,  // larger score per time sampled, then lower mean accuracy, then lower id
  id,     // lower id
};

// A value; one per run.
class NcsLedger {
 public:
  // One more time sampled, with this accuracy.
  void judge(const Judgement& judgement);
  // One more time sampled with a model that could not be judged; it counts against the client.
  void reject(std::int64_t client);
  // One more time below the best.
  void flag(std::int64_t client);

  // The `count` worst of `candidates`, worst first: by score, then as `tie` says. A client that was
  // never sampled has score, ratio and accuracy 0.
  std::vector<std::int64_t> worst(std::span<const std::int64_t> candidates, std::int64_t count,
                                  Tie tie) const;

  std::int64_t ncs(std::int64_t client) const { return of(client).ncs; }
  std::int64_t sampled(std::int64_t client) const { return of(client).sampled; }
  // Of every client that was sampled.
  std::map<std::int64_t, double> scores() const;
  std::map<std::int64_t, double> ratios() const;
  // Of every client with a judged model: the mean.
  std::map<std::int64_t, double> accuracies() const;

  // As a column of that name.
  void save(Archive& archive, const std::string& column) const;
  // What save() kept, which is `saved` in an archive out of a file; throws Error(kind run) for what
  // cannot be a ledger.
  static NcsLedger load(const Archive& archive, const std::string& column,
                        const std::optional<CheckedJson>& saved);

 private:
  struct Record {
    std::int64_t ncs = 0;
    std::int64_t sampled = 0;
    std::int64_t judged = 0;
    double accuracy_sum = 0.0;

    bool operator==(const Record&) const = default;
    double ratio() const;
    double mean_accuracy() const;
  };
  Record of(std::int64_t client) const;

  ByClient<Record> records_;
};

}  // namespace winnow::clipfl
