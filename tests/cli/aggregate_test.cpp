#include <ATen/ATen.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "cli/program.h"
#include "testing/support.h"
#include "winnow/base/random.h"
#include "winnow/model/safetensors.h"

namespace winnow::aggregate_test {

using ::testing::HasSubstr;
using ::testing::StartsWith;

namespace fs = std::filesystem;

const LayoutPtr kLayout = std::make_shared<const Layout>(
    std::vector<Slot>{{"a.weight", {5, 4}, SlotKind::parameter, 0, 0},
                      {"n.num_batches_tracked", {}, SlotKind::counter, 0, 0},
                      {"n.running_mean", {2}, SlotKind::buffer, 0, 0}});

// A folder with model files.
class ModelFiles {
 public:
  std::string add(const std::string& name, const State& state) {
    save_state(shop_ / name, state);
    return name;
  }
  // A model whose values are all the same.
  std::string add(const std::string& name, double value) {
    return add(name, State{kLayout, at::full({kLayout->total()}, value, at::kFloat)});
  }
  fs::path operator/(const std::string& name) const { return shop_ / name; }

  Ended call(const Words& files, const Words& more) const {
    Words words{"aggregate"};
    words.insert(words.end(), files.begin(), files.end());
    words.insert(words.end(), more.begin(), more.end());
    return shop_.call(words);
  }
  Ended done(const Words& files, const Words& more) const {
    Ended ended = call(files, more);
    EXPECT_EQ(ended.code, 0) << ended.err;
    return ended;
  }
  // By method.
  std::map<std::string, Json> facts(const Words& files, Words more) const {
    more.emplace_back("--json");
    std::map<std::string, Json> found;
    for (const Json& facts : done(files, more).json()) {
      found[facts.at("method").get<std::string>()] = facts;
    }
    return found;
  }

 private:
  Workshop shop_;
};

// spec: baselines T4: nine clients N(1, .1^2) and one at a million.
Words nine_and_an_outlier(ModelFiles& folder) {
  Words files;
  for (std::uint64_t k = 0; k < 9; ++k) {
    Stream stream(3, "test", k);
    State state = State::zeros(kLayout);
    for (std::int64_t i = 0; i < kLayout->total(); ++i) {
      state.flat.data_ptr<float>()[i] = static_cast<float>(1.0 + 0.1 * stream.normal());
    }
    files.push_back(folder.add("c" + std::to_string(k) + ".safetensors", state));
  }
  files.push_back(folder.add("outlier.safetensors", 1e6));
  return files;
}

double first_value(const Json& facts) {
  return facts.at("first_value").get<double>();
}

void expect_error(const Ended& ended, int code, const std::string& message) {
  EXPECT_EQ(ended.code, code) << ended.err;
  EXPECT_EQ(ended.out, "");
  EXPECT_THAT(ended.err, StartsWith("winnow: "));
  EXPECT_THAT(ended.err, HasSubstr(message));
  EXPECT_LE(lines(ended.err), 2U) << ended.err;
}

// spec: baselines T4
TEST(Aggregate, RobustMethodsWithstandAnOutlierAndFedAvgDoesNot) {
  ModelFiles folder;
  const Words files = nine_and_an_outlier(folder);
  const auto facts = folder.facts(
      files, {"--method", "fedavg,trimmed_mean,median,krum,multi_krum,bulyan,geometric_median,arfl",
              "--set", "method.byzantine=1", "--set", "method.keep=9", "--set", "method.trim=0.2"});
  ASSERT_EQ(facts.size(), 8U);
  EXPECT_NEAR(first_value(facts.at("fedavg")), 100'001.0, 1.0);
  for (const char* method : {"trimmed_mean", "median", "krum", "multi_krum", "bulyan", "arfl"}) {
    EXPECT_GE(first_value(facts.at(method)), 0.6) << method;
    EXPECT_LE(first_value(facts.at(method)), 1.4) << method;
    EXPECT_EQ(facts.at(method).at("farthest").at("client"), 9) << method;
    EXPECT_NEAR(facts.at(method).at("farthest").at("distance").get<double>(), 1e6 * std::sqrt(22.0),
                10.0);
  }
  EXPECT_NEAR(first_value(facts.at("geometric_median")), 17.9, 0.3);
  EXPECT_EQ(facts.at("geometric_median").at("passes"), 5);

  const Json more =
      folder.facts(files, {"-m", "geometric_median", "--set", "method.passes=20"}).begin()->second;
  EXPECT_GE(first_value(more), 0.6);
  EXPECT_LE(first_value(more), 1.4);
  EXPECT_EQ(more.at("passes"), 21);
  EXPECT_EQ(more.at("parameters").at("passes"), 20);
}

TEST(Aggregate, SaysWhoWasSelectedAndWhatEveryoneWeighed) {
  ModelFiles folder;
  const Words files = nine_and_an_outlier(folder);
  const auto facts = folder.facts(files, {"-m", "krum,multi_krum,arfl,median"});
  const Json& krum = facts.at("krum");
  const auto nearest = krum.at("nearest").at("client").get<std::size_t>();
  EXPECT_EQ(krum.at("nearest").at("distance"), 0.0) << "it is one of the files";
  double weights = 0.0;
  for (std::size_t i = 0; i < files.size(); ++i) {
    EXPECT_EQ(krum.at("clients")[i].at("file"), files[i]);
    EXPECT_EQ(krum.at("clients")[i].at("selected"), i == nearest);
    weights += facts.at("arfl").at("clients")[i].at("weight").get<double>();
    EXPECT_FALSE(facts.at("median").at("clients")[i].contains("weight"));
  }
  EXPECT_NEAR(weights, 1.0, 1e-12);
  EXPECT_LT(facts.at("arfl").at("clients")[9].at("weight").get<double>(), 1e-9);
  EXPECT_EQ(facts.at("multi_krum").at("clients")[9].at("selected"), false);
}

TEST(Aggregate, PrintsATable) {
  ModelFiles folder;
  const Words files{folder.add("a.safetensors", 1), folder.add("b.safetensors", 2),
                    folder.add("c.safetensors", 4)};
  EXPECT_EQ(folder.done(files, {"-m", "median,krum,fedavg", "--samples", "1,1,2"}).out,
            "method  first value  nearest     farthest    clients\n"
            "median  2            0 (#2)      9.381 (#3)  -\n"
            "krum    1            0 (#1)      14.07 (#3)  took #1\n"
            "fedavg  2.75         3.518 (#2)  8.208 (#1)  -\n");
}

TEST(Aggregate, WritesTheModelOfOneMethod) {
  ModelFiles folder;
  const Words files{folder.add("a.safetensors", 1), folder.add("b.safetensors", 2),
                    folder.add("c.safetensors", 9)};
  folder.done(files, {"-m", "median", "-o", "out.safetensors"});
  const State out = load_state(folder / "out.safetensors", kLayout);
  EXPECT_EQ(values_of(out.parameters()), std::vector<float>(20, 2.0F));
  EXPECT_EQ(values_of(out.buffers()), std::vector<float>(2, 2.0F));
  EXPECT_EQ(values_of(out.counters()), std::vector<float>{4.0F}) << "the rounded mean";
  EXPECT_EQ(load_tensors(folder / "out.safetensors").metadata.at("method"), "median");

  expect_error(folder.call(files, {"-m", "median,krum", "-o", "two.safetensors"}), 2,
               "--out two.safetensors: expected one method, not 2");
  EXPECT_FALSE(fs::exists(folder / "two.safetensors"));
}

TEST(Aggregate, StartsFromTheMeanOrFromAGivenModel) {
  ModelFiles folder;
  const Words files{folder.add("a.safetensors", 1), folder.add("b.safetensors", 3)};
  folder.add("start.safetensors", 0);
  const Words half{"-m", "fedavgm", "--set", "method.lr=0.5"};
  EXPECT_NEAR(first_value(folder.facts(files, half).at("fedavgm")), 2.0, 1e-6);
  Words given = half;
  given.insert(given.end(), {"--start", "start.safetensors"});
  EXPECT_NEAR(first_value(folder.facts(files, given).at("fedavgm")), 1.0, 1e-6);
}

TEST(Aggregate, LeavesOutFilesThatAreNotFinite) {
  ModelFiles folder;
  const Words files{folder.add("a.safetensors", 1), folder.add("b.safetensors", 3),
                    folder.add("nan.safetensors", std::nan(""))};
  EXPECT_THAT(folder.done(files, {"-m", "median"}).out, HasSubstr("not finite: #3"));
  const Json facts = folder.facts(files, {"-m", "fedavg"}).at("fedavg");
  EXPECT_EQ(first_value(facts), 2.0);
  EXPECT_EQ(facts.at("clients")[2].at("rejected"), true);
  EXPECT_TRUE(facts.at("clients")[2].at("distance").is_null());
  expect_error(folder.call({"nan.safetensors"}, {"-m", "fedavg"}), 4,
               "every file holds values that are not finite");
}

TEST(Aggregate, RefusesMethodsThatNeedMoreThanModels) {
  ModelFiles folder;
  const Words files{folder.add("a.safetensors", 1)};
  const std::string why = ": it needs more than model files: ";
  expect_error(
      folder.call(files, {"-m", "fedavg,fednova"}), 2,
      "--method fednova" + why + "its messages carry 'a' beside the model\n  choose one of ");
  expect_error(folder.call(files, {"-m", "fedcorr"}), 2,
               "--method fedcorr" + why + "its clients have to do more than train once");
  expect_error(folder.call(files, {"-m", "oracle"}), 2,
               "--method oracle" + why + "it needs to know which clients are noisy");
  expect_error(folder.call(files, {"-m", "krun"}), 3, "unknown method 'krun'\n  did you mean");
  expect_error(folder.call(files, {"-m", "bulyan"}), 3,
               "1 file: expected at least the 7 models that bulyan needs\n  give more files or "
               "lower byzantine");
}

TEST(Aggregate, RefusesWrongParametersAndSamples) {
  ModelFiles folder;
  const Words files{folder.add("a.safetensors", 1), folder.add("b.safetensors", 3)};
  const auto refused = [&](const Words& more, int code, const std::string& message) {
    Words words{"-m", "trimmed_mean,krum"};
    words.insert(words.end(), more.begin(), more.end());
    expect_error(folder.call(files, words), code, message);
  };
  refused({"--set", "method.trimm=0.1"}, 3,
          "unknown key 'method.trimm' of trimmed_mean,krum\n  did you mean 'trim'?");
  refused({"--set", "method.trim=0.7"}, 3, "method.trim = 0.7: expected");
  refused({"--set", "train.lr=0.7"}, 2, "--set train.lr=0.7: expected method.KEY=VALUE");
  for (const char* samples : {"1,2,3", "1,x", "0,1", "1,2,"}) {
    refused(
        {"--samples", samples}, 2,
        fmt::format("--samples {}: expected a whole number above 0 for each of 2 files", samples));
  }
}

TEST(Aggregate, RefusesFilesThatAreNotOneModel) {
  ModelFiles folder;
  const std::string good = folder.add("good.safetensors", 1);
  save_tensors(folder / "other.safetensors", {{{"b.weight", at::ones({3})}}, {}});
  save_tensors(folder / "double.safetensors", {{{"w", at::ones({3}, at::kDouble)}}, {}});
  save_tensors(folder / "count.safetensors", {{{"n", at::ones({3}, at::kLong)}}, {}});
  write_file_whole(folder / "text.safetensors", "not a model");
  const auto refused = [&](const Words& files, const std::string& message) {
    expect_error(folder.call(files, {"-m", "median"}), 4, message);
  };
  refused({good, "none.safetensors"}, "cannot read none.safetensors: no such file");
  refused({good, "other.safetensors"}, "other.safetensors: tensor \"a.weight\" is missing");
  refused({"double.safetensors"}, "double.safetensors: tensor 'w' is neither F32 nor I64");
  refused({"count.safetensors"}, "count.safetensors holds no parameters");
  refused({good, "text.safetensors"}, "text.safetensors: ");
}

}  // namespace winnow::aggregate_test
