// From what models and images say to findings about samples and clients (spec: audit 2 to 5), in
// the sums of method/audit/audit. No file is read or written here.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <vector>

#include "winnow/audit/out_of_sample.h"
#include "winnow/method/audit/audit/findings.h"

namespace winnow {

struct AuditFindings {
  std::vector<SampleFinding> samples;
  std::vector<ClientFinding> clients;
  std::vector<double> thresholds;
  double noise_rate = 0.0;      // the share of wrong labels
  double confident_rate = 0.0;  // the same by confident learning
  Interval interval;            // of the noise rate, as that of a client
  // By sample, what a federation that has sums only calls a label issue; empty in its own findings.
  std::vector<bool> issues_by_sums = {};
  std::int64_t judged = 0;
  std::int64_t not_judged = 0;
};

struct FindingsInput {
  const std::vector<HeldSample>& held;
  const Judgement& judgement;
  const std::vector<ImageStats>& stats;  // by place in `held`
  const at::Tensor& images;              // as judged
  std::int64_t clients = 0;
  std::uint64_t key = 0;  // of the hashes by which clients compare images
};

// What a federation finds out that has sums only: label issues and all rates are by confident
// learning.
AuditFindings make_findings(const FindingsInput& input);

// Judges the labels again by stats/wrong_share.h, which needs all probabilities in one place, and
// takes the mean of the repetitions. A label score becomes the probability that the given label is
// right, a label issue is one below one half, the suggestion is the likeliest other class, and the
// rates are means over samples. What verdicts are made of stays. Throws Interrupted once `stop` is
// set.
void judge_labels(const FindingsInput& input, const std::atomic<bool>* stop, AuditFindings& found);

// Which samples confident learning alone calls wrongly labelled, from any probabilities: counted
// beside the diagonal, as cleanlab's rule has it. For comparisons.
std::vector<bool> beside_the_diagonal(std::span<const float> p, std::int64_t classes,
                                      const std::vector<HeldSample>& held);

}  // namespace winnow
