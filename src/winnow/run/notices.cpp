#include "winnow/run/notices.h"

#include <fmt/format.h>

#include <algorithm>

#include "winnow/base/text.h"

namespace winnow {
namespace {

// A key of [train] that only some values of another key use.
struct UsedBy {
  const char* key;
  const char* chooser;
  std::vector<std::string> values;
};

const std::vector<UsedBy>& keys_for_some() {
  static const std::vector<UsedBy> keys{
      {"momentum", "optimizer", {"sgd"}},        {"beta1", "optimizer", {"adam", "adamw"}},
      {"beta2", "optimizer", {"adam", "adamw"}}, {"eps", "optimizer", {"adam", "adamw"}},
      {"lr_step_size", "lr_schedule", {"step"}}, {"lr_min", "lr_schedule", {"cosine"}}};
  return keys;
}

}  // namespace

std::string rounds_notice(const Experiment& experiment, const Method& method,
                          const Setting& setting) {
  const std::int64_t rounds = method.rounds(setting);
  if (!experiment.rounds_given || rounds == experiment.rounds) {
    return "";
  }
  const std::string schedule = method.schedule(setting);
  return fmt::format(
      "{} plays {} {} (its own schedule{}); rounds = {} is not used. Set {} under [method] to "
      "change it",
      experiment.method, rounds, rounds == 1 ? "round" : "rounds",
      schedule.empty() ? "" : ": " + schedule, experiment.rounds,
      schedule.empty() ? "its parameters" : "these");
}

std::string rounds_notice(const Experiment& experiment, const Registry& registry) {
  const std::unique_ptr<Method> method = registry.make(experiment.method);
  Params params;
  method->declare(params);
  params.read(experiment.method_params, "method");
  const Setting setting{.seed = experiment.seed,
                        .rounds = experiment.rounds,
                        .clients = experiment.federation.size(),
                        .fraction = experiment.federation.fraction};
  return rounds_notice(experiment, *method, setting);
}

std::vector<std::string> train_notices(const Experiment& experiment) {
  TrainOptions options = experiment.train;
  const Json set = declare(options).values();
  std::vector<std::string> notices;
  for (const auto& [key, chooser, values] : keys_for_some()) {
    const auto chosen = set.at(chooser).get<std::string>();
    // Without momentum, or down to 0, is what the others do.
    if (std::ranges::count(experiment.train_given, key) == 0 ||
        std::ranges::count(values, chosen) > 0 || set.at(key) == 0.0) {
      continue;
    }
    notices.push_back(
        fmt::format("train.{} = {} has no effect with train.{} = \"{}\"; only \"{}\" {} it", key,
                    set.at(key).dump(), chooser, chosen, join(values, "\" and \""),
                    values.size() == 1 ? "uses" : "use"));
  }
  return notices;
}

std::vector<std::string> data_notices(const Experiment& experiment, const World& world) {
  std::vector<std::string> notices;
  if (world.test_unchecked && experiment.data.path.empty()) {
    notices.emplace_back(
        "the test set is drawn from the training data, whose labels are unchecked: accuracy is "
        "measured against wrong labels too. Give checked images as a test set");
  } else if (world.test_unchecked) {
    notices.push_back(fmt::format(
        "the test set is a fifth of {}, whose labels are unchecked: accuracy is measured against "
        "wrong labels too. Put checked images under test/CLASS/* beside train/CLASS/*, or "
        "list them in data.list_test",
        experiment.data.path));
  }
  if (world.validation_unchecked) {
    notices.push_back(
        "the validation set is drawn from unchecked training labels. For a checked one set "
        "validation.source = \"folder\" and validation.path");
  }
  if (const std::vector<std::string>& columns = world.data.unused_columns; !columns.empty()) {
    notices.push_back(fmt::format("{}: of its columns only path and label are used, not {}",
                                  experiment.data.path, join(columns, ", ")));
  }
  return notices;
}

std::vector<std::string> make_notices(const Experiment& experiment, const Method& method,
                                      const Setting& setting, const World& world) {
  std::vector<std::string> notices = train_notices(experiment);
  if (std::string text = rounds_notice(experiment, method, setting); !text.empty()) {
    notices.insert(notices.begin(), std::move(text));
  }
  const std::vector<std::string> of_data = data_notices(experiment, world);
  notices.insert(notices.end(), of_data.begin(), of_data.end());
  return notices;
}

}  // namespace winnow
