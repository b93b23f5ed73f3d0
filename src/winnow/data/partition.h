// Which samples each client holds: the splits of the papers, chosen by name in an experiment.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "winnow/base/catalog.h"
#include "winnow/base/params.h"

namespace winnow {

// assign[k] = indices of client k's samples in the training set. The lists are disjoint; together
// they are all samples, except for the remainder that some partitions drop.
using Assignment = std::vector<std::vector<std::int64_t>>;

// What a partition is made from. `labels` are the true labels of the training set, all inside
// 0..classes-1.
struct PartitionInput {
  std::span<const std::int64_t> labels;
  std::int64_t classes = 0;
  std::int64_t clients = 0;
  std::uint64_t seed = 0;

  std::int64_t samples() const { return std::ssize(labels); }
};

// How samples are dealt out, with the parameters of this way of doing it. make() may be called any
// number of times and draws from (seed, "partition") only.
class PartitionRule {
 public:
  virtual ~PartitionRule() = default;
  // Declares its own parameters over its members.
  virtual void declare(Params& /*params*/) {}
  // A list for every client. Throws Error(kind experiment) naming the numbers to change when the
  // samples cannot be split like this.
  virtual Assignment make(const PartitionInput& input) const = 0;
};

// How a partition is known by name.
struct PartitionInfo {
  std::string name;
  std::string summary;  // one line
  std::function<std::unique_ptr<PartitionRule>()> make;
};

using Partitions = Catalog<PartitionInfo>;
const Partitions& builtin_partitions();

// A name that people know for one of them. Run directories have the name of the table.
struct PartitionAlias {
  std::string name;
  std::string stands_for;
};
const std::vector<PartitionAlias>& partition_aliases();

// A partition as an experiment writes it, with its name of the table; anything else as it is.
Json without_alias(Json partition);

// A partition with its options, as an experiment writes it: a name, or a table with a name.
class Partition {
 public:
  Partition();  // iid_split

  // The name may be an alias. Throws Error(kind experiment) for an unknown name or option, or a
  // value out of range; `where` is the key in messages.
  static Partition parse(const Json& given, const Partitions& known,
                         std::string_view where = "federation.partition");

  const std::string& name() const { return name_; }
  // The table with all defaults filled in; parse() reads it back.
  const Json& values() const { return values_; }

  // Splits the samples over the clients, as PartitionRule::make() does; Error(kind data) when a
  // label is not a class, Error(kind internal) when the rule deals out what is not there.
  Assignment make(std::span<const std::int64_t> labels, std::int64_t classes, std::int64_t clients,
                  std::uint64_t seed) const;

 private:
  std::string name_;
  std::shared_ptr<const PartitionRule> rule_;
  Json values_;
};

}  // namespace winnow
