#include "winnow/run/charter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "run/method_schedules.h"
#include "winnow/experiment/server_world.h"
#include "winnow/run/deal.h"
#include "winnow/run/workplace.h"

namespace winnow::charter_test {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::StartsWith;

Experiment served(const TestFolder& folder, const std::string& method,
                  const std::vector<std::string>& sets = {}) {
  deal_out(experiment_with(method, sets), methods(), folder.path());
  Json tree = read_toml(folder / "federation.toml");
  EXPECT_EQ(tree.at("members").size(), 6U);
  EXPECT_EQ(tree.at("serve").at("certificate"), "pki/server.pem");
  tree.erase("serve");
  tree.erase("members");
  anchor_paths(tree, folder.path());
  return parse_experiment(tree, methods());
}

Charter charter_with(const std::string& method, const std::vector<std::string>& sets = {}) {
  const TestFolder folder;
  const Experiment experiment = served(folder, method, sets);
  const Workplace place(experiment, server_world(experiment, methods()), methods(), on_cpu(1),
                        nullptr);
  return make_charter("fed", experiment, place);
}

// The charter of a test with something else in it.
std::string changed(const std::string& path, const Json& value) {
  static const std::string text = charter_with("fedavg").text();
  Json tree = Json::parse(text);
  set_by_path(tree, path, value);
  return tree.dump();
}

std::string read_text(const std::string& text) {
  return error_text([&] { read_charter(text); });
}

std::string experiment_text(const std::string& path, const Json& value) {
  return error_text(
      [&] { charter_experiment(read_charter(changed(path, value)), builtin_registry()); });
}

TEST(Charter, SaysWhatIsComputedAndWhatLeaves) {
  const Charter charter = charter_with("fedcorr");
  EXPECT_EQ(charter.members, 6);
  EXPECT_GT(charter.validation, 0);
  EXPECT_THAT(charter.leaves, Contains(StartsWith("samples: how many samples it has")));
  EXPECT_EQ(charter.data.at("class_names").size(), 4U);
  EXPECT_FALSE(charter.experiment.contains("data"));
  EXPECT_FALSE(charter.experiment.at("model").contains("path"));
  EXPECT_EQ(charter.layout.size(), 64U);
  const Charter read = read_charter(charter.text());
  EXPECT_EQ(read.text(), charter.text());
  EXPECT_EQ(read.hash(), charter.hash());
  const Experiment experiment = charter_experiment(read, methods());
  EXPECT_EQ(experiment.method, "fedcorr");
  EXPECT_EQ(experiment.federation.clients, 6);
  EXPECT_EQ(charter_with("fedcorr").hash(), charter.hash());
  EXPECT_NE(charter_with("fedavg").hash(), charter.hash());
}

TEST(Charter, SaysHowModelsAreSummed) {
  EXPECT_FALSE(charter_with("fedavg").experiment.at("federation").contains("sums"));
  const Charter charter = charter_with("fedavg", {"federation.sums=\"fixed\""});
  EXPECT_EQ(charter.experiment.at("federation").at("sums"), "fixed");
  EXPECT_EQ(charter_experiment(read_charter(charter.text()), methods()).federation.sums,
            SumForm::fixed);
  EXPECT_NE(charter.hash(), charter_with("fedavg").hash());
}

TEST(Charter, PublicImagesAreNamedByTheirDigest) {
  const Charter charter = charter_with("rhfl");
  EXPECT_GT(charter.public_images, 0);
  EXPECT_EQ(charter.public_digest.size(), 64U);
}

TEST(Charter, RefusesWhatNoServerOfOursWrites) {
  EXPECT_THAT(read_text(""), StartsWith("the charter of the server is damaged"));
  EXPECT_THAT(read_text("[]"), StartsWith("the charter of the server: "));
  EXPECT_THAT(read_text(std::string(100'000, '[')), HasSubstr("is damaged"));
  EXPECT_THAT(read_text(std::string(kLongestCharter + 1, ' ')),
              HasSubstr("it has 1048577 bytes, expected at most 1048576"));
  EXPECT_THAT(read_text(changed("winnow_charter", 2)), HasSubstr("winnow_charter = 2"));
  EXPECT_THAT(read_text(changed("members", 0)), HasSubstr("members = 0"));
  EXPECT_THAT(read_text(changed("members", 1e300)), HasSubstr("members = 1e+300"));
  EXPECT_THAT(read_text(changed("members", "6")), HasSubstr("members = \"6\""));
  EXPECT_THAT(read_text(changed("experiment", Json::array())),
              HasSubstr("experiment = [...]: expected a table"));
  EXPECT_THAT(read_text(changed("data.channels", 17)), HasSubstr("data.channels = 17"));
  EXPECT_THAT(read_text(changed("data.height", 1 << 20)), HasSubstr("data.height = 1048576"));
  EXPECT_THAT(read_text(changed("data.mean", Json::array())),
              HasSubstr("data.mean has 0 values, expected one for each of 1 channels"));
  EXPECT_THAT(read_text(changed("data.std", {0.0})), HasSubstr("expected"));
  EXPECT_THAT(read_text(changed("data.crop", 29)), HasSubstr("data.crop = 29 does not fit"));
  EXPECT_THAT(read_text(changed("data.class_names", {"a", "a"})), HasSubstr("is there twice"));
  EXPECT_THAT(read_text(changed("data.class_names", Json::array())), HasSubstr("0 classes"));
  EXPECT_THAT(read_text(changed("data.path", "/etc/passwd")), HasSubstr("data has other keys"));
  EXPECT_THAT(read_text(changed("public_images", std::int64_t{1} << 40)),
              HasSubstr("public_images = 1099511627776"));
  EXPECT_THAT(read_text(changed("layout", "abc")), HasSubstr("layout is no SHA-256"));
  EXPECT_THAT(read_text(changed("leaves", {std::string(1001, 'x')})), HasSubstr("1001 bytes"));
  EXPECT_THAT(read_text(changed("leaves", {"a: b\n  - c"})),
              HasSubstr("leaves[0] has a control character"));
  EXPECT_THAT(read_text(changed("data.class_names", {"a\x1b[2J"})),
              HasSubstr("data.class_names[0] has a control character"));
  EXPECT_THAT(read_text(changed("more", 1)), HasSubstr("it is not in the form"));
  EXPECT_THAT(read_text(" " + changed("members", 6)), HasSubstr("it is not in the form"));
  EXPECT_EQ(error_kind([] { read_charter(changed("members", 0)); }), ErrorKind::peer);
}

TEST(Charter, RefusesAnExperimentThatNoServerMayHaveAMemberDo) {
  EXPECT_EQ(experiment_text("experiment.rounds", 4), "no error");
  EXPECT_THAT(experiment_text("experiment.model.path", "evil.pt"),
              HasSubstr("experiment.model.path is not for a server to say"));
  EXPECT_THAT(experiment_text("experiment.model.weights", "/etc/passwd"),
              HasSubstr("experiment.model.weights is not for a server to say"));
  EXPECT_THAT(experiment_text("experiment.data", {{"path", "/"}}),
              HasSubstr("experiment.data is not for a server to say"));
  EXPECT_THAT(experiment_text("experiment.noise", Json::array()),
              HasSubstr("experiment.noise is not for a server to say"));
  EXPECT_THAT(experiment_text("experiment.federation.absences", "x"),
              HasSubstr("experiment.federation.absences is not for a server to say"));
  EXPECT_THAT(experiment_text("experiment.model", 3), HasSubstr("experiment.model is no table"));
  EXPECT_THAT(experiment_text("experiment.model.name", "torchscript"),
              HasSubstr("the charter of the server: model.path"));
  EXPECT_THAT(experiment_text("experiment.model.name", "resnet-of-mine"),
              HasSubstr("the charter of the server: unknown"));
  EXPECT_THAT(experiment_text("experiment.train.lr", "fast"), HasSubstr("train.lr"));
  EXPECT_THAT(experiment_text("experiment.train.epochs", 1e18), HasSubstr("train.epochs"));
  EXPECT_THAT(experiment_text("experiment.rounds", -1), HasSubstr("rounds = -1"));
  EXPECT_THAT(experiment_text("experiment.method", {{"name", "oracle"}}),
              HasSubstr("method.name = \"oracle\": it is told the truth"));
  EXPECT_THAT(experiment_text("experiment.method", {{"name", "fedns"}, {"debug_density", true}}),
              HasSubstr("method.debug_density = true: it would take more from members"));
  EXPECT_THAT(experiment_text("experiment.method", {{"name", "fedavg"}, {"file", "x"}}),
              HasSubstr("file"));
  EXPECT_EQ(error_kind([] {
              charter_experiment(read_charter(changed("experiment.rounds", -1)),
                                 builtin_registry());
            }),
            ErrorKind::peer);
}

std::string servable(const std::vector<std::string>& sets) {
  const Registry registry = methods();
  return error_text([&] {
    Json tree = small_tree(sets);
    tree.erase("noise");
    check_servable(parse_experiment(tree, registry), registry);
  });
}

TEST(Servable, RefusesInOneLineWhatHasNoMeaningInAFederation) {
  EXPECT_EQ(servable({}), "no error");
  EXPECT_EQ(servable({"federation.centralised=true"}),
            "federation.centralised = true: the samples of members stay with them");
  EXPECT_EQ(servable({"federation.dropout=0.1"}),
            "federation.dropout: in a federation members are absent by themselves | remove it");
  EXPECT_EQ(servable({"local_accuracy=true"}),
            "local_accuracy = true: the models of members are not measured in a federation | "
            "remove it");
  EXPECT_THAT(servable({"validation.source=\"split\""}),
              HasSubstr("put them there as validation_"));
  EXPECT_THAT(servable({"public.source=\"split\""}), HasSubstr("put them there as public_images"));
  EXPECT_THAT(servable({"model.name=\"torchscript\"", "model.path=\"x.pt\""}),
              HasSubstr("members do not execute code of a server"));
  const Registry registry = methods();
  EXPECT_THAT(error_text([&] { check_servable(small(), registry); }),
              StartsWith("[[noise]]: the noise in a federation is that of its members' data"));
}

TEST(Deal, RefusesWhatNoFileHoldsAndNeverOverwrites) {
  const TestFolder folder;
  EXPECT_EQ(error_text([&] {
              deal_out(small({"noise=[{name=\"attack\", clients=[1], kind=\"sign_flip\"}]"}),
                       methods(), folder.path());
            }),
            "noise.0: an attack is what a client does, and no data holds it | remove it, or "
            "simulate it with winnow run");
  deal_out(small(), methods(), folder.path());
  EXPECT_THAT(error_text([&] { deal_out(small(), methods(), folder.path()); }),
              HasSubstr("federation.toml is there already"));
  EXPECT_THAT(
      error_text([&] { deal_out(small({"method.name=\"oracle\""}), methods(), folder / "other"); }),
      HasSubstr("it is told the truth"));
}

TEST(ServerWorld, HasSamplesToMeasureWithAndClientsWithoutAny) {
  const TestFolder folder;
  const Experiment simulated = experiment_with("rhfl");
  const World before = make_world(simulated, methods());
  const Experiment experiment = served(folder, "rhfl");
  const World world = server_world(experiment, methods());
  EXPECT_TRUE(at::equal(world.data.test.images, before.data.test.images));
  EXPECT_EQ(world.data.test.labels, before.data.test.labels);
  EXPECT_TRUE(at::equal(world.data.validation.images, before.data.validation.images));
  EXPECT_TRUE(at::equal(world.public_images, before.public_images));
  EXPECT_EQ(world.data.class_names, before.data.class_names);
  EXPECT_EQ(world.data.normalisation.mean, before.data.normalisation.mean);
  EXPECT_EQ(world.clients.size(), 6U);
  EXPECT_TRUE(world.clients[0].samples.empty());
  EXPECT_FALSE(world.truth_known);
  EXPECT_THAT(error_text([&] { make_world(experiment, methods()); }),
              HasSubstr("data.name = \"server\": the samples are those of the members of a "
                        "federation | serve the file with: winnow serve FILE"));
  EXPECT_THAT(error_text([&] { server_world(simulated, methods()); }),
              HasSubstr("a server has data.name = \"server\""));
}

}  // namespace winnow::charter_test
