#include "winnow/noise/image/input_noise.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "winnow/base/error.h"
#include "winnow/data/data_set.h"
#include "winnow/noise/image/distortion.h"
#include "winnow/noise/noise.h"

namespace winnow::input_noise_test {

using ::testing::HasSubstr;

std::string error_text(const char* table) {
  try {
    parse_noise(Json::parse(table), builtin_label_noises(), builtin_distortions(), "noise.0");
  } catch (const Error& error) {
    return std::string(error.what()) + " | " + error.hint();
  }
  return "no error";
}

// 8 clients with 25 samples each of smooth colour images.
struct World {
  Assignment assign;
  Labels labels;
  at::Tensor images;
  GivenLabels given;
  Ledger ledger{7, 200, 8};

  World() : labels(200), images(at::empty({200, 3, 32, 32}, at::kByte)) {
    assign.resize(8);
    for (std::int64_t i = 0; i < 200; ++i) {
      assign[static_cast<std::size_t>(i % 8)].push_back(i);
      labels[static_cast<std::size_t>(i)] = i % 10;
    }
    auto* pixel = images.data_ptr<std::uint8_t>();
    for (std::int64_t i = 0; i < images.numel(); ++i) {
      pixel[i] = static_cast<std::uint8_t>((i % 32) * 7 + (i / 32 % 32) * 3 % 100);
    }
    given = labels_of_clients(assign, labels);
  }

  void apply(const char* table, int threads = 2, std::uint64_t block = 0) {
    std::get<InputNoise>(
        parse_noise(Json::parse(table), builtin_label_noises(), builtin_distortions(), "noise.0"))
        .apply({assign, labels, 10, 7, block}, given, images, ledger, threads);
  }
};

bool same_image(const World& a, const World& b, std::int64_t sample) {
  return a.images[sample].equal(b.images[sample]);
}

TEST(InputNoise, DistortsAnExactShareOfClientsAndSamples) {
  World before;
  World world;
  world.apply(R"({"name": "distortions", "share": 0.75, "level": 0.5, "set": "main"})");
  std::map<std::int64_t, std::int64_t> per_client;
  for (const LedgerSample& entry : world.ledger.samples()) {
    ++per_client[entry.client];
    EXPECT_FALSE(same_image(before, world, entry.sample)) << entry.kind;
    EXPECT_EQ(entry.severity, 5);
    EXPECT_EQ(entry.from, -1);
  }
  EXPECT_EQ(per_client.size(), 6U);
  for (const auto& [client, count] : per_client) {
    EXPECT_EQ(count, 12) << "floor(0.5 * 25) of client " << client;
  }
  EXPECT_EQ(world.ledger.noisy_clients().size(), 6U);
}

TEST(InputNoise, LeavesEverySampleAloneThatTheLedgerDoesNotName) {
  World before;
  World world;
  world.apply(
      R"({"name": "distortions", "share": 0.5, "level": 0.8, "set": "all", "severity": 3})");
  std::set<std::int64_t> named;
  std::set<std::string> kinds;
  for (const LedgerSample& entry : world.ledger.samples()) {
    EXPECT_TRUE(named.insert(entry.sample).second) << "one distortion per sample";
    kinds.insert(entry.kind);
  }
  for (std::int64_t sample = 0; sample < 200; ++sample) {
    if (!named.contains(sample)) {
      EXPECT_TRUE(same_image(before, world, sample));
    }
  }
  EXPECT_GT(kinds.size(), 8U) << "kinds are drawn from the whole set";
  EXPECT_EQ(world.given, before.given) << "labels stay";
}

TEST(InputNoise, DoesNotDependOnTheNumberOfThreads) {
  World one;
  World two;
  const char* table = R"({"name": "distortions", "share": 0.75, "set": "mixed"})";
  one.apply(table, 1);
  two.apply(table, 2);
  EXPECT_TRUE(one.images.equal(two.images));
  EXPECT_EQ(one.ledger.hash(), two.ledger.hash());
}

TEST(InputNoise, TwoBlocksDrawIndependently) {
  World first;
  World second;
  const char* table = R"({"name": "distortions", "kinds": ["gaussian_noise"], "clients": [0]})";
  first.apply(table, 1, 0);
  second.apply(table, 1, 1);
  EXPECT_FALSE(first.images.equal(second.images));
}

TEST(InputNoise, PatchesIgnoreTheSeverity) {
  World world;
  world.apply(R"({"name": "distortions", "kinds": ["black"], "clients": [2]})");
  for (const LedgerSample& entry : world.ledger.samples()) {
    EXPECT_EQ(entry.client, 2);
    EXPECT_EQ(entry.severity, 0);
    EXPECT_EQ(world.images[entry.sample].sum().item<std::int64_t>(), 0);
  }
}

TEST(InputNoise, ValuesReadBackTheSame) {
  const Noise noise = parse_noise(
      Json::parse(
          R"({"name": "distortions", "kinds": ["fog", "snow"], "severity": 2, "level": 0.3})"),
      builtin_label_noises(), builtin_distortions(), "noise.0");
  const Json resolved = values(noise);
  EXPECT_EQ(resolved.at("severity"), "2");
  EXPECT_EQ(values(parse_noise(resolved, builtin_label_noises(), builtin_distortions(), "noise.0")),
            resolved);
}

TEST(InputNoise, BadValuesGetOneClearLine) {
  EXPECT_THAT(error_text(R"({"name": "distortions", "severity": 6})"), HasSubstr("noise.0: "));
  EXPECT_THAT(error_text(R"({"name": "distortions", "severity": 6})"), HasSubstr("6"));
  EXPECT_THAT(error_text(R"({"name": "distortions", "set": "mian"})"),
              HasSubstr("noise.0.set = \"mian\": expected one of main, patch, mixed, all"));
  EXPECT_THAT(error_text(R"({"name": "distortions", "kinds": ["frost"]})"), HasSubstr("frost"));
  EXPECT_THAT(error_text(R"({"name": "distortions", "kinds": ["gausian_blur"]})"),
              HasSubstr("did you mean 'gaussian_blur'?"));
  EXPECT_THAT(error_text(R"({"name": "distortions", "level": 1.5})"),
              HasSubstr("noise.0.level = 1.5: expected a number from 0 to 1"));
  EXPECT_THAT(error_text(R"({"name": "distortion"})"),
              HasSubstr("noise.0: unknown noise 'distortion' | did you mean 'distortions'?"));
  EXPECT_THAT(error_text(R"({"name": "fedcorr_labels", "rho": 1.2})"),
              HasSubstr("noise.0.rho = 1.2: expected a number from 0 to 1"));
  EXPECT_THAT(error_text(R"({"rho": 1.2})"), HasSubstr("noise.0: expected a table with a name"));
}

TEST(InputNoise, EveryListedNoiseIsDescribed) {
  for (const NoiseInfo& info : noises(builtin_label_noises())) {
    bool visited = false;
    info.declared([&](const Params& params) {
      visited = true;
      EXPECT_FALSE(params.all().empty()) << info.name;
    });
    EXPECT_TRUE(visited) << info.name;
  }
}

}  // namespace winnow::input_noise_test
