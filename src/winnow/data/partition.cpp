#include "winnow/data/partition.h"

#include <fmt/format.h>

#include <algorithm>

#include "winnow/base/error.h"
#include "winnow/base/text.h"
#include "winnow/data/partition_rules.h"

namespace winnow {
namespace {

constexpr double kLargestSize = 1e9;

// Below the lower end a Dirichlet draw underflows to zeros, above the upper end it is even anyway.
Param& add_alpha(Params& params, double& alpha) {
  return params
      .add("alpha", alpha,
           "concentration of the Dirichlet distribution: the smaller, the more uneven")
      .range(1e-3, 1e6);
}

Param& add_min_size(Params& params, std::int64_t& min_size) {
  return params.add("min_size", min_size, "fewest samples that a client may hold")
      .range(1, kLargestSize);
}

struct IidFloor final : PartitionRule {
  Assignment make(const PartitionInput& input) const override { return iid_floor(input); }
};

struct IidSplit final : PartitionRule {
  Assignment make(const PartitionInput& input) const override { return iid_split(input); }
};

struct IidRandom final : PartitionRule {
  std::int64_t min_size = 1;

  void declare(Params& params) override { add_min_size(params, min_size); }
  Assignment make(const PartitionInput& input) const override {
    return iid_random(input, min_size);
  }
};

struct IidLognormal final : PartitionRule {
  double sigma = 0.3;
  std::int64_t min_size = 1;

  // The largest draw of a normal is below 9, and a double holds e^(9 * 10) with ease.
  void declare(Params& params) override {
    params.add("sigma", sigma, "spread of the logarithm of the sizes; 0: all alike")
        .range(0, 10)
        .source("Fed-NCL's code");
    add_min_size(params, min_size);
  }
  Assignment make(const PartitionInput& input) const override {
    return iid_lognormal(input, sigma, min_size);
  }
};

struct Shards final : PartitionRule {
  std::int64_t shards_per_client = 2;

  void declare(Params& params) override {
    params
        .add("shards_per_client", shards_per_client,
             "pieces of the class-sorted data that each client gets")
        .range(1, 1e6)
        .source("FedRN");
  }
  Assignment make(const PartitionInput& input) const override {
    return shards(input, shards_per_client);
  }
};

// Two ways of cutting the data by the same draws.
struct Dirichlet final : PartitionRule {
  using Cut = Assignment (*)(const PartitionInput& input, double alpha, std::int64_t min_size);

  Dirichlet(Cut how, std::int64_t least) : cut(how), min_size(least) {}

  Cut cut;
  double alpha = 0.5;
  std::int64_t min_size;

  void declare(Params& params) override {
    add_alpha(params, alpha).source("ClipFL, FedNS, FedRN");
    add_min_size(params, min_size).source("FedZoo-Bench 15; FedNS and FedRN 10");
  }
  Assignment make(const PartitionInput& input) const override {
    return cut(input, alpha, min_size);
  }
};

struct BernoulliDirichlet final : PartitionRule {
  double p = 0.7;
  double alpha = 10.0;
  std::int64_t min_size = 2;

  void declare(Params& params) override {
    params.add("p", p, "chance that a client holds a class").range(1e-3, 1).source("FedCorr");
    add_alpha(params, alpha).source("FedCorr");
    add_min_size(params, min_size);
  }
  Assignment make(const PartitionInput& input) const override {
    return bernoulli_dirichlet(input, p, alpha, min_size);
  }
};

template <typename Rule>
std::unique_ptr<PartitionRule> make_rule() {
  return std::make_unique<Rule>();
}

// What people look for under another name.
const std::vector<Synonym>& partition_words() {
  static const std::vector<Synonym> words{{"noniid", "dirichlet"},     {"lda", "dirichlet"},
                                          {"label_skew", "dirichlet"}, {"uniform", "iid"},
                                          {"homogeneous", "iid"},      {"pathological", "shards"}};
  return words;
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

// Every sample at most once, and a list for every client: for rules that are not ours.
void check_assignment(const std::string& name, const PartitionInput& input,
                      const Assignment& assign) {
  std::vector<bool> dealt(input.labels.size());
  bool fits = std::ssize(assign) == input.clients;
  for (const std::vector<std::int64_t>& client : assign) {
    for (const std::int64_t sample : client) {
      fits = fits && sample >= 0 && sample < input.samples() &&
             !dealt[static_cast<std::size_t>(sample)];
      if (fits) {
        dealt[static_cast<std::size_t>(sample)] = true;
      }
    }
  }
  if (!fits) {
    throw Error(ErrorKind::internal,
                fmt::format("partition '{}' does not deal out {} samples to {} clients, each at "
                            "most once",
                            name, input.samples(), input.clients));
  }
}

std::vector<std::string> alias_names() {
  std::vector<std::string> names;
  std::ranges::transform(partition_aliases(), std::back_inserter(names), &PartitionAlias::name);
  return names;
}

Partitions make_partitions() {
  Partitions all("partition", "winnow list partitions", alias_names());
  all.add({"iid_floor", "random parts of equal size, the remainder is dropped (FedCorr, FedRN)",
           make_rule<IidFloor>});
  all.add({"iid_split", "random parts whose sizes differ by at most one (ClipFL)",
           make_rule<IidSplit>});
  all.add({"iid_random", "every sample goes to a random client, so sizes differ (FedNS)",
           make_rule<IidRandom>});
  all.add({"iid_lognormal", "random parts whose sizes are drawn from a log-normal (Fed-NCL's code)",
           make_rule<IidLognormal>});
  all.add(
      {"shards", "a few pieces of the data sorted by class per client (FedRN)", make_rule<Shards>});
  all.add({"dirichlet_class",
           "each class is spread over the clients by a Dirichlet draw (ClipFL, FedNS)",
           [] { return std::make_unique<Dirichlet>(dirichlet_class, 15); }});
  all.add({"dirichlet_label_blind",
           "uneven sizes with even classes: the split that FedRN's tables call Dirichlet",
           [] { return std::make_unique<Dirichlet>(dirichlet_label_blind, 10); }});
  all.add({"bernoulli_dirichlet",
           "each client may hold some classes, each class is spread over its clients (FedCorr, "
           "Fed-NCL)",
           make_rule<BernoulliDirichlet>});
  return all;
}

}  // namespace

const Partitions& builtin_partitions() {
  static const Partitions all = make_partitions();
  return all;
}

const std::vector<PartitionAlias>& partition_aliases() {
  static const std::vector<PartitionAlias> table{{"iid", "iid_split"},
                                                 {"dirichlet", "dirichlet_class"}};
  return table;
}

Json without_alias(Json partition) {
  const bool is_table = partition.is_object() && partition.contains("name");
  Json& name = is_table ? partition["name"] : partition;
  const auto found = std::ranges::find_if(
      partition_aliases(), [&](const PartitionAlias& alias) { return name == alias.name; });
  if (found != partition_aliases().end()) {
    name = found->stands_for;
  }
  return partition;
}

Partition::Partition()
    : name_("iid_split"), rule_(std::make_shared<IidSplit>()), values_{{"name", name_}} {}

Partition Partition::parse(const Json& given, const Partitions& known, std::string_view where) {
  const Json value = without_alias(given);
  const bool is_table = value.is_object() && value.contains("name") && value["name"].is_string();
  if (!is_table && !value.is_string()) {
    throw Error(ErrorKind::experiment,
                fmt::format("{} = {}: expected a name or a table with a name", where, value.dump()),
                R"(for example "iid" or { name = "dirichlet", alpha = 0.5 })");
  }
  const auto name = is_table ? value["name"].get<std::string>() : value.get<std::string>();
  const PartitionInfo* info = known.look_up(name);
  if (info == nullptr) {
    throw Error(ErrorKind::experiment, fmt::format("{}: unknown partition '{}'", where, name),
                suggestion(meant(name, partition_words()), known.known()));
  }
  const std::shared_ptr<PartitionRule> rule = info->make();
  Params params;
  rule->declare(params);
  if (is_table) {
    params.read(value, where, {"name"});
  }
  Partition partition;
  partition.name_ = name;
  partition.values_ = {{"name", name}};
  partition.values_.update(params.values());
  partition.rule_ = rule;
  return partition;
}

Assignment Partition::make(std::span<const std::int64_t> labels, std::int64_t classes,
                           std::int64_t clients, std::uint64_t seed) const {
  const PartitionInput input{labels, classes, clients, seed};
  check_input(name_, input);
  Assignment assign = rule_->make(input);
  check_assignment(name_, input, assign);
  return assign;
}

}  // namespace winnow
