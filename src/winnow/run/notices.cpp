#include "winnow/run/notices.h"

#include <fmt/format.h>

#include "winnow/base/text.h"

namespace winnow {

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

std::vector<std::string> data_notices(const Experiment& experiment, const World& world) {
  std::vector<std::string> notices;
  if (world.test_unchecked && experiment.data.path.empty()) {
    notices.emplace_back(
        "the test set is drawn from the training data, whose labels nobody has checked: accuracy "
        "is measured against wrong labels too. Give checked images as a test set");
  } else if (world.test_unchecked) {
    notices.push_back(fmt::format(
        "the test set is a fifth of {}, whose labels nobody has checked: accuracy is measured "
        "against wrong labels too. Put checked images under test/CLASS/* beside train/CLASS/*, or "
        "list them in data.list_test",
        experiment.data.path));
  }
  if (world.validation_unchecked) {
    notices.push_back(
        "the validation set is drawn from training labels that nobody has checked. For a checked "
        "one set validation.source = \"folder\" and validation.path");
  }
  if (const std::vector<std::string>& columns = world.data.unused_columns; !columns.empty()) {
    notices.push_back(fmt::format("{}: of its columns only path and label are used, not {}",
                                  experiment.data.path, join(columns, ", ")));
  }
  return notices;
}

std::vector<std::string> make_notices(const Experiment& experiment, const Method& method,
                                      const Setting& setting, const World& world) {
  std::vector<std::string> notices = data_notices(experiment, world);
  if (std::string text = rounds_notice(experiment, method, setting); !text.empty()) {
    notices.insert(notices.begin(), std::move(text));
  }
  return notices;
}

}  // namespace winnow
