// Experiments that bring their network as a TorchScript file.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "run/small_run.h"
#include "testing/script_files.h"
#include "winnow/model/safetensors.h"
#include "winnow/model/script_net.h"
#include "winnow/run/runner.h"

namespace winnow::own_model_test {

using ::testing::AllOf;
using ::testing::HasSubstr;

namespace fs = std::filesystem;

const NetShape kSmallShape{4, 1, 28, 28};  // of the small experiment

class Silent final : public RunObserver {};

// The small experiment with a file as its network.
Experiment with_file(const fs::path& file, std::vector<std::string> more = {}) {
  more.emplace_back("model.name=torchscript");
  more.push_back("model.path=" + file.string());
  return small(more);
}

std::vector<std::string> hashes_with(const Experiment& experiment, std::int64_t lanes) {
  Session session(experiment, methods(), on_cpu(lanes), nullptr);
  while (session.rounds_done() < session.rounds()) {
    session.play();
  }
  return hashes(session.history());
}

TEST(OwnModel, TheNameNeedsAPathAndAPathTheName) {
  EXPECT_EQ(error_text([] { small({"model.name=torchscript"}); }),
            "model.path = \"\": expected the network's TorchScript file | "
            "write it in Python with torch.jit.script(model).save(path)");
  EXPECT_THAT(error_text([] { small({"model.path=net.pt"}); }),
              HasSubstr("model.path = \"net.pt\": only the model torchscript has a file"));
  EXPECT_THAT(error_text([] {
                small({"model.name=torchscript", "model.path=net.pt", "model.projection=8"});
              }),
              HasSubstr("model.projection = 8: a torchscript model brings all its layers itself"));
}

TEST(OwnModel, ThePathIsMeantFromTheFilesFolder) {
  const TestFolder folder;
  write_script(folder / "beside_the_experiment.pt", kLinearText, linear_state(kSmallShape));
  write_file_whole(folder / "e.toml",
                   "[model]\nname = \"torchscript\"\npath = \"beside_the_experiment.pt\"\n");
  const Experiment experiment = load_experiment(folder / "e.toml", {}, methods());
  EXPECT_EQ(experiment.model.path, (folder / "beside_the_experiment.pt").string());
  EXPECT_EQ(experiment.resolved().at("model").at("path"), experiment.model.path);
}

TEST(OwnModel, AMissingFileStopsTheSession) {
  const TestFolder folder;
  EXPECT_THAT(
      error_text([&] { Session(with_file(folder / "none.pt"), methods(), on_cpu(), nullptr); }),
      AllOf(HasSubstr("cannot read"), HasSubstr("none.pt: no such file")));
}

TEST(OwnModel, TrainsOnACpuOnly) {
  const TestFolder folder;
  const Experiment experiment =
      with_file(write_script(folder / "net.pt", kLinearText, linear_state(kSmallShape)));
  const auto start = [&](const std::string& device) {
    return Session(experiment, methods(), {1, device}, nullptr).engine().workforce().device;
  };
  EXPECT_EQ(error_text([&] { start("cuda"); }),
            "--device cuda: torchscript models train on a CPU | leave --device out, or use "
            "--device cpu");
  EXPECT_TRUE(start("auto").is_cpu());
}

TEST(OwnModel, ModelsDoNotDependOnTheNumberOfLanes) {
  const TestFolder folder;
  for (const char* text : {kLinearText, kDropoutText}) {
    const Experiment experiment =
        with_file(write_script(folder / "net.pt", text, linear_state(kSmallShape)));
    EXPECT_EQ(hashes_with(experiment, 1), hashes_with(experiment, 3));
  }
}

TEST(OwnModel, MethodsThatNeedOnlyForwardTrainAModuleThatHasNothingElse) {
  const TestFolder folder;
  const fs::path file = write_script(folder / "net.pt", kLinearText, linear_state(kSmallShape));
  for (const std::vector<std::string>& method :
       {std::vector<std::string>{"method.name=fedcorr", "method.iterations=1",
                                 "method.finetune_rounds=1", "method.usual_rounds=1"},
        {"method.name=clipfl", "method.pre_rounds=2", "method.keep=1", "validation.source=split"},
        {"method.name=joint_optimisation", "method.warmup=1"},
        {"method.name=fedrn", "method.warmup=2", "method.finetune=false"}}) {
    const Experiment experiment = with_file(file, method);
    EXPECT_EQ(hashes_with(experiment, 2), hashes_with(experiment, 1));
  }
}

TEST(OwnModel, AMethodThatNeedsFeaturesSaysSoBeforeItStarts) {
  const TestFolder folder;
  const auto start = [&](const char* text, const std::vector<std::string>& method) {
    const Experiment experiment =
        with_file(write_script(folder / "net.pt", text, linear_state(kSmallShape)), method);
    return Session(experiment, methods(), on_cpu(), nullptr).rounds();
  };
  for (const std::vector<std::string>& method : {std::vector<std::string>{"method.name=fedns"},
                                                 {"method.name=fedrn", "method.warmup=2"},
                                                 {"method.name=moon"},
                                                 {"method.name=rofl"},
                                                 {"method.name=fedcorr", "method.base=moon"}}) {
    EXPECT_THAT(error_text([&] { start(kLinearText, method); }),
                HasSubstr("this method needs features, but the module has no method `features`"))
        << method.front();
    EXPECT_EQ(error_text([&] { start(kLinearWithFeaturesText, method); }), "no error");
  }
}

TEST(OwnModel, ARunLeavesTheTrainedModuleAndCanBeTrainedOn) {
  const TestFolder folder;
  const fs::path file = write_script(folder / "net.pt", kLinearText, linear_state(kSmallShape));
  Silent silent;
  start_run(with_file(file), methods(), on_cpu(), folder / "run", nullptr, silent);
  const ScriptModel trained(folder / "run/model.pt");
  const State state = trained.info().make(kSmallShape)->weights().initial(1);
  const State saved = load_state(folder / "run/model.safetensors", state.layout);
  EXPECT_EQ(hash(state), hash(saved));
  EXPECT_NE(hash(state), hash(linear_state(kSmallShape)));
}

}  // namespace winnow::own_model_test
