#include "winnow/federation/fixed_sum.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "testing/support.h"
#include "winnow/base/random.h"
#include "winnow/federation/absence.h"
#include "winnow/federation/aggregation.h"

namespace winnow::fixed_sum_test {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

std::vector<std::uint64_t> words_of(const State& model, const PartWeights& weights) {
  std::vector<std::uint64_t> words(static_cast<std::size_t>(model.layout->total()));
  add_words(model, weights, words);
  return words;
}

State mean_of(const std::vector<std::pair<State, PartWeights>>& parts) {
  FixedSum sum;
  for (const auto& [state, weights] : parts) {
    sum.add(state, weights);
  }
  return sum.mean();
}

State random_state(std::uint64_t seed, std::int64_t size = 1000) {
  State state = State::zeros(
      std::make_shared<const Layout>(std::vector<Slot>{{"w", {size}, SlotKind::parameter, 0, 0}}));
  Stream stream(seed, "test");
  for (std::int64_t i = 0; i < size; ++i) {
    state.flat[i] = stream.normal() * std::pow(10.0, stream.uniform(-6.0, 3.0));
  }
  return state.clone();
}

// 0.5 * 3 * 2^20 = 1572864; -0.25 * 7 * 2^20 = -1835008; 3 * 7 batches = 21.
TEST(FixedSum, WordsAreTheWorkedNumbers) {
  const State model = state_of({0.5F}, {-0.25F}, {3});
  EXPECT_EQ(words_of(model, {3, 7}),
            (std::vector<std::uint64_t>{1572864, 0 - std::uint64_t{1835008}, 21}));
  // 2^-21 with weight 1 is half a step of the grid, 3 * 2^-21 one and a half: both go to even.
  EXPECT_EQ(words_of(state_of({0x1p-21F, 0x1.8p-20F, -0x1p-21F}), {1, 1}),
            (std::vector<std::uint64_t>{0, 2, 0}));
}

// (1 * 100 + 3 * 300) / 400 = 2.5; statistics by other weights: (1 * 1 + 2 * 3) / 4 = 1.75.
TEST(FixedSum, MeansAreTheWorkedNumbers) {
  EXPECT_EQ(values_of(mean_of({{state_of({1}), {100, 100}}, {state_of({3}), {300, 300}}})),
            std::vector<float>{2.5F});
  EXPECT_EQ(values_of(mean_of(
                {{state_of({2}, {1}, {10}), {1024, 1}}, {state_of({4}, {2}, {13}), {1024, 3}}})),
            (std::vector<float>{3.0F, 1.75F, 12.0F}))
      << "the counter is (10 + 3 * 13) / 4 = 12.25, rounded";
}

TEST(FixedSum, IsFreeOfOrderAndOfGroups) {
  std::vector<std::pair<State, PartWeights>> parts;
  for (std::uint64_t k = 0; k < 7; ++k) {
    const auto weight = static_cast<std::int64_t>(1 + 91 * k);
    parts.emplace_back(random_state(k), PartWeights{weight, weight});
  }
  const std::string expected = hash(mean_of(parts));
  std::ranges::reverse(parts);
  EXPECT_EQ(hash(mean_of(parts)), expected);
  FixedSum both;
  for (const auto& [first, last] : {std::pair<std::size_t, std::size_t>{0, 3}, {3, 7}}) {
    std::vector<std::uint64_t> words(1000);
    PartWeights weights;
    for (std::size_t k = first; k < last; ++k) {
      add_words(parts[k].first, parts[k].second, words);
      weights += parts[k].second;
    }
    both.add(parts.front().first.layout, words, weights);
  }
  EXPECT_EQ(hash(both.mean()), expected) << "sums of sums";
  EXPECT_TRUE(both.plausible());
}

// The grid is 2^-20 / w for each, so the mean is off by at most half of that.
TEST(FixedSum, IsAsNearToTheMeanInDoubleAsTheGridIsFine) {
  const State a = random_state(1);
  const State b = random_state(2);
  WeightedMean exact;
  exact.add(a, 100);
  exact.add(b, 300);
  const State mean = mean_of({{a, {100, 100}}, {b, {300, 300}}});
  const at::Tensor apart = (mean.flat - exact.finish().flat).abs();
  // Half a step of each, over both weights, and the last bit of a float.
  const at::Tensor most = mean.flat.abs() * 1.2e-7 + std::ldexp(1.0, -20) / 400.0;
  EXPECT_TRUE((apart <= most).all().item<bool>());
}

TEST(FixedSum, MasksThatCancelLeaveTheSumAsItIs) {
  const State a = random_state(3);
  const State b = random_state(4);
  std::vector<std::uint64_t> first = words_of(a, {5, 5});
  std::vector<std::uint64_t> second = words_of(b, {9, 9});
  Stream masks(5, "masks");
  for (std::size_t i = 0; i < first.size(); ++i) {
    const std::uint64_t mask = masks.next_u64();
    first[i] += mask;
    second[i] -= mask;
  }
  FixedSum half;
  half.add(a.layout, first, {5, 5});
  EXPECT_FALSE(half.plausible()) << "a word under a mask is any word";
  half.add(a.layout, second, {9, 9});
  EXPECT_TRUE(half.plausible());
  EXPECT_EQ(hash(half.mean()), hash(mean_of({{a, {5, 5}}, {b, {9, 9}}})));
}

// 2^20 * 2^12 * 2^30 = 2^62: the largest sum there is, of either sign.
TEST(FixedSum, TheLargestSumThatIsAllowedIsExact) {
  EXPECT_EQ(words_of(state_of({4096, -4096}, {}, {16777216}), {kMostWeight, kMostWeight}),
            (std::vector<std::uint64_t>{std::uint64_t{1} << 62, 0 - (std::uint64_t{1} << 62),
                                        std::uint64_t{1} << 54}));
  FixedSum sum;
  const State largest = state_of({4096, -4096}, {}, {16777216});
  for (int k = 0; k < 4; ++k) {
    sum.add(largest, {kMostWeight / 4, kMostWeight / 4});
  }
  EXPECT_TRUE(sum.plausible());
  EXPECT_EQ(values_of(sum.mean()), values_of(largest));
  EXPECT_EQ(error_text([&] {
              sum.add(largest, {1, 0});
            }),
            "the weights of a sum add up to more than 1073741824 | set federation.sums = "
            "\"float\", or let fewer clients take part in a round");
}

TEST(FixedSum, SaysWhichValueDoesNotFit) {
  EXPECT_EQ(unfit_value(state_of({4096, -4096}, {0}, {16777216})), "");
  EXPECT_EQ(unfit_value(state_of({1, 4096.5F})),
            "w holds 4096.5, a sum takes values from -4096 to 4096");
  EXPECT_EQ(unfit_value(state_of({1}, {-5000})),
            "b holds -5000, a sum takes values from -4096 to 4096");
  EXPECT_EQ(unfit_value(state_of({1}, {}, {-1})),
            "c holds -1, a sum takes values from 0 to 16777216");
  EXPECT_EQ(unfit_value(state_of({kNaN})), "w holds nan, a sum takes values from -4096 to 4096");
  EXPECT_EQ(unfit_value(state_of({-kInfinity})),
            "w holds -inf, a sum takes values from -4096 to 4096");
}

TEST(FixedSum, APartWithoutWeightIsZero) {
  EXPECT_EQ(values_of(mean_of({{state_of({3}, {5}), {0, 4}}})), (std::vector<float>{0, 5}));
  EXPECT_EQ(part_weights({Weighting::equal, Weighting::samples}, 7).parameters, 1024);
  EXPECT_EQ(part_weights({Weighting::equal, Weighting::samples}, 7).buffers, 7);
}

// Asking for sums.
// ---------------------------------------------------------------------------------

const std::vector<FieldRule> kReply{field::trained_model().summed(Weighting::samples),
                                    field::samples()};

// Client k has k + 1 samples and sends the model {k}, client 3 one that does not fit.
FakeFleet sending_fleet() {
  return {{1, 2, 3, 4, 5}, [](std::int64_t client, const Message&) {
            return Message("train_done")
                .set("model", state_of({client == 3 ? 5000.0F : static_cast<float>(client)}))
                .set("samples", static_cast<std::uint32_t>(client + 1));
          }};
}

std::vector<Order> five_orders() {
  std::vector<Order> orders;
  for (std::int64_t client = 0; client < 5; ++client) {
    orders.push_back({client, Message("train")});
  }
  return orders;
}

TEST(Fleet, SumsHoldWhoCountsAndNobodyElse) {
  FakeFleet fleet = sending_fleet();
  std::vector<std::int64_t> heard;
  const Sums sums = fleet.ask_for_sums(
      five_orders(), kReply, SumForm::fixed, [&](std::int64_t client, const Message& numbers) {
        heard.push_back(client);
        EXPECT_FALSE(numbers.has("model"));
        EXPECT_EQ(numbers.get<std::uint32_t>("samples"), client + 1);
        return client != 1;
      });
  EXPECT_EQ(heard, (std::vector<std::int64_t>{4, 2, 1, 0})) << "in the fleet's order";
  EXPECT_EQ(sums.added, (std::vector<std::int64_t>{0, 2, 4}));
  EXPECT_EQ(sums.rejected, (std::vector<std::int64_t>{3, 1}));
  EXPECT_TRUE(sums.absent.empty());
  // (0 * 1 + 2 * 3 + 4 * 5) / 9
  EXPECT_FLOAT_EQ(values_of(sums.mean("model"))[0], 26.0F / 9.0F);
}

TEST(Fleet, FloatingSumsAreTheWeightedMeanOfWhatIsFinite) {
  const auto value = [](std::int64_t client) {
    return client == 3 ? std::numeric_limits<float>::infinity() : 0.1F * static_cast<float>(client);
  };
  FakeFleet fleet({1, 2, 3, 4, 5}, [&](std::int64_t client, const Message&) {
    return Message("train_done")
        .set("model", state_of({value(client), 5000.0F}))
        .set("samples", static_cast<std::uint32_t>(client + 1));
  });
  const Sums sums =
      fleet.ask_for_sums(five_orders(), kReply, SumForm::floating,
                         [](std::int64_t client, const Message&) { return client != 1; });
  EXPECT_EQ(sums.added, (std::vector<std::int64_t>{0, 2, 4})) << "5000 fits";
  EXPECT_EQ(sums.rejected, (std::vector<std::int64_t>{3, 1}));
  WeightedMean mean;
  for (const std::int64_t client : {4, 2, 0}) {
    mean.add(state_of({value(client), 5000.0F}), static_cast<double>(client + 1));
  }
  EXPECT_TRUE(at::equal(sums.mean("model").flat, mean.finish().flat));
}

// It says that it forms sums, which a simulation with absences passes on.
class FormingFleet final : public Fleet {
 public:
  std::int64_t size() const override { return 0; }
  std::int64_t samples(std::int64_t) const override { return 0; }
  std::vector<Absence> ask(const std::vector<Order>&, const Fold&) override { return {}; }
  const Traffic& traffic() const override { return traffic_; }
  bool forms_sums() const override { return true; }

 private:
  Traffic traffic_;
};

TEST(AbsentFleet, FormsSumsAsTheFleetBelowDoes) {
  FakeFleet plain = sending_fleet();
  FormingFleet forming;
  EXPECT_FALSE(AbsentFleet(plain, 0.0, 7).forms_sums());
  EXPECT_TRUE(AbsentFleet(forming, 0.0, 7).forms_sums());
}

TEST(AbsentFleet, SumsCountAsOneAsk) {
  FakeFleet inner = sending_fleet();
  AbsentFleet fleet(inner, 0.0, 7,
                    {{{4, 0, 2}, AbsenceReason::late}, {{4, 1, 0}, AbsenceReason::silent}});
  const auto all = [](std::int64_t, const Message&) { return true; };
  fleet.begin(4);
  const Sums first = fleet.ask_for_sums(five_orders(), kReply, SumForm::fixed, all);
  EXPECT_EQ(first.absent, (std::vector<Absence>{{2, AbsenceReason::late}}));
  EXPECT_EQ(first.added, (std::vector<std::int64_t>{0, 1, 4}));
  const Sums second = fleet.ask_for_sums(five_orders(), kReply, SumForm::fixed, all);
  EXPECT_EQ(second.absent, (std::vector<Absence>{{0, AbsenceReason::silent}}));
  EXPECT_EQ(fleet.absences().size(), 2U);
  const Sums third = fleet.ask_for_sums({}, kReply, SumForm::fixed, all);
  EXPECT_TRUE(third.means.empty());
}

}  // namespace winnow::fixed_sum_test
