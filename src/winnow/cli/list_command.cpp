// `winnow list`.
#include <fmt/format.h>

#include <algorithm>

#include "winnow/base/error.h"
#include "winnow/base/text.h"
#include "winnow/cli/command.h"
#include "winnow/cli/console.h"
#include "winnow/cli/engine_choice.h"
#include "winnow/data/catalog.h"
#include "winnow/data/locate.h"
#include "winnow/data/partition.h"
#include "winnow/model/net.h"
#include "winnow/model/script_net.h"
#include "winnow/noise/image/distortion.h"
#include "winnow/noise/noise.h"
#include "winnow/noise/noise_alias.h"

namespace winnow {
namespace {

// Every listing is an array of objects; the first field is the name.
Json list_methods(const Registry& registry) {
  Json list = Json::array();
  for (const MethodInfo& info : registry.methods) {
    list.push_back({{"name", info.name}, {"group", info.group}, {"summary", info.summary}});
  }
  return list;
}

Json list_models(const Networks& networks) {
  Json list = Json::array();
  for (const NetInfo& info : networks) {
    const NetShape& shape = info.usual;
    list.push_back({{"name", info.name},
                    {"parameters", info.make(shape)->weights().layout()->parameters()},
                    {"input", fmt::format("{}x{}x{}", shape.channels, shape.height, shape.width)},
                    {"classes", shape.classes},
                    {"summary", info.summary}});
  }
  list.push_back({{"name", kTorchScript},
                  {"parameters", nullptr},
                  {"input", nullptr},
                  {"classes", nullptr},
                  {"summary", kTorchScriptSummary}});
  return list;
}

Json list_data_sets(const DataSets& sets) {
  Json list = Json::array();
  for (const DataSetInfo& info : sets) {
    const DataPlace place = locate(info, {});
    Json looked = Json::array();
    for (const auto& path : place.looked) {
      looked.push_back(path.string());
    }
    list.push_back({{"name", info.name},
                    {"there", place.there},
                    {"place", place.found.string()},
                    {"looked", looked},
                    {"how_to_get", info.how_to_get},
                    {"summary", info.summary}});
  }
  return list;
}

template <typename Infos>
Json list_entries(const Infos& infos) {
  Json list = Json::array();
  for (const auto& info : infos) {
    list.push_back({{"name", info.name}, {"summary", info.summary}});
  }
  return list;
}

Json list_partitions(const Partitions& partitions) {
  Json list = list_entries(partitions);
  for (const PartitionAlias& alias : partition_aliases()) {
    list.push_back(
        {{"name", alias.name}, {"summary", fmt::format("another name for {}", alias.stands_for)}});
  }
  return list;
}

Json list_noises(const LabelNoises& label_noises) {
  Json list = list_entries(noises(label_noises));
  for (const NoiseAlias& alias : noise_aliases()) {
    list.push_back({{"name", alias.info.name},
                    {"summary", fmt::format("{} ({})", alias.info.summary, alias.stands_for)}});
  }
  return list;
}

Json listing(const std::string& what, const Program& program) {
  const Registry& registry = program.registry;
  if (what == "engines") {
    return list_entries(known_engines(program.engines));
  }
  if (what == "methods") {
    return list_methods(registry);
  }
  if (what == "models") {
    return list_models(registry.networks);
  }
  if (what == "datasets") {
    return list_data_sets(registry.data_sets);
  }
  if (what == "partitions") {
    return list_partitions(registry.partitions);
  }
  return what == "noises" ? list_noises(registry.label_noises) : list_entries(registry.distortions);
}

const std::vector<std::string>& list_names() {
  static const std::vector<std::string> names{"methods", "models",      "datasets", "partitions",
                                              "noises",  "distortions", "engines"};
  return names;
}

// A heading for each group, so that names and summaries have the whole width.
void print_methods(const Json& list, int width) {
  std::vector<std::string> groups;
  std::size_t longest = 0;
  for (const Json& method : list) {
    const auto group = method.at("group").get<std::string>();
    if (std::ranges::count(groups, group) == 0) {
      groups.push_back(group);
    }
    longest = std::max(longest, method.at("name").get<std::string>().size());
  }
  for (const std::string& group : groups) {
    fmt::print("{}\n", bold(group, use_colour()));
    std::vector<std::vector<std::string>> rows;
    for (const Json& method : list) {
      if (method.at("group") == group) {
        rows.push_back({fmt::format("  {:<{}}", method.at("name").get<std::string>(), longest),
                        method.at("summary").get<std::string>()});
      }
    }
    fmt::print("{}", columns(rows, width));
  }
}

void print_data_sets(const Json& list, int width) {
  const bool colour = use_colour();
  for (const Json& set : list) {
    const bool there = set.at("there").get<bool>();
    const auto place = set.at("place").get<std::string>();
    const std::string mark = there ? green("available", colour) : dim("not available", colour);
    fmt::print("{}  {}{}\n", bold(set.at("name").get<std::string>(), colour), mark,
               place.empty() ? "" : "  " + place);
    std::vector<std::vector<std::string>> rows{{"  what", set.at("summary").get<std::string>()}};
    if (!there) {
      for (const Json& path : set.at("looked")) {
        rows.push_back({rows.size() == 1 ? "  looked" : "", path.get<std::string>()});
      }
      rows.push_back({"  get it", set.at("how_to_get").get<std::string>()});
    }
    fmt::print("{}", columns(rows, width));
  }
}

void print_rows(const Json& list, int width) {
  std::vector<std::vector<std::string>> rows;
  for (const Json& entry : list) {
    std::vector<std::string> row;
    for (const auto& [key, value] : entry.items()) {
      row.push_back(value.is_null()     ? "-"
                    : value.is_string() ? value.get<std::string>()
                                        : value.dump());
    }
    rows.push_back(std::move(row));
  }
  fmt::print("{}", columns(rows, width));
}

}  // namespace

void add_list_command(CLI::App& app, Program& program) {
  struct Flags {
    std::string what;
    bool json = false;
  };
  auto flags = std::make_shared<Flags>();
  CLI::App* command = app.add_subcommand("list", "list what can be chosen by name");
  command
      ->add_option("WHAT", flags->what,
                   "methods, models, datasets, partitions, noises, distortions or engines")
      // As CLI::IsMember would have it; its own message has no suggestion.
      ->type_name(fmt::format("TEXT:{{{}}}", join(list_names(), ",")))
      ->required();
  command->add_flag("--json", flags->json, "print as JSON");
  command->footer("Example:  winnow list datasets");
  command->callback([flags, &program] {
    if (std::ranges::count(list_names(), flags->what) == 0) {
      throw Error(ErrorKind::usage, fmt::format("list {}: there is no such list", flags->what),
                  suggestion(flags->what, list_names()));
    }
    const Json list = listing(flags->what, program);
    if (flags->json) {
      fmt::print("{}\n", list.dump(2));
    } else if (flags->what == "methods") {
      print_methods(list, terminal_width());
    } else if (flags->what == "datasets") {
      print_data_sets(list, terminal_width());
    } else {
      print_rows(list, terminal_width());
    }
  });
}

}  // namespace winnow
