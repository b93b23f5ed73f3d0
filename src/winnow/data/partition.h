// Which samples each client holds: the splits of the papers, chosen by name in an experiment.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "winnow/base/params.h"

namespace winnow {

// assign[k] = indices of client k's samples in the training set. The lists are disjoint; together
// they are all samples, except for the remainder that some partitions drop.
using Assignment = std::vector<std::vector<std::int64_t>>;

// The options of all partitions; each declares those it knows.
struct PartitionOptions {
  double alpha = 0.5;
  double p = 0.7;
  std::int64_t shards_per_client = 2;
  std::int64_t min_size = 1;
};

// What a partition is made from. `labels` are the true labels of the training set, all inside
// 0..classes-1.
struct PartitionInput {
  std::span<const std::int64_t> labels;
  std::int64_t classes = 0;
  std::int64_t clients = 0;
  std::uint64_t seed = 0;

  std::int64_t samples() const { return std::ssize(labels); }
};

// One entry of the table of partitions. `declare` into a copy of `defaults` gives its parameters.
struct PartitionInfo {
  std::string name;
  std::string summary;
  PartitionOptions defaults;
  std::function<void(Params&, PartitionOptions&)> declare;
  std::function<Assignment(const PartitionOptions&, const PartitionInput&)> make;
};

const std::vector<PartitionInfo>& partitions();

// A partition with its options, as an experiment writes it: a name, or a table with a name.
class Partition {
 public:
  Partition();  // iid_split

  // Throws Error(kind experiment) for an unknown name or option, or a value out of range; `where`
  // is the key in messages.
  static Partition parse(const Json& value, std::string_view where = "federation.partition");

  const std::string& name() const { return info_->name; }
  const PartitionOptions& options() const { return options_; }
  Json values() const;  // the table with all defaults filled in; parse() reads it back

  // Splits the samples over the clients, drawing from (seed, "partition") only. Throws
  // Error(kind experiment) naming the numbers to change when the samples cannot be split like this,
  // Error(kind data) when a label is not a class.
  Assignment make(std::span<const std::int64_t> labels, std::int64_t classes, std::int64_t clients,
                  std::uint64_t seed) const;

 private:
  explicit Partition(const PartitionInfo& info) : info_(&info), options_(info.defaults) {}

  const PartitionInfo* info_;
  PartitionOptions options_;
};

}  // namespace winnow
