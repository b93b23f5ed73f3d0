// Sums of models that stay where they were trained: every rank adds up one segment of all models,
// in the order of folding, so that rank 0 receives finished segments and not whole models.
#pragma once

#include <cstdint>
#include <vector>

#include "winnow/federation/exchange.h"
#include "winnow/federation/fleet.h"
#include "winnow/federation/part_mean.h"
#include "winnow/mpi/bytes.h"
#include "winnow/mpi/ranks.h"

namespace winnow {

// A reply in the order of folding.
struct FoldItem {
  std::int32_t owner = 0;     // the rank that keeps its models
  std::uint32_t samples = 0;  // as the reply names them
  std::uint64_t counts = 0;   // 1: it is added up; 0: it is not
};

// What all ranks must know to add up.
struct FoldPlan {
  SumForm form = SumForm::floating;
  std::vector<SumRule> rules = {};  // of the models of a reply, in its order
  std::vector<FoldItem> items = {};
};

void put(ByteWriter& bytes, const FoldPlan& plan);
FoldPlan get_fold_plan(ByteReader& bytes);

// The models of one reply, in its order.
using ReplyModels = std::vector<State>;

// Segment `rank` of `ranks` of a model with so many values. They cover it without overlap, and all
// but the last end at multiples of 16.
Stretch segment_of(std::int64_t values, int rank, int ranks);

// Every rank calls this with the same plan and the replies it keeps, in the order of folding.
// Models are on the CPU and have that layout. Returns the means, one for each rule, on rank 0 and
// nothing on the others. Memory: what a rank keeps once more while it is sent, and its segment of
// all.
std::vector<State> add_up(Ranks& ranks, const LayoutPtr& layout, const FoldPlan& plan,
                          const std::vector<ReplyModels>& kept);

}  // namespace winnow
