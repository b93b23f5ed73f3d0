// `winnow describe`: one thing by name, with every parameter it declares.
#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "winnow/base/text.h"
#include "winnow/cli/command.h"
#include "winnow/cli/console.h"
#include "winnow/cli/engine_choice.h"
#include "winnow/experiment/description.h"

namespace winnow {
namespace {

void print_wrapped(const std::string& text) {
  fmt::print("{}", columns({{text}}, terminal_width()));
}

void print_place(const Json& json) {
  if (json.at("there").get<bool>()) {
    const auto place = json.at("place").get<std::string>();
    fmt::print("available{}\n", place.empty() ? "" : ": " + place);
    return;
  }
  const auto looked = json.at("looked").get<std::vector<std::string>>();
  print_wrapped("not available" + (looked.empty() ? "" : "; looked for " + join(looked, ", ")));
  print_wrapped(json.at("how_to_get").get<std::string>());
}

void print_server(const Json& json) {
  if (json.contains("server")) {
    print_wrapped("the server needs " + json.at("server").get<std::string>());
  }
}

void print_text(const Json& json) {
  fmt::print("{}\n", bold(fmt::format("{} ({})", json.at("name").get<std::string>(),
                                      json.at("kind").get<std::string>()),
                          use_colour()));
  print_wrapped(json.at("summary").get<std::string>());
  if (json.contains("stands_for")) {
    print_wrapped("another name for " + json.at("stands_for").get<std::string>());
  }
  if (json.contains("parameter_count")) {
    fmt::print("{} parameters\n", json.at("parameter_count").dump());
  }
  if (json.contains("there")) {
    print_place(json);
  }
  if (json.contains("needs")) {
    fmt::print("{}\n", json.at("needs").get<std::string>());
  }
  print_server(json);
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

std::string line_of(const Json& field) {
  const auto range = field.at("range").get<std::string>();
  return fmt::format("{} {}{}", field.at("name").get<std::string>(),
                     field.at("type").get<std::string>(), range.empty() ? "" : ", " + range);
}

void print_exchanges(const Json& json) {
  fmt::print("{}\n",
             bold(fmt::format("{} (method)", json.at("name").get<std::string>()), use_colour()));
  for (const Json& exchange : json.at("exchanges")) {
    std::vector<std::vector<std::string>> rows;
    for (const auto& [message, bytes, fields] : {std::tuple("task", "task_bytes", "asks"),
                                                 std::tuple("reply", "reply_bytes", "answers")}) {
      rows.push_back({exchange.at(message).get<std::string>(),
                      message == std::string("task") ? "to the client" : "to the server",
                      exchange.at(bytes).get<std::string>() + " bytes"});
      for (const Json& field : exchange.at(fields)) {
        rows.push_back({"  " + field.at("name").get<std::string>(),
                        line_of(field).substr(field.at("name").get<std::string>().size() + 1),
                        field.at("tells").get<std::string>()});
      }
    }
    fmt::print("{}", columns(rows, terminal_width()));
  }
  fmt::print("{}\n", json.at("letters").get<std::string>());
  print_server(json);
}

// The table of messages in the docs, and what leaves a client.
void print_exchanges_markdown(const Json& json) {
  fmt::print("| message | direction | fields | bytes |\n|---|---|---|---|\n");
  std::vector<std::string> told;
  for (const Json& exchange : json.at("exchanges")) {
    for (const auto& [message, bytes, fields, direction] :
         {std::tuple("task", "task_bytes", "asks", "to client"),
          std::tuple("reply", "reply_bytes", "answers", "to server")}) {
      std::vector<std::string> list;
      for (const Json& field : exchange.at(fields)) {
        const auto name = field.at("name").get<std::string>();
        const auto type = field.at("type").get<std::string>();
        list.push_back(name == type ? name : line_of(field));
        if (message == std::string("reply")) {
          const std::string line =
              fmt::format("- `{}`: {}", name, field.at("tells").get<std::string>());
          if (std::ranges::count(told, line) == 0) {
            told.push_back(line);
          }
        }
      }
      fmt::print("| `{}` | {} | {} | {} |\n", exchange.at(message).get<std::string>(), direction,
                 list.empty() ? "none" : cell(join(list, "; ")),
                 exchange.at(bytes).get<std::string>());
    }
  }
  if (!json.at("letters").get<std::string>().empty()) {
    fmt::print("\n{}.\n", json.at("letters").get<std::string>());
  }
  fmt::print("\nWhat a client sends, and what that reveals:\n\n{}\n", join(told, "\n"));
  fmt::print("\n**The server needs** {}.\n", json.at("server").get<std::string>());
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

// All that has this name: of the registry, and the engine.
std::vector<Json> described(const std::string& name, const Program& program) {
  std::vector<Json> found;
  for (const NamedEngine& engine : known_engines(program.engines)) {
    if (engine.name == name) {
      found.push_back({{"kind", "engine"},
                       {"name", engine.name},
                       {"summary", engine.summary},
                       {"parameters", Json::array()}});
    }
  }
  const std::vector<std::string> others = describable_names(program.registry);
  if (found.empty() || std::ranges::count(others, name) > 0) {
    const std::vector<Json> more = describe(name, program.registry);
    found.insert(found.end(), more.begin(), more.end());
  }
  return found;
}

}  // namespace

void add_describe_command(CLI::App& app, Program& program) {
  struct Flags {
    std::vector<std::string> names;
    bool json = false;
    bool markdown = false;
    bool exchanges = false;
  };
  auto flags = std::make_shared<Flags>();
  CLI::App* command = app.add_subcommand("describe",
                                         "explain a method, model, data set, partition, noise, "
                                         "distortion, engine or experiment table");
  command
      ->add_option("NAME", flags->names,
                   "names that 'winnow list' shows, or tables of an experiment file, such as train")
      ->required();
  command->add_flag("--json", flags->json, "print as JSON");
  command->add_flag("--markdown", flags->markdown,
                    "print the parameter tables in Markdown, as in the docs; with several names, a "
                    "comment with the name comes before each");
  command->add_flag("--exchanges", flags->exchanges,
                    "for a method: show its messages, and what each field reveals about a client");
  command->footer(
      "--exchanges shows the messages of the method with its default parameters.\n"
      "Example:  winnow describe fedprox");
  command->callback([flags, &program] {
    for (const std::string& name : flags->names) {
      const std::vector<Json> found = described(name, program);
      if (flags->markdown && flags->names.size() > 1) {
        fmt::print("<!-- {} {} -->\n", flags->exchanges ? "exchanges" : "parameters", name);
      }
      for (const Json& json : found) {
        if (flags->exchanges && !json.contains("exchanges")) {
          throw Error(ErrorKind::usage,
                      fmt::format("--exchanges: '{}' is a {}, which sends no messages", name,
                                  json.at("kind").get<std::string>()),
                      "give the name of a method: winnow list methods");
        }
        if (flags->json) {
          fmt::print("{}\n", (flags->exchanges ? json.at("exchanges") : json).dump(2));
        } else if (flags->exchanges) {
          flags->markdown ? print_exchanges_markdown(json) : print_exchanges(json);
        } else if (flags->markdown) {
          print_markdown(json);
        } else {
          print_text(json);
        }
      }
    }
  });
}

}  // namespace winnow
