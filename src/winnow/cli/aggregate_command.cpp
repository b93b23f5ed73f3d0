// `winnow aggregate`: model files combined as the server of a method would.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "winnow/base/error.h"
#include "winnow/base/text.h"
#include "winnow/cli/command.h"
#include "winnow/cli/console.h"
#include "winnow/experiment/toml.h"
#include "winnow/model/safetensors.h"
#include "winnow/run/aggregate.h"

namespace winnow {
namespace {

struct Flags {
  std::vector<std::string> files;
  std::string methods;
  std::vector<std::string> sets;
  std::string samples;
  std::string start;
  std::string out;
  bool json = false;
};

std::vector<std::uint32_t> parse_samples(const std::string& text, std::size_t files) {
  if (text.empty()) {
    return std::vector<std::uint32_t>(files, 1);
  }
  std::vector<std::uint32_t> samples;
  for (const std::string& part : split(text, ',')) {
    const std::string_view digits = trim(part);
    std::uint32_t value = 0;
    const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (read.ec == std::errc{} && read.ptr == digits.data() + digits.size() && value > 0) {
      samples.push_back(value);
    }
  }
  if (samples.size() != files || split(text, ',').size() != files) {
    throw Error(ErrorKind::usage,
                fmt::format("--samples {}: expected a whole number above 0 for each of {} files",
                            text, files),
                "for example --samples 500,500,120");
  }
  return samples;
}

// The keys below [method] that --set gives.
Json parse_sets(const std::vector<std::string>& sets) {
  Json tree{{"method", Json::object()}};
  for (const std::string& text : sets) {
    const Override change = parse_override(text);
    if (!change.key.starts_with("method.") || change.key == "method.name") {
      throw Error(ErrorKind::usage, fmt::format("--set {}: expected method.KEY=VALUE", text),
                  "for example --set method.trim=0.1");
    }
    set_by_path(tree, change.key, parse_toml_value(change.value));
  }
  return tree.at("method");
}

std::vector<Aggregator> make_rules(const Flags& flags, const Registry& registry) {
  const Json table = parse_sets(flags.sets);
  std::vector<Aggregator> rules;
  std::vector<std::string> keys;
  for (const std::string& name : split(flags.methods, ',')) {
    rules.push_back(make_aggregator(std::string(trim(name)), table, registry));
    for (const auto& [key, value] : rules.back().parameters.items()) {
      keys.push_back(key);
    }
  }
  for (const auto& [key, value] : table.items()) {
    if (std::ranges::count(keys, key) == 0) {
      throw Error(ErrorKind::experiment,
                  fmt::format("unknown key 'method.{}' of {}", key, flags.methods),
                  suggestion(key, keys));
    }
  }
  return rules;
}

// "took #1 #4", "weights 0.3 0.7", ...: what a method thought of its clients, as it said.
std::string opinion(const Json& result) {
  std::string took;
  std::string weights;
  std::string rejected;
  for (std::size_t i = 0; i < result.at("clients").size(); ++i) {
    const Json& client = result.at("clients")[i];
    took += client.value("selected", false) ? fmt::format(" #{}", i + 1) : "";
    weights +=
        client.contains("weight") ? fmt::format(" {:.3g}", client.at("weight").get<double>()) : "";
    rejected += client.contains("rejected") ? fmt::format(" #{}", i + 1) : "";
  }
  std::vector<std::string> parts;
  for (const auto& [title, list] :
       {std::pair{"took", took}, {"weights", weights}, {"not finite:", rejected}}) {
    if (!list.empty()) {
      parts.push_back(title + list);
    }
  }
  if (result.contains("passes")) {
    parts.push_back(fmt::format("{} passes", result.at("passes").get<std::int64_t>()));
  }
  return parts.empty() ? "-" : join(parts, "; ");
}

void print_table(const std::vector<Json>& results) {
  const auto place = [](const Json& end) {
    return fmt::format("{:.4g} (#{})", end.at("distance").get<double>(),
                       end.at("client").get<std::size_t>() + 1);
  };
  std::vector<std::vector<std::string>> rows{
      {"method", "first value", "nearest", "farthest", "clients"}};
  for (const Json& result : results) {
    rows.push_back({result.at("method").get<std::string>(),
                    fmt::format("{:.7g}", result.at("first_value").get<double>()),
                    place(result.at("nearest")), place(result.at("farthest")), opinion(result)});
  }
  fmt::print("{}", columns(rows, terminal_width()));
}

void aggregate(const Flags& flags, const Registry& registry) {
  const std::vector<Aggregator> rules = make_rules(flags, registry);
  if (!flags.out.empty() && rules.size() != 1) {
    throw Error(ErrorKind::usage,
                fmt::format("--out {}: expected one method, not {}", flags.out, rules.size()),
                "run the command once for each method");
  }
  const ModelFiles uploads =
      read_model_files(flags.files, parse_samples(flags.samples, flags.files.size()), flags.start);
  std::vector<Json> results;
  for (const Aggregator& rule : rules) {
    Combined combined = combine(rule, uploads);
    if (!flags.out.empty()) {
      save_state(flags.out, combined.model, {{"method", rule.name}});
    }
    results.push_back(std::move(combined.facts));
  }
  if (flags.json) {
    fmt::print("{}\n", Json(results).dump(2));
  } else {
    print_table(results);
  }
}

}  // namespace

void add_aggregate_command(CLI::App& app, Program& program) {
  auto flags = std::make_shared<Flags>();
  CLI::App* command =
      app.add_subcommand("aggregate", "combine model files as a method's server would");
  command->add_option("FILE", flags->files, "safetensors files of one model, one per client")
      ->required();
  command
      ->add_option(
          "-m,--method", flags->methods,
          "methods to apply, separated by commas; only methods that need nothing but the models")
      ->type_name("NAMES")
      ->required();
  command->add_option("--set", flags->sets, "set a parameter, e.g. method.trim=0.1")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  command
      ->add_option("--samples", flags->samples,
                   "number of samples of each client, separated by commas (default: all equal)")
      ->type_name("N,N,...");
  command
      ->add_option("--start", flags->start,
                   "the model that the clients started from (default: their mean)")
      ->type_name("FILE");
  command
      ->add_option("-o,--out", flags->out, "write the combined model here; needs a single method")
      ->type_name("FILE");
  command->add_flag("--json", flags->json, "print as JSON");
  command->footer(
      "For every method, the table shows the first value of the combined model (with tensors "
      "sorted\n"
      "by name), the distances to the nearest and the farthest file, and what the method says "
      "about\n"
      "the clients. #1 is the first file.\n"
      "Example:  winnow aggregate a.safetensors b.safetensors c.safetensors --method "
      "fedavg,median");
  command->callback([flags, &program] { aggregate(*flags, program.registry); });
}

}  // namespace winnow
