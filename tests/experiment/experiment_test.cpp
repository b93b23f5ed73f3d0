#include "winnow/experiment/experiment.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "run/small_run.h"

namespace winnow::experiment_test {

using ::testing::EndsWith;
using ::testing::HasSubstr;

namespace fs = std::filesystem;

Experiment parse(const std::string& toml) {
  return parse_experiment(parse_toml(toml, "t"), builtin_registry());
}

std::string parse_error(const std::string& toml) {
  return error_text([&] { parse(toml); });
}

// Runs in another folder for the life of a test.
class CurrentFolder {
 public:
  explicit CurrentFolder(const fs::path& folder) : before_(fs::current_path()) {
    fs::current_path(folder);
  }
  ~CurrentFolder() { fs::current_path(before_); }
  CurrentFolder(const CurrentFolder&) = delete;
  CurrentFolder& operator=(const CurrentFolder&) = delete;

 private:
  fs::path before_;
};

TEST(Experiment, EverythingHasADefault) {
  const Experiment experiment = parse("");
  EXPECT_EQ(experiment.name, "experiment");
  EXPECT_EQ(experiment.seed, 1U);
  EXPECT_EQ(experiment.rounds, 60);
  EXPECT_EQ(experiment.eval_every, 1);
  EXPECT_EQ(experiment.checkpoint_every, 5);
  EXPECT_EQ(experiment.data.name, "fashion-mnist");
  EXPECT_EQ(experiment.federation.clients, 100);
  EXPECT_DOUBLE_EQ(experiment.federation.fraction, 0.1);
  EXPECT_EQ(experiment.federation.partition.name(), "iid_split");
  EXPECT_TRUE(experiment.noise.empty());
  EXPECT_EQ(experiment.model.name, "lenet5");
  EXPECT_EQ(experiment.train.epochs, 5);
  EXPECT_EQ(experiment.method, "fedavg");
  EXPECT_EQ(experiment.method_params, (Json{{"weighting", "samples"}}));
}

TEST(Experiment, ReadsEveryTable) {
  const Experiment experiment = parse(R"(
    name = "n"
    seed = 9223372036854775807
    rounds = 7
    eval_every = 2
    checkpoint_every = 3
    data = { name = "cifar10", train_limit = 100 }
    federation = { clients = 10, fraction = 1.0, partition = "shards" }
    noise = [ { name = "clipfl_labels", mu = 0.8 }, { name = "fedrn_labels", clients = [1, 2] } ]
    model = { name = "cnn4", resize = 16 }
    train = { lr = 1, label_smoothing = 0.1 }
    method = { name = "fedprox", mu = 0.25 })");
  EXPECT_EQ(experiment.seed, 9223372036854775807U);
  EXPECT_EQ(experiment.data.train_limit, 100);
  EXPECT_EQ(experiment.federation.partition.name(), "shards");
  ASSERT_EQ(experiment.noise.size(), 2U);
  EXPECT_EQ(label_noise(experiment, 0).values().at("mu"), 0.8);
  EXPECT_EQ(label_noise(experiment, 1).scope().clients, (std::vector<std::int64_t>{1, 2}));
  EXPECT_EQ(experiment.model.resize, 16);
  EXPECT_DOUBLE_EQ(experiment.train.lr, 1.0);
  EXPECT_EQ(experiment.method_params.dump(), R"({"mu":0.25,"weighting":"samples"})");
}

TEST(Experiment, MethodMayBeANameAlone) {
  EXPECT_EQ(parse("method = \"fedprox\"").method, "fedprox");
  EXPECT_EQ(parse("method = \"fedprox\"").method_params.dump(),
            R"({"mu":0.01,"weighting":"samples"})");
  EXPECT_EQ(parse("[method]\n").method, "fedavg");
}

TEST(Experiment, ResolvedIsReadBackWithTheSameHash) {
  const std::vector<std::string> files{
      "", small_toml(), "[method]\nname = \"fedprox\"\nmu = 1\n",
      "[federation]\npartition = { name = \"bernoulli_dirichlet\", p = 0.3, alpha = 1 }\n"
      "[[noise]]\nname = \"fedrn_labels\"\ntype = \"mixed\"\nhigh = 0.8\nshare = 0.5\n"
      "[[noise]]\nname = \"transition_matrix\"\nmatrix = [[0.9, 0.1], [0.25, 0.75]]\n"
      "[data]\nname = \"cifar10\"\nmean = [0.5]\nstd = [0.2, 0.3, 1.0]\n"
      "path = \"/a \\\"b\\\" \\\\ c\"\n[train]\nlr = 1e-20\n"};
  for (const std::string& file : files) {
    const Experiment experiment = parse(file);
    const std::string text = write_toml(experiment.resolved());
    const Experiment again = parse(text);
    EXPECT_EQ(again.resolved().dump(), experiment.resolved().dump()) << text;
    EXPECT_EQ(again.hash(), experiment.hash());
    EXPECT_EQ(write_toml(again.resolved()), text);
  }
}

TEST(Experiment, TheHashTellsExperimentsApart) {
  const std::string base = small().hash();
  EXPECT_EQ(small().hash(), base);
  for (const char* change :
       {"seed=2", "train.lr=0.06", "noise.0.rho=0.4", "method.name=fedprox", "rounds=5",
        "federation.partition=shards", "data.seed=2", "model.resize=28"}) {
    EXPECT_NE(small({change}).hash(), base) << change;
  }
  EXPECT_EQ(small({"train.momentum=0.5"}).hash(), base) << "a default written out";
}

TEST(Experiment, OptimisersSchedulesAndFormatsOfDataChangeTheHash) {
  const std::string base = small().hash();
  for (const char* change :
       {"train.optimizer=adam", "train.lr_schedule=step", "train.beta1=0.8", "train.lr_min=0.001",
        "data.layout=nchw", "data.class_names=[\"a\"]", "data.float_range=\"0..1\""}) {
    EXPECT_NE(small({change}).hash(), base) << change;
  }
}

// The arithmetic of these is made for steps of SGD; every other method takes all optimisers.
TEST(Experiment, MethodsThatNeedSgdRefuseOtherOptimisers) {
  const auto refused = [](const std::string& method, const std::string& optimizer = "adam") {
    return parse_error("train = { optimizer = '" + optimizer + "' }\nmethod = " + method);
  };
  EXPECT_EQ(refused("'scaffold'"),
            "train.optimizer = \"adam\": scaffold needs \"sgd\": it computes a mean gradient as "
            "a client's update divided by its steps and the learning rate | set train.optimizer = "
            "\"sgd\", or "
            "choose another method");
  EXPECT_THAT(refused("'fednova'", "adamw"),
              HasSubstr("train.optimizer = \"adamw\": fednova needs \"sgd\": it divides a client's "
                        "update by what its SGD steps add up to"));
  EXPECT_THAT(refused("'feddyn'"), HasSubstr("feddyn needs \"sgd\": it computes the change"));
  EXPECT_THAT(refused("'rhfl'"), HasSubstr("rhfl needs \"sgd\": it has its own method.optimiser"));
  EXPECT_THAT(refused("{ name = 'fedncl', dyn_alpha = 0.1 }"),
              HasSubstr("fedncl needs \"sgd\": method.dyn_alpha computes the change"));
  for (const char* wrapper : {"clipfl", "fedns", "fedcorr", "oracle"}) {
    EXPECT_THAT(refused(fmt::format("{{ name = '{}', base = 'fednova' }}", wrapper)),
                HasSubstr(fmt::format("{} needs \"sgd\": base fednova: it divides", wrapper)));
  }
  const std::set<std::string> picky{"scaffold", "fednova", "feddyn", "rhfl"};
  const Registry registry = builtin_registry();
  for (const MethodInfo& info : registry.methods) {
    const std::string text = refused("'" + info.name + "'");
    EXPECT_EQ(text == "no error", !picky.contains(info.name)) << text;
  }
}

TEST(Experiment, ACosineSpansTheRoundsThatArePlayed) {
  EXPECT_EQ(small({"train.lr_schedule=cosine"}).train.rounds, 4);
  EXPECT_EQ(small({"train.lr_schedule=cosine", "method.name=fedcorr", "method.iterations=1",
                   "method.finetune_rounds=2", "method.usual_rounds=3"})
                .train.rounds,
            4 + 2 + 3)
      << "stage 1 has a turn for each of four clients";
  EXPECT_THAT(parse_error("train = { lr_schedule = 'cosine', lr_decay = 0.5 }"),
              HasSubstr("train.lr_decay = 0.5: lr_schedule = \"cosine\" does not use it"));
}

TEST(Experiment, AnUnknownKeyIsAnErrorWithASuggestionInEveryTable) {
  const std::vector<std::pair<std::string, std::string>> cases{
      {"round = 3", "unknown key 'round' | did you mean 'rounds'?"},
      {"[tain]", "unknown key 'tain' | did you mean 'train'?"},
      {"[data]\nnam = 'x'", "unknown key 'data.nam' | did you mean 'data.name'?"},
      {"[federation]\nclient = 3",
       "unknown key 'federation.client' | did you mean 'federation.clients'?"},
      {"[federation]\npartitions = 'iid_split'",
       "unknown key 'federation.partitions' | did you mean 'federation.partition'?"},
      {"[federation]\npartition = { name = 'shards', shard_per_client = 1 }",
       "unknown key 'federation.partition.shard_per_client' | did you mean "
       "'federation.partition.shards_per_client'?"},
      {"[[noise]]\nname = 'fedcorr_labels'\n[[noise]]\nname = 'clipfl_labels'\nrhoo = 1",
       "unknown key 'noise.1.rhoo' | did you mean 'noise.1.rho'?"},
      {"[model]\nweight = 'x'", "unknown key 'model.weight' | did you mean 'model.weights'?"},
      {"[train]\nmomentun = 1", "unknown key 'train.momentun' | did you mean 'train.momentum'?"},
      {"[train]\noptimiser = 'adam'",
       "unknown key 'train.optimiser' | did you mean 'train.optimizer'?"},
      {"[train]\nschedule = 'step'",
       "unknown key 'train.schedule' | did you mean 'train.lr_schedule'?"},
      {"[method]\nname = 'fedprox'\nmuu = 1",
       "unknown key 'method.muu' | did you mean 'method.mu'?"},
      {"[method]\nname = 'fedavg'\nmu = 1", "unknown key 'method.mu' | known: name, weighting"},
  };
  for (const auto& [toml, expected] : cases) {
    EXPECT_EQ(parse_error(toml), expected) << toml;
  }
}

TEST(Experiment, AKeyInTheWrongTableOrOfAnotherProgramIsFound) {
  const std::vector<std::pair<std::string, std::string>> cases{
      {"lr = 0.1", "unknown key 'lr' | did you mean 'train.lr'?"},
      {"learning_rate = 0.1", "unknown key 'learning_rate' | did you mean 'train.lr'?"},
      {"[train]\nlearning_rate = 1",
       "unknown key 'train.learning_rate' | did you mean 'train.lr'?"},
      {"[method]\nlr = 1", "unknown key 'method.lr' | did you mean 'train.lr'?"},
      {"[train]\nbatch = 1", "unknown key 'train.batch' | did you mean 'train.batch_size'?"},
      {"[train]\nlocal_epochs = 1",
       "unknown key 'train.local_epochs' | did you mean 'train.epochs'?"},
      {"num_clients = 5", "unknown key 'num_clients' | did you mean 'federation.clients'?"},
      {"[federation]\nrounds = 5", "unknown key 'federation.rounds' | did you mean 'rounds'?"},
      {"[federation]\nalpha = 1",
       "unknown key 'federation.alpha' | did you mean 'federation.partition.alpha'?"},
      {"partition = 'iid'", "unknown key 'partition' | did you mean 'federation.partition'?"},
      {"momentun = 0.5", "unknown key 'momentun' | did you mean 'train.momentum'?"},
      {"mu = 0.5\n[method]\nname = 'fedprox'", "unknown key 'mu' | did you mean 'method.mu'?"},
  };
  for (const auto& [toml, expected] : cases) {
    EXPECT_EQ(parse_error(toml), expected) << toml;
  }
}

TEST(Experiment, KnownNamesGiveTheSameHashes) {
  const std::string ours =
      "[federation]\npartition = { name = 'dirichlet_class', alpha = 0.3 }\n"
      "[[noise]]\nname = 'fedrn_labels'\ntype = 'pairflip'\nlow = 0.2\nhigh = 0.2\n";
  const std::string known =
      "[federation]\npartition = { name = 'dirichlet', alpha = 0.3 }\n"
      "[[noise]]\nname = 'pairflip'\nrate = 0.2\n";
  EXPECT_EQ(parse(known).resolved(), parse(ours).resolved());
  EXPECT_EQ(parse(known).hash(), parse(ours).hash());
  EXPECT_EQ(cell_hash(parse_toml(known, "f")), cell_hash(parse_toml(ours, "f")));
}

TEST(Experiment, UnknownNamesComeWithASuggestion) {
  EXPECT_EQ(parse_error("method = 'fedprx'"), "unknown method 'fedprx' | did you mean 'fedprox'?");
  EXPECT_EQ(parse_error("[model]\nname = 'lenet'"),
            "unknown model 'lenet' | did you mean 'lenet5'?");
  EXPECT_EQ(parse_error("[federation]\npartition = 'shard'"),
            "federation.partition: unknown partition 'shard' | did you mean 'shards'?");
  EXPECT_EQ(parse_error("[[noise]]\nname = 'fedcor_labels'"),
            "noise.0: unknown noise 'fedcor_labels' | did you mean 'fedcorr_labels'?");
  EXPECT_EQ(parse_error("[data]\nname = 'cifar11'"),
            "unknown data set 'cifar11' | did you mean 'cifar10'?");
}

TEST(Experiment, WrongTypesAreNamed) {
  const std::vector<std::pair<std::string, std::string>> cases{
      {"name = 3", "name = 3: expected a text in quotes"},
      {"name = ''", "name = \"\": expected the name of a folder: 1 to 200 bytes"},
      {"seed = 1.5", "seed = 1.5: expected a whole number that is not negative"},
      {"seed = -1", "seed = -1: expected a whole number that is not negative"},
      {"rounds = '3'", "rounds = \"3\": expected a whole number"},
      {"rounds = 2.0", "rounds = 2.0: expected a whole number"},
      {"data = 'mnist'", "data: expected a table"},
      {"federation = 3", "federation: expected a table"},
      {"model = 'lenet5'", "model: expected a table"},
      {"train = []", "train: expected a table"},
      {"method = 3", "method: expected a table with a name"},
      {"method = { name = 3 }", "method.name = 3: expected a text in quotes"},
      {"[federation]\npartition = 3",
       "federation.partition = 3: expected a name or a table with a name"},
      {"[[noise]]\nrho = 1", "noise.0: expected a table with a name"},
      {"noise = [1]", "noise.0: expected a table with a name"},
      {"[train]\nlr = 'fast'", "train.lr = \"fast\": expected a number"},
      {"[data]\nmean = 0.5", "data.mean = 0.5: expected a list of numbers"},
      {"[method]\nname = 'fedprox'\nmu = true", "method.mu = true: expected a number"},
  };
  for (const auto& [toml, expected] : cases) {
    EXPECT_THAT(parse_error(toml), ::testing::StartsWith(expected)) << toml;
    EXPECT_EQ(error_kind([&, &file = toml] { parse(file); }), ErrorKind::experiment);
  }
}

TEST(Experiment, ValuesOutOfRangeAreNamed) {
  const std::vector<std::pair<std::string, std::string>> cases{
      {"rounds = 0", "rounds = 0: expected a whole number from 1 to"},
      {"eval_every = 0", "eval_every = 0"},
      {"checkpoint_every = 0", "checkpoint_every = 0"},
      {"[federation]\nclients = 0", "federation.clients = 0: expected a whole number from 1"},
      {"[federation]\nfraction = 0",
       "federation.fraction = 0: expected a number greater than 0 and at most 1"},
      {"[federation]\nfraction = 1.5",
       "federation.fraction = 1.5: expected a number greater than 0 and at most 1"},
      {"[federation]\nfraction = nan", "federation.fraction = "},
      {"[train]\nlr = -1", "train.lr = -1: expected a number >= 0"},
      {"[train]\nbatch_size = 0", "train.batch_size = 0"},
      {"[model]\nresize = 5000", "model.resize = 5000: expected a whole number from 0 to 4096"},
      {"[[noise]]\nname = 'fedcorr_labels'\nrho = 2", "noise.0.rho = 2: expected a number from 0"},
      {"[data]\naugment = 'maybe'", "data.augment = \"maybe\": expected one of auto, on, off"},
      {"[method]\nname = 'fedprox'\nmu = -1", "method.mu = -1: expected a number >= 0"},
  };
  for (const auto& [toml, expected] : cases) {
    EXPECT_THAT(parse_error(toml), ::testing::StartsWith(expected)) << toml;
  }
}

TEST(Experiment, NoiseWithOneBracketGetsAHint) {
  EXPECT_EQ(parse_error("[noise]\nname = 'fedcorr_labels'"),
            "noise: expected a list of tables | write [[noise]], with two brackets on each side");
}

TEST(Experiment, AnOverrideIsAKeyAndAValue) {
  EXPECT_EQ(parse_override("a.b = c=d").key, "a.b");
  EXPECT_EQ(parse_override("a.b = c=d").value, "c=d");
  EXPECT_EQ(parse_override("x=").value, "");
  const std::string hint = " | for example --set train.lr=0.03";
  EXPECT_EQ(error_text([] { parse_override("seed"); }), "--set seed: expected key=value" + hint);
  EXPECT_EQ(error_text([] { parse_override("=3"); }), "--set =3: expected key=value" + hint);
  EXPECT_EQ(error_text([] { parse_override("name=\xff"); }), "--set: expected key=value in UTF-8");
  EXPECT_EQ(error_kind([] { parse_override("seed"); }), ErrorKind::usage);
}

TEST(ExperimentFile, OverridesApply) {
  const TestFolder folder;
  write_file_whole(folder / "e.toml", small_toml());
  const Experiment experiment = load_experiment(folder / "e.toml",
                                                {{"seed", "9"},
                                                 {"method.name", "fedprox"},
                                                 {"method.mu", "0.5"},
                                                 {"noise.0.rho", "0.25"},
                                                 {"federation.partition.name", "shards"}},
                                                builtin_registry());
  EXPECT_EQ(experiment.seed, 9U);
  EXPECT_EQ(experiment.method_params.dump(), R"({"mu":0.5,"weighting":"samples"})");
  EXPECT_EQ(label_noise(experiment, 0).values().at("rho"), 0.25);
  EXPECT_EQ(experiment.federation.partition.name(), "shards");
}

TEST(ExperimentFile, ErrorsNameTheFile) {
  const TestFolder folder;
  const fs::path file = folder / "e.toml";
  const auto load = [&](const std::string& text, const std::vector<Override>& overrides = {}) {
    write_file_whole(file, text);
    return error_text([&] { load_experiment(file, overrides, builtin_registry()); });
  };
  EXPECT_EQ(load("round = 1"), file.string() + ": unknown key 'round' | did you mean 'rounds'?");
  EXPECT_THAT(load("a = "), HasSubstr(file.string() + ":1:"));
  EXPECT_EQ(load("seed = 1", {{"seed.x", "1"}}),
            "--set seed.x: the way to 'x' leads through a value");
  EXPECT_EQ(error_kind([&] { load_experiment(folder / "no.toml", {}, builtin_registry()); }),
            ErrorKind::experiment);
  EXPECT_EQ(error_text([&] { load_experiment(folder / "no.toml", {}, builtin_registry()); }),
            "cannot read " + (folder / "no.toml").string() + ": no such file");
  EXPECT_THAT(error_text([&] { load_experiment(folder.path(), {}, builtin_registry()); }),
              EndsWith("it is not a regular file"));
}

TEST(ExperimentFile, ASweepIsRefusedWithTheRightCommand) {
  const TestFolder folder;
  const fs::path file = folder / "e.toml";
  for (const auto& [text, part] : {std::pair{"[grid]\nseed = [1]", "[grid]"},
                                   {"[[row]]\nname = 'a'", "[[row]]"},
                                   {"[[column]]\nname = 'a'", "[[column]]"}}) {
    write_file_whole(file, text);
    EXPECT_EQ(error_text([&] { load_experiment(file, {}, builtin_registry()); }),
              file.string() + " has a " + part + ": it is a sweep | run it with: winnow sweep " +
                  file.string());
  }
}

TEST(ExperimentFile, RelativePathsAreMadeAbsolute) {
  const TestFolder folder;
  fs::create_directories(folder / "here/found");
  fs::create_directories(folder / "files/found");
  for (const char* name : {"l.csv", "w.safetensors", "human.npy"}) {
    write_file_whole(folder / "files" / name, "");
  }
  write_file_whole(folder / "files/e.toml",
                   "[data]\npath = 'found'\ngiven_labels = './l.csv'\nlist_test = '/abs'\n"
                   "[model]\nweights = 'w.safetensors'\n"
                   "[[noise]]\nname = 'human_labels'\nfile = 'human.npy'\n"
                   "[[noise]]\nname = 'human_labels'\nfile = 'nowhere.npy'\n");
  const CurrentFolder inside(folder / "here");
  const Experiment experiment = load_experiment("../files/e.toml", {}, builtin_registry());
  const fs::path here = fs::current_path();
  const fs::path beside = here.parent_path() / "files";
  EXPECT_EQ(experiment.data.path, (here / "found").string()) << "from here first";
  EXPECT_EQ(experiment.data.given_labels, (beside / "l.csv").string()) << "then from the file";
  EXPECT_EQ(experiment.data.list_test, "/abs");
  EXPECT_EQ(experiment.model.weights, (beside / "w.safetensors").string());
  EXPECT_EQ(label_noise(experiment, 0).values().at("file"), (beside / "human.npy").string());
  EXPECT_EQ(label_noise(experiment, 1).values().at("file"), (here / "nowhere.npy").string())
      << "a missing file is reported where the user stands";
}

// Labels and weights lie beside the data sets that they belong to.
TEST(ExperimentFile, RelativePathsAreLookedForAmongTheDataSetsToo) {
  const TestFolder folder;
  fs::create_directories(folder / "here/data");
  fs::create_directories(folder / "files");
  write_file_whole(folder / "here/data/human.npy", "");
  write_file_whole(folder / "files/e.toml",
                   "[model]\nweights = 'w.safetensors'\n"
                   "[[noise]]\nname = 'human_labels'\nfile = 'human.npy'\n");
  const CurrentFolder inside(folder / "here");
  const auto load = [] { return load_experiment("../files/e.toml", {}, builtin_registry()); };
  const fs::path here = fs::current_path();
  EXPECT_EQ(label_noise(load(), 0).values().at("file"), (here / "data/human.npy").string());
  EXPECT_EQ(load().model.weights, (here / "w.safetensors").string()) << "it is nowhere";
  const fs::path sets = here.parent_path() / "sets";
  fs::create_directories(sets);
  write_file_whole(sets / "w.safetensors", "");
  write_file_whole(sets / "human.npy", "");
  ::setenv("WINNOW_DATA", sets.c_str(), 1);
  const Experiment experiment = load();
  ::unsetenv("WINNOW_DATA");
  EXPECT_EQ(experiment.model.weights, (sets / "w.safetensors").string());
  EXPECT_EQ(label_noise(experiment, 0).values().at("file"), (sets / "human.npy").string())
      << "what the user names comes first";
}

TEST(ExperimentFile, EmptyPathsAndThoseBelowHomeStayAsTheyAre) {
  const TestFolder folder;
  write_file_whole(folder / "e.toml", "[data]\npath = '~/sets'\n[model]\nweights = ''\n");
  const Experiment experiment = load_experiment(folder / "e.toml", {}, builtin_registry());
  EXPECT_EQ(experiment.data.path, "~/sets");
  EXPECT_EQ(experiment.model.weights, "");
}

TEST(ExperimentFile, TablesOfTheWrongShapeAreLeftForTheCheckToName) {
  const TestFolder folder;
  write_file_whole(folder / "e.toml", "noise = [3]\n");
  EXPECT_THAT(error_text([&] { load_experiment(folder / "e.toml", {}, builtin_registry()); }),
              HasSubstr("noise.0: expected a table with a name"));
  write_file_whole(folder / "e.toml", "data = 3\n");
  EXPECT_THAT(error_text([&] { load_experiment(folder / "e.toml", {}, builtin_registry()); }),
              HasSubstr("data: expected a table"));
}

TEST(MakeMethod, GivesTheMethodItsParametersAndChecksTheSetting) {
  class Picky final : public FedAvg {
   public:
    void declare(Params& params) override { params.add("limit", limit_, "most clients"); }
    void check(const Setting& setting) const override {
      if (setting.clients > limit_) {
        throw Error(ErrorKind::experiment, "picky: too many clients");
      }
    }

   private:
    std::int64_t limit_ = 10;
  };
  Registry registry = builtin_registry();
  registry.methods.add({"picky", "test", "", [] { return std::make_unique<Picky>(); }});
  Experiment experiment =
      parse_experiment(parse_toml("method = { name = 'picky', limit = 3 }", "t"), registry);
  EXPECT_NE(make_method(experiment, registry, {1, 5, 3, 0.5, 2}), nullptr);
  EXPECT_EQ(error_text([&] {
              make_method(experiment, registry, {1, 5, 4, 0.5, 2});
            }),
            "picky: too many clients");
}

}  // namespace winnow::experiment_test
