#include "winnow/mpi/segments.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <span>

#include "winnow/federation/fixed_sum.h"

namespace winnow {
namespace {

constexpr std::int64_t kAlignment = 16;  // values: a cache line of floats

std::size_t index(int rank) {
  return static_cast<std::size_t>(rank);
}

// Of a flat tensor of values on the CPU.
std::span<float> floats_in(const at::Tensor& values) {
  return {values.data_ptr<float>(), static_cast<std::size_t>(values.numel())};
}

std::span<float> part(std::span<float> values, const Stretch& stretch) {
  return values.subspan(static_cast<std::size_t>(stretch.begin),
                        static_cast<std::size_t>(stretch.size()));
}

// The replies that count among those that this rank keeps.
std::vector<const ReplyModels*> counted(const FoldPlan& plan, int rank,
                                        const std::vector<ReplyModels>& kept) {
  std::vector<const ReplyModels*> own;
  std::size_t next = 0;
  for (const FoldItem& item : plan.items) {
    if (item.owner == rank) {
      if (item.counts != 0) {
        own.push_back(&kept.at(next));
      }
      ++next;
    }
  }
  return own;
}

// How many replies of each rank count.
std::vector<std::int64_t> counts_of(const FoldPlan& plan, int ranks) {
  std::vector<std::int64_t> counts(index(ranks));
  for (const FoldItem& item : plan.items) {
    counts[index(item.owner)] += item.counts != 0 ? 1 : 0;
  }
  return counts;
}

// That stretch of all models of these replies, one after the other.
at::Tensor cut_out(const std::vector<const ReplyModels*>& replies, const Stretch& stretch) {
  std::int64_t models = 0;
  for (const ReplyModels* reply : replies) {
    models += std::ssize(*reply);
  }
  at::Tensor cut = at::empty({models * stretch.size()}, at::kFloat);
  std::span<float> rest = floats_in(cut);
  for (const ReplyModels* reply : replies) {
    for (const State& model : *reply) {
      const std::span<float> from = part(floats_in(model.flat), stretch);
      std::ranges::copy(from, rest.begin());
      rest = rest.subspan(from.size());
    }
  }
  return cut;
}

// The segments of all ranks' replies that this rank adds up, by rank.
std::vector<at::Tensor> exchange(Ranks& ranks, std::int64_t values, std::size_t models,
                                 const std::vector<std::int64_t>& counts,
                                 const std::vector<const ReplyModels*>& own) {
  const int all = ranks.size();
  const Stretch mine = segment_of(values, ranks.rank(), all);
  std::vector<at::Tensor> segments(index(all));
  segments[index(ranks.rank())] = cut_out(own, mine);
  // All is on its way before anything is waited for, so that a silent rank keeps nobody from
  // sending.
  for (int step = 1; step < all; ++step) {
    const int to = (ranks.rank() + step) % all;
    if (const at::Tensor cut = cut_out(own, segment_of(values, to, all)); cut.numel() > 0) {
      ranks.send(to, cut);
    }
  }
  for (int step = 1; step < all; ++step) {
    const int from = (ranks.rank() + all - step) % all;
    at::Tensor& arrived = segments[index(from)];
    arrived = at::empty({counts[index(from)] * static_cast<std::int64_t>(models) * mine.size()},
                        at::kFloat);
    if (arrived.numel() > 0) {
      ranks.receive(from, arrived);
    }
  }
  return segments;
}

// This rank's segment of all means, one after the other.
at::Tensor fold_segment(const LayoutPtr& layout, const FoldPlan& plan, const Stretch& mine,
                        const std::vector<at::Tensor>& segments) {
  std::vector<PartMean> means(plan.rules.size(), PartMean(layout, mine));
  std::vector<std::span<float>> rest;
  for (const at::Tensor& segment : segments) {
    rest.push_back(floats_in(segment));
  }
  const auto size = static_cast<std::size_t>(mine.size());
  for (const FoldItem& item : plan.items) {
    if (item.counts == 0) {
      continue;
    }
    std::span<float>& values = rest[index(item.owner)];
    for (std::size_t model = 0; model < means.size(); ++model) {
      // Equal weights are 1024 each and not 1, which is a shift of the exponent: the same bits.
      means[model].add(values.first(size), part_weights(plan.rules[model], item.samples));
      values = values.subspan(size);
    }
  }
  at::Tensor folded = at::empty({std::ssize(plan.rules) * mine.size()}, at::kFloat);
  for (std::size_t model = 0; model < means.size(); ++model) {
    means[model].write(floats_in(folded).subspan(model * size, size));
  }
  return folded;
}

std::vector<State> add_up_floats(Ranks& ranks, const LayoutPtr& layout, const FoldPlan& plan,
                                 const std::vector<const ReplyModels*>& own) {
  const std::int64_t values = layout->total();
  const Stretch mine = segment_of(values, ranks.rank(), ranks.size());
  const at::Tensor folded =
      fold_segment(layout, plan, mine,
                   exchange(ranks, values, plan.rules.size(), counts_of(plan, ranks.size()), own));
  std::vector<State> means;
  if (!ranks.leads()) {
    if (folded.numel() > 0) {
      ranks.send(0, folded);
    }
    return means;
  }
  for (std::size_t model = 0; model < plan.rules.size(); ++model) {
    means.push_back(State::zeros(layout));
  }
  for (int rank = 0; rank < ranks.size(); ++rank) {
    const Stretch theirs = segment_of(values, rank, ranks.size());
    at::Tensor segment = folded;
    if (rank != 0) {
      segment = at::empty({std::ssize(means) * theirs.size()}, at::kFloat);
      if (segment.numel() > 0) {
        ranks.receive(rank, segment);
      }
    }
    const auto size = static_cast<std::size_t>(theirs.size());
    for (std::size_t model = 0; model < means.size(); ++model) {
      std::ranges::copy(floats_in(segment).subspan(model * size, size),
                        part(floats_in(means[model].flat), theirs).begin());
    }
  }
  for (State& mean : means) {
    mean.counters().round_();
  }
  return means;
}

// Words are added in any order, so each rank adds up its own replies alone.
std::vector<State> add_up_words(Ranks& ranks, const LayoutPtr& layout, const FoldPlan& plan,
                                const std::vector<const ReplyModels*>& own) {
  const std::vector<std::int64_t> counts = counts_of(plan, ranks.size());
  const auto values = static_cast<std::size_t>(layout->total());
  const auto models = plan.rules.size();
  const auto words_in = [](const at::Tensor& words) {
    return std::span<std::uint64_t>(
        reinterpret_cast<std::uint64_t*>(words.data_ptr<std::int64_t>()),
        static_cast<std::size_t>(words.numel()));
  };
  const at::Tensor sums = at::zeros({static_cast<std::int64_t>(models * values)}, at::kLong);
  std::vector<std::vector<PartWeights>> weights(index(ranks.size()),
                                                std::vector<PartWeights>(models));
  std::size_t next = 0;
  for (const FoldItem& item : plan.items) {
    if (item.counts == 0) {
      continue;
    }
    for (std::size_t model = 0; model < models; ++model) {
      const PartWeights weight = part_weights(plan.rules[model], item.samples);
      weights[index(item.owner)][model] += weight;
      if (item.owner == ranks.rank()) {
        add_words((*own[next])[model], weight, words_in(sums).subspan(model * values, values));
      }
    }
    next += item.owner == ranks.rank() ? 1 : 0;
  }
  if (!ranks.leads()) {
    if (counts[index(ranks.rank())] > 0) {
      ranks.send(0, sums);
    }
    return {};
  }
  std::vector<FixedSum> totals(models);
  for (int rank = 0; rank < ranks.size(); ++rank) {
    if (counts[index(rank)] == 0) {
      continue;
    }
    at::Tensor theirs = rank == 0 ? sums : at::empty_like(sums);
    if (rank != 0) {
      ranks.receive(rank, theirs);
    }
    for (std::size_t model = 0; model < models; ++model) {
      totals[model].add(layout, words_in(theirs).subspan(model * values, values),
                        weights[index(rank)][model]);
    }
  }
  std::vector<State> means;
  for (const FixedSum& total : totals) {
    means.push_back(total.mean());
  }
  return means;
}

}  // namespace

void put(ByteWriter& bytes, const FoldPlan& plan) {
  bytes.put(plan.form).list(plan.rules).list(plan.items);
}

FoldPlan get_fold_plan(ByteReader& bytes) {
  FoldPlan plan;
  plan.form = bytes.get<SumForm>();
  plan.rules = bytes.list<SumRule>();
  plan.items = bytes.list<FoldItem>();
  return plan;
}

Stretch segment_of(std::int64_t values, int rank, int ranks) {
  const auto border = [&](int number) {
    if (number == ranks) {
      return values;
    }
    // Nothing overflows: models have fewer than 2^40 values, jobs fewer than 2^20 ranks.
    return values * number / ranks / kAlignment * kAlignment;
  };
  return {border(rank), border(rank + 1)};
}

std::vector<State> add_up(Ranks& ranks, const LayoutPtr& layout, const FoldPlan& plan,
                          const std::vector<ReplyModels>& kept) {
  const std::vector<const ReplyModels*> own = counted(plan, ranks.rank(), kept);
  std::vector<State> means = plan.form == SumForm::fixed ? add_up_words(ranks, layout, plan, own)
                                                         : add_up_floats(ranks, layout, plan, own);
  ranks.flush();  // what is sent lives on here
  return means;
}

}  // namespace winnow
