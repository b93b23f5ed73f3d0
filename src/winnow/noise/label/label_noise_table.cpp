// The built-in label noises: their parameters and the table of their names.
#include <fmt/format.h>

#include "winnow/base/error.h"
#include "winnow/noise/label/label_noise_rules.h"

namespace winnow {
namespace {

template <typename Rule>
std::unique_ptr<LabelNoiseRule> label_noise() {
  return std::make_unique<Rule>();
}

LabelNoises make_label_noises() {
  // What else may stand as a noise's name: an alias (noise_alias.h), and the distortions of images.
  LabelNoises all("noise", "winnow list noises",
                  {"symmetric", "pairflip", "pair", "asymmetric", "distortions", "attack"});
  all.add({"fedcorr_labels", "random clients, each with its own share of uniformly redrawn labels",
           label_noise<FedCorrLabels>});
  all.add({"clipfl_labels", "an exact share of clients whose labels flip to another class",
           label_noise<ClipFLLabels>});
  all.add(
      {"fedrn_labels", "a noise rate that rises with the client's id", label_noise<FedRNLabels>});
  all.add({"fedncl_bernoulli", "clients are clean, or have all labels redrawn",
           label_noise<FedNCLBernoulli>});
  all.add({"fedncl_gaussian",
           "a normally distributed share of redrawn labels per client, clipped to 0..1",
           label_noise<FedNCLGaussian>});
  all.add({"transition_matrix",
           "labels drawn with the probabilities in a matrix, for a share of the clients",
           label_noise<TransitionMatrix>});
  all.add({"sparse_matrix",
           "labels drawn with a random matrix in which only few pairs of classes are confused",
           label_noise<SparseMatrix>});
  all.add({"human_labels", "labels given by people, from a file, for a share of the clients",
           label_noise<HumanLabels>});
  return all;
}

}  // namespace

const LabelNoises& builtin_label_noises() {
  static const LabelNoises all = make_label_noises();
  return all;
}

void FedCorrLabels::declare(Params& params) {
  params.add("rho", rho, "chance that a client is noisy").range(0, 1).source("FedCorr");
  params.add("tau", tau, "lowest noise level of a noisy client").range(0, 1).source("FedCorr");
  params.add("exact_count", exact_count,
             "redraw exactly round(level * n) of a noisy client's n labels, instead of each with "
             "the chance `level`");
  params.add("labels_0_9", labels_0_9,
             "redraw labels from the first ten classes only, as the released code does");
}

void ClipFLLabels::declare(Params& params) {
  params.add("rho", rho, "exact share of the clients that are noisy").range(0, 1).source("ClipFL");
  params.add("mu", mu, "chance that a label of a noisy client flips").range(0, 1).source("ClipFL");
}

void FedRNLabels::declare(Params& params) {
  params
      .add("type", type,
           "how labels flip: to any other class (symmetric), to the class before (pairflip), half "
           "of the clients each way (mixed), or not at all (clean)")
      .choices({"symmetric", "pairflip", "mixed", "clean"})
      .source("FedRN");
  params.add("low", low, "noise rate of the first client").range(0, 1).source("FedRN");
  params
      .add("high", high,
           "noise rate at the end of the ramp over the clients; equal to low: one rate for all")
      .range(0, 1)
      .source("FedRN");
  params.add("low2", low2, "mixed: noise rate of the first pairflip client; not given: low")
      .range(0, 1);
  params
      .add("high2", high2,
           "mixed: noise rate at the end of the ramp over the pairflip clients; not given: high")
      .range(0, 1);
}

void FedNCLBernoulli::declare(Params& params) {
  params.add("p", p, "chance that a client is clean").range(0, 1).source("Fed-NCL");
}

void FedNCLGaussian::declare(Params& params) {
  params.add("mean", mean, "mean noise level of the clients").range(-10, 10).source("Fed-NCL");
  params
      .add("std", std,
           "standard deviation of the clients' noise levels, which are then clipped to 0..1")
      .range(0, 10)
      .source("Fed-NCL");
}

void TransitionMatrix::declare(Params& params) {
  params.add("file", file, "text file with the matrix: a row of numbers for each class");
  params.add("matrix", matrix, "the matrix itself, row by row, instead of a file").range(0, 1);
  params.add("rho", rho, "exact share of the clients that are noisy").range(0, 1);
}

void SparseMatrix::declare(Params& params) {
  params.add("amount", amount, "share of wrong labels, on average over the classes")
      .range(0, 1)
      .source("FedEFC");
  params.add("sparsity", sparsity, "share of the pairs of classes between which no label flips")
      .range(0, 1)
      .source("FedEFC");
  params.add("rho", rho, "exact share of the clients that are noisy")
      .range(0, 1)
      .source("here; FedEFC: all");
}

void HumanLabels::declare(Params& params) {
  params.add("file", file, "file with the human labels of the whole training set");
  params.add("rho", rho, "exact share of the clients that take the human labels").range(0, 1);
  params
      .add("levels", levels,
           "share of its samples for which a client takes the human labels: the same for all "
           "clients, or drawn for each")
      .choices({"same", "gaussian"})
      .source("same: FedNS; gaussian: a reading of Fed-NCL's appendix");
  params.add("level", level, "same: exact share of a client's samples that take the human labels")
      .range(0, 1)
      .source("FedNS");
  params
      .add("mean", mean,
           "gaussian: mean over the clients of the share of samples that take the human labels")
      .range(-10, 10)
      .source("Fed-NCL");
  params
      .add("std", std,
           "gaussian: standard deviation of the share of samples that take the human labels, which "
           "is then clipped to 0..1")
      .range(0, 10)
      .source("Fed-NCL");
}

void FedRNLabels::finish(const Json& table, std::string_view where) {
  if (!table.contains("low2")) {
    low2 = low;
  }
  if (!table.contains("high2")) {
    high2 = high;
  }
  const auto check = [&](const char* name, double from, double to) {
    if (to < from) {
      throw Error(ErrorKind::experiment, fmt::format("{}.{} = {}: expected at least the low end {}",
                                                     where, name, to, from));
    }
  };
  check("high", low, high);
  check("high2", low2, high2);
}

void TransitionMatrix::finish(const Json& /*table*/, std::string_view where) {
  if (file.empty() == matrix.empty()) {
    throw Error(ErrorKind::experiment, fmt::format("{}: expected either file or matrix", where),
                "matrix = [[0.9, 0.1], [0.2, 0.8]] or file = \"transition.csv\"");
  }
}

void HumanLabels::finish(const Json& /*table*/, std::string_view where) {
  if (file.empty()) {
    throw Error(ErrorKind::experiment, fmt::format("{}.file is missing", where),
                "set it to the file with the human labels");
  }
}

}  // namespace winnow
