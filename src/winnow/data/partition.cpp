#include "winnow/data/partition.h"

#include <fmt/format.h>

#include <algorithm>

#include "winnow/base/error.h"
#include "winnow/base/text.h"
#include "winnow/data/partition_rules.h"

namespace winnow {
namespace {

constexpr double kLargestSize = 1e9;

void declare_nothing(Params& /*params*/, PartitionOptions& /*options*/) {}

// Below the lower end a Dirichlet draw underflows to zeros, above the upper end it is even anyway.
Param& add_alpha(Params& params, PartitionOptions& options) {
  return params.add("alpha", options.alpha, "concentration of the Dirichlet: small is uneven")
      .range(1e-3, 1e6);
}

Param& add_min_size(Params& params, PartitionOptions& options) {
  return params.add("min_size", options.min_size, "fewest samples a client may hold")
      .range(1, kLargestSize);
}

void declare_random(Params& params, PartitionOptions& options) {
  add_min_size(params, options);
}

void declare_shards(Params& params, PartitionOptions& options) {
  params.add("shards_per_client", options.shards_per_client, "pieces of the sorted data per client")
      .range(1, 1e6)
      .source("FedRN");
}

void declare_dirichlet(Params& params, PartitionOptions& options) {
  add_alpha(params, options).source("ClipFL, FedNS, FedRN");
  add_min_size(params, options).source("FedZoo-Bench 15; FedNS and FedRN 10");
}

void declare_bernoulli(Params& params, PartitionOptions& options) {
  params.add("p", options.p, "chance that a client holds a class").range(1e-3, 1).source("FedCorr");
  add_alpha(params, options).source("FedCorr");
  add_min_size(params, options);
}

const PartitionInfo* find_partition(std::string_view name) {
  const auto found = std::ranges::find(partitions(), name, &PartitionInfo::name);
  return found == partitions().end() ? nullptr : &*found;
}

void check_input(const std::string& name, const PartitionInput& input) {
  if (input.clients < 1) {
    throw Error(ErrorKind::experiment,
                fmt::format("federation.clients = {}: expected at least 1", input.clients));
  }
  if (input.samples() < input.clients) {
    throw Error(ErrorKind::experiment,
                fmt::format("{}: fewer samples than clients ({} samples, clients = {})", name,
                            input.samples(), input.clients),
                "lower federation.clients");
  }
  for (std::size_t i = 0; i < input.labels.size(); ++i) {
    if (input.labels[i] < 0 || input.labels[i] >= input.classes) {
      throw Error(ErrorKind::data, fmt::format("label {} of sample {} is not one of the {} classes",
                                               input.labels[i], i, input.classes));
    }
  }
}

}  // namespace

const std::vector<PartitionInfo>& partitions() {
  static const std::vector<PartitionInfo> table{
      {"iid_floor", "random parts of equal size, the remainder is dropped (FedCorr, FedRN)",
       PartitionOptions{}, declare_nothing, iid_floor},
      {"iid_split", "random parts whose sizes differ by at most one (ClipFL)", PartitionOptions{},
       declare_nothing, iid_split},
      {"iid_random", "every sample goes to a random client, so sizes differ (FedNS)",
       PartitionOptions{}, declare_random, iid_random},
      {"shards", "a few pieces of the data sorted by class per client (FedRN)", PartitionOptions{},
       declare_shards, shards},
      {"dirichlet_class",
       "each class is spread over the clients by a Dirichlet draw (ClipFL, FedNS)",
       PartitionOptions{.min_size = 15}, declare_dirichlet, dirichlet_class},
      {"dirichlet_label_blind",
       "uneven sizes with even classes: the split that FedRN's tables call Dirichlet",
       PartitionOptions{.min_size = 10}, declare_dirichlet, dirichlet_label_blind},
      {"bernoulli_dirichlet",
       "each client may hold some classes, each class is spread over its clients (FedCorr, "
       "Fed-NCL)",
       PartitionOptions{.alpha = 10.0, .min_size = 2}, declare_bernoulli, bernoulli_dirichlet},
  };
  return table;
}

Partition::Partition() : Partition(*find_partition("iid_split")) {}

Partition Partition::parse(const Json& value, std::string_view where) {
  const bool is_table = value.is_object() && value.contains("name") && value["name"].is_string();
  if (!is_table && !value.is_string()) {
    throw Error(ErrorKind::experiment,
                fmt::format("{} = {}: expected a name or a table with a name", where, value.dump()),
                R"(for example "iid_split" or { name = "dirichlet_class", alpha = 0.5 })");
  }
  const auto name = is_table ? value["name"].get<std::string>() : value.get<std::string>();
  const PartitionInfo* info = find_partition(name);
  if (info == nullptr) {
    std::vector<std::string> known;
    std::ranges::transform(partitions(), std::back_inserter(known), &PartitionInfo::name);
    throw Error(ErrorKind::experiment, fmt::format("{}: unknown partition '{}'", where, name),
                suggestion(name, known));
  }
  Partition partition(*info);
  if (is_table) {
    Params params;
    info->declare(params, partition.options_);
    params.read(value, where, {"name"});
  }
  return partition;
}

Json Partition::values() const {
  PartitionOptions options = options_;
  Params params;
  info_->declare(params, options);
  Json values{{"name", name()}};
  values.update(params.values());
  return values;
}

Assignment Partition::make(std::span<const std::int64_t> labels, std::int64_t classes,
                           std::int64_t clients, std::uint64_t seed) const {
  const PartitionInput input{labels, classes, clients, seed};
  check_input(name(), input);
  return info_->make(options_, input);
}

}  // namespace winnow
