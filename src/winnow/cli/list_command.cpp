// `winnow list`.
#include <fmt/format.h>

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

// Every listing is an array of objects; the first field is the name.
Json list_methods(const Registry& registry) {
  Json list = Json::array();
  for (const MethodInfo& info : registry.all()) {
    list.push_back({{"name", info.name}, {"group", info.group}, {"summary", info.summary}});
  }
  return list;
}

Json list_models() {
  Json list = Json::array();
  for (const NetInfo& info : zoo()) {
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

Json list_data_sets() {
  Json list = Json::array();
  for (const DataSetInfo& info : data_sets()) {
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

template <typename Info>
Json list_entries(const std::vector<Info>& infos) {
  Json list = Json::array();
  for (const Info& info : infos) {
    list.push_back({{"name", info.name}, {"summary", info.summary}});
  }
  return list;
}

Json listing(const std::string& what, const Registry& registry) {
  if (what == "methods") {
    return list_methods(registry);
  }
  if (what == "models") {
    return list_models();
  }
  if (what == "datasets") {
    return list_data_sets();
  }
  if (what == "partitions") {
    return list_entries(partitions());
  }
  return what == "noises" ? list_entries(noises()) : list_entries(distortions());
}

void print_data_sets(const Json& list, int width) {
  const bool colour = use_colour();
  for (const Json& set : list) {
    const bool there = set.at("there").get<bool>();
    const auto place = set.at("place").get<std::string>();
    const std::string mark = there ? green("there", colour) : dim("not here", colour);
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
  CLI::App* command = app.add_subcommand("list", "what there is to choose from");
  command
      ->add_option("WHAT", flags->what,
                   "methods, models, datasets, partitions, noises or distortions")
      ->required()
      ->check(
          CLI::IsMember({"methods", "models", "datasets", "partitions", "noises", "distortions"}));
  command->add_flag("--json", flags->json, "print as JSON");
  command->footer("Example:  winnow list datasets");
  command->callback([flags, &program] {
    const Json list = listing(flags->what, program.registry);
    if (flags->json) {
      fmt::print("{}\n", list.dump(2));
    } else if (flags->what == "datasets") {
      print_data_sets(list, terminal_width());
    } else {
      print_rows(list, terminal_width());
    }
  });
}

}  // namespace winnow
