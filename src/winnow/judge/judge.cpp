#include "winnow/judge/judge.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include "winnow/stats/correlation.h"

namespace winnow {
namespace {

const ClientData& client_of(const World& world, std::int64_t id) {
  return world.clients[static_cast<std::size_t>(id)];
}

Labels true_labels(const World& world, const ClientData& client) {
  Labels labels;
  labels.reserve(client.samples.size());
  for (const std::int64_t sample : client.samples) {
    labels.push_back(world.data.train.labels[static_cast<std::size_t>(sample)]);
  }
  return labels;
}

// What a client has corrected itself: the labels it keeps, or those it last trained on.
const std::optional<Labels>& corrected_labels(const Trace& trace) {
  return trace.labels ? trace.labels : trace.last_labels;
}

// The labels a client uses now: what it has corrected itself, or what it was given.
const Labels& labels_in_use(const World& world, const Traces& traces, std::int64_t id) {
  const auto trace = traces.find(id);
  return trace != traces.end() && corrected_labels(trace->second) ? *corrected_labels(trace->second)
                                                                  : client_of(world, id).given;
}

double level_now(const World& world, const Traces& traces, std::int64_t id) {
  return wrong_share(labels_in_use(world, traces, id), true_labels(world, client_of(world, id)));
}

double level_error(const World& world, const Findings& findings, const Traces& traces) {
  std::vector<double> estimated;
  std::vector<double> real;
  for (const auto& [id, level] : findings.noise_levels) {
    estimated.push_back(level);
    real.push_back(level_now(world, traces, id));
  }
  return noise_level_error(estimated, real);
}

// Nothing when no client has corrected a label.
std::optional<Json> judge_relabelling(const World& world, const Traces& traces) {
  Relabelling total;
  bool any = false;
  for (const auto& [id, trace] : traces) {
    if (const std::optional<Labels>& corrected = corrected_labels(trace)) {
      const ClientData& client = client_of(world, id);
      total += relabelling(client.given, *corrected, true_labels(world, client));
      any = true;
    }
  }
  if (!any) {
    return std::nullopt;
  }
  double wrong = 0.0;
  for (const ClientData& client : world.clients) {
    wrong += wrong_share(client.given, true_labels(world, client)) *
             static_cast<double>(client.samples.size());
  }
  Json json = to_json(total);
  json["wrong_before"] = std::llround(wrong);
  json["wrong_now"] = std::llround(wrong) - total.wrong_to_right + total.right_to_wrong;
  return json;
}

// [true][label] over all clients, with the labels in use or else the given ones.
Json confusion_of(const World& world, const Traces& traces) {
  const auto classes = static_cast<std::size_t>(world.data.classes);
  std::vector<std::vector<std::int64_t>> counts(classes, std::vector<std::int64_t>(classes));
  for (std::size_t id = 0; id < world.clients.size(); ++id) {
    const Labels& now = labels_in_use(world, traces, static_cast<std::int64_t>(id));
    const std::vector<std::int64_t>& samples = world.clients[id].samples;
    for (std::size_t i = 0; i < samples.size(); ++i) {
      const auto truth =
          static_cast<std::size_t>(world.data.train.labels[static_cast<std::size_t>(samples[i])]);
      ++counts[truth][static_cast<std::size_t>(now[i])];
    }
  }
  return counts;
}

Json judge_confusion(const World& world, const Traces& traces) {
  Json json{{"before", confusion_of(world, {})}};
  if (std::ranges::any_of(
          traces, [](const auto& entry) { return corrected_labels(entry.second).has_value(); })) {
    json["after"] = confusion_of(world, traces);
  }
  return json;
}

constexpr std::size_t kMostConfusions = 5;
constexpr std::int64_t kMostClassesOfClients = 100;

Json confusions_of_clients(const World& world, const Traces& traces) {
  Json all = Json::object();
  for (std::size_t id = 0; id < world.clients.size() && all.size() < kMostConfusions; ++id) {
    if (!world.clients[id].samples.empty()) {
      all[std::to_string(id)] = confusion(
          true_labels(world, world.clients[id]),
          labels_in_use(world, traces, static_cast<std::int64_t>(id)), world.data.classes);
    }
  }
  return all;
}

// Nothing where the client has not told its samples apart.
std::optional<Json> judge_split(const World& world, const Traces& before, std::int64_t id,
                                const Trace& trace) {
  if (!trace.suspected) {
    return std::nullopt;
  }
  const Labels& labels = labels_in_use(world, before, id);
  const Labels truth = true_labels(world, client_of(world, id));
  std::array<std::int64_t, 4> counts{};
  for (std::size_t i = 0; i < truth.size(); ++i) {
    const bool wrong = labels[i] != truth[i];
    ++counts.at((*trace.suspected)[i] ? (wrong ? 0 : 1) : (wrong ? 2 : 3));
  }
  return Json(counts);
}

Json likeness_json(const Likeness& likeness) {
  Json rows = Json::array();
  for (const std::vector<double>& row : likeness.values) {
    Json& rounded = rows.emplace_back(Json::array());
    for (const double value : row) {
      rounded.push_back(std::round(value * 1e4) / 1e4);
    }
  }
  return {{"of", likeness.of},
          {"known", likeness.known},
          {"clients", likeness.clients},
          {"values", std::move(rows)}};
}

}  // namespace

std::vector<double> noise_shares(const World& world) {
  std::set<std::int64_t> distorted;
  for (const LedgerSample& entry : world.ledger.samples()) {
    if (entry.kind != "label") {
      distorted.insert(entry.sample);
    }
  }
  std::vector<double> shares;
  for (const ClientData& client : world.clients) {
    std::int64_t noisy = 0;
    for (std::size_t i = 0; i < client.samples.size(); ++i) {
      const std::int64_t sample = client.samples[i];
      const bool wrong =
          client.given[i] != world.data.train.labels[static_cast<std::size_t>(sample)];
      noisy += wrong || distorted.contains(sample) ? 1 : 0;
    }
    shares.push_back(client.samples.empty()
                         ? 0.0
                         : static_cast<double>(noisy) / static_cast<double>(client.samples.size()));
  }
  return shares;
}

Json judge(const World& world, const Findings& findings, const Traces& traces) {
  if (!world.truth_known) {
    return {{"truth_unknown", true}};
  }
  Json json = Json::object();
  if (findings.flagged) {
    json["detection"] = to_json(detect({findings.flagged->begin(), findings.flagged->end()},
                                       world.ledger.noisy_clients(), std::ssize(world.clients)));
  }
  if (!findings.noise_levels.empty()) {
    json["noise_level_error"] = level_error(world, findings, traces);
  }
  if (std::optional<Json> relabel = judge_relabelling(world, traces)) {
    json["relabel"] = std::move(*relabel);
  }
  return json;
}

Json judge_scores(const World& world, const Findings& findings) {
  Json all = Json::object();
  if (findings.scores.empty()) {
    return all;
  }
  const std::vector<double> shares = noise_shares(world);
  const std::set<std::int64_t>& noisy = world.ledger.noisy_clients();
  for (const auto& [name, by_client] : findings.scores) {
    std::vector<double> values;
    std::vector<double> noise;
    std::vector<bool> is_noisy;
    Json listed = Json::object();
    for (const auto& [id, value] : by_client) {
      if (!std::isfinite(value)) {
        continue;
      }
      values.push_back(value);
      noise.push_back(shares[static_cast<std::size_t>(id)]);
      is_noisy.push_back(noisy.contains(id));
      append_member(listed, std::to_string(id), value);
    }
    Json json{{"by_client", listed}};
    if (!world.truth_known) {
      all[name] = json;
      continue;
    }
    if (const auto r = pearson(values, noise)) {
      json["correlation_with_noise"] = *r;
    }
    if (const auto area = roc_area(values, is_noisy)) {
      json["roc_area"] = *area;
    }
    all[name] = json;
  }
  return all;
}

Json judge_labels(const World& world, const Traces& before, const Traces& now) {
  Json json{{"levels", Json::object()}, {"splits", Json::object()}};
  Json& levels = json["levels"];
  for (std::size_t id = 0; id < world.clients.size(); ++id) {
    if (!world.clients[id].samples.empty()) {
      append_member(levels, std::to_string(id),
                    level_now(world, now, static_cast<std::int64_t>(id)));
    }
  }
  Json& splits = json["splits"];
  for (const auto& [id, trace] : now) {
    if (std::optional<Json> split = judge_split(world, before, id, trace)) {
      append_member(splits, std::to_string(id), std::move(*split));
    }
  }
  if (world.data.classes <= kMostClassesOfClients) {
    json["confusions"] = confusions_of_clients(world, now);
  }
  return json;
}

Json judge_clients(const World& world, const Findings& findings, const Details& details,
                   const Traces& traces) {
  Json json = Json::object();
  if (findings.flagged) {
    json["flagged"] = *findings.flagged;
  }
  for (const auto& [id, level] : findings.noise_levels) {
    Json levels{{"estimated", level}};
    if (world.truth_known) {
      levels["real"] = level_now(world, traces, id);
    }
    Json& all = json["noise_levels"];
    if (all.is_null()) {
      all = Json::object();
    }
    append_member(all, std::to_string(id), std::move(levels));
  }
  if (!findings.scores.empty()) {
    json["scores"] = judge_scores(world, findings);
  }
  for (const auto& [name, times] : details.series) {
    for (const std::map<std::int64_t, double>& scores : times) {
      json["series"][name].push_back(judge_scores(world, {.scores = {{name, scores}}}).at(name));
    }
  }
  if (details.likeness) {
    json["likeness"] = likeness_json(*details.likeness);
  }
  if (world.truth_known && world.data.classes <= kMostConfusionClasses) {
    json["confusion"] = judge_confusion(world, traces);
  }
  return json;
}

std::optional<Selection> judge_selection(const World& world, const Traces& traces,
                                         const std::vector<std::int64_t>& clients) {
  if (!world.truth_known) {
    return std::nullopt;
  }
  Selection sum;
  int count = 0;
  for (const std::int64_t id : clients) {
    const auto trace = traces.find(id);
    if (trace == traces.end() || !trace->second.selected) {
      continue;
    }
    const ClientData& client = client_of(world, id);
    const Labels truth = true_labels(world, client);
    std::vector<bool> right;
    for (std::size_t i = 0; i < truth.size(); ++i) {
      right.push_back(client.given[i] == truth[i]);
    }
    const Selection one = selection(*trace->second.selected, right);
    sum.label_precision += one.label_precision;
    sum.label_recall += one.label_recall;
    ++count;
  }
  if (count == 0) {
    return std::nullopt;
  }
  return Selection{sum.label_precision / count, sum.label_recall / count};
}

}  // namespace winnow
