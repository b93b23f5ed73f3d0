#include "winnow/run/aggregate.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "winnow/base/error.h"
#include "winnow/base/text.h"
#include "winnow/federation/aggregation.h"
#include "winnow/federation/robust/robust_blocks.h"
#include "winnow/method/base_method.h"
#include "winnow/model/safetensors.h"

namespace winnow {
namespace {

// A fleet whose clients have trained already: the answer to every task is the client's file.
class FileFleet final : public Fleet {
 public:
  FileFleet(const std::vector<State>& models, const std::vector<std::uint32_t>& samples)
      : models_(models), samples_(samples) {}

  std::int64_t size() const override { return std::ssize(models_); }
  std::int64_t samples(std::int64_t client) const override {
    return samples_[static_cast<std::size_t>(client)];
  }
  [[nodiscard]] std::vector<Absence> ask(const std::vector<Order>& orders,
                                         const Fold& fold) override {
    for (const std::size_t place : fold_order(orders, *this)) {
      const auto client = static_cast<std::size_t>(orders[place].client);
      fold(orders[place].client,
           Message("train_done").set("model", models_[client]).set("samples", samples_[client]));
    }
    return {};
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

double distance(const State& a, const State& b) {
  return std::sqrt(squared_distance(a.flat.data_ptr<float>(), b.flat.data_ptr<float>(),
                                    a.layout->parameters() + a.layout->buffers()));
}

// What the method noted of its clients, each at its own place.
Json describe_clients(const ModelFiles& uploads, const State& model, const Json& notes) {
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

}  // namespace

ModelFiles read_model_files(const std::vector<std::string>& files,
                            const std::vector<std::uint32_t>& samples, const std::string& start) {
  ModelFiles uploads{files, samples, {}, {}};
  const LayoutPtr layout = layout_of(files.front());
  WeightedMean mean;
  for (std::size_t i = 0; i < files.size(); ++i) {
    uploads.models.push_back(load_state(files[i], layout));
    if (all_finite(uploads.models.back())) {
      mean.add(uploads.models.back(), uploads.samples[i]);
    }
  }
  if (!(mean.total_weight() > 0.0)) {
    throw Error(ErrorKind::data, "every file holds values that are not finite");
  }
  uploads.start = start.empty() ? mean.finish() : load_state(start, layout);
  return uploads;
}

std::optional<std::string> needs_more_than_models(const MethodInfo& info, const Method& method) {
  if (info.truth != Truth::none) {
    return "it needs to know which clients are noisy";
  }
  if (dynamic_cast<const BaseMethod*>(&method) == nullptr) {
    return "its clients have to do more than train once";
  }
  const Exchange plain = BaseMethod().exchanges({}).front();
  for (const Exchange& exchange : method.exchanges({})) {
    if (exchange.task != plain.task) {
      return fmt::format("its clients also have to answer '{}'", exchange.task);
    }
    for (const auto& [fields, known] :
         {std::pair(&exchange.asks, &plain.asks), std::pair(&exchange.answers, &plain.answers)}) {
      if (fields->size() > known->size()) {
        return fmt::format("its messages carry '{}' beside the model",
                           (*fields)[known->size()].name);
      }
    }
  }
  return std::nullopt;
}

std::vector<std::string> aggregating_names(const Registry& registry) {
  std::vector<std::string> names;
  for (const MethodInfo& info : registry.methods) {
    if (!needs_more_than_models(info, *info.make())) {
      names.push_back(info.name);
    }
  }
  return names;
}

Aggregator make_aggregator(const std::string& name, const Json& table, const Registry& registry) {
  const MethodInfo& info = registry.methods.find(name);
  Aggregator made{name, registry.make(name), {}};
  Params params;
  made.method->declare(params);
  Json own = Json::object();
  for (const auto& [key, value] : table.items()) {
    if (params.find(key) != nullptr) {
      own[key] = value;
    }
  }
  params.read(own, "method");
  made.parameters = params.values();
  if (const auto reason = needs_more_than_models(info, *made.method)) {
    throw Error(ErrorKind::usage,
                fmt::format("--method {}: it needs more than model files: {}", name, *reason),
                "choose one of " + join(aggregating_names(registry), ", "));
  }
  return made;
}

Combined combine(const Aggregator& aggregator, const ModelFiles& uploads) {
  FileFleet fleet(uploads.models, uploads.samples);
  const Setting setting{.seed = 1,
                        .rounds = 1,
                        .clients = fleet.size(),
                        .fraction = 1.0,
                        .layout = uploads.start.layout};
  // First, in the words of this command; needs_more_than_models() has let base methods through
  // only.
  dynamic_cast<const BaseMethod&>(*aggregator.method)
      .check_models({.models = fleet.size(),
                     .said = fmt::format("{} file{}", fleet.size(), fleet.size() == 1 ? "" : "s"),
                     .who = aggregator.name,
                     .cure = "give more files"});
  aggregator.method->check(setting);
  Json notes = Json::object();
  State model = uploads.start;
  Server server{setting, fleet, model, notes};
  aggregator.method->play(0, server);

  Json facts{{"method", aggregator.name},
             {"parameters", aggregator.parameters},
             {"first_value", model.flat.data_ptr<float>()[0]},
             {"clients", describe_clients(uploads, model, notes)}};
  facts["nearest"] = extreme(facts.at("clients"), false);
  facts["farthest"] = extreme(facts.at("clients"), true);
  if (notes.contains("passes")) {
    facts["passes"] = notes.at("passes");
  }
  return {std::move(model), std::move(facts)};
}

}  // namespace winnow
