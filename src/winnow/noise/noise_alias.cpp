#include "winnow/noise/noise_alias.h"

#include <fmt/format.h>

#include <algorithm>

#include "winnow/base/error.h"

namespace winnow {
namespace {

constexpr const char* kMatrixAlias = "asymmetric";
constexpr const char* kMatrixNoise = "transition_matrix";

// One rate for all clients: spec: partitions L3 with low = high.
struct RateBlock {
  double rate = 0.0;
  NoiseScope scope;

  void declare(Params& params) {
    params
        .add("rate", rate,
             "share of every client's labels that is wrong, exactly floor(rate * n) of n; required")
        .range(0, 1);
    scope.declare(params);
  }
};

NoiseAlias rate_alias(const std::string& name, const std::string& type,
                      const std::string& summary) {
  return {{name, summary,
           [](const auto& visit) {
             RateBlock block;
             Params params;
             block.declare(params);
             visit(params);
           }},
          fmt::format("fedrn_labels with type = \"{}\" and low = high = rate", type)};
}

NoiseInfo matrix_info() {
  const std::vector<NoiseInfo> known = noises(builtin_label_noises());
  NoiseInfo info = *std::ranges::find(known, kMatrixNoise, &NoiseInfo::name);
  info.name = kMatrixAlias;
  info.summary = "flips that depend on the class; needs a matrix or a file with the probabilities";
  return info;
}

std::string type_of(const std::string& alias) {
  return alias == "symmetric" ? alias : "pairflip";
}

Json rate_block(const Json& table, const std::string& name, std::string_view where) {
  RateBlock block;
  Params params;
  block.declare(params);
  params.read(table, where, {"name"});
  if (!table.contains("rate")) {
    throw Error(ErrorKind::experiment, fmt::format("{}: {} needs a rate", where, name),
                "rate = 0.4 makes 40 % of every client's labels wrong");
  }
  Json made{
      {"name", "fedrn_labels"}, {"type", type_of(name)}, {"low", block.rate}, {"high", block.rate}};
  for (const char* key : {"clients", "share"}) {
    if (table.contains(key)) {
      made[key] = table.at(key);
    }
  }
  return made;
}

}  // namespace

const std::vector<NoiseAlias>& noise_aliases() {
  static const std::vector<NoiseAlias> table{
      rate_alias("symmetric", "symmetric",
                 "labels flip to any other class, at one rate for all clients"),
      rate_alias("pairflip", "pairflip",
                 "labels flip to the class before, at one rate for all clients"),
      rate_alias("pair", "pairflip", "the same as pairflip"),
      {matrix_info(), fmt::format("{}, with all its parameters", kMatrixNoise)}};
  return table;
}

Json without_alias(const Json& table, std::string_view where) {
  if (!table.is_object() || !table.contains("name") || !table["name"].is_string()) {
    return table;
  }
  const auto name = table["name"].get<std::string>();
  if (name == kMatrixAlias) {
    Json made = table;
    made["name"] = kMatrixNoise;
    return made;
  }
  const bool is_alias = std::ranges::any_of(
      noise_aliases(), [&](const NoiseAlias& alias) { return alias.info.name == name; });
  return is_alias ? rate_block(table, name, where) : table;
}

}  // namespace winnow
