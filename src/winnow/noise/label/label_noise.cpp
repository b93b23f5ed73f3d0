#include "winnow/noise/label/label_noise.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "winnow/base/error.h"
#include "winnow/base/text.h"

namespace winnow {
namespace {

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

LabelNoise LabelNoise::parse(const Json& table, const LabelNoises& known, std::string_view where) {
  if (!table.is_object() || !table.contains("name") || !table["name"].is_string()) {
    throw Error(ErrorKind::experiment, fmt::format("{}: expected a table with a name", where),
                R"(for example name = "fedcorr_labels")");
  }
  const auto name = table["name"].get<std::string>();
  const LabelNoiseInfo* info = known.look_up(name);
  if (info == nullptr) {
    throw Error(ErrorKind::experiment, fmt::format("{}: unknown noise '{}'", where, name),
                suggestion(name, known.names()));
  }
  LabelNoise noise;
  noise.name_ = name;
  noise.where_ = where;
  const std::shared_ptr<LabelNoiseRule> rule = info->make();
  Params params;
  rule->declare(params);
  noise.scope_.declare(params);
  const Json flat = with_flat_matrix(table, where);
  params.read(flat, where, {"name"});
  rule->finish(flat, where);
  noise.scope_.check(where);
  noise.values_ = {{"name", name}};
  noise.values_.update(params.values());
  noise.rule_ = rule;
  return noise;
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
  for (const ClientNoise& noise : rule_->plan(context, stream)) {
    if (!std::ranges::binary_search(context.clients, noise.client)) {
      throw Error(ErrorKind::internal,
                  fmt::format("{}: '{}' plans noise for client {}, which is not one of the block's",
                              where_, name_, noise.client));
    }
    corrupt_client(noise, name_, input, given[static_cast<std::size_t>(noise.client)], ledger);
  }
}

}  // namespace winnow
