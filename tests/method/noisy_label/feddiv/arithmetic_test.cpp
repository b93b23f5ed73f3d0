#include "winnow/method/noisy_label/feddiv/arithmetic.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "testing/support.h"

namespace winnow::feddiv::rules_test {

using testing::DoubleNear;
using testing::ElementsAre;
using testing::HasSubstr;
using Values = std::vector<double>;
using Ids = std::vector<std::int64_t>;

const std::map<std::int64_t, Contribution> kTwo{{3, {{{.1, .7}, {.01, .04}, {.8, .2}}, 100}},
                                                {8, {{{.2, .9}, {.02, .08}, {.4, .6}}, 300}}};

// spec: rivals 1.5
TEST(FedDivFilter, IsTheMeanByShares) {
  EXPECT_THAT(values_of(mean_filter(kTwo, false)),
              ElementsAre(DoubleNear(.175, 1e-12), DoubleNear(.85, 1e-12), DoubleNear(.0175, 1e-12),
                          DoubleNear(.07, 1e-12), DoubleNear(.5, 1e-12), DoubleNear(.5, 1e-12)));
}

// spec: rivals 1.5: the code weighs variances with the square of the share.
TEST(FedDivFilter, HasSmallerVariancesInTheCode) {
  const Filter filter = mean_filter(kTwo, true);
  EXPECT_NEAR(filter.variances[0], .011875, 1e-12);
  EXPECT_NEAR(filter.variances[1], .0475, 1e-12);
  EXPECT_NEAR(filter.means[1], .85, 1e-12);
}

TEST(FedDivFilter, TravelsAsSixNumbers) {
  const Filter filter = kTwo.at(3).filter;
  EXPECT_EQ(*filter_of(values_of(filter)), filter);
  EXPECT_FALSE(filter_of(Values{}));
  EXPECT_FALSE(filter_of(Values{.1, .7, .01, .04, .8}));
  EXPECT_FALSE(filter_of(Values{.1, .7, 0, .04, .8, .2})) << "no variance";
  EXPECT_FALSE(filter_of(Values{.1, .7, .01, .04, .8, .3})) << "no shares";
  EXPECT_FALSE(filter_of(Values{.1, NAN, .01, .04, .8, .2}));
}

// spec: rivals 1.3
TEST(FedDivPrior, TakesTheWorkedNumbers) {
  const Values logits{2, 0, 0, 0, 1, 0};
  const Values uniform(3, 1.0 / 3);
  EXPECT_THAT(
      next_prior(logits, uniform, {}),
      ElementsAre(DoubleNear(.466238, 1e-6), DoubleNear(.339716, 1e-6), DoubleNear(.194046, 1e-6)));
  EXPECT_THAT(local_classes(Values{1, .5, .2}, Values{.7, .2, .1}, .5), ElementsAre(2))
      << "1.178, 1.305, 1.351";
  EXPECT_THAT(local_classes(Values{1, .5, .2}, Values{.7, .2, .1}, 0.0), ElementsAre(0));
}

TEST(FedDivPrior, LooksAtConfidentSamplesOnlyInTheCode) {
  const Options literal{.literal_code = true};
  EXPECT_EQ(literal.prior_weight(), literal.m);
  EXPECT_EQ(literal.prior_momentum(), literal.xi);
  const Values uniform(2, .5);
  EXPECT_THAT(next_prior(Values{.1, 0}, uniform, literal), ElementsAre(.5, .5)) << "nobody is sure";
  const Values sure = next_prior(Values{9, 0, .1, 0}, uniform, literal);
  EXPECT_NEAR(sure[0], .5 * .5 + .5 * 1 / (1 + std::exp(-9.0)), 1e-9);
}

// Clean, clean, noisy and sure, noisy and unsure.
const Values kClean{.9, .5, .2, .1};
const Ids kGiven{0, 1, 1, 0};
const Prediction kSaid{{.9F, .6F, .75F, .7F}, {0, 1, 2, 1}};
const Ids kLocal{0, 2, 2, 1};

TEST(FedDivChoice, RelabelsAndKeepsWhatAgrees) {
  const Chosen chosen = choose(kClean, kGiven, kSaid, kLocal, 5, {});
  EXPECT_EQ(chosen.noisy, .5);
  EXPECT_THAT(chosen.suspected, ElementsAre(false, false, true, true));
  EXPECT_THAT(chosen.used, ElementsAre(true, false, true, false));
  EXPECT_THAT(chosen.label, ElementsAre(0, 1, 2, 0));
}

TEST(FedDivChoice, WaitsForItsFifthParticipation) {
  const Chosen early = choose(kClean, kGiven, kSaid, kLocal, 4, {});
  EXPECT_THAT(early.used, ElementsAre(true, true, false, false)) << "the clean ones";
  EXPECT_EQ(early.label, kGiven);
  const Chosen first = choose(kClean, kGiven, kSaid, {}, 0, {.wait = 0});
  EXPECT_THAT(first.used, ElementsAre(true, true, true, false)) << "no model of its own yet";
}

TEST(FedDivChoice, HasTheAblationsOfThePaper) {
  const auto used = [](const Options& options) {
    return choose(kClean, kGiven, kSaid, kLocal, 9, options).used;
  };
  EXPECT_THAT(used({.sampler = false}), ElementsAre(true, true, true, false));
  EXPECT_THAT(used({.relabel = false}), ElementsAre(true, false, false, false));
  EXPECT_THAT(used({.relabel = false, .sampler = false}), ElementsAre(true, true, false, false));
}

TEST(FedDivChoice, TakesAClientWithLittleNoiseAsItIs) {
  const Chosen all = choose(kClean, kGiven, kSaid, kLocal, 9, {.clean_below = .51});
  EXPECT_THAT(all.used, ElementsAre(true, true, true, true));
  EXPECT_EQ(all.label, kGiven);
  const Chosen some = choose(kClean, kGiven, kSaid, kLocal, 9, {.relabel_above = .5});
  EXPECT_THAT(some.used, ElementsAre(true, false, false, false)) << "not more than half";
  EXPECT_EQ(choose({}, {}, {}, {}, 0, {}).noisy, 0.0);
}

TEST(FedDivOptions, RefuseWhatIsOutOfRange) {
  const auto refusal = [](const Json& table) {
    return error_text([&] {
      Options options;
      Params params;
      declare(options, params);
      params.read(table, "method");
    });
  };
  EXPECT_EQ(refusal({{"filter", "local"}, {"eta", 0}}), "no error");
  EXPECT_THAT(refusal({{"filter", "server"}}), HasSubstr("one of federated, local"));
  EXPECT_THAT(refusal({{"zeta", 1.5}}), HasSubstr("method.zeta"));
}

}  // namespace winnow::feddiv::rules_test
