#include "winnow/noise/image/input_noise.h"

#include <fmt/format.h>

#include <algorithm>

#include "winnow/base/error.h"

namespace winnow {
namespace {

// `severity = 5` and `severity = "5"` mean the same.
Json with_severity_as_text(const Json& table) {
  Json copy = table;
  const auto severity = copy.find("severity");
  if (severity != copy.end() && severity->is_number_integer()) {
    *severity = std::to_string(severity->get<std::int64_t>());
  }
  return copy;
}

std::int64_t count_wrong(const BlockInput& input, const GivenLabels& given, std::size_t client) {
  const std::vector<bool> wrong =
      wrong_labels(given[client], input.assign[client], input.true_labels);
  return std::ranges::count(wrong, true);
}

}  // namespace

void InputNoise::declare(Params& params, InputNoiseOptions& options) {
  params.add("set", options.set, "set of distortions, one of which is drawn for each sample")
      .choices({"main", "patch", "mixed", "all", "everything"})
      .source("FedNS");
  params.add("kinds", options.kinds, "distortions to draw from instead of a set");
  params.add(
      "severity", options.severity,
      "how strong the distortions are: low (1), medium (3), high (5), or a number from 1 to 5");
  params.add("level", options.level, "share of a client's samples that is distorted").range(0, 1);
  params
      .add(
          "gen_mode", options.gen_mode,
          "generative_surrogate: a different picture for each sample, or one fixed picture for all")
      .choices({"per_sample", "fixed"});
}

InputNoise InputNoise::parse(const Json& table, const Distortions& known, std::string_view where) {
  InputNoise noise;
  noise.where_ = where;
  Params params;
  declare(params, noise.options_);
  noise.scope_.declare(params);
  params.read(with_severity_as_text(table), where, {"name"});
  noise.scope_.check(where);
  try {
    parse_severity(noise.options_.severity);
    for (const std::string& kind :
         noise.options_.kinds.empty() ? distortion_set(noise.options_.set) : noise.options_.kinds) {
      noise.drawn_.push_back(find_distortion(kind, known));
    }
  } catch (const Error& error) {
    throw Error(error.kind(), fmt::format("{}: {}", where, error.what()), error.hint());
  }
  return noise;
}

Json InputNoise::values() const {
  InputNoiseOptions options = options_;
  NoiseScope scope = scope_;
  Params params;
  declare(params, options);
  scope.declare(params);
  Json values{{"name", kName}};
  values.update(params.values());
  return values;
}

void InputNoise::apply(const BlockInput& input, const GivenLabels& given, at::Tensor& images,
                       Ledger& ledger, int threads) const {
  const int severity = parse_severity(options_.severity);
  const auto block = static_cast<std::int64_t>(input.block);
  Stream chooser(input.seed, "noise-clients", input.block);
  std::vector<DistortionJob> jobs;
  for (const std::int64_t client : scope_.choose(std::ssize(input.assign), chooser, where_)) {
    const auto place = static_cast<std::size_t>(client);
    const std::vector<std::int64_t>& samples = input.assign[place];
    const auto size = std::ssize(samples);
    const std::int64_t picked = exact_share(options_.level, size);
    Stream stream(input.seed, "noise", input.block, client);
    for (const std::int64_t i : stream.sample(size, picked)) {
      const DistortionInfo& info = drawn_[stream.below(drawn_.size())];
      const std::int64_t sample = samples[static_cast<std::size_t>(i)];
      jobs.push_back({sample, &info, severity});
      ledger.add(LedgerSample{.client = client,
                              .sample = sample,
                              .block = block,
                              .kind = info.name,
                              .severity = info.uses_severity ? severity : 0});
    }
    ledger.add(LedgerClient{.client = client,
                            .block = block,
                            .name = kName,
                            .level = options_.level,
                            .picked = picked,
                            .wrong = count_wrong(input, given, place),
                            .samples = size,
                            .noisy = picked > 0});
  }
  // A key of its own per block: two blocks that meet on one sample draw independently.
  distort_images(images, jobs, stream_key(input.seed, "distortions", {input.block}), threads,
                 parse_gen_mode(options_.gen_mode));
}

}  // namespace winnow
