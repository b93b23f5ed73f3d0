// Attacks: a block of an experiment that makes some clients send something else than they have
// trained. Their data stay as they are; who attacks is in the ledger (spec: rivals 7).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "winnow/base/params.h"
#include "winnow/noise/label/label_noise.h"
#include "winnow/noise/ledger.h"
#include "winnow/noise/scope.h"

namespace winnow {

struct AttackOptions {
  std::string kind = "sign_flip";
  double scale = 1.0;
  double z = 1.5;
  std::string sees = "attackers";

  // Whether what an attacker sends depends on what others have trained.
  bool colludes() const { return kind == "alie" || kind == "inner_product"; }
};

class Attack {
 public:
  static constexpr const char* kName = "attack";
  static constexpr const char* kSummary =
      "some clients send a manipulated model: sign flip, ALIE, inner product, random, free rider";

  // Throws Error(kind experiment) for an unknown option or a bad value.
  static Attack parse(const Json& table, std::string_view where = "noise");
  static void declare(Params& params, AttackOptions& options);

  const AttackOptions& options() const { return options_; }
  Json values() const;  // the table with all defaults filled in; parse() reads it back

  // The attackers, ascending: drawn from (seed, "noise-clients", block) where `share` says so.
  std::vector<std::int64_t> attackers(std::int64_t federation, std::uint64_t seed,
                                      std::uint64_t block) const;
  // Records them in the ledger as noisy clients; nothing else changes.
  void apply(const BlockInput& input, const GivenLabels& given, Ledger& ledger) const;

 private:
  AttackOptions options_;
  NoiseScope scope_;
  std::string where_;
};

}  // namespace winnow
