#include "winnow/noise/label_noise.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "winnow/base/error.h"
#include "winnow/base/text.h"
#include "winnow/noise/label_noise_rules.h"

namespace winnow {
namespace {

void declare_fedcorr(Params& params, LabelNoiseOptions& options) {
  params.add("rho", options.rho, "chance that a client is noisy").range(0, 1).source("FedCorr");
  params.add("tau", options.tau, "lowest level of a noisy client").range(0, 1).source("FedCorr");
  params.add("exact_count", options.exact_count,
             "redraw exactly round(level * n) labels instead of each with this chance");
  params.add("labels_0_9", options.labels_0_9,
             "draw from the first ten classes only, as the released code does");
}

void declare_clipfl(Params& params, LabelNoiseOptions& options) {
  params.add("rho", options.rho, "share of noisy clients, exactly").range(0, 1).source("ClipFL");
  params.add("mu", options.mu, "chance that a label of a noisy client is flipped")
      .range(0, 1)
      .source("ClipFL");
}

void declare_fedrn(Params& params, LabelNoiseOptions& options) {
  params.add("type", options.type, "how a label is flipped; mixed: half the clients each way")
      .choices({"symmetric", "pairflip", "mixed", "clean"})
      .source("FedRN");
  params.add("low", options.low, "rate of the first client").range(0, 1).source("FedRN");
  params.add("high", options.high, "end of the ramp; equal to low: one rate for all")
      .range(0, 1)
      .source("FedRN");
  params.add("low2", options.low2, "low of the pairflip half of mixed; as low when not given")
      .range(0, 1);
  params.add("high2", options.high2, "high of the pairflip half of mixed; as high when not given")
      .range(0, 1);
}

void declare_bernoulli(Params& params, LabelNoiseOptions& options) {
  params.add("p", options.p, "chance that a client is clean").range(0, 1).source("Fed-NCL");
}

void declare_gaussian(Params& params, LabelNoiseOptions& options) {
  params.add("mean", options.mean, "mean level of the clients").range(-10, 10).source("Fed-NCL");
  params.add("std", options.std, "standard deviation of the level, cut to 0..1 afterwards")
      .range(0, 10)
      .source("Fed-NCL");
}

void declare_matrix(Params& params, LabelNoiseOptions& options) {
  params.add("file", options.file, "text file of the matrix: one row of numbers per class");
  params.add("matrix", options.matrix, "the matrix itself, row after row, in place of a file")
      .range(0, 1);
  params.add("rho", options.rho, "share of noisy clients, exactly").range(0, 1);
}

void declare_human(Params& params, LabelNoiseOptions& options) {
  params.add("file", options.file, "the human labels of the whole training set");
  params.add("rho", options.rho, "share of clients that take the human labels, exactly")
      .range(0, 1);
  params
      .add("levels", options.levels,
           "share of its samples for which such a client takes them: the same for all clients, or "
           "drawn for each")
      .choices({"same", "gaussian"})
      .source("same: FedNS; gaussian: a reading of Fed-NCL's appendix");
  params.add("level", options.level, "same: the share, exactly").range(0, 1).source("FedNS");
  params.add("mean", options.mean, "gaussian: mean share").range(-10, 10).source("Fed-NCL");
  params
      .add("std", options.std, "gaussian: standard deviation of the share, cut to 0..1 afterwards")
      .range(0, 10)
      .source("Fed-NCL");
}

void finish_nothing(LabelNoiseOptions& /*options*/, const Json& /*table*/,
                    std::string_view /*where*/) {}

void finish_fedrn(LabelNoiseOptions& options, const Json& table, std::string_view where) {
  if (!table.contains("low2")) {
    options.low2 = options.low;
  }
  if (!table.contains("high2")) {
    options.high2 = options.high;
  }
  const auto check = [&](const char* name, double low, double high) {
    if (high < low) {
      throw Error(ErrorKind::experiment, fmt::format("{}.{} = {}: expected at least the low end {}",
                                                     where, name, high, low));
    }
  };
  check("high", options.low, options.high);
  check("high2", options.low2, options.high2);
}

void finish_matrix(LabelNoiseOptions& options, const Json& /*table*/, std::string_view where) {
  if (options.file.empty() == options.matrix.empty()) {
    throw Error(ErrorKind::experiment, fmt::format("{}: expected either file or matrix", where),
                "matrix = [[0.9, 0.1], [0.2, 0.8]] or file = \"transition.csv\"");
  }
}

void finish_human(LabelNoiseOptions& options, const Json& /*table*/, std::string_view where) {
  if (options.file.empty()) {
    throw Error(ErrorKind::experiment, fmt::format("{}.file is missing", where),
                "name the file of the human labels");
  }
}

// Lets an experiment write a matrix as rows: [[a, b], [c, d]] becomes [a, b, c, d].
Json with_flat_matrix(Json table, std::string_view where) {
  const auto found = table.find("matrix");
  if (found == table.end() || !found->is_array() ||
      std::ranges::none_of(*found, [](const Json& row) { return row.is_array(); })) {
    return table;
  }
  Json flat = Json::array();
  for (std::size_t y = 0; y < found->size(); ++y) {
    const Json& row = (*found)[y];
    if (!row.is_array() || row.size() != found->size()) {
      throw Error(
          ErrorKind::experiment,
          fmt::format("{}.matrix: row {} is not a list of {} numbers", where, y, found->size()));
    }
    flat.insert(flat.end(), row.begin(), row.end());
  }
  *found = std::move(flat);
  return table;
}

void check_given(const BlockInput& input, const GivenLabels& given) {
  bool fits = given.size() == input.assign.size();
  for (std::size_t k = 0; fits && k < given.size(); ++k) {
    fits = given[k].size() == input.assign[k].size() &&
           std::ranges::all_of(
               given[k], [&](std::int64_t label) { return label >= 0 && label < input.classes; });
  }
  if (!fits) {
    throw Error(ErrorKind::internal, "the given labels do not fit the partition");
  }
}

// Records how a client's labels changed. Of `entry` all but wrong and samples is filled in; `noisy`
// says whether the client counts as noisy even if no label is wrong.
void record_client(LedgerClient entry, const BlockInput& input,
                   const std::vector<std::int64_t>& before, const std::vector<std::int64_t>& labels,
                   Ledger& ledger) {
  const auto& samples = input.assign[static_cast<std::size_t>(entry.client)];
  for (std::size_t i = 0; i < labels.size(); ++i) {
    if (labels[i] != before[i]) {
      ledger.add(LedgerSample{.client = entry.client,
                              .sample = samples[i],
                              .block = entry.block,
                              .kind = "label",
                              .from = before[i],
                              .to = labels[i],
                              .severity = 0});
    }
  }
  entry.wrong = std::ranges::count(wrong_labels(labels, samples, input.true_labels), true);
  entry.samples = std::ssize(samples);
  entry.noisy = entry.noisy || entry.wrong > 0;
  ledger.add(std::move(entry));
}

// Corrupts one client and records what changed.
void corrupt_client(const ClientNoise& noise, const std::string& name, const BlockInput& input,
                    std::vector<std::int64_t>& labels, Ledger& ledger) {
  const std::vector<std::int64_t> before = labels;
  std::int64_t picked = 0;
  if (noise.corrupt) {
    Stream stream(input.seed, "noise", input.block, noise.client);
    picked = noise.corrupt(input.assign[static_cast<std::size_t>(noise.client)], labels, stream);
  }
  record_client({.client = noise.client,
                 .block = static_cast<std::int64_t>(input.block),
                 .name = name,
                 .level = noise.level,
                 .picked = picked,
                 .noisy = noise.chosen},
                input, before, labels, ledger);
}

}  // namespace

GivenLabels labels_of_clients(const Assignment& assign, std::span<const std::int64_t> labels) {
  GivenLabels given;
  given.reserve(assign.size());
  for (const auto& samples : assign) {
    auto& list = given.emplace_back();
    list.reserve(samples.size());
    for (const std::int64_t sample : samples) {
      list.push_back(labels[static_cast<std::size_t>(sample)]);
    }
  }
  return given;
}

void record_given_labels(const BlockInput& input, const GivenLabels& given, Ledger& ledger) {
  const GivenLabels truth = labels_of_clients(input.assign, input.true_labels);
  for (std::size_t client = 0; client < given.size(); ++client) {
    record_client({.client = static_cast<std::int64_t>(client),
                   .block = kGivenLabelsBlock,
                   .name = "given_labels",
                   .level = 1.0,
                   .picked = std::ssize(given[client])},
                  input, truth[client], given[client], ledger);
  }
}

const std::vector<LabelNoiseInfo>& label_noises() {
  static const std::vector<LabelNoiseInfo> table{
      {"fedcorr_labels", "random clients, each with its own share of uniformly redrawn labels",
       LabelNoiseOptions{.rho = 0.6}, declare_fedcorr, finish_nothing, plan_fedcorr},
      {"clipfl_labels", "an exact share of clients whose labels flip to another class",
       LabelNoiseOptions{.rho = 0.5}, declare_clipfl, finish_nothing, plan_clipfl},
      {"fedrn_labels", "a noise rate that rises with the client's id", LabelNoiseOptions{},
       declare_fedrn, finish_fedrn, plan_fedrn},
      {"fedncl_bernoulli", "clients are clean, or have all labels redrawn", LabelNoiseOptions{},
       declare_bernoulli, finish_nothing, plan_fedncl_bernoulli},
      {"fedncl_gaussian", "a normal share of redrawn labels per client, cut to 0..1",
       LabelNoiseOptions{}, declare_gaussian, finish_nothing, plan_fedncl_gaussian},
      {"transition_matrix", "labels drawn from the row of a matrix, for a share of the clients",
       LabelNoiseOptions{}, declare_matrix, finish_matrix, plan_transition_matrix},
      {"human_labels", "labels given by people, from a file, for a share of the clients",
       LabelNoiseOptions{}, declare_human, finish_human, plan_human_labels},
  };
  return table;
}

const LabelNoiseInfo* find_label_noise(std::string_view name) {
  const auto found = std::ranges::find(label_noises(), name, &LabelNoiseInfo::name);
  return found == label_noises().end() ? nullptr : &*found;
}

LabelNoise LabelNoise::parse(const Json& table, std::string_view where) {
  if (!table.is_object() || !table.contains("name") || !table["name"].is_string()) {
    throw Error(ErrorKind::experiment, fmt::format("{}: expected a table with a name", where),
                R"(for example name = "fedcorr_labels")");
  }
  const auto name = table["name"].get<std::string>();
  const LabelNoiseInfo* info = find_label_noise(name);
  if (info == nullptr) {
    std::vector<std::string> known;
    std::ranges::transform(label_noises(), std::back_inserter(known), &LabelNoiseInfo::name);
    throw Error(ErrorKind::experiment, fmt::format("{}: unknown noise '{}'", where, name),
                suggestion(name, known));
  }
  LabelNoise noise(*info);
  noise.where_ = where;
  Params params;
  info->declare(params, noise.options_);
  noise.scope_.declare(params);
  const Json flat = with_flat_matrix(table, where);
  params.read(flat, where, {"name"});
  info->finish(noise.options_, flat, where);
  noise.scope_.check(where);
  return noise;
}

Json LabelNoise::values() const {
  LabelNoiseOptions options = options_;
  NoiseScope scope = scope_;
  Params params;
  info_->declare(params, options);
  scope.declare(params);
  Json values{{"name", name()}};
  values.update(params.values());
  return values;
}

void LabelNoise::apply(const BlockInput& input, GivenLabels& given, Ledger& ledger) const {
  if (input.classes < 2) {
    throw Error(ErrorKind::experiment,
                fmt::format("{}: label noise needs at least 2 classes, the data set has {}", where_,
                            input.classes));
  }
  check_given(input, given);
  Stream stream(input.seed, "noise-clients", input.block);
  LabelNoiseContext context;
  context.classes = input.classes;
  context.samples = std::ssize(input.true_labels);
  context.federation = std::ssize(input.assign);
  context.clients = scope_.choose(context.federation, stream, where_);
  context.where = where_;
  for (const ClientNoise& noise : info_->plan(options_, context, stream)) {
    corrupt_client(noise, name(), input, given[static_cast<std::size_t>(noise.client)], ledger);
  }
}

}  // namespace winnow
