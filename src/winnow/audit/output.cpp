#include "winnow/audit/output.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <span>

#include "winnow/audit/condition.h"
#include "winnow/base/base64.h"
#include "winnow/base/csv.h"
#include "winnow/base/error.h"
#include "winnow/base/png.h"
#include "winnow/base/text.h"
#include "winnow/data/npz_writer.h"
#include "winnow/experiment/relabel.h"

namespace winnow {
namespace {

constexpr std::int64_t kPictureSide = 64;

std::string number(double value) {
  return fmt::format("{:.4f}", value);
}

const std::string& class_name(const World& world, std::int64_t label) {
  return world.data.class_names[static_cast<std::size_t>(label)];
}

std::string class_list(const World& world, const std::vector<std::int64_t>& classes) {
  std::vector<std::string> names;
  for (const std::int64_t label : classes) {
    names.push_back(class_name(world, label));
  }
  return join(names, ";");
}

// Shares of wrong labels and distorted images by client, where they are known.
struct TruthOfClients {
  std::vector<double> wrong;
  std::vector<double> distorted;

  TruthOfClients(const Audit& audit, const World& world)
      : wrong(world.clients.size()), distorted(world.clients.size()) {
    std::vector<double> samples(world.clients.size());
    for (const HeldSample& sample : audit.held) {
      const auto client = static_cast<std::size_t>(sample.client);
      samples[client] += 1.0;
      wrong[client] +=
          sample.given != world.data.train.labels[static_cast<std::size_t>(sample.sample)] ? 1 : 0;
    }
    for (const LedgerSample& entry : world.ledger.samples()) {
      distorted[static_cast<std::size_t>(entry.client)] += entry.kind != "label" ? 1.0 : 0.0;
    }
    for (std::size_t c = 0; c < samples.size(); ++c) {
      wrong[c] /= std::max(samples[c], 1.0);
      distorted[c] = std::min(1.0, distorted[c] / std::max(samples[c], 1.0));
    }
  }
};

Json quality_json(const FoundQuality& quality) {
  const auto or_null = [](const std::optional<double>& value) {
    return value ? Json(*value) : Json();
  };
  return {{"wrong", quality.wrong},
          {"flagged", quality.flagged},
          {"found", quality.found},
          {"flag_precision", or_null(quality.precision)},
          {"flag_recall", or_null(quality.recall)},
          {"roc_area", or_null(quality.roc_area)}};
}

Json quality_json(const AuditQuality& quality) {
  Json json = Json::object();
  const auto part = [&](const char* name, const std::optional<FoundQuality>& value) {
    if (value) {
      json[name] = quality_json(*value);
    }
  };
  const auto share = [&](const char* name, const std::optional<double>& value) {
    if (value) {
      json[name] = *value;
    }
  };
  part("labels", quality.labels);
  part("labels_by_sums", quality.labels_by_sums);
  for (const auto& [kind, found] : quality.labels_by_kind) {
    json["labels_by_kind"][kind] = quality_json(found);
  }
  part("images", quality.images);
  part("label_clients", quality.label_clients);
  part("image_clients", quality.image_clients);
  part("cleanlab_rule_in_sample", quality.in_sample);
  part("cleanlab_rule_out_of_sample", quality.in_sample_out);
  share("honest_called_noisy", quality.honest_called_noisy);
  share("true_noise_rate", quality.true_noise_rate);
  if (quality.planted_labels > 0 || quality.planted_images > 0) {
    json["planted_labels"] = quality.planted_labels;
    json["planted_images"] = quality.planted_images;
  }
  share("planted_label_recall", quality.planted_label_recall);
  share("planted_image_recall", quality.planted_image_recall);
  share("implied_flag_precision", quality.implied_precision);
  return json;
}

Json client_json(const Audit& audit, const World& world, std::size_t c) {
  const ClientFinding& client = audit.findings.clients[c];
  Json weights = Json::object();
  for (const NoiseKind kind : kNoiseKinds) {
    weights[std::string(kind_name(kind))] = client.kind.fit(kind).weight;
  }
  Json verdicts = Json::object();
  for (std::size_t v = 0; v < kVerdicts; ++v) {
    verdicts[std::string(verdict_name(static_cast<Verdict>(v)))] = client.probabilities[v];
  }
  // What the server did not tell a member is not known to it.
  const auto known = [&](Json value) { return audit.of_member ? Json() : std::move(value); };
  Json features = Json::object();
  for (std::size_t f = 0; f < kVerdictFeatures; ++f) {
    features[std::string(verdict_feature_names()[f])] = client.features[f];
  }
  return {{"client", c},
          {"name", client_name(world, static_cast<std::int64_t>(c))},
          {"samples", client.samples},
          {"judged", client.judged},
          {"verdict", verdict_name(client.verdict)},
          {"probability", client.probability()},
          {"verdicts", verdicts},
          {"noise_rate", client.noise_rate},
          {"noise_rate_low", client.interval.low},
          {"noise_rate_high", client.interval.high},
          {"confident_noise_rate", client.confident_rate},
          {"too_few_to_say", client.too_few},
          {"kind", client.kind_text()},
          {"kinds", known(std::move(weights))},
          {"excess_rate", client.kind.rate},
          {"label_issues", client.label_issues},
          {"input_noise_issues", client.input_issues},
          {"missing_classes", known(client.missing_classes)},
          {"rare_classes", client.rare_classes},
          {"duplicates_inside", client.duplicates_inside},
          {"duplicates_across", known(client.duplicates_across)},
          {"features", known(std::move(features))}};
}

std::vector<std::string> issues_of(const SampleFinding& sample) {
  std::vector<std::string> issues;
  const auto add = [&](bool is, const char* name) {
    if (is) {
      issues.emplace_back(name);
    }
  };
  add(sample.is_label_issue, "label");
  add(sample.is_input_noise_issue, "input noise");
  add(sample.is_outlier_issue, "outlier");
  add(sample.is_near_duplicate_issue, "near duplicate");
  add(sample.is_dark_issue, "dark");
  add(sample.is_light_issue, "light");
  add(sample.is_blurry_issue, "blurry");
  add(sample.is_low_information_issue, "low information");
  return issues;
}

// Places of the samples with an issue: labels first, each from the worst on.
std::vector<std::size_t> worst_first(const Audit& audit) {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < audit.findings.samples.size(); ++i) {
    if (audit.findings.samples[i].any_issue()) {
      order.push_back(i);
    }
  }
  const auto badness = [&](std::size_t i) {
    const SampleFinding& sample = audit.findings.samples[i];
    return sample.is_label_issue ? sample.label_score
                                 : 1.0 + std::min({sample.input_noise_score, sample.outlier_score,
                                                   sample.near_duplicate_score});
  };
  std::ranges::stable_sort(order, {}, badness);
  return order;
}

// Thinned to a side of at most 64 pixels: a page holds many.
std::string picture_of(const at::Tensor& image) {
  const std::int64_t side = std::max(image.size(1), image.size(2));
  const std::int64_t step = (side + kPictureSide - 1) / kPictureSide;
  at::Tensor small = image.slice(1, 0, image.size(1), step).slice(2, 0, image.size(2), step);
  if (small.size(0) != 1 && small.size(0) != 3) {
    small = small.narrow(0, 0, 1);
  }
  const at::Tensor pixels = small.permute({1, 2, 0}).contiguous();
  return encode_png({pixels.data_ptr<std::uint8_t>(), static_cast<std::size_t>(pixels.numel())},
                    small.size(2), small.size(1), small.size(0));
}

}  // namespace

std::string client_name(const World& world, std::int64_t client) {
  const std::vector<std::string>& names = world.data.client_names;
  return names.empty() ? std::to_string(client) : names[static_cast<std::size_t>(client)];
}

std::string clients_csv(const Audit& audit, const World& world) {
  std::string text =
      "client,name,samples,judged,verdict,probability,p_nothing_wrong,p_label_noise,p_input_noise,"
      "p_rare_but_honest,p_hostile,noise_rate,noise_rate_low,noise_rate_high,too_few_to_say,kind,"
      "excess_rate,label_issues,input_noise_issues,missing_classes,rare_classes,duplicates_inside,"
      "duplicates_across,confident_noise_rate";
  text += world.truth_known ? ",true_wrong_share,true_distorted_share\n" : "\n";
  const TruthOfClients truth(audit, world);
  for (std::size_t c = 0; c < audit.findings.clients.size(); ++c) {
    const ClientFinding& client = audit.findings.clients[c];
    std::vector<std::string> fields{std::to_string(c),
                                    csv_field(client_name(world, static_cast<std::int64_t>(c))),
                                    std::to_string(client.samples),
                                    std::to_string(client.judged),
                                    std::string(verdict_name(client.verdict)),
                                    number(client.probability())};
    for (const double probability : client.probabilities) {
      fields.push_back(number(probability));
    }
    fields.insert(
        fields.end(),
        {number(client.noise_rate), number(client.interval.low), number(client.interval.high),
         client.too_few ? "true" : "false", client.kind_text(), number(client.kind.rate),
         std::to_string(client.label_issues), std::to_string(client.input_issues),
         csv_field(class_list(world, client.missing_classes)),
         csv_field(class_list(world, client.rare_classes)),
         std::to_string(client.duplicates_inside), std::to_string(client.duplicates_across),
         number(client.confident_rate)});
    if (world.truth_known) {
      fields.push_back(number(truth.wrong[c]));
      fields.push_back(number(truth.distorted[c]));
    }
    text += join(fields, ",") + "\n";
  }
  return text;
}

std::string samples_csv(const Audit& audit, const World& world) {
  std::string text =
      "sample,name,client,judged,given_label,predicted_label,is_label_issue,label_score,"
      "is_outlier_issue,outlier_score,is_near_duplicate_issue,near_duplicate_score,"
      "near_duplicate_sets,is_dark_issue,dark_score,is_light_issue,light_score,is_blurry_issue,"
      "blurry_score,is_low_information_issue,low_information_score,is_input_noise_issue,"
      "input_noise_score,suggested_label";
  const bool in_sample = !audit.in_sample_issues.empty();
  text += in_sample ? ",is_label_issue_in_sample\n" : "\n";
  const auto flag = [](bool is) { return is ? "true" : "false"; };
  for (std::size_t i = 0; i < audit.held.size(); ++i) {
    const HeldSample& held = audit.held[i];
    const SampleFinding& found = audit.findings.samples[i];
    text += fmt::format(
        "{},{},{},{},{},{},{},{:.4f},{},{:.4f},{},{:.4f},{},{},{:.4f},{},{:.4f},{},{:.4f},{},{:.4f}"
        ","
        "{},{:.4f},{}{}\n",
        held.sample, csv_field(world.data.name_of(held.sample)),
        csv_field(client_name(world, held.client)), flag(found.judged),
        csv_field(class_name(world, held.given)), csv_field(class_name(world, found.predicted)),
        flag(found.is_label_issue), found.label_score, flag(found.is_outlier_issue),
        found.outlier_score, flag(found.is_near_duplicate_issue), found.near_duplicate_score,
        found.near_duplicate_set < 0 ? "" : std::to_string(found.near_duplicate_set),
        flag(found.is_dark_issue), found.dark_score, flag(found.is_light_issue), found.light_score,
        flag(found.is_blurry_issue), found.blurry_score, flag(found.is_low_information_issue),
        found.low_information_score, flag(found.is_input_noise_issue), found.input_noise_score,
        found.is_label_issue ? csv_field(class_name(world, found.suggested)) : "",
        in_sample ? (audit.in_sample_issues[i] ? ",true" : ",false") : "");
  }
  return text;
}

std::string relabel_csv(const Audit& audit, const World& world) {
  std::string text = std::string(kRelabelHeader) + "\n";
  for (const std::size_t i : worst_first(audit)) {
    const SampleFinding& found = audit.findings.samples[i];
    if (found.is_label_issue) {
      const HeldSample& held = audit.held[i];
      text += fmt::format("{},{},{},{},{:.4f},\n", csv_field(world.data.name_of(held.sample)),
                          csv_field(client_name(world, held.client)),
                          csv_field(class_name(world, held.given)),
                          csv_field(class_name(world, found.suggested)), found.label_score);
    }
  }
  return text;
}

void write_judgement(const Audit& audit, const World& world, const std::filesystem::path& path) {
  const std::int64_t count = std::ssize(audit.held);
  std::set<std::int64_t> changed;
  for (const LedgerSample& entry : world.ledger.samples()) {
    if (entry.kind != "label") {
      changed.insert(entry.sample);
    }
  }
  Labels sample;
  Labels client;
  Labels given;
  Labels label;
  at::Tensor judged = at::empty({count}, at::kByte);
  at::Tensor distorted = at::empty({count}, at::kByte);
  at::Tensor stats = at::empty({count, static_cast<std::int64_t>(kImageStats)}, at::kFloat);
  auto* next = stats.data_ptr<float>();
  for (std::int64_t i = 0; i < count; ++i) {
    const auto at = static_cast<std::size_t>(i);
    const HeldSample& held = audit.held[at];
    sample.push_back(held.sample);
    client.push_back(held.client);
    given.push_back(held.given);
    label.push_back(world.data.train.labels[static_cast<std::size_t>(held.sample)]);
    judged.data_ptr<std::uint8_t>()[i] = audit.findings.samples[at].judged ? 1 : 0;
    distorted.data_ptr<std::uint8_t>()[i] = changed.contains(held.sample) ? 1 : 0;
    next = std::ranges::transform(audit.stats[at].values, next, [](double value) {
             return static_cast<float>(value);
           }).out;
  }
  at::Tensor p = at::empty({std::ssize(audit.p_of), count, world.data.classes}, at::kFloat);
  auto* row = p.data_ptr<float>();
  for (const std::vector<float>& repetition : audit.p_of) {
    row = std::ranges::copy(repetition, row).out;
  }
  NpzWriter file;
  at::Tensor model = at::empty({std::ssize(audit.model_of), count}, at::kByte);
  auto* fold = model.data_ptr<std::uint8_t>();
  for (const std::vector<std::int64_t>& repetition : audit.model_of) {
    fold = std::ranges::transform(repetition, fold, [](std::int64_t number) {
             return static_cast<std::uint8_t>(number);
           }).out;
  }
  file.add("p", p);
  file.add("model", model);
  file.add("sample", sample);
  file.add("client", client);
  file.add("given", given);
  file.add("judged", judged);
  file.add("image_stats", stats);
  if (world.truth_known) {
    file.add("label", label);
    file.add("distorted", distorted);
  }
  file.write(path);
}

Json audit_json(const Audit& audit, const World& world, const Experiment& experiment,
                const AuditOptions& options) {
  Json clients = Json::array();
  const TruthOfClients truth(audit, world);
  for (std::size_t c = 0; c < audit.findings.clients.size(); ++c) {
    clients.push_back(client_json(audit, world, c));
    if (world.truth_known) {
      clients.back()["true_wrong_share"] = truth.wrong[c];
      clients.back()["true_distorted_share"] = truth.distorted[c];
    }
  }
  Json thresholds = Json::array();
  for (const double threshold : audit.findings.thresholds) {
    thresholds.push_back(std::isfinite(threshold) ? Json(threshold) : Json());
  }
  if (audit.of_member) {
    thresholds = Json();  // the server does not tell them
  }
  Json conditions = Json::object();
  for (const std::string& name : condition_names()) {
    conditions[name] = condition_value(audit, name);
  }
  return {{"format", 2},
          {"data", world.data.name},
          {"method", experiment.method},
          {"seed", experiment.seed},
          {"folds", options.judge.folds},
          {"folds_over", audit.over_clients ? "clients" : "samples"},
          {"repetitions", options.judge.repetitions},
          {"samples", audit.held.size()},
          {"judged", audit.findings.judged},
          {"not_judged", audit.findings.not_judged},
          {"class_names", world.data.class_names},
          {"thresholds", thresholds},
          {"noise_rate", audit.findings.noise_rate},
          {"noise_rate_low", audit.findings.interval.low},
          {"noise_rate_high", audit.findings.interval.high},
          {"confident_noise_rate", audit.findings.confident_rate},
          {"shares", conditions},
          {"quality", quality_json(audit.quality)},
          {"warnings", audit.warnings},
          {"clients", clients}};
}

Json audit_page_data(const Audit& audit, const World& world, const Experiment& experiment,
                     std::int64_t pictures) {
  Json data = audit_json(audit, world, experiment, {});
  for (Json& client : data["clients"]) {
    client.erase("features");
    client.erase("kinds");
    client.erase("verdicts");
  }
  Json samples = Json::array();
  const std::vector<std::size_t> order = worst_first(audit);
  const std::size_t shown =
      std::min(order.size(), static_cast<std::size_t>(std::max<std::int64_t>(pictures, 0)));
  for (const std::size_t i : std::span(order).first(shown)) {
    const HeldSample& held = audit.held[i];
    const SampleFinding& found = audit.findings.samples[i];
    samples.push_back({{"name", world.data.name_of(held.sample)},
                       {"client", held.client},
                       {"given", held.given},
                       {"suggested", found.is_label_issue ? found.suggested : held.given},
                       {"score", found.label_score},
                       {"issues", issues_of(found)},
                       {"png", base64(picture_of(world.data.train.images[held.sample]))}});
  }
  data["shown"] = samples;
  data["with_issues"] = order.size();
  return data;
}

}  // namespace winnow
