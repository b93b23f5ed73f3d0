#include "winnow/audit/noise_kinds.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>
#include <variant>

#include "winnow/stats/noise_kind.h"

namespace winnow {
namespace {

// The blocks that always make the same kind. spec: partitions L1
constexpr std::array kKindsOfBlocks{
    std::pair<std::string_view, NoiseKind>{"fedcorr_labels", NoiseKind::symmetric},
    std::pair<std::string_view, NoiseKind>{"clipfl_labels", NoiseKind::symmetric},
    std::pair<std::string_view, NoiseKind>{"fedncl_gaussian", NoiseKind::symmetric},
    std::pair<std::string_view, NoiseKind>{"fedncl_bernoulli", NoiseKind::random_labels},
    std::pair<std::string_view, NoiseKind>{"transition_matrix", NoiseKind::class_dependent},
    std::pair<std::string_view, NoiseKind>{"sparse_matrix", NoiseKind::class_dependent}};

std::string kind_of(const LabelNoise& block) {
  if (block.name() == "fedrn_labels") {
    const std::string type = block.values().value("type", "");
    return type == "pairflip" ? std::string(kind_name(NoiseKind::pair)) : type;
  }
  const auto* const found = std::ranges::find(kKindsOfBlocks, block.name(),
                                              &std::pair<std::string_view, NoiseKind>::first);
  return found == kKindsOfBlocks.end() ? block.name() : std::string(kind_name(found->second));
}

}  // namespace

std::map<std::int64_t, std::string> label_noise_kinds(const Experiment& experiment,
                                                      const Ledger& ledger) {
  std::map<std::int64_t, std::string> kinds;
  for (const LedgerSample& entry : ledger.samples()) {
    if (entry.kind != "label") {
      continue;
    }
    if (entry.block == kGivenLabelsBlock) {
      kinds[entry.sample] = "given labels";
    } else if (const auto* block = std::get_if<LabelNoise>(
                   &experiment.noise.at(static_cast<std::size_t>(entry.block)))) {
      kinds[entry.sample] = kind_of(*block);
    }
  }
  return kinds;
}

}  // namespace winnow
