#include "winnow/noise/attack/attack.h"

#include <algorithm>

namespace winnow {

void Attack::declare(Params& params, AttackOptions& options) {
  params
      .add("kind", options.kind,
           "what an attacker sends: its update with the sign flipped (sign_flip), the mean update "
           "minus z standard deviations (alie), the mean update reversed (inner_product), noise as "
           "large as its update (random), or the model it received (free_rider)")
      .choices({"sign_flip", "alie", "inner_product", "random", "free_rider"})
      .source("spec: rivals 7");
  params
      .add("scale", options.scale,
           "factor by which sign_flip, inner_product and random multiply what they send; alie and "
           "free_rider do not use it")
      .at_least(0)
      .source("here");
  params.add("z", options.z, "alie: distance from the mean, in standard deviations")
      .at_least(0)
      .source("ALIE's paper");
  params
      .add("sees", options.sees,
           "alie and inner_product: whose honest updates are averaged: only those of the attackers "
           "in the round, or those of all its clients")
      .choices({"attackers", "all"})
      .source("ALIE's paper: attackers; inner-product manipulation's: all");
}

Attack Attack::parse(const Json& table, std::string_view where) {
  Attack attack;
  attack.where_ = where;
  Params params;
  declare(params, attack.options_);
  attack.scope_.declare(params);
  params.read(table, where, {"name"});
  attack.scope_.check(where);
  return attack;
}

Json Attack::values() const {
  AttackOptions options = options_;
  NoiseScope scope = scope_;
  Params params;
  declare(params, options);
  scope.declare(params);
  Json values{{"name", kName}};
  values.update(params.values());
  return values;
}

std::vector<std::int64_t> Attack::attackers(std::int64_t federation, std::uint64_t seed,
                                            std::uint64_t block) const {
  Stream chooser(seed, "noise-clients", block);
  return scope_.choose(federation, chooser, where_);
}

void Attack::apply(const BlockInput& input, const GivenLabels& given, Ledger& ledger) const {
  for (const std::int64_t client : attackers(std::ssize(input.assign), input.seed, input.block)) {
    const auto place = static_cast<std::size_t>(client);
    const std::vector<bool> wrong =
        wrong_labels(given[place], input.assign[place], input.true_labels);
    ledger.add(LedgerClient{.client = client,
                            .block = static_cast<std::int64_t>(input.block),
                            .name = kName,
                            .level = 0.0,  // no sample is corrupted
                            .wrong = std::ranges::count(wrong, true),
                            .samples = std::ssize(input.assign[place]),
                            .noisy = true});
  }
}

}  // namespace winnow
