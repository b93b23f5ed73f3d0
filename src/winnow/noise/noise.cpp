#include "winnow/noise/noise.h"

#include <fmt/format.h>

#include <algorithm>

#include "winnow/base/error.h"
#include "winnow/base/text.h"
#include "winnow/noise/noise_alias.h"

namespace winnow {
namespace {

// What people look for under another name.
const std::vector<Synonym>& noise_words() {
  static const std::vector<Synonym> words{
      {"sym", "symmetric"},       {"uniform", "symmetric"},      {"asym", "asymmetric"},
      {"flip", "pairflip"},       {"human", "human_labels"},     {"cifar10n", "human_labels"},
      {"label_flip", "pairflip"}, {"corruption", "distortions"}, {"blur", "distortions"},
      {"sign_flip", "attack"},    {"byzantine", "attack"},       {"free_rider", "attack"}};
  return words;
}

}  // namespace

std::vector<NoiseInfo> noises(const LabelNoises& label_noises) {
  std::vector<NoiseInfo> list;
  for (const LabelNoiseInfo& info : label_noises) {
    list.push_back({info.name, info.summary, [make = info.make](const auto& visit) {
                      const std::unique_ptr<LabelNoiseRule> rule = make();
                      NoiseScope scope;
                      Params params;
                      rule->declare(params);
                      scope.declare(params);
                      visit(params);
                    }});
  }
  list.push_back({InputNoise::kName, InputNoise::kSummary, [](const auto& visit) {
                    InputNoiseOptions options;
                    NoiseScope scope;
                    Params params;
                    InputNoise::declare(params, options);
                    scope.declare(params);
                    visit(params);
                  }});
  list.push_back({Attack::kName, Attack::kSummary, [](const auto& visit) {
                    AttackOptions options;
                    NoiseScope scope;
                    Params params;
                    Attack::declare(params, options);
                    scope.declare(params);
                    visit(params);
                  }});
  return list;
}

Noise parse_noise(const Json& given, const LabelNoises& label_noises,
                  const Distortions& distortions, std::string_view where) {
  const Json table = without_alias(given, where);
  if (!table.is_object() || !table.contains("name") || !table["name"].is_string()) {
    throw Error(ErrorKind::experiment, fmt::format("{}: expected a table with a name", where),
                R"(for example name = "symmetric", rate = 0.4)");
  }
  const auto name = table["name"].get<std::string>();
  if (name == InputNoise::kName) {
    return InputNoise::parse(table, distortions, where);
  }
  if (name == Attack::kName) {
    return Attack::parse(table, where);
  }
  if (label_noises.look_up(name) != nullptr) {
    return LabelNoise::parse(table, label_noises, where);
  }
  std::vector<std::string> known;
  for (const NoiseAlias& alias : noise_aliases()) {
    known.push_back(alias.info.name);
  }
  std::ranges::transform(noises(label_noises), std::back_inserter(known), &NoiseInfo::name);
  throw Error(ErrorKind::experiment, fmt::format("{}: unknown noise '{}'", where, name),
              suggestion(meant(name, noise_words()), known));
}

Json values(const Noise& noise) {
  return std::visit([](const auto& block) { return block.values(); }, noise);
}

}  // namespace winnow
