// The world of an experiment: data, clients and noise, the same for the same seed.
#pragma once

#include <vector>

#include "winnow/data/data_set.h"
#include "winnow/data/partition.h"
#include "winnow/experiment/experiment.h"
#include "winnow/federation/client.h"
#include "winnow/noise/ledger.h"

namespace winnow {

struct World {
  DataSet data;
  std::vector<ClientData> clients;
  Ledger ledger;                  // ground truth, for metrics only; never handed to a method
  at::Tensor public_images = {};  // bytes, shaped as the data's; undefined where there are none
  // False for labels that nobody has checked, as long as no noise is put on them: the ledger says
  // nothing then, and nothing is measured against it.
  bool truth_known = true;
  // The same labels with noise put on them: what was injected is all that is known to be wrong.
  bool only_injected = false;
  // The test samples, or those of validation, were drawn from labels that nobody has checked.
  bool test_unchecked = false;
  bool validation_unchecked = false;
  // Samples of validation that another process has, where this one has none: a member knows of
  // those of its server.
  std::int64_t validation_elsewhere = 0;
};

World make_world(const Experiment& experiment, const Registry& registry);

}  // namespace winnow
