#include "winnow/noise/noise_alias.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "testing/errors.h"
#include "winnow/base/error.h"

namespace winnow::noise_alias_test {

using ::testing::HasSubstr;

Json resolved(const char* text) {
  return values(
      parse_noise(Json::parse(text), builtin_label_noises(), builtin_distortions(), "noise.0"));
}

std::string refused(const char* text) {
  return error_text([&] {
    parse_noise(Json::parse(text), builtin_label_noises(), builtin_distortions(), "noise.0");
  });
}

TEST(NoiseAlias, SymmetricAndPairflipAreOneRateForAllClients) {
  EXPECT_EQ(resolved(R"({"name": "symmetric", "rate": 0.4})"),
            resolved(R"({"name": "fedrn_labels", "type": "symmetric", "low": 0.4, "high": 0.4})"));
  const Json pairflip =
      resolved(R"({"name": "fedrn_labels", "type": "pairflip", "low": 0.2, "high": 0.2})");
  EXPECT_EQ(resolved(R"({"name": "pairflip", "rate": 0.2})"), pairflip);
  EXPECT_EQ(resolved(R"({"name": "pair", "rate": 0.2})"), pairflip);
}

TEST(NoiseAlias, KeepsWhichClientsTheBlockIsFor) {
  EXPECT_EQ(resolved(R"({"name": "symmetric", "rate": 0.4, "share": 0.5})").at("share"), 0.5);
  EXPECT_EQ(resolved(R"({"name": "pair", "rate": 0.4, "clients": [1]})").at("clients"), Json({1}));
}

TEST(NoiseAlias, AsymmetricIsATransitionMatrix) {
  EXPECT_EQ(resolved(R"({"name": "asymmetric", "matrix": [[0.9, 0.1], [0, 1]]})"),
            resolved(R"({"name": "transition_matrix", "matrix": [[0.9, 0.1], [0, 1]]})"));
  EXPECT_THAT(refused(R"({"name": "asymmetric"})"),
              HasSubstr("noise.0: expected either file or matrix | matrix = "));
}

TEST(NoiseAlias, SaysWhatItNeeds) {
  EXPECT_EQ(
      refused(R"({"name": "symmetric"})"),
      "noise.0: symmetric needs a rate | rate = 0.4 makes 40 % of every client's labels wrong");
  EXPECT_THAT(refused(R"({"name": "pairflip", "rate": 1.5})"),
              HasSubstr("noise.0.rate = 1.5: expected a number from 0 to 1"));
  EXPECT_THAT(refused(R"({"name": "symmetric", "rate": 0.4, "low": 0.1})"),
              HasSubstr("unknown key 'noise.0.low' | known: name, rate, clients, share"));
}

TEST(NoiseAlias, HasNoNameOfTheTable) {
  for (const NoiseAlias& alias : noise_aliases()) {
    EXPECT_EQ(std::ranges::count(noises(builtin_label_noises()), alias.info.name, &NoiseInfo::name),
              0);
  }
}

TEST(NoiseAlias, IsSuggestedForWordsPeopleUse) {
  EXPECT_THAT(refused(R"({"name": "sym"})"),
              HasSubstr("unknown noise 'sym' | did you mean 'symmetric'?"));
  EXPECT_THAT(refused(R"({"name": "symetric"})"), HasSubstr("did you mean 'symmetric'?"));
  EXPECT_THAT(refused(R"({"name": "pair_flip"})"), HasSubstr("did you mean 'pairflip'?"));
}

TEST(NoiseAlias, NoNoiseOfOnesOwnCanTakeItsName) {
  LabelNoises noises = builtin_label_noises();
  std::vector<std::string> taken{InputNoise::kName};
  for (const NoiseAlias& alias : noise_aliases()) {
    taken.push_back(alias.info.name);
  }
  for (const std::string& name : taken) {
    EXPECT_EQ(error_text([&] {
                noises.add({name, "mine", nullptr});
              }),
              "there are two noises named '" + name + "'");
  }
}

}  // namespace winnow::noise_alias_test
