#include "winnow/run/summary.h"

#include <torch/version.h>

#include <cmath>

#include "winnow/base/build_info.h"
#include "winnow/run/quality.h"

namespace winnow {
namespace {

// The true labels of a client's samples, in its order.
Labels true_labels(const World& world, const ClientData& client) {
  Labels labels;
  labels.reserve(client.samples.size());
  for (const std::int64_t sample : client.samples) {
    labels.push_back(world.data.train.labels[static_cast<std::size_t>(sample)]);
  }
  return labels;
}

Json noise_summary(const World& world) {
  std::int64_t samples = 0;
  std::int64_t distorted = 0;
  double wrong = 0.0;
  for (const ClientData& client : world.clients) {
    const auto size = static_cast<double>(client.samples.size());
    samples += static_cast<std::int64_t>(client.samples.size());
    wrong += wrong_share(client.given, true_labels(world, client)) * size;
  }
  for (const LedgerSample& entry : world.ledger.samples()) {
    distorted += entry.kind != "label" ? 1 : 0;
  }
  return {{"noisy_clients", world.ledger.noisy_clients().size()},
          {"samples", samples},
          {"wrong_labels", std::llround(wrong)},
          {"distorted", distorted}};
}

// How the labels that clients have corrected compare with those they were given.
void add_relabelling(const Session& session, Json& summary) {
  Relabelling total;
  bool any = false;
  for (const auto& [id, memory] : session.engine().memories()) {
    if (memory.labels) {
      const ClientData& client = session.world().clients[static_cast<std::size_t>(id)];
      total += relabelling(client.given, *memory.labels, true_labels(session.world(), client));
      any = true;
    }
  }
  if (any) {
    summary["relabel"] = to_json(total);
  }
}

void add_findings(const Session& session, Json& summary) {
  const Findings findings = session.findings();
  const World& world = session.world();
  if (findings.flagged) {
    summary["detection"] = to_json(detect({findings.flagged->begin(), findings.flagged->end()},
                                          world.ledger.noisy_clients(),
                                          static_cast<std::int64_t>(world.clients.size())));
  }
  if (!findings.noise_levels.empty()) {
    std::vector<double> estimated;
    std::vector<double> real;
    for (const auto& [id, level] : findings.noise_levels) {
      const ClientData& client = world.clients[static_cast<std::size_t>(id)];
      // "Now": after whatever the client has corrected itself.
      const auto memory = session.engine().memories().find(id);
      const bool corrected = memory != session.engine().memories().end() && memory->second.labels;
      estimated.push_back(level);
      real.push_back(wrong_share(corrected ? *memory->second.labels : client.given,
                                 true_labels(world, client)));
    }
    summary["noise_level_error"] = noise_level_error(estimated, real);
  }
}

}  // namespace

Json make_summary(const Session& session) {
  const Experiment& experiment = session.experiment();
  const Accuracies measured = accuracies(session.history());
  const Traffic& traffic = session.engine().traffic();
  Json summary{{"name", experiment.name},
               {"method", experiment.method},
               {"seed", experiment.seed},
               {"rounds", session.rounds_done()},
               {"best", measured.best},
               {"last", measured.last},
               {"last10", measured.last10},
               {"participations", traffic.participations},
               {"bytes_up", traffic.bytes_up},
               {"bytes_down", traffic.bytes_down},
               {"client_steps", traffic.client_steps},
               {"train_seconds", traffic.train_seconds},
               {"wall_seconds", session.seconds()},
               {"model_hash", hash(session.global())},
               {"experiment_hash", experiment.hash()},
               {"ledger_hash", session.world().ledger.hash()},
               {"version", build_info::kVersion},
               {"libtorch", TORCH_VERSION},
               {"device", session.engine().device().str()},
               {"lanes", session.engine().lanes()},
               {"noise", noise_summary(session.world())}};
  if (experiment.oracle) {
    summary["uses_ground_truth"] = true;
  }
  add_findings(session, summary);
  add_relabelling(session, summary);
  return summary;
}

}  // namespace winnow
