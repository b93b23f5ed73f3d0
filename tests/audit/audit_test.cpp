#include "winnow/audit/audit.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "run/small_run.h"
#include "testing/errors.h"
#include "winnow/audit/condition.h"
#include "winnow/audit/noise_kinds.h"
#include "winnow/audit/output.h"
#include "winnow/audit/run_evidence.h"
#include "winnow/data/npz.h"
#include "winnow/experiment/relabel.h"
#include "winnow/method/audit/audit/rows.h"
#include "winnow/run/runner.h"

namespace winnow::audit_test {

using ::testing::HasSubstr;

// Easy patterns, a fifth of the labels of two of six clients wrong.
Json easy_tree(const std::string& noise) {
  return parse_toml(R"(
name = "audit"
rounds = 10
[data]
name = "synthetic"
samples = 720
test_samples = 10
classes = 4
size = 16
difficulty = 0.1
[federation]
clients = 6
fraction = 1.0
[model]
name = "lenet5"
[train]
epochs = 5
batch_size = 16
lr = 0.05
label_smoothing = 0.1
)" + noise,
                    "easy");
}

Experiment easy(const std::string& noise) {
  return parse_experiment(easy_tree(noise), builtin_registry());
}

const char* const kWrongLabels = R"(
[[noise]]
name = "symmetric"
rate = 0.4
clients = [1, 4]
)";

Audit audit_of(const Experiment& experiment, const World& world, AuditOptions options = {}) {
  options.judge.folds = 3;
  return audit_world(experiment, world, options, builtin_registry(), {.lanes = 1, .device = "cpu"},
                     nullptr, [](std::int64_t, std::int64_t, double) {});
}

TEST(Audit, FindsWrongLabelsOfClientsThatNoModelSaw) {
  const Experiment experiment = easy(kWrongLabels);
  const World world = make_world(experiment, builtin_registry());
  const Audit audit = audit_of(experiment, world, {.plant = 0.0});
  ASSERT_TRUE(audit.quality.labels);
  EXPECT_GE(audit.quality.labels->recall.value_or(0), 0.85);
  EXPECT_GE(audit.quality.labels->precision.value_or(0), 0.8);
  EXPECT_NEAR(audit.findings.noise_rate, *audit.quality.true_noise_rate, 0.05);
  ASSERT_TRUE(audit.quality.labels_by_sums);
  EXPECT_EQ(audit.quality.labels_by_sums->flagged,
            std::ranges::count(audit.findings.issues_by_sums, true));
  EXPECT_EQ(audit.quality.labels_by_sums->wrong, audit.quality.labels->wrong);
  EXPECT_NEAR(audit.findings.confident_rate, *audit.quality.true_noise_rate, 0.1);
  for (const std::size_t noisy : {1, 4}) {
    EXPECT_NEAR(audit.findings.clients[noisy].noise_rate, 0.4, 0.1);
    EXPECT_NEAR(audit.findings.clients[noisy].kind.rate, 0.4, 0.12);
    EXPECT_NE(audit.findings.clients[noisy].kind.kind, NoiseKind::none);
  }
  for (const std::size_t clean : {0, 2, 3, 5}) {
    EXPECT_EQ(audit.findings.clients[clean].kind.kind, NoiseKind::none);
  }
  double sum = 0.0;
  for (const double p : audit.findings.clients[1].probabilities) {
    sum += p;
  }
  EXPECT_NEAR(sum, 1.0, 1e-9);
}

TEST(Audit, TheSameSeedGivesTheSameFiles) {
  const Experiment experiment = easy(kWrongLabels);
  const World world = make_world(experiment, builtin_registry());
  const Audit one = audit_of(experiment, world);
  const Audit other = audit_of(experiment, world);
  EXPECT_EQ(samples_csv(one, world), samples_csv(other, world));
  EXPECT_EQ(clients_csv(one, world), clients_csv(other, world));
  EXPECT_EQ(audit_json(one, world, experiment, {}).dump(),
            audit_json(other, world, experiment, {}).dump());
}

TEST(Audit, PlantedErrorsAreFoundAndTakenOut) {
  const Experiment experiment = easy("");
  const World world = make_world(experiment, builtin_registry());
  const at::Tensor before = world.data.train.images.clone();
  const Audit audit = audit_of(experiment, world, {.plant = 0.05});
  EXPECT_EQ(audit.quality.planted_labels, 36);
  EXPECT_EQ(audit.quality.planted_images, 36);
  EXPECT_EQ(audit.held.size(), 720U - 72U);
  EXPECT_GE(audit.quality.planted_label_recall.value_or(0), 0.85);
  EXPECT_TRUE(at::equal(world.data.train.images, before)) << "only a copy is changed";
  for (const HeldSample& sample : audit.held) {
    EXPECT_EQ(sample.given, world.data.train.labels[static_cast<std::size_t>(sample.sample)]);
  }
}

TEST(Audit, OneOwnersSamplesAreJudgedByModelsThatDidNotSeeThem) {
  Experiment experiment = easy("");
  experiment.federation.clients = 1;
  const World world = make_world(experiment, builtin_registry());
  const Audit audit = audit_of(experiment, world, {.judge = {.in_sample = true}, .plant = 0.0});
  EXPECT_FALSE(audit.over_clients);
  EXPECT_EQ(audit.findings.clients.size(), 1U);
  EXPECT_EQ(audit.findings.judged, 720);
  EXPECT_EQ(audit.in_sample_issues.size(), 720U);
  EXPECT_THAT(audit.warnings, ::testing::Contains(HasSubstr("there is one owner only")));
}

TEST(Audit, WhatItsFindingsWereMadeOfCanBeKept) {
  const TestFolder folder;
  const Experiment experiment = easy(kWrongLabels);
  const World world = make_world(experiment, builtin_registry());
  const Audit audit = audit_of(experiment, world, {.judge = {.repetitions = 2}, .plant = 0.0});
  write_judgement(audit, world, folder / "judgement.npz");
  const NpzFile file(folder / "judgement.npz");
  EXPECT_EQ(file.array("p").shape(), (std::vector<std::int64_t>{2, 720, 4}));
  EXPECT_EQ(file.array("model").shape(), (std::vector<std::int64_t>{2, 720}));
  double wrong = 0.0;
  for (std::size_t i = 0; i < 720; ++i) {
    double sum = 0.0;
    for (std::size_t c = 0; c < 4; ++c) {
      sum += file.array("p").real(i * 4 + c);
    }
    ASSERT_NEAR(sum, 1.0, 1e-5);
    EXPECT_EQ(file.array("given").whole(i), audit.held[i].given);
    wrong += file.array("given").whole(i) != file.array("label").whole(i) ? 1.0 : 0.0;
  }
  EXPECT_NEAR(wrong / 720.0, *audit.quality.true_noise_rate, 1e-12);
}

TEST(Audit, ClassesThatOnlyAFoldHoldsAreNotJudged) {
  const Experiment experiment = easy("");
  World world = make_world(experiment, builtin_registry());
  for (std::size_t client = 0; client < world.clients.size(); ++client) {
    for (std::int64_t& label : world.clients[client].given) {
      label = client == 2 ? 3 : label % 3;
    }
  }
  const Audit audit = audit_of(experiment, world, {.plant = 0.0});
  EXPECT_EQ(audit.findings.not_judged, std::ssize(world.clients[2].samples));
  EXPECT_EQ(audit.findings.clients[2].label_issues, 0);
  ASSERT_FALSE(audit.warnings.empty());
  EXPECT_THAT(audit.warnings.back(), HasSubstr("120 samples are not judged"));
}

TEST(Audit, ModelsThatHaveLearntTooLittleAreAWarning) {
  Experiment experiment = easy(kWrongLabels);
  experiment.rounds = 1;
  experiment.train.epochs = 1;
  const World world = make_world(experiment, builtin_registry());
  const Audit audit = audit_of(experiment, world);
  ASSERT_FALSE(audit.warnings.empty());
  EXPECT_THAT(audit.warnings.front(), HasSubstr("learnt too little to judge labels"));
}

TEST(Audit, LabelsThatAreEquallyNoisyEverywhereAreAWarning) {
  const auto warnings_with = [](const std::string& noise) {
    const Experiment experiment = easy(noise);
    const World world = make_world(experiment, builtin_registry());
    return audit_of(experiment, world, {.plant = 0.0}).warnings;
  };
  EXPECT_THAT(warnings_with("[[noise]]\nname = \"symmetric\"\nrate = 0.2\n"),
              ::testing::ElementsAre(::testing::MatchesRegex(
                  "about [12][0-9] % of the labels seem to be wrong, but no client stands out. "
                  "Verdicts compare clients with the cleanest of them: the labels may be equally "
                  "noisy everywhere, or the models may have learnt too little")));
  EXPECT_TRUE(warnings_with("").empty()) << "where none are wrong";
  EXPECT_TRUE(warnings_with(kWrongLabels).empty()) << "where some clients stand out";
}

// Members that judge themselves and send sums find what one place finds from sums, bit for bit.
TEST(Audit, AFederationThatAuditsItselfFindsTheSame) {
  Experiment experiment = easy(kWrongLabels);
  experiment.rounds = 8;
  experiment.train.momentum = 0.5;
  const World world = make_world(experiment, builtin_registry());
  const Audit audit = audit_of(experiment, world, {.plant = 0.0});
  const std::vector<HeldSample> held = samples_of(world.clients);
  const at::Tensor& images = world.data.train.images;
  std::vector<ImageStats> stats;
  for (const HeldSample& sample : held) {
    stats.push_back(image_stats({{images[sample.sample].data_ptr<std::uint8_t>(),
                                  static_cast<std::size_t>(images[sample.sample].numel())},
                                 images.size(1),
                                 images.size(2),
                                 images.size(3)}));
  }
  const Judgement judgement = judge_out_of_sample(
      experiment, world, held, images, {.folds = 3}, builtin_registry(),
      {.lanes = 1, .device = "cpu"}, nullptr, [](std::int64_t, std::int64_t, double) {});
  const AuditFindings summed = make_findings({held, judgement, stats, images, 6, experiment.seed});
  Json tree = easy_tree(kWrongLabels);
  tree["rounds"] = 8;
  tree["train"]["momentum"] = 0.5;
  tree["method"] = {{"name", "audit"}, {"folds", 3}, {"least", 1}};
  const Experiment federated = parse_experiment(tree, builtin_registry());
  Session session(federated, builtin_registry(), {.lanes = 2, .device = "cpu"}, nullptr);
  while (session.rounds_done() < session.rounds()) {
    session.play();
  }
  const Findings findings = session.findings();
  const auto memories = session.engine().memories();
  std::size_t place = 0;
  for (std::int64_t client = 0; client < 6; ++client) {
    const ClientFinding& expected = summed.clients[static_cast<std::size_t>(client)];
    const ClientFinding& alone = audit.findings.clients[static_cast<std::size_t>(client)];
    EXPECT_EQ(alone.probabilities, expected.probabilities);
    EXPECT_EQ(alone.confident_rate, expected.noise_rate);
    EXPECT_EQ(findings.noise_levels.at(client), expected.noise_rate);
    EXPECT_EQ(findings.scores.at("excess_rate").at(client), expected.kind.rate);
    EXPECT_EQ(findings.scores.at("p_label_noise").at(client), expected.probabilities[1]);
    EXPECT_EQ(findings.scores.at("p_hostile").at(client), expected.probabilities[4]);
    EXPECT_EQ(findings.scores.at("label_issues").at(client), expected.label_issues);
    EXPECT_EQ(findings.scores.at("judged").at(client), expected.judged);
    const audit::Kept kept =
        audit::read_kept(memories.at(client).own, expected.samples, world.data.classes);
    for (const SampleFinding& sample : kept.found) {
      ASSERT_LT(place, summed.samples.size());
      EXPECT_EQ(sample, summed.samples[place]) << "sample " << place;
      ++place;
    }
  }
  EXPECT_EQ(place, summed.samples.size());
  EXPECT_GT(summed.clients[1].label_issues, 0);
}

// What an attacker sends says nothing about its data: the audit trains every client itself.
TEST(Audit, AttackersDoNotTouchIt) {
  const std::string attack = R"(
[[noise]]
name = "attack"
kind = "sign_flip"
clients = [0, 5]
)";
  const Experiment honest = easy(kWrongLabels);
  const Experiment attacked = easy(kWrongLabels + attack);
  const World world = make_world(honest, builtin_registry());
  const World hostile = make_world(attacked, builtin_registry());
  ASSERT_TRUE(hostile.ledger.is_noisy(5));
  const Audit one = audit_of(honest, world);
  const Audit other = audit_of(attacked, hostile);
  EXPECT_EQ(samples_csv(other, hostile), samples_csv(one, world));
  EXPECT_EQ(clients_csv(other, hostile), clients_csv(one, world));
}

TEST(Audit, ItsQualityIsMeasuredForEveryKindOfLabelNoise) {
  const Experiment experiment = easy(R"(
[[noise]]
name = "symmetric"
rate = 0.3
clients = [1]
[[noise]]
name = "pairflip"
rate = 0.3
clients = [4]
)");
  const World world = make_world(experiment, builtin_registry());
  const Audit audit = audit_of(experiment, world, {.plant = 0.0});
  const auto& kinds = audit.quality.labels_by_kind;
  ASSERT_EQ(kinds.size(), 2U);
  const FoundQuality& pair = kinds.at("pair");
  const FoundQuality& symmetric = kinds.at("symmetric");
  const FoundQuality& all = *audit.quality.labels;
  EXPECT_EQ(pair.wrong, 36);
  EXPECT_EQ(symmetric.wrong, 36);
  EXPECT_EQ(pair.found + symmetric.found, all.found);
  // Right labels that are called wrong count for both.
  EXPECT_EQ(pair.flagged - pair.found, all.flagged - all.found);
  EXPECT_EQ(symmetric.flagged - symmetric.found, all.flagged - all.found);
  for (const FoundQuality& kind : {pair, symmetric}) {
    EXPECT_GE(kind.recall.value_or(0), 0.8);
    EXPECT_GE(kind.roc_area.value_or(0), 0.9);
  }
  const Json json = audit_json(audit, world, experiment, {});
  EXPECT_EQ(json["quality"]["labels_by_kind"]["pair"]["wrong"], 36);
  // The rate over what others have is not the one that a verdict is made of.
  EXPECT_EQ(json["clients"][4]["excess_rate"], audit.findings.clients[4].kind.rate);
  EXPECT_EQ(json["clients"][4]["features"]["expected_rate"],
            audit.findings.clients[4].kind.expected_rate);
  EXPECT_FALSE(json["clients"][4]["features"].contains("excess_rate"));
}

TEST(LabelNoiseKinds, AreThoseOfTheBlockThatChangedASampleLast) {
  const Experiment experiment = easy(R"(
[[noise]]
name = "symmetric"
rate = 0.1
[[noise]]
name = "pair"
rate = 0.1
[[noise]]
name = "asymmetric"
matrix = [1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.5, 0.5]
[[noise]]
name = "fedncl_bernoulli"
[[noise]]
name = "fedcorr_labels"
[[noise]]
name = "fedrn_labels"
type = "mixed"
[[noise]]
name = "human_labels"
file = "people.npy"
[[noise]]
name = "distortions"
)");
  Ledger ledger(1, 720, 6);
  ledger.add(
      LedgerSample{.client = 0, .sample = 9, .block = kGivenLabelsBlock, .from = 1, .to = 2});
  for (std::int64_t block = 0; block < 8; ++block) {
    ledger.add(LedgerSample{.client = 0,
                            .sample = block,
                            .block = block,
                            .kind = block == 7 ? "fog" : "label",
                            .from = block == 7 ? -1 : 0,
                            .to = block == 7 ? -1 : 1,
                            .severity = block == 7 ? 1 : 0});
    if (block == 1) {
      ledger.add(LedgerSample{.client = 0, .sample = 0, .block = 1, .from = 1, .to = 2});
    }
  }
  EXPECT_EQ(label_noise_kinds(experiment, ledger),
            (std::map<std::int64_t, std::string>{{0, "pair"},
                                                 {1, "pair"},
                                                 {2, "class-dependent"},
                                                 {3, "random labels"},
                                                 {4, "symmetric"},
                                                 {5, "mixed"},
                                                 {6, "human_labels"},
                                                 {9, "given labels"}}));
}

TEST(Audit, ATestSplitAmongTheClientsIsAWarning) {
  const Experiment experiment = easy("");
  World world = make_world(experiment, builtin_registry());
  world.data.client_names = {"a", "b", "c", "d", "Test", "f"};
  const Audit audit = audit_of(experiment, world, {.plant = 0.0});
  ASSERT_EQ(audit.warnings.size(), 1U);
  EXPECT_THAT(audit.warnings[0],
              HasSubstr("the audited data seems to include a test split: Test."));
}

TEST(Audit, AcceptedSuggestionsRepairTheLabels) {
  const TestFolder folder;
  Experiment experiment = easy(kWrongLabels);
  const World world = make_world(experiment, builtin_registry());
  std::string text = relabel_csv(audit_of(experiment, world, {.plant = 0.0}), world);
  std::string accepted;
  for (const std::string& line : split(text, '\n')) {
    accepted += line.ends_with(',') ? line + "yes\n" : line + (line.empty() ? "" : "\n");
  }
  write_file_whole(folder / "relabel.csv", accepted);
  experiment.data.relabel = (folder / "relabel.csv").string();
  const World repaired = make_world(experiment, builtin_registry());
  const auto wrong = [](const World& of) {
    std::int64_t count = 0;
    for (const ClientData& client : of.clients) {
      for (std::size_t i = 0; i < client.samples.size(); ++i) {
        count +=
            client.given[i] != of.data.train.labels[static_cast<std::size_t>(client.samples[i])]
                ? 1
                : 0;
      }
    }
    return count;
  };
  EXPECT_LT(4 * wrong(repaired), wrong(world));
  write_file_whole(folder / "relabel.csv", text);
  EXPECT_EQ(wrong(make_world(experiment, builtin_registry())), wrong(world))
      << "nothing is accepted by itself";
}

TEST(Relabel, WhatIsWrongInTheFileIsNamed) {
  const TestFolder folder;
  const World world = make_world(easy(""), builtin_registry());
  const auto read = [&](const std::string& rows) {
    write_file_whole(folder / "r.csv", std::string(kRelabelHeader) + "\n" + rows);
    return error_text([&] { read_relabel(folder / "r.csv", world.data); });
  };
  EXPECT_EQ(read("3,0,pattern 0,pattern 1,0.1,yes\n4,0,pattern 0,pattern 1,0.1,no\n5,0,pattern "
                 "0,pattern 1,0.1,\n"),
            "no error");
  EXPECT_THAT(read("720,0,pattern 0,pattern 1,0.1,yes\n"),
              HasSubstr("'720' is no sample, expected a number from 0"));
  EXPECT_THAT(read("3,0,pattern 0,9,0.1,yes\n"), HasSubstr("line 2: class '9' is unknown"));
  EXPECT_THAT(read("3,0,pattern 0,pattern 1,0.1,perhaps\n"),
              HasSubstr("accept = 'perhaps', expected yes, no or nothing"));
  EXPECT_THAT(read("3,0,pattern 0,pattern 1,0.1,no\n3,0,pattern 0,pattern 1,0.1,yes\n"),
              HasSubstr("'3' is already on line 2"));
  EXPECT_THAT(read("3,0\n"), HasSubstr("2 fields, expected 6"));
  write_file_whole(folder / "r.csv", "a,b\n");
  EXPECT_THAT(error_text([&] { read_relabel(folder / "r.csv", world.data); }),
              HasSubstr("line 1: expected the header name,client"));
}

TEST(Relabel, TestSamplesAreLeftAlone) {
  const TestFolder folder;
  DataSet data = make_world(easy(""), builtin_registry()).data;
  for (std::int64_t i = 0; i < data.train.size(); ++i) {
    data.names.push_back("train/" + std::to_string(i));
  }
  data.test_names = {"held/1"};
  write_file_whole(
      folder / "r.csv",
      std::string(kRelabelHeader) +
          "\nheld/1,0,pattern 0,pattern 1,0.1,yes\ntrain/7,0,pattern 0,pattern 1,0.1,yes\n");
  const std::map<std::int64_t, std::int64_t> labels = read_relabel(folder / "r.csv", data);
  EXPECT_EQ(labels, (std::map<std::int64_t, std::int64_t>{{7, 1}}));
  write_file_whole(folder / "r.csv",
                   std::string(kRelabelHeader) + "\nnowhere,0,pattern 0,pattern 1,0.1,yes\n");
  EXPECT_THAT(error_text([&] { read_relabel(folder / "r.csv", data); }),
              HasSubstr("there is no sample 'nowhere' | the file is of other data"));
}

TEST(Conditions, AreANameAComparisonAndAShare) {
  const Condition condition = parse_condition("label_noise > 5%");
  EXPECT_EQ(condition.name, "label_noise");
  EXPECT_NEAR(condition.bound, 0.05, 1e-12);
  EXPECT_TRUE(condition.holds(0.06));
  EXPECT_FALSE(condition.holds(0.05));
  EXPECT_TRUE(parse_condition("noisy_clients>=0.5").holds(0.5));
  EXPECT_TRUE(parse_condition("label_issues <= 1 %").holds(0.01));
  EXPECT_THAT(error_text([] { parse_condition("label_nose > 5%"); }),
              HasSubstr("expected a name, a comparison and a share | did you mean 'label_noise'?"));
  EXPECT_THAT(error_text([] { parse_condition("label_noise = 5%"); }),
              HasSubstr("for example --fail-on 'label_noise > 5%'"));
  EXPECT_THAT(error_text([] { parse_condition("label_noise > much"); }),
              HasSubstr("for example --fail-on"));
}

TEST(RunEvidence, IsATableOfWhatTheMethodFoundBesideTheTruth) {
  const std::filesystem::path run =
      std::filesystem::path(__FILE__).parent_path().parent_path() / "golden/format-2/finished";
  ASSERT_TRUE(is_run_directory(run));
  const RunEvidence evidence = read_run_evidence(run);
  EXPECT_THAT(evidence.columns,
              ::testing::ElementsAre("client", "samples", "flagged", "noise_level", "lid",
                                     "wrong_share", "distorted_share", "noisy"));
  ASSERT_EQ(evidence.rows.size(), 5U);
  EXPECT_EQ(evidence.rows[3][2], "yes");
  EXPECT_EQ(evidence.rows[3][3], "0.2500");
  EXPECT_EQ(evidence.shown()[3][3], "25.00%") << "people read percent";
  EXPECT_EQ(evidence.shown()[3][0], "3");
  EXPECT_THAT(evidence.json().dump(), HasSubstr("0.2500")) << "programs read fractions";
  EXPECT_EQ(evidence.rows[1][2], "");
  EXPECT_THAT(evidence.csv(), HasSubstr("client,samples,flagged,noise_level,lid"));
  EXPECT_FALSE(is_run_directory(run.parent_path()));
}

TEST(Audit, RefusesMoreClassesThanItCanCompare) {
  Json tree = easy_tree("");
  set_by_path(tree, "data.classes", 1001);
  set_by_path(tree, "data.samples", 2002);
  const Experiment experiment = parse_experiment(tree, builtin_registry());
  const World world = make_world(experiment, builtin_registry());
  EXPECT_EQ(error_text([&] { audit_of(experiment, world); }),
            "audit: 1001 classes are more than 1000, the most whose pairs it can compare");
}

// The column of a table, by client.
std::vector<std::string> column_of(const RunEvidence& evidence, const std::string& name) {
  const auto found = std::ranges::find(evidence.columns, name);
  std::vector<std::string> column;
  for (const std::vector<std::string>& row : evidence.rows) {
    column.push_back(
        found == evidence.columns.end()
            ? "no such column"
            : row[static_cast<std::size_t>(std::distance(evidence.columns.begin(), found))]);
  }
  return column;
}

// The run of a method in a folder of the test's own.
std::filesystem::path run_of(const TestFolder& folder, const std::string& method,
                             const std::vector<std::string>& sets) {
  Json tree = small_tree(sets);
  tree["method"]["name"] = method;
  const Experiment experiment = parse_experiment(tree, builtin_registry());
  RunObserver silence;
  start_run(experiment, builtin_registry(), on_cpu(1), folder / "run", nullptr, silence);
  return folder / "run";
}

TEST(RunEvidence, SaysHowOftenFedRNChoseAClientAsANeighbour) {
  const TestFolder folder;
  const std::filesystem::path run =
      run_of(folder, "fedrn", {"rounds=5", "method.warmup=2", "method.neighbours=2"});
  std::vector<int> expected(4);
  read_events(run, [&](const Json& event) {
    if (event.contains("neighbours")) {
      for (const auto& [client, chosen] : event["neighbours"].items()) {
        for (const Json& neighbour : chosen) {
          ++expected[neighbour.get<std::size_t>()];
        }
      }
    }
  });
  // Three rounds of two clients with two neighbours each.
  EXPECT_EQ(std::accumulate(expected.begin(), expected.end(), 0), 12);
  const RunEvidence evidence = read_run_evidence(run);
  std::vector<std::string> texts;
  for (const int times : expected) {
    texts.push_back(std::to_string(times));
  }
  EXPECT_EQ(column_of(evidence, "times_chosen"), texts);
  const Json findings = Json::parse(read_file(run / "findings.json"));
  const Json& expertise = findings["scores"]["expertise"]["by_client"];
  EXPECT_FALSE(expertise.empty());
  const std::vector<std::string> column = column_of(evidence, "expertise");
  for (const auto& [client, value] : expertise.items()) {
    EXPECT_NEAR(std::stod(column[std::stoul(client)]), value.get<double>(), 1e-4);
  }
}

TEST(RunEvidence, RefusesNeighboursThatAreNoClients) {
  const TestFolder folder;
  const std::filesystem::path run =
      run_of(folder, "fedrn", {"rounds=3", "method.warmup=1", "method.neighbours=2"});
  const std::string events = read_file(run / "events.jsonl");
  const auto with = [&](const std::string& neighbours) {
    const std::size_t begin = events.find(R"("neighbours":{)");
    const std::size_t end = events.find('}', begin);
    write_file_whole(run / "events.jsonl", events.substr(0, begin) + R"("neighbours":)" +
                                               neighbours + events.substr(end + 1));
    return error_text([&] { read_run_evidence(run); });
  };
  EXPECT_EQ(with(R"({"0":[1]})"), "no error");
  EXPECT_THAT(with(R"({"0":[4]})"), HasSubstr("events.jsonl: neighbours.0[0] = 4: expected"));
  EXPECT_THAT(with(R"({"0":[-1]})"), HasSubstr("neighbours.0[0] = -1: expected"));
  EXPECT_THAT(with(R"({"0":["x"]})"), HasSubstr("neighbours.0[0]"));
  EXPECT_THAT(with(R"({"0":3})"), HasSubstr("expected a list"));
  EXPECT_THAT(with("[1]"), HasSubstr("expected a table"));
}

TEST(RunEvidence, HasTheCountsOfClipFL) {
  const TestFolder folder;
  const std::filesystem::path run =
      run_of(folder, "clipfl",
             {"rounds=4", "federation.fraction=1.0", "method.pre_rounds=3", "method.keep=2",
              "method.prune=0.5", "validation.source=\"split\""});
  const RunEvidence evidence = read_run_evidence(run);
  // Two of four clients fail in each of three rounds, and two are pruned after them.
  int failures = 0;
  for (const std::string& count : column_of(evidence, "ncs")) {
    failures += std::stoi(count);
  }
  EXPECT_EQ(failures, 6);
  const std::vector<std::string> flagged = column_of(evidence, "flagged");
  EXPECT_EQ(std::ranges::count(flagged, "yes"), 2);
  for (std::size_t client = 0; client < 4; ++client) {
    EXPECT_NEAR(std::stod(column_of(evidence, "ncs_ratio")[client]),
                std::stod(column_of(evidence, "ncs")[client]) / 3.0, 1e-4);
    EXPECT_LE(std::stod(column_of(evidence, "validation_accuracy")[client]), 1.0);
  }
}

TEST(RunEvidence, HasTheGradientNormsOfFedNS) {
  const TestFolder folder;
  const std::filesystem::path run = run_of(folder, "fedns", {"rounds=3"});
  const RunEvidence evidence = read_run_evidence(run);
  const Json findings = Json::parse(read_file(run / "findings.json"));
  const std::vector<std::string> norms = column_of(evidence, "gradient_norm");
  const std::vector<std::string> flagged = column_of(evidence, "flagged");
  ASSERT_EQ(norms.size(), 4U);
  for (std::size_t client = 0; client < 4; ++client) {
    const Json& norm = findings["scores"]["gradient_norm"]["by_client"][std::to_string(client)];
    EXPECT_NEAR(std::stod(norms[client]), norm.get<double>(), 1e-4);
    EXPECT_GT(norm.get<double>(), 0.0);
    const bool named = std::ranges::count(findings["flagged"], Json(client)) > 0;
    EXPECT_EQ(flagged[client], named ? "yes" : "");
  }
}

}  // namespace winnow::audit_test
