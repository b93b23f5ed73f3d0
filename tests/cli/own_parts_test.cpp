// A program of one's own: one method, network, data set, partition, label noise, distortion and
// engine that Winnow does not bring, each a few lines, used by name like the others.
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "run/small_run.h"
#include "winnow/cli/cli.h"
#include "winnow/method/base/fedavg/fedavg.h"
#include "winnow/model/init.h"
#include "winnow/model/layers.h"
#include "winnow/run/workplace.h"

namespace winnow::own_parts_test {

using ::testing::HasSubstr;

// ---- what a program brings

// FedAvg by another name, with a parameter that is read and checked; examples/own_method has one
// that does something.
class Cautious final : public FedAvg {
 public:
  void declare(Params& params) override {
    FedAvg::declare(params);
    params.add("pull", pull_, "a number that is only kept").range(0, 1);
  }

 private:
  double pull_ = 0.5;
};

class OneLayer final : public Net {
 public:
  explicit OneLayer(const NetShape& shape) {
    const std::int64_t pixels = shape.channels * shape.height * shape.width;
    declare_head("fc", pixels, shape.classes, init::fan_in_uniform(pixels),
                 init::fan_in_uniform(pixels));
  }
  at::Tensor features(const at::Tensor& images, const Pass& /*pass*/) const override {
    return images.flatten(1);
  }
};

// Grey squares whose brightness is the class.
class Shades final : public DataSource {
 public:
  void declare(Params& params) override {
    params.add("shades", shades_, "number of shades, which are the classes").range(2, 16);
  }
  DataSet load(const std::filesystem::path& /*place*/) const override {
    DataSet set;
    set.classes = shades_;
    for (Samples* part : {&set.train, &set.test}) {
      const std::int64_t count = 30 * shades_;
      part->images = at::zeros({count, 1, 8, 8}, at::kByte);
      for (std::int64_t i = 0; i < count; ++i) {
        part->labels.push_back(i % shades_);
        part->images[i].fill_((i % shades_) * 255 / (shades_ - 1));
      }
    }
    return set;
  }

 private:
  std::int64_t shades_ = 3;
};

// Samples in turn; the first client may be left without any.
class InTurn final : public PartitionRule {
 public:
  void declare(Params& params) override {
    params.add("first", first_, "the first client that gets samples").range(0, 100);
  }
  Assignment make(const PartitionInput& input) const override {
    Assignment assign(static_cast<std::size_t>(input.clients));
    for (std::int64_t i = 0; i < input.samples(); ++i) {
      assign[static_cast<std::size_t>(first_ + i % (input.clients - first_))].push_back(i);
    }
    return assign;
  }

 private:
  std::int64_t first_ = 0;
};

// Every label of the first clients becomes 0.
class AllZero final : public LabelNoiseRule {
 public:
  void declare(Params& params) override {
    params.add("number", number_, "how many clients").range(1, 100);
  }
  std::vector<ClientNoise> plan(const LabelNoiseContext& context,
                                Stream& /*stream*/) const override {
    std::vector<ClientNoise> noises;
    for (const std::int64_t client : context.clients) {
      CorruptLabels corrupt;
      if (client < number_) {
        corrupt = [](std::span<const std::int64_t>, std::span<std::int64_t> labels, Stream&) {
          std::ranges::fill(labels, 0);
          return std::ssize(labels);
        };
      }
      noises.push_back({client, client < number_ ? 1.0 : 0.0, false, corrupt});
    }
    return noises;
  }

 private:
  std::int64_t number_ = 1;
};

void invert(const ImageView& image, int /*severity*/, Stream& /*stream*/) {
  for (std::int64_t i = 0; i < image.size(); ++i) {
    image.data[i] = static_cast<std::uint8_t>(255 - image.data[i]);
  }
}

Registry own_registry() {
  Registry registry = builtin_registry();
  registry.methods.add(
      {"cautious", "own", "FedAvg by another name", [] { return std::make_unique<Cautious>(); }});
  registry.networks.add(
      {"one_layer", "a linear classifier", {10, 1, 8, 8}, 0, [](const NetShape& shape) {
         return std::make_unique<OneLayer>(shape);
       }});
  registry.data_sets.add({.name = "shades",
                          .summary = "grey squares, as many classes as you like",
                          .how_to_get = "nothing to get",
                          .layout = DataLayout::own,
                          .make = [] { return std::make_unique<Shades>(); }});
  registry.partitions.add(
      {"in_turn", "samples in turn", [] { return std::make_unique<InTurn>(); }});
  registry.label_noises.add(
      {"all_zero", "all labels become 0", [] { return std::make_unique<AllZero>(); }});
  registry.distortions.add({"inverted", "black becomes white", false, invert});
  return registry;
}

// ---- what comes of it

Json own_tree() {
  return {{"name", "own"},
          {"rounds", 4},
          {"data", {{"name", "shades"}, {"shades", 4}}},
          {"federation",
           {{"clients", 5}, {"fraction", 0.8}, {"partition", {{"name", "in_turn"}, {"first", 1}}}}},
          {"validation", {{"source", "split"}, {"share", 0.2}, {"distortion", "inverted"}}},
          {"noise",
           {{{"name", "all_zero"}, {"number", 2}},
            {{"name", "distortions"}, {"kinds", {"inverted"}}, {"clients", {4}}}}},
          {"model", {{"name", "one_layer"}}},
          {"method",
           {{"name", "clipfl"},
            {"pre_rounds", 2},
            {"keep", 2},
            {"base", {{"name", "cautious"}, {"pull", 0.25}}}}}};
}

TEST(OwnParts, AnExperimentRunsWithOneOfEach) {
  const Registry registry = own_registry();
  const Experiment experiment = parse_experiment(own_tree(), registry);
  Session session(experiment, registry, on_cpu(), nullptr);
  while (session.rounds_done() < session.rounds()) {
    session.play();
  }
  const World& world = session.world();
  EXPECT_EQ(world.data.classes, 4);
  EXPECT_EQ(world.data.class_names.back(), "3");
  EXPECT_TRUE(world.clients[0].samples.empty());
  EXPECT_EQ(world.clients[1].samples.size(), 24U);
  EXPECT_THAT(world.clients[1].given, ::testing::Each(0));
  EXPECT_EQ(world.ledger.noisy_clients(), (std::set<std::int64_t>{1, 4}));
  const std::int64_t inverted = world.clients[4].samples.front();
  EXPECT_EQ(world.data.train.images[inverted].max().item<int>(),
            255 - 85 * world.data.train.labels[static_cast<std::size_t>(inverted)]);
  EXPECT_EQ(session.global().layout->parameters(), 64 * 4 + 4);
  EXPECT_EQ(experiment.method_params.at("base").at("pull"), 0.25);

  // A run directory has every key, and reads back.
  const Json resolved = experiment.resolved();
  EXPECT_EQ(resolved.at("data").at("shades"), 4);
  EXPECT_EQ(resolved.at("federation").at("partition").at("first"), 1);
  EXPECT_EQ(parse_experiment(resolved, registry).hash(), experiment.hash());
}

// An engine: its clients are in this process, but messages cross as bytes, and the run is told.
Engines own_engines() {
  Engines engines = local_engines();
  engines.add({"by_wire", "all clients in this process, by bytes", nullptr,
               [](const Experiment& experiment, const Registry& registry, const Runtime& runtime,
                  const std::atomic<bool>* stop) {
                 Runtime wired = runtime;
                 wired.wire = true;
                 Hosted hosted = host_locally(
                     std::make_unique<Workplace>(experiment, registry, wired, stop), wired);
                 hosted.notices.emplace_back("by wire");
                 return hosted;
               }});
  return engines;
}

TEST(OwnParts, AnEngineOfOnesOwnPlaysTheSameRun) {
  const Registry registry = own_registry();
  const Experiment experiment = parse_experiment(own_tree(), registry);
  Session usual(experiment, registry, on_cpu(), nullptr);
  usual.play();
  Runtime runtime = on_cpu();
  runtime.engines = own_engines();
  runtime.engine = "by_wire";
  Session session(experiment, registry, runtime, nullptr);
  session.play();
  EXPECT_EQ(session.model_hash(), usual.model_hash());
  EXPECT_THAT(session.notices(), ::testing::Contains("by wire"));
}

TEST(OwnParts, AreCheckedLikeTheOthers) {
  const Registry registry = own_registry();
  const auto error = [&](const std::string& pointer, const Json& value) {
    Json tree = own_tree();
    tree[Json::json_pointer(pointer)] = value;
    return error_text([&] { parse_experiment(tree, registry); });
  };
  EXPECT_EQ(
      error("/data/shades", 99),
      "data.shades = 99: expected a whole number from 2 to 16 | number of shades, which are the "
      "classes");
  EXPECT_THAT(error("/data/shade", 3), HasSubstr("unknown key 'data.shade' | did you mean '"));
  EXPECT_EQ(error("/data/name", "shade"), "unknown data set 'shade' | did you mean 'shades'?");
  EXPECT_EQ(error("/model/name", "one_lair"),
            "unknown model 'one_lair' | did you mean 'one_layer'?");
  EXPECT_EQ(error("/federation/partition/name", "in_turns"),
            "federation.partition: unknown partition 'in_turns' | did you mean 'in_turn'?");
  EXPECT_EQ(error("/noise/0/name", "all_zeros"),
            "noise.0: unknown noise 'all_zeros' | did you mean 'all_zero'?");
  EXPECT_EQ(error("/noise/1/kinds/0", "invertid"),
            "noise.1: distortion 'invertid' is not known | did you mean 'inverted'?");
  EXPECT_THAT(error("/method/base/name", "cautius"),
              ::testing::EndsWith(" | did you mean 'cautious'?"));
  EXPECT_NE(error_text([&] { parse_experiment(own_tree(), builtin_registry()); }), "no error");
}

TEST(OwnParts, ARuleThatDealsOutASampleTwiceIsABug) {
  class Twice final : public PartitionRule {
   public:
    Assignment make(const PartitionInput& /*input*/) const override { return {{0}, {0}}; }
  };
  Partitions partitions = builtin_partitions();
  partitions.add({"twice", "wrong", [] { return std::make_unique<Twice>(); }});
  const std::vector<std::int64_t> labels{0, 1, 0};
  EXPECT_EQ(error_text([&] { Partition::parse("twice", partitions).make(labels, 2, 2, 1); }),
            "partition 'twice' does not deal out 3 samples to 2 clients, each at most once");
}

// The text that a command prints.
std::string printed(const std::vector<const char*>& words, const char* program = "winnow") {
  std::vector<const char*> arguments{program};
  arguments.insert(arguments.end(), words.begin(), words.end());
  arguments.push_back(nullptr);
  const Registry registry = own_registry();
  ::testing::internal::CaptureStdout();
  EXPECT_EQ(run_program(static_cast<int>(arguments.size()) - 1, arguments.data(), registry,
                        own_engines()),
            0);
  return ::testing::internal::GetCapturedStdout();
}

TEST(OwnParts, AreListedDescribedAndCompleted) {
  const std::vector<std::pair<const char*, const char*>> lists{
      {"methods", "cautious"},   {"models", "one_layer"}, {"datasets", "shades"},
      {"partitions", "in_turn"}, {"noises", "all_zero"},  {"distortions", "inverted"},
      {"engines", "by_wire"}};
  const std::string completion = printed({"completion", "bash"});
  for (const auto& [list, name] : lists) {
    EXPECT_THAT(printed({"list", list}), HasSubstr(name));
    EXPECT_EQ(Json::parse(printed({"describe", name, "--json"})).at("name"), name);
    EXPECT_THAT(completion, HasSubstr(name));
  }
  EXPECT_THAT(printed({"describe", "shades"}), HasSubstr("number of shades"));
  EXPECT_THAT(completion, HasSubstr("data.shades"));
}

TEST(OwnParts, TheProgramHasItsOwnNameInItsHelp) {
  EXPECT_THAT(printed({"--help"}, "build/own_method"), HasSubstr("\nUsage: own_method ["));
  EXPECT_THAT(printed({"run", "--help"}, "build/own_method"), HasSubstr("Usage: own_method run ["));
  // What `winnow` becomes keeps its name, also when it is started itself.
  EXPECT_THAT(printed({"--help"}, "/usr/bin/winnow-net"), HasSubstr("\nUsage: winnow ["));
  const char* const arguments[] = {"build/own_method", "run", nullptr};
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(run_program(2, arguments, own_registry()), 2);
  EXPECT_EQ(::testing::internal::GetCapturedStderr(),
            "winnow: FILE is required\n  try 'own_method run --help'\n");
}

}  // namespace winnow::own_parts_test
