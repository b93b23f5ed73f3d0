#include "winnow/experiment/world.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "run/small_run.h"
#include "winnow/data/image_files.h"
#include "winnow/judge/judge.h"
#include "winnow/run/notices.h"
#include "winnow/run/session.h"

namespace winnow::world_test {

Experiment small(const Json& method, const char* noise) {
  Json tree = Json::parse(R"({"seed": 5, "rounds": 2,
    "data": {"name": "synthetic", "samples": 600, "test_samples": 100, "classes": 4, "size": 16},
    "federation": {"clients": 6, "fraction": 0.5}, "train": {"epochs": 1}})");
  tree["method"] = method;
  tree["noise"] = Json::parse(noise);
  return parse_experiment(tree, builtin_registry());
}

constexpr const char* kLabels = R"([{"name": "fedcorr_labels", "rho": 1.0, "tau": 1.0}])";
constexpr const char* kBoth = R"([{"name": "fedrn_labels", "low": 0.5, "high": 0.5},
                                  {"name": "distortions", "level": 0.5, "share": 0.5}])";

std::int64_t right_samples(const World& world) {
  std::int64_t right = 0;
  for (const ClientData& client : world.clients) {
    for (std::size_t i = 0; i < client.samples.size(); ++i) {
      right +=
          client.given[i] == world.data.train.labels[static_cast<std::size_t>(client.samples[i])];
    }
  }
  return right;
}

std::int64_t all_samples(const World& world) {
  std::int64_t sum = 0;
  for (const ClientData& client : world.clients) {
    sum += static_cast<std::int64_t>(client.samples.size());
  }
  return sum;
}

TEST(World, TheOracleHoldsExactlyTheRightSamples) {
  const World noisy = make_world(small("fedavg", kLabels), builtin_registry());
  const World oracle = make_world(small("oracle", kLabels), builtin_registry());
  EXPECT_LT(right_samples(noisy), all_samples(noisy));
  EXPECT_EQ(all_samples(oracle), right_samples(noisy));
  EXPECT_EQ(right_samples(oracle), all_samples(oracle));
  // Redrawn over all 4 classes, about a quarter stays right (spec: baselines 27).
  EXPECT_NEAR(static_cast<double>(all_samples(oracle)) / 600.0, 0.25, 0.07);
}

TEST(World, TheOracleLeavesOutDistortedImages) {
  const World noisy = make_world(small("fedavg", kBoth), builtin_registry());
  const World oracle = make_world(small("oracle", kBoth), builtin_registry());
  std::set<std::int64_t> distorted;
  for (const LedgerSample& entry : noisy.ledger.samples()) {
    if (entry.kind != "label") {
      distorted.insert(entry.sample);
    }
  }
  EXPECT_EQ(distorted.size(), 150U);
  for (const ClientData& client : oracle.clients) {
    for (const std::int64_t sample : client.samples) {
      EXPECT_FALSE(distorted.contains(sample));
    }
  }
}

// All samples at one place, with exactly the federation's noise.
TEST(World, CentralisedHasTheSamplesAndTheNoiseOfTheFederation) {
  Experiment experiment = small("fedavg", kBoth);
  const World federated = make_world(experiment, builtin_registry());
  const std::string before = experiment.hash();
  experiment.federation.centralised = true;
  EXPECT_NE(experiment.hash(), before);
  const World world = make_world(experiment, builtin_registry());
  ASSERT_EQ(world.clients.size(), 1U);
  std::map<std::int64_t, std::int64_t> given;
  for (const ClientData& client : federated.clients) {
    for (std::size_t i = 0; i < client.samples.size(); ++i) {
      given[client.samples[i]] = client.given[i];
    }
  }
  ASSERT_EQ(world.clients[0].samples.size(), given.size());
  for (std::size_t i = 0; i < given.size(); ++i) {
    EXPECT_EQ(world.clients[0].given[i], given.at(world.clients[0].samples[i]));
  }
  EXPECT_EQ(right_samples(world), right_samples(federated));
  EXPECT_TRUE(world.data.train.images.equal(federated.data.train.images)) << "distorted alike";
  EXPECT_EQ(world.ledger.samples().size(), federated.ledger.samples().size());
  EXPECT_EQ(world.ledger.clients().size(), 2U) << "one line a block";
  EXPECT_EQ(world.ledger.noisy_clients(), std::set<std::int64_t>{0});
  // The noise is that of the ids before: an oracle leaves out the same samples.
  experiment = small("oracle", kBoth);
  const std::int64_t right = all_samples(make_world(experiment, builtin_registry()));
  experiment.federation.centralised = true;
  EXPECT_EQ(all_samples(make_world(experiment, builtin_registry())), right);
}

TEST(World, CentralisedTrainsOneClientInEveryRound) {
  Experiment experiment = small("fedavg", kLabels);
  experiment.federation.centralised = true;
  Session session(experiment, builtin_registry(), {.lanes = 1, .device = "cpu"}, nullptr);
  const Session::Played played = session.play();
  EXPECT_EQ(played.record.traffic.participations, 1);
  EXPECT_EQ(played.record.traffic.client_steps, 60) << "600 samples in batches of 10";
  EXPECT_EQ(played.notes.at("clients"), Json{0});
}

TEST(World, WithoutNoiseTheOracleIsTheBaseMethodBitForBit) {
  const Registry registry = builtin_registry();
  for (const Json& table : {Json{{"name", "fedavg"}}, Json{{"name", "scaffold"}},
                            Json{{"name", "trimmed_mean"}, {"trim", 0.34}}}) {
    Session base(small(table, "[]"), registry, {.lanes = 1, .device = "cpu"}, nullptr);
    Session oracle(small({{"name", "oracle"}, {"base", table}}, "[]"), registry,
                   {.lanes = 1, .device = "cpu"}, nullptr);
    EXPECT_EQ(base.play().record.hash, oracle.play().record.hash) << table;
    EXPECT_EQ(base.play().record.hash, oracle.play().record.hash) << table;
  }
}

TEST(World, ClientsWithoutSamplesAreSkipped) {
  // Every label of clients 0 to 4 is wrong: the oracle has one client left to train.
  const char* noise = R"([{"name": "clipfl_labels", "rho": 1.0, "mu": 1.0,
                           "clients": [0, 1, 2, 3, 4]}])";
  Session session(small("oracle", noise), builtin_registry(), {.lanes = 2, .device = "cpu"},
                  nullptr);
  EXPECT_EQ(all_samples(session.world()), 100);
  const Session::Played played = session.play();
  EXPECT_EQ(played.notes.at("clients"), Json::array({5}));
  EXPECT_EQ(played.record.traffic.participations, 1);
}

// A file with a wrong label for every fifth of the first 300 samples of the small experiment.
std::filesystem::path write_given(const TestFolder& folder) {
  const World clean = make_world(small("fedavg", "[]"), builtin_registry());
  std::string text;
  for (std::size_t i = 0; i < clean.data.train.labels.size(); ++i) {
    const bool wrong = i < 300 && i % 5 == 0;
    text += std::to_string((clean.data.train.labels[i] + (wrong ? 1 : 0)) % 4) + "\n";
  }
  write_file_whole(folder / "given.csv", text);
  return folder / "given.csv";
}

TEST(World, GivenLabelsCountAsNoiseJustAsHumanLabelsDo) {
  const TestFolder folder;
  const std::string file = write_given(folder).string();
  Experiment given = small("fedavg", "[]");
  given.data.given_labels = file;
  Experiment human = small("fedavg", "[]");
  human.noise = {
      LabelNoise::parse({{"name", "human_labels"}, {"file", file}}, builtin_label_noises())};
  // Few samples each, so that some clients hold right labels alone.
  for (Experiment* experiment : {&given, &human}) {
    experiment->federation.clients = 60;
  }
  const World one = make_world(given, builtin_registry());
  const World other = make_world(human, builtin_registry());
  EXPECT_FALSE(one.ledger.noisy_clients().empty());
  EXPECT_LT(one.ledger.noisy_clients().size(), 60U);
  EXPECT_EQ(one.ledger.noisy_clients(), other.ledger.noisy_clients());
  ASSERT_EQ(one.ledger.samples().size(), 60U);
  for (std::size_t i = 0; i < 60; ++i) {
    LedgerSample entry = one.ledger.samples()[i];
    EXPECT_EQ(entry.block, kGivenLabelsBlock);
    entry.block = 0;
    EXPECT_EQ(entry, other.ledger.samples().at(i));
  }
  ASSERT_EQ(one.ledger.clients().size(), other.ledger.clients().size());
  for (std::size_t i = 0; i < one.ledger.clients().size(); ++i) {
    LedgerClient entry = one.ledger.clients()[i];
    EXPECT_EQ(entry.name, "given_labels");
    entry.name = "human_labels";
    entry.block = 0;
    EXPECT_EQ(entry, other.ledger.clients()[i]);
  }
  const Findings findings{.flagged = std::vector<std::int64_t>{0, 1}};
  EXPECT_EQ(judge(one, findings, {}), judge(other, findings, {}));
}

TEST(World, GivenLabelsAndHumanLabelsTrainTheSameModel) {
  const TestFolder folder;
  Experiment given = small("fedavg", "[]");
  given.data.given_labels = write_given(folder).string();
  Experiment human = small("fedavg", "[]");
  human.noise = {LabelNoise::parse({{"name", "human_labels"}, {"file", given.data.given_labels}},
                                   builtin_label_noises())};
  Session one(given, builtin_registry(), on_cpu(), nullptr);
  Session other(human, builtin_registry(), on_cpu(), nullptr);
  EXPECT_EQ(one.play().record.hash, other.play().record.hash);
}

TEST(World, NoiseAfterGivenLabelsStartsFromThem) {
  const TestFolder folder;
  Experiment experiment = small("fedavg", kBoth);
  experiment.data.given_labels = write_given(folder).string();
  const World world = make_world(experiment, builtin_registry());
  EXPECT_EQ(world.ledger.samples().front().block, kGivenLabelsBlock);
  EXPECT_EQ(world.ledger.samples().back().block, 1);
  EXPECT_EQ(Ledger::parse(world.ledger.text(), "ledger").hash(), world.ledger.hash());
}

// Twenty photographs over two clients.
Experiment of_photos(const TestFolder& folder, const Json& more = Json::object()) {
  write_photos(folder / "photos", 2, 10);
  Json tree = Json::parse(R"({"rounds": 1, "federation": {"clients": 2, "fraction": 1},
      "data": {"name": "image-folder", "image_size": 8}, "model": {"resize": 16}})");
  tree["data"]["path"] = (folder / "photos").string();
  tree.merge_patch(more);
  return parse_experiment(tree, builtin_registry());
}

TEST(World, OfUncheckedLabelsOnlyWhatIsInjectedIsKnown) {
  if (!can_decode_images()) {
    GTEST_SKIP() << "built without OpenCV";
  }
  const TestFolder folder;
  const World found = make_world(of_photos(folder), builtin_registry());
  EXPECT_FALSE(found.truth_known);
  EXPECT_FALSE(found.only_injected);
  EXPECT_TRUE(found.test_unchecked) << "it is a fifth of the same folder";
  const World noisy =
      make_world(of_photos(folder, {{"noise", {{{"name", "clipfl_labels"}}}}}), builtin_registry());
  EXPECT_TRUE(noisy.truth_known);
  EXPECT_TRUE(noisy.only_injected);
  EXPECT_TRUE(noisy.test_unchecked);
  // Who says what the clients see instead vouches for the labels of the folder.
  write_file_whole(folder / "given.txt", "0\n0\n0\n0\n0\n0\n0\n0\n1\n1\n1\n1\n1\n1\n1\n1\n");
  const Json file = (folder / "given.txt").string();
  for (const Json& more : {Json{{"data", {{"given_labels", file}}}},
                           Json{{"noise", {{{"name", "human_labels"}, {"file", file}}}}}}) {
    const World given = make_world(of_photos(folder, more), builtin_registry());
    EXPECT_TRUE(given.truth_known) << more;
    EXPECT_FALSE(given.only_injected) << more;
    EXPECT_FALSE(given.test_unchecked) << more;
  }
  const World held =
      make_world(of_photos(folder, {{"validation", {{"source", "split"}, {"share", 0.5}}}}),
                 builtin_registry());
  EXPECT_TRUE(held.validation_unchecked);
  EXPECT_FALSE(found.validation_unchecked);
  EXPECT_FALSE(make_world(small("fedavg", "[]"), builtin_registry()).test_unchecked);
}

TEST(World, ATestFolderOfItsOwnIsTakenAsChecked) {
  if (!can_decode_images()) {
    GTEST_SKIP() << "built without OpenCV";
  }
  const TestFolder folder;
  write_photos(folder / "photos" / "train", 2, 10);
  write_photos(folder / "photos" / "test", 2, 2);
  Json data{{"name", "image-folder"}, {"image_size", 8}, {"path", (folder / "photos").string()}};
  const World world = make_world(
      parse_experiment({{"data", data}, {"federation", {{"clients", 2}}}}, builtin_registry()),
      builtin_registry());
  EXPECT_FALSE(world.truth_known);
  EXPECT_FALSE(world.test_unchecked);
}

TEST(World, ColumnsOfAListThatNothingReadsAreNamedOnce) {
  if (!can_decode_images()) {
    GTEST_SKIP() << "built without OpenCV";
  }
  const TestFolder folder;
  write_photos(folder / "photos", 2, 10);
  std::string list = "label,path,site,age\n";
  for (int i = 10; i < 20; ++i) {
    list += "cat,a/" + std::to_string(i) + ".png,north,3\nbig dog,b/" + std::to_string(i) +
            ".png,south,4\n";
  }
  const std::filesystem::path file = folder / "photos/list.csv";
  write_file_whole(file, list);
  Json data{{"name", "image-list"}, {"image_size", 8}, {"path", file.string()}};
  data["list_test"] = file.string();
  const Experiment experiment =
      parse_experiment({{"data", data}, {"federation", {{"clients", 2}}}}, builtin_registry());
  const World world = make_world(experiment, builtin_registry());
  EXPECT_EQ(world.data.class_names, (std::vector<std::string>{"big dog", "cat"}));
  EXPECT_EQ(data_notices(experiment, world),
            (std::vector<std::string>{
                file.string() + ": of its columns only path and label are used, not site, age"}));
}

TEST(World, NoiseTouchesTrainingDataOnly) {
  const World clean = make_world(small("fedavg", "[]"), builtin_registry());
  const World noisy = make_world(small("fedavg", kBoth), builtin_registry());
  EXPECT_TRUE(clean.data.test.images.equal(noisy.data.test.images));
  EXPECT_EQ(clean.data.test.labels, noisy.data.test.labels);
  EXPECT_EQ(clean.data.train.labels, noisy.data.train.labels);
  EXPECT_FALSE(clean.data.train.images.equal(noisy.data.train.images));
}

}  // namespace winnow::world_test
