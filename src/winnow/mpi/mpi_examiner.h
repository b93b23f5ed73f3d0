// The examiner of rank 0: deals the pieces to all ranks and adds their scores up in order.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "winnow/engine/local_examiner.h"
#include "winnow/mpi/leader.h"
#include "winnow/run/workplace.h"

namespace winnow {

class MpiExaminer final : public Examiner {
 public:
  // Both must outlive it.
  MpiExaminer(Leader& leader, Workplace& place) : leader_(leader), place_(place) {}

  Score evaluate(const State& model) override;
  // Each model where it lies.
  Score evaluate_each() override;
  // All models are brought to rank 0, which measures them alone.
  Score evaluate_ensemble() override;
  std::map<std::int64_t, std::vector<std::int64_t>> right_by_class(Kept kept) override;
  std::vector<Score> validate(const std::vector<State>& models) override;

 private:
  std::vector<Score> score(const std::vector<State>& models, LocalExaminer::On on);

  Leader& leader_;
  Workplace& place_;
};

// The models that are the clients' own, of all ranks, on rank 0.
ModelsByClient gather_own_models(Leader& leader, Workplace& place);

}  // namespace winnow
