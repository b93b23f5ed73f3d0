#include "winnow/cli/command_tree.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "winnow/base/arithmetic.h"
#include "winnow/base/text.h"
#include "winnow/cli/command.h"
#include "winnow/data/catalog.h"
#include "winnow/data/partition.h"
#include "winnow/experiment/description.h"
#include "winnow/experiment/experiment.h"
#include "winnow/model/net.h"
#include "winnow/model/script_net.h"
#include "winnow/noise/noise.h"
#include "winnow/report/arena.h"
#include "winnow/report/table.h"
#include "winnow/run/aggregate.h"
#include "winnow/run/bench.h"

namespace winnow {
namespace {

using Names = std::vector<std::string>;

template <typename Infos>
Names names_of(const Infos& infos) {
  Names names;
  for (const auto& info : infos) {
    names.push_back(info.name);
  }
  return names;
}

Names model_names(const Networks& networks) {
  Names names = networks.names();
  names.emplace_back(kTorchScript);
  return names;
}

Names arithmetic_names() {
  Names names{"native"};
  for (const Arithmetic arithmetic : all_arithmetics()) {
    names.push_back(arithmetic_name(arithmetic));
  }
  return names;
}

// "{a,b}", by which the parser describes a choice, at the end of a type's name.
Names choices_in(const std::string& type) {
  const std::size_t open = type.find('{');
  if (open == std::string::npos || type.back() != '}') {
    return {};
  }
  return split(type.substr(open + 1, type.size() - open - 2), ',');
}

// Adds what the parser does not know: which words or files make sense.
void add_offer(const std::string& command, const Registry& registry, OptionText& option) {
  const std::string& name = option.names.back();
  const auto words = [&](Names list, Offer offer = Offer::words) {
    option.offer = offer;
    option.words = std::move(list);
  };
  const auto files = [&](const char* ending) {
    option.offer = Offer::files;
    option.ending = ending;
  };
  if (name == "--set") {
    option.offer = Offer::keys;
  } else if (name == "--device") {
    words({"auto", "cpu", "cuda"});
  } else if (name == "--precision") {
    words({"auto", "fp32", "tf32", "bf16"});
  } else if (name == "--arithmetic") {
    words(arithmetic_names());
  } else if (name == "--metric") {
    words(table_metrics(), Offer::lists);
  } else if (command == "arena" && name == "--format") {
    words(arena_formats());
  } else if (command == "arena" && name == "--svg") {
    files(".svg");
  } else if (name == "--format") {
    words({"text", "markdown", "csv", "latex", "json", "runs"});
  } else if (name == "--job") {
    words(names_of(bench_jobs()));
  } else if (name == "--method") {
    words(aggregating_names(registry), Offer::lists);
  } else if (name == "--done" || name == "--results") {
    files(".csv");
  } else if (name == "--peer") {
    files(".py");
  } else if (name == "--start" || (command == "aggregate" && (name == "FILE" || name == "--out"))) {
    files(".safetensors");
  } else if (command == "report" && name == "--out") {
    files(".html");
  } else if (command == "pki check" && name == "FILE") {
    files(".pem");
  } else if (name == "FILE") {
    files(".toml");
  } else if (name == "REQUEST") {
    files(".csr");
  } else if (name == "SOURCE" || name == "--python" || option.value == "FILE" ||
             option.value == "PATH") {
    files("");
  } else if (option.value == "DIR" || name == "DIR" || name == "--out" || name == "--svg") {
    option.offer = Offer::folders;
  } else if (command == "describe" && name == "NAME") {
    words(describable_names(registry));
  }
}

OptionText text_of(const CLI::Option& option) {
  OptionText text;
  text.positional = option.get_positional();
  if (text.positional) {
    text.names = {option.get_name(/*positional=*/true)};
  }
  for (const std::string& name : option.get_snames()) {
    text.names.push_back("-" + name);
  }
  for (const std::string& name : option.get_lnames()) {
    text.names.push_back("--" + name);
  }
  const std::string type = option.get_items_expected_max() == 0 ? "" : option.get_type_name();
  text.value = type.substr(0, type.find(':'));
  text.words = choices_in(type);
  if (!text.words.empty()) {
    text.offer = Offer::words;
    text.value = join(text.words, "|");
  }
  text.help = option.get_description();
  text.by_default = option.get_default_str();
  text.repeats = option.get_expected_max() > 1;
  return text;
}

void add_texts(const CLI::App& command, const std::string& name, const Registry& registry,
               std::vector<CommandText>& texts) {
  CommandText text{name, command.get_description(), command.get_footer(), {}};
  for (const CLI::Option* option : command.get_options()) {
    text.options.push_back(text_of(*option));
    if (text.options.back().offer == Offer::nothing) {
      add_offer(text.name, registry, text.options.back());
    }
  }
  const std::vector<const CLI::App*> all =
      command.get_subcommands([](const CLI::App*) { return true; });
  if (!name.empty()) {
    for (const CLI::App* own : all) {
      text.commands.push_back(own->get_name());
    }
  }
  texts.push_back(std::move(text));
  for (const CLI::App* own : all) {
    add_texts(*own, name.empty() ? own->get_name() : name + " " + own->get_name(), registry, texts);
  }
}

}  // namespace

std::vector<CommandText> command_texts(const CLI::App& app, const Registry& registry) {
  std::vector<CommandText> texts;
  add_texts(app, "", registry, texts);
  return texts;
}

std::vector<KeyText> experiment_keys(const Registry& registry) {
  std::vector<KeyText> keys;
  const auto add = [&](const std::string& key, const Names& values = {}) {
    if (std::ranges::find(keys, key, &KeyText::key) == keys.end()) {
      keys.push_back({key, values});
    }
  };
  // Names come first, with what they may be.
  add("method.name", registry.methods.names());
  add("model.name", model_names(registry.networks));
  add("data.name", registry.data_sets.names());
  add("federation.partition.name", registry.partitions.names());
  add("noise.0.name", names_of(noises(registry.label_noises)));
  const auto add_all = [&](const std::string& table, const Params& params) {
    for (const Param& param : params.all()) {
      add(table + param.name());
    }
  };
  Experiment experiment;
  add_all("", declare_top_level(experiment));
  add_all("data.", declare(experiment.data));
  for (const DataSetInfo& info : registry.data_sets) {
    visit_own_params(info, [&](const Params& params) { add_all("data.", params); });
  }
  add_all("federation.", declare(experiment.federation));
  for (const PartitionInfo& info : registry.partitions) {
    const std::unique_ptr<PartitionRule> rule = info.make();
    Params params;
    rule->declare(params);
    add_all("federation.partition.", params);
  }
  add_all("validation.", declare(experiment.validation));
  add_all("public.", declare(experiment.public_images));
  for (const NoiseInfo& info : noises(registry.label_noises)) {
    info.declared([&](const Params& params) { add_all("noise.0.", params); });
  }
  add_all("model.", declare(experiment.model));
  add_all("train.", declare(experiment.train));
  for (const MethodInfo& info : registry.methods) {
    const std::unique_ptr<Method> method = registry.make(info.name);
    Params params;
    method->declare(params);
    add_all("method.", params);
  }
  return keys;
}

}  // namespace winnow
