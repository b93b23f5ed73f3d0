#include "winnow/experiment/description.h"

#include <fmt/format.h>

#include <optional>

#include "winnow/base/error.h"
#include "winnow/base/text.h"
#include "winnow/data/catalog.h"
#include "winnow/data/locate.h"
#include "winnow/data/partition.h"
#include "winnow/experiment/experiment.h"
#include "winnow/model/net.h"
#include "winnow/model/script_net.h"
#include "winnow/noise/image/distortion.h"
#include "winnow/noise/noise.h"
#include "winnow/noise/noise_alias.h"

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

Json described(const std::vector<FieldRule>& fields) {
  Json list = Json::array();
  for (const FieldRule& field : fields) {
    list.push_back({{"name", field.name},
                    {"type", field.shape()},
                    {"range", field.range()},
                    {"finite", field.finite},
                    {"tells", field.tells}});
  }
  return list;
}

// As the method has them with its default parameters.
Json described(const std::vector<Exchange>& exchanges) {
  Json list = Json::array();
  for (const Exchange& exchange : exchanges) {
    list.push_back({{"task", exchange.task},
                    {"task_bytes", payload(exchange.asks)},
                    {"asks", described(exchange.asks)},
                    {"reply", exchange.reply},
                    {"reply_bytes", payload(exchange.answers)},
                    {"answers", described(exchange.answers)}});
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
    return description("table", name, "the top-level keys of an experiment",
                       declare_top_level(experiment));
  }
  if (name == "data") {
    return description("table", name, "the data set: which images and labels",
                       declare(experiment.data));
  }
  if (name == "federation") {
    return description(
        "table", name,
        "the clients and, with the key partition, how the samples are divided among them",
        declare(experiment.federation));
  }
  if (name == "validation") {
    return description("table", name, "the server's own clean samples, for methods that use them",
                       declare(experiment.validation));
  }
  if (name == "public") {
    return description("table", name,
                       "unlabelled images that all clients have, for methods that use them",
                       declare(experiment.public_images));
  }
  if (name == "model") {
    return description("table", name, "which network", declare(experiment.model));
  }
  if (name == "train") {
    return description("table", name, "how a client trains", declare(experiment.train));
  }
  if (name == "partition") {
    return description("key of [federation]", name,
                       "which samples each client holds: a name, or a table with a name and "
                       "parameters, such as { name = \"dirichlet\", alpha = 0.5 }; 'winnow list "
                       "partitions' names them all",
                       {});
  }
  if (name == "noise") {
    return description("table", name,
                       "what is done to labels and images: any number of [[noise]] blocks, each "
                       "with a name and parameters; 'winnow list noises' names them all",
                       {});
  }
  if (name == "method") {
    return description(
        "table", name,
        "the algorithm: its name and its own parameters; 'winnow list methods' names "
        "them all, 'winnow describe NAME' has the parameters",
        {});
  }
  if (name == "sweep") {
    return description(
        "tables", name,
        "what a sweep file varies: [grid] for all combinations of values, [[row]] and [[column]] "
        "for named settings, [[paper]] for published figures (docs/experiment.md)",
        {});
  }
  return std::nullopt;
}

// Whether a data set is on this machine, and where it was found or looked for.
Json place_of(const DataSetInfo& info) {
  const DataPlace place = locate(info, {});
  Json json{{"there", place.there}, {"place", place.found.string()}, {"looked", Json::array()}};
  for (const auto& path : place.looked) {
    json["looked"].push_back(path.string());
  }
  return json;
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
  for (const MethodInfo& info : registry.methods) {
    consider(info.name, [&] {
      const std::unique_ptr<Method> method = registry.make(info.name);
      Params params;
      method->declare(params);
      Json json = description("method", info.name, info.summary, params);
      if (method->needs_features()) {
        json["needs"] = "needs a network with features and a head: docs/own-model.md";
      }
      json["server"] = method->server_needs().said();
      const std::vector<Exchange> exchanges = method->exchanges({});
      json["exchanges"] = described(exchanges);
      json["letters"] = letters(exchanges);
      return json;
    });
  }
  for (const PartitionInfo& info : registry.partitions) {
    consider(info.name, [&] {
      const std::unique_ptr<PartitionRule> rule = info.make();
      Params params;
      rule->declare(params);
      return description("partition", info.name, info.summary, params);
    });
  }
  for (const NoiseInfo& info : noises(registry.label_noises)) {
    consider(info.name, [&] {
      Json json;
      info.declared([&](const Params& params) {
        json = description("noise", info.name, info.summary, params);
      });
      return json;
    });
  }
  for (const PartitionAlias& alias : partition_aliases()) {
    consider(alias.name, [&] {
      Json json = find_all(alias.stands_for, registry, known).front();
      json["name"] = alias.name;
      json["stands_for"] = alias.stands_for;
      return json;
    });
  }
  for (const NoiseAlias& alias : noise_aliases()) {
    consider(alias.info.name, [&] {
      Json json;
      alias.info.declared([&](const Params& params) {
        json = description("noise", alias.info.name, alias.info.summary, params);
      });
      json["stands_for"] = alias.stands_for;
      return json;
    });
  }
  for (const NetInfo& info : registry.networks) {
    consider(info.name, [&] {
      Json json = description("model", info.name, info.summary, {});
      json["parameter_count"] = info.make(info.usual)->weights().layout()->parameters();
      return json;
    });
  }
  consider(kTorchScript,
           [&] { return description("model", kTorchScript, kTorchScriptSummary, {}); });
  for (const DataSetInfo& info : registry.data_sets) {
    consider(info.name, [&] {
      Json json;
      visit_own_params(info, [&](const Params& params) {
        json = description("data set", info.name, info.summary, params);
      });
      json.update(place_of(info));
      json["how_to_get"] = info.how_to_get;
      return json;
    });
  }
  for (const DistortionInfo& info : registry.distortions) {
    consider(info.name, [&] { return description("distortion", info.name, info.summary, {}); });
  }
  for (const char* table : {"experiment", "data", "federation", "partition", "validation", "public",
                            "noise", "model", "train", "method", "sweep"}) {
    consider(table, [&] { return *describe_table(table); });
  }
  return found;
}

// There are too many names to list.
std::string unknown_hint(const std::string& name, const std::vector<std::string>& known) {
  const std::string near = nearest(name, known);
  return near.empty() ? "'winnow list methods' shows the methods; there are also lists of models, "
                        "datasets, partitions, noises and distortions"
                      : fmt::format("did you mean '{}'?", near);
}

}  // namespace

std::vector<Json> describe(const std::string& name, const Registry& registry) {
  std::vector<std::string> known;
  std::vector<Json> found = find_all(name, registry, known);
  if (found.empty()) {
    throw Error(ErrorKind::usage, fmt::format("nothing is called '{}'", name),
                unknown_hint(name, known));
  }
  return found;
}

std::vector<std::string> describable_names(const Registry& registry) {
  std::vector<std::string> known;
  find_all("", registry, known);
  return known;
}

}  // namespace winnow
