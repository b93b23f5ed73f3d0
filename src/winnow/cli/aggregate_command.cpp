// `winnow aggregate`: model files combined as the server of a method would.
#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>

#include "winnow/base/error.h"
#include "winnow/base/text.h"
#include "winnow/cli/command.h"
#include "winnow/cli/console.h"
#include "winnow/federation/aggregation.h"
#include "winnow/federation/robust_blocks.h"
#include "winnow/method/base_method.h"
#include "winnow/model/safetensors.h"
#include "winnow/run/toml.h"

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

// A fleet whose clients have trained already: the answer to every task is the client's file.
class FileFleet final : public Fleet {
 public:
  FileFleet(const std::vector<State>& models, const std::vector<std::uint32_t>& samples)
      : models_(models), samples_(samples) {}

  std::int64_t size() const override { return std::ssize(models_); }
  std::int64_t samples(std::int64_t client) const override {
    return samples_[static_cast<std::size_t>(client)];
  }
  void ask(const std::vector<Order>& orders, const Fold& fold) override {
    for (const std::size_t place : fold_order(orders, *this)) {
      const auto client = static_cast<std::size_t>(orders[place].client);
      fold(orders[place].client,
           Message("train_done").set("model", models_[client]).set("samples", samples_[client]));
    }
  }
  const Traffic& traffic() const override { return traffic_; }

 private:
  const std::vector<State>& models_;
  const std::vector<std::uint32_t>& samples_;
  Traffic traffic_;
};

// The tensors of a file as a model: whole numbers are counters, running statistics are buffers.
LayoutPtr layout_of(const std::string& file) {
  std::vector<Slot> slots;
  for (const auto& [name, tensor] : load_tensors(file).tensors) {
    if (tensor.scalar_type() != at::kFloat && tensor.scalar_type() != at::kLong) {
      throw Error(ErrorKind::data,
                  fmt::format("{}: tensor '{}' is neither F32 nor I64", file, name),
                  "save the model in float32");
    }
    const bool running = name.ends_with("running_mean") || name.ends_with("running_var");
    const SlotKind kind = tensor.scalar_type() == at::kLong ? SlotKind::counter
                          : running                         ? SlotKind::buffer
                                                            : SlotKind::parameter;
    slots.push_back({name, tensor.sizes().vec(), kind, 0, 0});
  }
  auto layout = std::make_shared<const Layout>(std::move(slots));
  if (layout->parameters() == 0) {
    throw Error(ErrorKind::data, fmt::format("{} holds no parameters", file));
  }
  return layout;
}

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

// Why the models of a round do not tell what the method makes of them, or nothing.
std::optional<std::string> needs_more(const MethodInfo& info, const Method& method) {
  if (info.truth != Truth::none) {
    return "it needs to be told the truth about its clients";
  }
  if (dynamic_cast<const BaseMethod*>(&method) == nullptr) {
    return "its clients have to do more than train once";
  }
  const std::vector<Schema> plain = BaseMethod().schemas();
  for (const Schema& schema : method.schemas()) {
    const auto same = std::ranges::find(plain, schema.kind, &Schema::kind);
    if (same == plain.end()) {
      return fmt::format("its clients have to answer '{}', too", schema.kind);
    }
    if (schema.fields.size() > same->fields.size()) {
      return fmt::format("its messages carry '{}' beside the model",
                         schema.fields[same->fields.size()].first);
    }
  }
  return std::nullopt;
}

struct Rule {
  std::string name;
  std::unique_ptr<Method> method;
  Json parameters;
};

Rule make_rule(const std::string& name, const Json& table, const Registry& registry) {
  const MethodInfo& info = registry.find(name);
  Rule rule{name, registry.make(name), {}};
  Params params;
  rule.method->declare(params);
  Json own = Json::object();
  for (const auto& [key, value] : table.items()) {
    if (params.find(key) != nullptr) {
      own[key] = value;
    }
  }
  params.read(own, "method");
  rule.parameters = params.values();
  if (const auto reason = needs_more(info, *rule.method)) {
    std::vector<std::string> able;
    for (const MethodInfo& other : registry.all()) {
      if (!needs_more(other, *other.make())) {
        able.push_back(other.name);
      }
    }
    throw Error(
        ErrorKind::usage,
        fmt::format("--method {}: models alone do not make its next one: {}", name, *reason),
        "choose one of " + join(able, ", "));
  }
  return rule;
}

std::vector<Rule> make_rules(const Flags& flags, const Registry& registry) {
  const Json table = parse_sets(flags.sets);
  std::vector<Rule> rules;
  std::vector<std::string> keys;
  for (const std::string& name : split(flags.methods, ',')) {
    rules.push_back(make_rule(std::string(trim(name)), table, registry));
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

// The files of a round, numbered as the clients are.
struct Uploads {
  std::vector<std::string> files;
  std::vector<std::uint32_t> samples;
  std::vector<State> models;
  State start;
};

Uploads read_uploads(const Flags& flags) {
  Uploads uploads{flags.files, parse_samples(flags.samples, flags.files.size()), {}, {}};
  const LayoutPtr layout = layout_of(flags.files.front());
  WeightedMean mean;
  for (std::size_t i = 0; i < flags.files.size(); ++i) {
    uploads.models.push_back(load_state(flags.files[i], layout));
    if (all_finite(uploads.models.back())) {
      mean.add(uploads.models.back(), uploads.samples[i]);
    }
  }
  if (!(mean.total_weight() > 0.0)) {
    throw Error(ErrorKind::data, "every file holds values that are not finite");
  }
  uploads.start = flags.start.empty() ? mean.finish() : load_state(flags.start, layout);
  return uploads;
}

double distance(const State& a, const State& b) {
  return std::sqrt(squared_distance(a.flat.data_ptr<float>(), b.flat.data_ptr<float>(),
                                    a.layout->parameters() + a.layout->buffers()));
}

// What the method noted of its clients, each at its own place.
Json describe_clients(const Uploads& uploads, const State& model, const Json& notes) {
  Json clients = Json::array();
  for (std::size_t i = 0; i < uploads.files.size(); ++i) {
    const double far = distance(uploads.models[i], model);
    clients.push_back({{"file", uploads.files[i]},
                       {"samples", uploads.samples[i]},
                       {"distance", std::isfinite(far) ? Json(far) : Json()}});
  }
  if (notes.contains("selected")) {
    for (Json& client : clients) {
      client["selected"] = false;
    }
    const Json& selected = notes.at("selected");
    for (const Json& id : selected.is_array() ? selected : Json::array({selected})) {
      clients.at(id.get<std::size_t>())["selected"] = true;
    }
  }
  if (notes.contains("arfl_weights")) {
    for (std::size_t i = 0; i < notes.at("arfl_clients").size(); ++i) {
      clients.at(notes.at("arfl_clients").at(i).get<std::size_t>())["weight"] =
          notes.at("arfl_weights").at(i);
    }
  }
  for (const Json& id : notes.value("rejected", Json::array())) {
    clients.at(id.get<std::size_t>())["rejected"] = true;
  }
  return clients;
}

// The farthest finite client, or the nearest, by its place.
Json extreme(const Json& clients, bool farthest) {
  Json found;
  for (std::size_t i = 0; i < clients.size(); ++i) {
    const Json& far = clients[i].at("distance");
    if (!far.is_null() &&
        (found.is_null() || (far.get<double>() > found.at("distance").get<double>()) == farthest)) {
      found = {{"client", i}, {"distance", far}};
    }
  }
  return found;
}

struct Combined {
  State model;
  Json facts;
};

// Plays one round in which every client sends its file.
Combined combine(const Rule& rule, const Uploads& uploads) {
  FileFleet fleet(uploads.models, uploads.samples);
  const Setting setting{.seed = 1,
                        .rounds = 1,
                        .clients = fleet.size(),
                        .fraction = 1.0,
                        .layout = uploads.start.layout};
  // First, in the words of this command; needs_more() has let base methods through only.
  dynamic_cast<const BaseMethod&>(*rule.method)
      .check_models({.models = fleet.size(),
                     .said = fmt::format("{} file{}", fleet.size(), fleet.size() == 1 ? "" : "s"),
                     .who = rule.name,
                     .cure = "give more files"});
  rule.method->check(setting);
  Json notes = Json::object();
  State model = uploads.start;
  Server server{setting, fleet, model, notes};
  rule.method->play(0, server);

  Json facts{{"method", rule.name},
             {"parameters", rule.parameters},
             {"first_value", model.flat.data_ptr<float>()[0]},
             {"clients", describe_clients(uploads, model, notes)}};
  facts["nearest"] = extreme(facts.at("clients"), false);
  facts["farthest"] = extreme(facts.at("clients"), true);
  if (notes.contains("passes")) {
    facts["passes"] = notes.at("passes");
  }
  return {std::move(model), std::move(facts)};
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
  const std::vector<Rule> rules = make_rules(flags, registry);
  if (!flags.out.empty() && rules.size() != 1) {
    throw Error(
        ErrorKind::usage,
        fmt::format("--out {}: expected one method, and there are {}", flags.out, rules.size()),
        "give the command once for each method");
  }
  const Uploads uploads = read_uploads(flags);
  std::vector<Json> results;
  for (const Rule& rule : rules) {
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
      app.add_subcommand("aggregate", "combine model files as the server of a method would");
  command->add_option("FILE", flags->files, "safetensors files of one model, one per client")
      ->required();
  command
      ->add_option("-m,--method", flags->methods,
                   "one or more of the methods that need nothing but models, separated by commas")
      ->required();
  command->add_option("--set", flags->sets, "set a parameter, e.g. method.trim=0.1")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  command->add_option(
      "--samples", flags->samples,
      "how many samples each client has, separated by commas (default: all the same)");
  command->add_option("--start", flags->start,
                      "the model that the clients started from (default: their mean)");
  command->add_option("-o,--out", flags->out, "write the combined model here (of one method)");
  command->add_flag("--json", flags->json, "print as JSON");
  command->footer(
      "The table has, for every method, the first value of the combined model (tensors are in the\n"
      "order of their names), the distance of the nearest and of the farthest file, and what the\n"
      "method thought of the clients. #1 is the first file.\n"
      "Example:  winnow aggregate a.safetensors b.safetensors c.safetensors --method "
      "fedavg,median");
  command->callback([flags, &program] { aggregate(*flags, program.registry); });
}

}  // namespace winnow
