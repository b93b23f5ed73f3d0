#include "winnow/experiment/world.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <thread>

#include "winnow/base/error.h"
#include "winnow/data/catalog.h"
#include "winnow/experiment/relabel.h"

namespace winnow {
namespace {

void apply_noise(const Experiment& experiment, const Assignment& assign, DataSet& data,
                 GivenLabels& given, Ledger& ledger) {
  const int threads = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  for (std::size_t block = 0; block < experiment.noise.size(); ++block) {
    const BlockInput input{assign, data.train.labels, data.classes, experiment.seed, block};
    if (const auto* labels = std::get_if<LabelNoise>(&experiment.noise[block])) {
      labels->apply(input, given, ledger);
    } else if (const auto* images = std::get_if<InputNoise>(&experiment.noise[block])) {
      images->apply(input, given, data.train.images, ledger, threads);
    } else {
      std::get<Attack>(experiment.noise[block]).apply(input, given, ledger);
    }
  }
}

// Who names a file of other labels as the given ones vouches for those of the set.
bool brings_given_labels(const Experiment& experiment) {
  return !experiment.data.given_labels.empty() ||
         std::ranges::any_of(experiment.noise, [](const Noise& block) {
           const auto* labels = std::get_if<LabelNoise>(&block);
           return labels != nullptr && labels->name() == "human_labels";
         });
}

// The samples as they came, less those that are the server's own.
Assignment as_owned(const Experiment& experiment, const std::vector<std::int64_t>& samples,
                    const DataSet& data) {
  const std::int64_t clients = std::ssize(data.client_names);
  if (experiment.federation.clients != clients) {
    throw Error(
        ErrorKind::data,
        fmt::format("federation.clients = {}, but {} has {} clients", experiment.federation.clients,
                    experiment.data.path.empty() ? "the data" : experiment.data.path, clients),
        "leave federation.clients out: the data says how many there are");
  }
  Assignment assign(static_cast<std::size_t>(clients));
  for (const std::int64_t sample : samples) {
    assign[static_cast<std::size_t>(data.owners[static_cast<std::size_t>(sample)])].push_back(
        sample);
  }
  return assign;
}

// Deals out the samples that are not the server's own.
Assignment partition(const Experiment& experiment, const std::vector<std::int64_t>& samples,
                     const DataSet& data) {
  if (!data.owners.empty()) {
    return as_owned(experiment, samples, data);
  }
  Labels labels;
  labels.reserve(samples.size());
  for (const std::int64_t sample : samples) {
    labels.push_back(data.train.labels[static_cast<std::size_t>(sample)]);
  }
  Assignment assign = experiment.federation.partition.make(
      labels, data.classes, experiment.federation.clients, experiment.seed);
  for (auto& client : assign) {
    for (std::int64_t& sample : client) {
      sample = samples[static_cast<std::size_t>(sample)];
    }
  }
  return assign;
}

// Leaves each client only samples with the true label and an untouched image.
void keep_right_samples(const DataSet& data, const Ledger& ledger,
                        std::vector<ClientData>& clients) {
  std::set<std::int64_t> distorted;
  for (const LedgerSample& entry : ledger.samples()) {
    if (entry.kind != "label") {
      distorted.insert(entry.sample);
    }
  }
  for (ClientData& client : clients) {
    ClientData kept;
    for (std::size_t i = 0; i < client.samples.size(); ++i) {
      const std::int64_t sample = client.samples[i];
      const bool right = client.given[i] == data.train.labels[static_cast<std::size_t>(sample)];
      if (right && !distorted.contains(sample)) {
        kept.samples.push_back(sample);
        kept.given.push_back(client.given[i]);
      }
    }
    client = std::move(kept);
  }
}

// The samples of all clients become those of client 0, the only one.
void bring_together(std::vector<ClientData>& clients, Ledger& ledger) {
  ClientData all;
  for (const ClientData& client : clients) {
    all.samples.insert(all.samples.end(), client.samples.begin(), client.samples.end());
    all.given.insert(all.given.end(), client.given.begin(), client.given.end());
  }
  ledger = ledger.of_one_client(std::ssize(all.samples));
  clients.clear();
  clients.push_back(std::move(all));
}

}  // namespace

World make_world(const Experiment& experiment, const Registry& registry) {
  DataSet data = load(experiment.data, registry.data_sets);
  std::vector<std::int64_t> samples =
      make_validation(experiment.validation, experiment.seed, registry.distortions, data);
  at::Tensor public_images = take_public_images(experiment.public_images, experiment.seed,
                                                registry.data_sets, data, samples);
  Assignment assign = partition(experiment, samples, data);
  // Noise comes after the partition and touches only what clients see (spec: partitions L).
  GivenLabels given =
      labels_of_clients(assign, data.given.empty() ? data.train.labels : data.given);
  Ledger ledger(experiment.seed, data.train.size(), experiment.federation.clients);
  if (!data.given.empty()) {
    record_given_labels({assign, data.train.labels, data.classes, experiment.seed}, given, ledger);
  }
  apply_noise(experiment, assign, data, given, ledger);
  if (!experiment.data.relabel.empty()) {
    apply_relabel(read_relabel(experiment.data.relabel, data), assign, given);
  }
  std::vector<ClientData> clients;
  clients.reserve(assign.size());
  for (std::size_t client = 0; client < assign.size(); ++client) {
    clients.push_back({std::move(assign[client]), std::move(given[client])});
  }
  if (experiment.federation.centralised) {
    bring_together(clients, ledger);
  }
  if (experiment.truth == Truth::samples) {
    keep_right_samples(data, ledger, clients);
  }
  const bool unchecked =
      registry.data_sets.find(experiment.data.name).unchecked && !brings_given_labels(experiment);
  World world{std::move(data), std::move(clients), std::move(ledger), std::move(public_images)};
  world.truth_known = !unchecked || !experiment.noise.empty();
  world.only_injected = unchecked && !experiment.noise.empty();
  world.test_unchecked = unchecked && world.data.test_drawn;
  world.validation_unchecked = unchecked && experiment.validation.source == "split";
  return world;
}

}  // namespace winnow
