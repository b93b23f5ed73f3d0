// `winnow describe`: one thing by name, with every parameter it declares.
#include <fmt/format.h>

#include <optional>

#include "winnow/base/error.h"
#include "winnow/base/text.h"
#include "winnow/cli/command.h"
#include "winnow/cli/console.h"
#include "winnow/data/catalog.h"
#include "winnow/data/partition.h"
#include "winnow/model/net.h"
#include "winnow/model/script_net.h"
#include "winnow/noise/distortion.h"
#include "winnow/noise/noise.h"

namespace winnow {
namespace {

Json parameters(const Params& params) {
  Json list = Json::array();
  for (const Param& param : params.all()) {
    list.push_back({{"name", param.name()},
                    {"type", param.type()},
                    {"default", param.default_value()},
                    {"range", param.range_text()},
                    {"help", param.help()},
                    {"source", param.source()}});
  }
  return list;
}

Json description(const std::string& kind, const std::string& name, const std::string& summary,
                 const Params& params) {
  return {{"kind", kind}, {"name", name}, {"summary", summary}, {"parameters", parameters(params)}};
}

// The tables of an experiment that are not chosen by name.
std::optional<Json> describe_table(const std::string& name) {
  Experiment experiment;
  if (name == "experiment") {
    return description("table", name, "the keys above all tables", declare_top_level(experiment));
  }
  if (name == "data") {
    return description("table", name, "which images and labels", declare(experiment.data));
  }
  if (name == "federation") {
    return description("table", name, "how many clients, and who holds what (with partition)",
                       declare(experiment.federation));
  }
  if (name == "validation") {
    return description("table", name, "the server's own clean samples, for methods that use them",
                       declare(experiment.validation));
  }
  if (name == "public") {
    return description("table", name, "images that everybody has, for methods that use them",
                       declare(experiment.public_images));
  }
  if (name == "model") {
    return description("table", name, "which network", declare(experiment.model));
  }
  if (name == "train") {
    return description("table", name, "how a client trains", declare(experiment.train));
  }
  return std::nullopt;
}

// Everything that has a name, with what is needed to describe it.
std::vector<Json> find_all(const std::string& name, const Registry& registry,
                           std::vector<std::string>& known) {
  std::vector<Json> found;
  const auto consider = [&](const std::string& candidate, const auto& describe) {
    known.push_back(candidate);
    if (candidate == name) {
      found.push_back(describe());
    }
  };
  for (const MethodInfo& info : registry.all()) {
    consider(info.name, [&] {
      const std::unique_ptr<Method> method = registry.make(info.name);
      Params params;
      method->declare(params);
      Json json = description("method", info.name, info.summary, params);
      if (method->needs_features()) {
        json["needs"] = "needs a network with features and a head: docs/own-model.md";
      }
      return json;
    });
  }
  for (const PartitionInfo& info : partitions()) {
    consider(info.name, [&] {
      PartitionOptions options = info.defaults;
      Params params;
      info.declare(params, options);
      return description("partition", info.name, info.summary, params);
    });
  }
  for (const NoiseInfo& info : noises()) {
    consider(info.name, [&] {
      Json json;
      info.declared([&](const Params& params) {
        json = description("noise", info.name, info.summary, params);
      });
      return json;
    });
  }
  for (const NetInfo& info : zoo()) {
    consider(info.name, [&] {
      Json json = description("model", info.name, info.summary, {});
      json["parameter_count"] = info.make(info.usual)->weights().layout()->parameters();
      return json;
    });
  }
  consider(kTorchScript,
           [&] { return description("model", kTorchScript, kTorchScriptSummary, {}); });
  for (const DataSetInfo& info : data_sets()) {
    consider(info.name, [&] {
      Json json = description("data set", info.name, info.summary, {});
      json["how_to_get"] = info.how_to_get;
      return json;
    });
  }
  for (const DistortionInfo& info : distortions()) {
    consider(info.name, [&] { return description("distortion", info.name, info.summary, {}); });
  }
  for (const char* table :
       {"experiment", "data", "federation", "validation", "public", "model", "train"}) {
    consider(table, [&] { return *describe_table(table); });
  }
  return found;
}

void print_text(const Json& json) {
  fmt::print("{}\n", bold(fmt::format("{} ({})", json.at("name").get<std::string>(),
                                      json.at("kind").get<std::string>()),
                          use_colour()));
  fmt::print("{}\n", json.at("summary").get<std::string>());
  for (const char* extra : {"parameter_count", "how_to_get", "needs"}) {
    if (json.contains(extra)) {
      const Json& value = json.at(extra);
      fmt::print("{}\n", value.is_string() ? value.get<std::string>()
                                           : fmt::format("{} parameters", value.dump()));
    }
  }
  std::vector<std::vector<std::string>> rows;
  for (const Json& param : json.at("parameters")) {
    const auto range = param.at("range").get<std::string>();
    const auto source = param.at("source").get<std::string>();
    rows.push_back({"  " + param.at("name").get<std::string>(), param.at("default").dump(),
                    range.empty() ? param.at("type").get<std::string>() : range,
                    param.at("help").get<std::string>() +
                        (source.empty() ? "" : fmt::format(" ({})", source))});
  }
  if (!rows.empty()) {
    fmt::print("parameters (name, default, allowed, meaning):\n{}",
               columns(rows, terminal_width()));
  }
}

// Text for a cell of a Markdown table, where a bare '|' would begin the next one.
std::string cell(const std::string& text) {
  return join(split(text, '|'), "\\|");
}

void print_markdown(const Json& json) {
  fmt::print("| parameter | default | allowed | meaning |\n|---|---|---|---|\n");
  for (const Json& param : json.at("parameters")) {
    const auto range = param.at("range").get<std::string>();
    const auto source = param.at("source").get<std::string>();
    const std::string meaning =
        param.at("help").get<std::string>() + (source.empty() ? "" : fmt::format(" ({})", source));
    fmt::print("| `{}` | `{}` | {} | {} |\n", param.at("name").get<std::string>(),
               cell(param.at("default").dump()),
               cell(range.empty() ? param.at("type").get<std::string>() : range), cell(meaning));
  }
}

}  // namespace

void add_describe_command(CLI::App& app, Program& program) {
  struct Flags {
    std::string name;
    bool json = false;
    bool markdown = false;
  };
  auto flags = std::make_shared<Flags>();
  CLI::App* command = app.add_subcommand(
      "describe", "a method, model, data set, partition, noise, distortion or table by name");
  command->add_option("NAME", flags->name, "one of the names that 'winnow list' shows")->required();
  command->add_flag("--json", flags->json, "print as JSON");
  command->add_flag("--markdown", flags->markdown, "print the parameter table of the docs");
  command->footer("Example:  winnow describe fedprox");
  command->callback([flags, &program] {
    std::vector<std::string> known;
    const std::vector<Json> found = find_all(flags->name, program.registry, known);
    if (found.empty()) {
      throw Error(ErrorKind::usage, fmt::format("nothing is called '{}'", flags->name),
                  suggestion(flags->name, known));
    }
    for (const Json& json : found) {
      if (flags->json) {
        fmt::print("{}\n", json.dump(2));
      } else if (flags->markdown) {
        print_markdown(json);
      } else {
        print_text(json);
      }
    }
  });
}

}  // namespace winnow
