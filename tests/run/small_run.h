// What the tests of this layer share: an experiment of a fraction of a second, a method with state
// on both sides of the boundary, and a folder that is gone afterwards.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "testing/support.h"
#include "winnow/base/files.h"
#include "winnow/base/png.h"
#include "winnow/base/text.h"
#include "winnow/experiment/experiment.h"
#include "winnow/experiment/toml.h"
#include "winnow/method/base/fedavg/fedavg.h"
#include "winnow/run/session.h"

namespace winnow {

// A folder of the running test's own.
class TestFolder {
 public:
  TestFolder() {
    const auto* test = testing::UnitTest::GetInstance()->current_test_info();
    std::string name = std::string("winnow_") + test->test_suite_name() + "_" + test->name() + "_" +
                       std::to_string(::getpid());
    std::ranges::replace(name, '/', '_');  // tests with parameters have slashes in their names
    path_ = std::filesystem::temp_directory_path() / name;
    std::filesystem::remove_all(path_);
    std::filesystem::create_directories(path_);
  }
  ~TestFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TestFolder(const TestFolder&) = delete;
  TestFolder& operator=(const TestFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

// Grey images of 8x8 as ROOT/CLASS/NUMBER.png, in classes "a", "b", ...
inline void write_photos(const std::filesystem::path& root, int classes, int images) {
  for (int label = 0; label < classes; ++label) {
    const std::filesystem::path folder = root / std::string(1, static_cast<char>('a' + label));
    std::filesystem::create_directories(folder);
    for (int i = 0; i < images; ++i) {
      std::vector<std::uint8_t> pixels(64);
      for (std::size_t p = 0; p < pixels.size(); ++p) {
        pixels[p] = static_cast<std::uint8_t>(60 * label + 3 * i + static_cast<int>(p));
      }
      write_file_whole(folder / (std::to_string(10 + i) + ".png"), encode_png(pixels, 8, 8, 1));
    }
  }
}

inline const char* small_toml() {
  return R"(name = "small"
rounds = 4
checkpoint_every = 2
[data]
name = "synthetic"
samples = 160
test_samples = 40
classes = 4
[federation]
clients = 4
fraction = 0.5
[[noise]]
name = "fedcorr_labels"
rho = 0.5
[train]
epochs = 1
lr = 0.05
)";
}

// The small experiment with some keys set as `--set` would.
inline Json small_tree(const std::vector<std::string>& sets = {}) {
  Json tree = parse_toml(small_toml(), "small.toml");
  for (const std::string& text : sets) {
    const Override change = parse_override(text);
    set_by_path(tree, change.key, parse_toml_value(change.value));
  }
  return tree;
}

inline Runtime on_cpu(std::int64_t lanes = 2) {
  return {lanes, "cpu"};
}

// FedAvg whose clients change a label and count their trainings, and whose server adds momentum: a
// run that loses any of this state ends in another model. It has nothing to note.
class Remembering final : public FedAvg {
 public:
  // Called on the client's side before it trains.
  using Hook = std::function<void(std::int64_t round, std::int64_t client)>;

  explicit Remembering(Hook hook) : hook_(std::move(hook)) {}

  ServerNeeds server_needs() const override { return ServerNeeds::sums("it averages the models"); }

  std::unique_ptr<ClientSide> client_side() const override {
    return std::make_unique<ScriptedClient>(
        [hook = hook_](const Message& task, ClientContext& context) {
          const auto round = static_cast<std::int64_t>(task.get<std::uint32_t>("round"));
          if (hook) {
            hook(round, context.id());
          }
          Archive& archive = context.archive();
          const int times = archive.values.value("times", 0) + 1;
          archive.values["times"] = times;
          archive.tensors["trace"] = at::full({2}, times);
          const LocalSet set = context.local_set();
          Labels labels(set.labels.begin(), set.labels.end());
          labels.front() = (labels.front() + 1) % 4;
          context.trace().labels = labels;
          TrainOutcome outcome = context.train(task.get<State>("model"), round, {});
          return Message("train_done")
              .set("model", std::move(outcome.state))
              .set("samples", static_cast<std::uint32_t>(context.size()));
        });
  }

  void play(std::int64_t round, Server& server) override {
    ++played_;
    const State before = server.global;
    FedAvg::play(round, server);
    State next = server.global.clone();
    if (velocity_.defined()) {
      next.flat.add_(velocity_, 0.5 / static_cast<double>(played_));
    }
    velocity_ = next.flat - before.flat;
    server.global = next;
    server.notes = Json();
  }

  void save(Archive& archive) const override {
    archive.values["played"] = played_;
    if (velocity_.defined()) {
      archive.tensors["velocity"] = velocity_;
    }
  }

  void load(const Archive& archive) override {
    played_ = archive.values.at("played").get<std::int64_t>();
    const auto found = archive.tensors.find("velocity");
    velocity_ = found == archive.tensors.end() ? at::Tensor() : found->second;
  }

 private:
  Hook hook_;
  std::int64_t played_ = 0;
  at::Tensor velocity_;
};

// The built-in methods and "remembering".
inline Registry methods(Remembering::Hook hook = nullptr) {
  Registry registry = builtin_registry();
  registry.methods.add({"remembering", "test", "state on both sides",
                        [hook = std::move(hook)] { return std::make_unique<Remembering>(hook); }});
  return registry;
}

inline Experiment small(const std::vector<std::string>& sets = {}) {
  return parse_experiment(small_tree(sets), methods());
}

inline const LabelNoise& label_noise(const Experiment& experiment, std::size_t block) {
  return std::get<LabelNoise>(experiment.noise.at(block));
}

inline std::vector<std::string> hashes(const History& history) {
  std::vector<std::string> result;
  for (const RoundRecord& record : history) {
    result.push_back(record.hash);
  }
  return result;
}

// The session's checkpoint, written into a folder and read again. A run has the history from its
// log.
inline Checkpoint through_files(const std::filesystem::path& folder, const Session& session) {
  Checkpoint saved = session.checkpoint();
  save_checkpoint(folder, saved);
  Checkpoint loaded = *load_checkpoint(folder, saved.experiment_hash, session.global().layout);
  loaded.history = saved.history;
  return loaded;
}

// The model hash after each round of an undisturbed run.
inline std::vector<std::string> undisturbed_hashes(const Experiment& experiment) {
  Session session(experiment, methods(), on_cpu(), nullptr);
  while (session.rounds_done() < session.rounds()) {
    session.play();
  }
  return hashes(session.history());
}

}  // namespace winnow
