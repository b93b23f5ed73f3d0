#include "winnow/noise/noise.h"

#include <fmt/format.h>

#include <algorithm>

#include "winnow/base/error.h"
#include "winnow/base/text.h"

namespace winnow {
namespace {

std::vector<NoiseInfo> make_noises() {
  std::vector<NoiseInfo> list;
  for (const LabelNoiseInfo& info : label_noises()) {
    list.push_back({info.name, info.summary, [&info](const auto& visit) {
                      LabelNoiseOptions options = info.defaults;
                      NoiseScope scope;
                      Params params;
                      info.declare(params, options);
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
  return list;
}

}  // namespace

const std::vector<NoiseInfo>& noises() {
  static const std::vector<NoiseInfo> list = make_noises();
  return list;
}

Noise parse_noise(const Json& table, std::string_view where) {
  if (!table.is_object() || !table.contains("name") || !table["name"].is_string()) {
    throw Error(ErrorKind::experiment, fmt::format("{}: expected a table with a name", where),
                R"(for example name = "fedcorr_labels")");
  }
  const auto name = table["name"].get<std::string>();
  if (name == InputNoise::kName) {
    return InputNoise::parse(table, where);
  }
  if (find_label_noise(name) != nullptr) {
    return LabelNoise::parse(table, where);
  }
  std::vector<std::string> known;
  std::ranges::transform(noises(), std::back_inserter(known), &NoiseInfo::name);
  throw Error(ErrorKind::experiment, fmt::format("{}: unknown noise '{}'", where, name),
              suggestion(name, known));
}

Json values(const Noise& noise) {
  return std::visit([](const auto& block) { return block.values(); }, noise);
}

}  // namespace winnow
