// From what models and images say to findings about samples and clients (spec: audit 2 to 5), in
// the sums of method/audit/audit. No file is read or written here.
#pragma once

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
  double noise_rate = 0.0;  // of wrong labels, by confident learning
  Interval interval;
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

AuditFindings make_findings(const FindingsInput& input);

// The share of wrong labels by stats/wrong_share.h, the mean of the repetitions.
double modelled_noise_rate(const FindingsInput& input);

// Which samples confident learning alone calls wrongly labelled, from any probabilities: counted
// beside the diagonal, as cleanlab's rule has it. For comparisons.
std::vector<bool> beside_the_diagonal(std::span<const float> p, std::int64_t classes,
                                      const std::vector<HeldSample>& held);

}  // namespace winnow
