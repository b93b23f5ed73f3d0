#include "winnow/run/summary.h"

#include <torch/version.h>

#include "winnow/base/arithmetic.h"
#include "winnow/base/build_info.h"
#include "winnow/engine/fingerprint.h"
#include "winnow/judge/judge.h"
#include "winnow/run/format.h"

namespace winnow {
namespace {

// Where the truth is unknown the counts are null: none found is not the same as none.
Json noise_summary(const World& world) {
  std::int64_t samples = 0;
  std::int64_t wrong = 0;
  std::int64_t distorted = 0;
  for (const ClientData& client : world.clients) {
    samples += std::ssize(client.samples);
    for (std::size_t i = 0; i < client.samples.size(); ++i) {
      const auto sample = static_cast<std::size_t>(client.samples[i]);
      wrong += client.given[i] != world.data.train.labels[sample] ? 1 : 0;
    }
  }
  for (const LedgerSample& entry : world.ledger.samples()) {
    distorted += entry.kind != "label" ? 1 : 0;
  }
  if (!world.truth_known) {
    return {{"noisy_clients", nullptr},
            {"samples", samples},
            {"wrong_labels", nullptr},
            {"distorted", nullptr}};
  }
  Json json{{"noisy_clients", world.ledger.noisy_clients().size()},
            {"samples", samples},
            {"wrong_labels", wrong},
            {"distorted", distorted}};
  if (world.only_injected) {
    json["only_injected"] = true;
  }
  return json;
}

// Mean over the last ten rounds in which clients chose what to train on.
void add_selection(const History& history, Json& summary) {
  const auto precision = mean_of_last_values(history, &RoundRecord::label_precision);
  const auto recall = mean_of_last_values(history, &RoundRecord::label_recall);
  if (precision && recall) {
    summary["selection"] = {{"label_precision", *precision}, {"label_recall", *recall}};
  }
}

// Means over the last ten evaluated rounds.
void add_macro(const History& history, Json& summary) {
  for (const auto& [name, member] : {std::pair("macro_precision", &RoundRecord::macro_precision),
                                     {"macro_recall", &RoundRecord::macro_recall},
                                     {"macro_f1", &RoundRecord::macro_f1}}) {
    if (const auto mean = mean_of_last_values(history, member)) {
      summary[name] = *mean;
    }
  }
}

}  // namespace

Json make_summary(const Session& session) {
  const Experiment& experiment = session.experiment();
  const Accuracies measured = accuracies(session.history());
  const Traffic& traffic = session.engine().traffic();
  const Workforce force = session.engine().workforce();
  Json summary{{"format", kRunFormat},
               {"name", experiment.name},
               {"method", experiment.method},
               {"seed", experiment.seed},
               {"rounds", session.rounds_done()},
               {"planned_rounds", session.rounds()},
               {"best", measured.best},
               {"last", measured.last},
               {"last10", measured.last10 ? Json(*measured.last10) : Json(nullptr)},
               {"participations", traffic.participations},
               {"bytes_up", traffic.bytes_up},
               {"bytes_down", traffic.bytes_down},
               {"client_steps", traffic.client_steps},
               {"forward_passes", traffic.passes.forward},
               {"backward_passes", traffic.passes.backward},
               {"train_seconds", traffic.train_seconds},
               {"wall_seconds", session.seconds()},
               {"model_hash", session.model_hash()},
               {"experiment_hash", experiment.hash()},
               {"ledger_hash", session.world().ledger.hash()},
               {"version", build_info::kVersion},
               {"libtorch", TORCH_VERSION},
               {"device", force.device.str()},
               {"precision", precision_name(force.precision)},
               {"arithmetic", current_arithmetic()},
               {"fingerprint", fingerprint()},
               {"lanes", force.lanes},
               {"noise", noise_summary(session.world())}};
  if (force.engine != "local") {
    summary["engine"] = force.engine;
    summary["ranks"] = force.ranks;
    summary["bytes_received"] = force.bytes_received;
  }
  if (measured.top5) {
    summary["top5"] = *measured.top5;
  }
  add_macro(session.history(), summary);
  if (session.world().test_unchecked) {
    summary["test_labels"] = "unchecked";
  }
  if (session.world().validation_unchecked) {
    summary["validation_labels"] = "unchecked";
  }
  if (experiment.truth != Truth::none) {
    summary["uses_ground_truth"] = true;
  }
  const Findings findings = session.findings();
  summary.update(judge(session.world(), findings, session.engine().traces()));
  add_selection(session.history(), summary);
  if (!findings.scores.empty()) {
    summary["scores"] = judge_scores(session.world(), findings);
  }
  return summary;
}

}  // namespace winnow
