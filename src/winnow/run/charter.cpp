#include "winnow/run/charter.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <tuple>

#include "winnow/base/arithmetic.h"
#include "winnow/base/checked_json.h"
#include "winnow/base/error.h"
#include "winnow/base/sha256.h"
#include "winnow/base/text.h"
#include "winnow/engine/crew.h"
#include "winnow/experiment/server_world.h"
#include "winnow/run/workplace.h"

namespace winnow {
namespace {

constexpr std::int64_t kCharterFormat = 1;
constexpr std::int64_t kMostMembers = 1'000'000;
constexpr std::int64_t kMostChartedChannels = 16;
constexpr std::int64_t kWidestImage = 4096;
constexpr std::int64_t kMostPublicBytes = std::int64_t{4} << 30;
constexpr std::size_t kMostLines = 1000;
constexpr std::size_t kLongestLine = 1000;

const std::vector<std::string> kCharteredKeys{"seed",  "rounds", "federation",
                                              "train", "model",  "method"};

[[noreturn]] void refuse_charter(const std::string& why, const std::string& hint = "") {
  throw Error(ErrorKind::peer, fmt::format("the charter of the server: {}", why), hint);
}

[[noreturn]] void refuse_to_serve(const std::string& why, const std::string& hint = "") {
  throw Error(ErrorKind::experiment, why, hint);
}

std::string digest_of_images(const at::Tensor& images) {
  if (!images.defined()) {
    return {};
  }
  const at::Tensor whole = images.to(at::kCPU).contiguous();
  Sha256 hash;
  hash.update({static_cast<const std::byte*>(whole.data_ptr()), whole.nbytes()});
  return hash.hex();
}

// The keys of an experiment that a member is told.
Json chartered(const Experiment& experiment) {
  const Json all = experiment.resolved();
  const Json& model = all.at("model");
  Json federation{{"fraction", all.at("federation").at("fraction")}};
  if (experiment.federation.sums != SumForm::floating) {
    federation["sums"] = all.at("federation").at("sums");
  }
  return {{"seed", all.at("seed")},
          {"rounds", all.at("rounds")},
          {"federation", federation},
          {"train", all.at("train")},
          {"model",
           {{"name", model.at("name")},
            {"resize", model.at("resize")},
            {"projection", model.at("projection")}}},
          {"method", all.at("method")}};
}

Json contract_of(const DataSet& data) {
  return {{"class_names", data.class_names},
          {"channels", data.channels()},
          {"height", data.height()},
          {"width", data.width()},
          {"mean", data.normalisation.mean},
          {"std", data.normalisation.std},
          {"crop", data.crop},
          {"augment", data.augment}};
}

bool is_digest(const std::string& text) {
  return text.size() == 64 && std::ranges::all_of(text, [](char digit) {
           return (digit >= '0' && digit <= '9') || (digit >= 'a' && digit <= 'f');
         });
}

std::string digest_in(const CheckedJson& value) {
  std::string text = value.text();
  if (!is_digest(text)) {
    refuse_charter(fmt::format("{} is no SHA-256", value.name()));
  }
  return text;
}

std::string line_in(const CheckedJson& value, std::size_t longest) {
  std::string text = value.text();
  if (text.empty() || text.size() > longest) {
    refuse_charter(
        fmt::format("{} has {} bytes, expected 1 to {}", value.name(), text.size(), longest));
  }
  if (std::ranges::any_of(text, [](unsigned char c) { return c < 32 || c == 127; })) {
    refuse_charter(fmt::format("{} has a control character", value.name()));
  }
  return text;
}

void check_classes(const CheckedJson& names) {
  constexpr std::size_t kLongestClass = 255;
  const std::vector<CheckedJson> all = names.elements();
  if (all.empty() || std::ssize(all) > kMostClasses) {
    refuse_charter(fmt::format("{} classes, expected 1 to {}", all.size(), kMostClasses));
  }
  std::set<std::string> seen;
  for (const CheckedJson& name : all) {
    if (!seen.insert(line_in(name, kLongestClass)).second) {
      refuse_charter(fmt::format("{} is there twice", name.name()));
    }
  }
}

// What images are fed with decides which bytes are read, so it has to fit them.
void check_contract(const CheckedJson& data) {
  if (data.members().size() != 8) {
    refuse_charter(
        "data has other keys than class_names, channels, height, width, mean, std, "
        "crop and augment");
  }
  check_classes(data.at("class_names"));
  const std::int64_t channels = data.at("channels").whole(1, kMostChartedChannels);
  const std::int64_t height = data.at("height").whole(1, kWidestImage);
  const std::int64_t width = data.at("width").whole(1, kWidestImage);
  for (const auto& [name, low, high] :
       {std::tuple("mean", 0.0, 1.0), std::tuple("std", 1e-12, 1e12)}) {
    const std::vector<CheckedJson> values = data.at(name).elements();
    if (std::ssize(values) != channels) {
      refuse_charter(fmt::format("data.{} has {} values, expected one for each of {} channels",
                                 name, values.size(), channels));
    }
    for (const CheckedJson& value : values) {
      value.number(low, high);
    }
  }
  constexpr std::int64_t kWidestRest = 254;  // as the readers of data sets have it
  const std::int64_t crop = data.at("crop").whole(0, kWidestImage);
  const std::int64_t rest = height - crop;
  if (crop > 0 && (height != width || rest < 0 || rest % 2 != 0 || rest > kWidestRest)) {
    refuse_charter(fmt::format("data.crop = {} does not fit images of {}x{}", crop, height, width));
  }
  data.at("augment").truth();
}

std::int64_t image_bytes(const Json& data) {
  return data.at("channels").get<std::int64_t>() * data.at("height").get<std::int64_t>() *
         data.at("width").get<std::int64_t>();
}

Charter parse_charter(const std::string& text) {
  const Json json = parse_json(text, "the charter of the server", ErrorKind::peer);
  const CheckedJson tree(json, "");
  std::ignore = tree.members();
  tree.at("winnow_charter").whole(kCharterFormat, kCharterFormat);
  Charter charter;
  charter.federation = line_in(tree.at("federation"), 200);
  charter.members = tree.at("members").whole(1, kMostMembers);
  std::ignore = tree.at("experiment").members();
  charter.experiment = tree.at("experiment").json();
  check_contract(tree.at("data"));
  charter.data = tree.at("data").json();
  charter.validation = tree.at("validation").whole(0, std::int64_t{1} << 40);
  charter.public_images =
      tree.at("public_images").whole(0, kMostPublicBytes / image_bytes(charter.data));
  if (charter.public_images > 0) {
    charter.public_digest = digest_in(tree.at("public_digest"));
  }
  charter.layout = digest_in(tree.at("layout"));
  charter.numerics = static_cast<std::uint32_t>(tree.at("numerics").whole(0, 1'000'000));
  charter.arithmetic = line_in(tree.at("arithmetic"), 100);
  const std::vector<CheckedJson> lines = tree.at("leaves").elements();
  if (lines.size() > kMostLines) {
    refuse_charter(
        fmt::format("leaves has {} lines, expected at most {}", lines.size(), kMostLines));
  }
  for (const CheckedJson& line : lines) {
    charter.leaves.push_back(line_in(line, kLongestLine));
  }
  if (const auto masked = tree.find("masked")) {
    charter.masked = masked->truth();
  }
  return charter;
}

void check_keys(const Json& table, const std::string& where,
                const std::vector<std::string>& known) {
  for (const auto& [key, value] : table.items()) {
    if (std::ranges::count(known, key) == 0) {
      refuse_charter(fmt::format("experiment.{}{} is not for a server to say", where, key));
    }
  }
}

// Calls `visit` with the dotted key of every true parameter, also of a method that is wrapped.
void find_true(const Json& table, const std::string& where,
               const std::function<void(const std::string& key, const std::string& name)>& visit) {
  for (const auto& [name, value] : table.items()) {
    if (value.is_object()) {
      find_true(value, where + name + ".", visit);
    } else if (value.is_boolean() && value.get<bool>()) {
      visit(where + name, name);
    }
  }
}

}  // namespace

std::string Charter::text() const {
  Json json{{"winnow_charter", kCharterFormat},
            {"federation", federation},
            {"members", members},
            {"experiment", experiment},
            {"data", data},
            {"validation", validation},
            {"public_images", public_images},
            {"public_digest", public_digest},
            {"layout", layout},
            {"numerics", numerics},
            {"arithmetic", arithmetic},
            {"leaves", leaves}};
  if (masked) {
    json["masked"] = true;
  }
  return json.dump();
}

std::string Charter::hash() const {
  return sha256_hex(text());
}

std::string layout_digest(const Crew& crew) {
  const std::vector<LayoutPtr> layouts = crew.layouts();
  if (layouts.size() == 1) {
    return layouts.front()->digest();
  }
  Sha256 all;
  for (const LayoutPtr& layout : layouts) {
    all.update(layout->digest() + "\n");
  }
  return all.hex();
}

std::vector<std::string> lines_of(const std::vector<Exchange>& exchanges) {
  std::vector<std::string> lines;
  for (const Exchange& exchange : exchanges) {
    for (const FieldRule& field : exchange.answers) {
      std::string line = fmt::format("{}: {}", field.name, field.tells);
      if (std::ranges::count(lines, line) == 0) {
        lines.push_back(std::move(line));
      }
    }
  }
  return lines;
}

Charter make_charter(const std::string& federation, const Experiment& experiment,
                     const Workplace& place) {
  const World& world = place.world();
  Charter charter;
  charter.federation = federation;
  charter.members = place.setting().clients;
  charter.experiment = chartered(experiment);
  charter.data = contract_of(world.data);
  charter.validation = place.setting().validation;
  charter.public_images = place.setting().public_images;
  charter.public_digest = digest_of_images(world.public_images);
  charter.layout = layout_digest(place.crew());
  charter.arithmetic = current_arithmetic();
  charter.leaves = lines_of(place.exchanges());
  return charter;
}

Charter make_masked_charter(const std::string& federation, const Experiment& experiment,
                            const Workplace& place, const std::vector<Exchange>& exchanges) {
  Charter charter = make_charter(federation, experiment, place);
  charter.leaves = lines_of(exchanges);
  charter.masked = true;
  return charter;
}

Charter read_charter(const std::string& text) {
  if (text.size() > kLongestCharter) {
    refuse_charter(
        fmt::format("it has {} bytes, expected at most {}", text.size(), kLongestCharter));
  }
  Charter charter;
  try {
    charter = parse_charter(text);
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::peer) {
      throw;
    }
    refuse_charter(error.what());
  }
  // One text for one charter: what is shown, agreed to and computed with is the same thing.
  if (charter.text() != text) {
    refuse_charter("it is not in the form that servers of this version write");
  }
  return charter;
}

Experiment charter_experiment(const Charter& charter, const Registry& registry) {
  Json tree = charter.experiment;
  check_keys(tree, "", kCharteredKeys);
  for (const auto& [table, known] :
       {std::pair("federation", std::vector<std::string>{"fraction", "sums"}),
        std::pair("model", std::vector<std::string>{"name", "resize", "projection"})}) {
    if (const auto found = tree.find(table); found != tree.end() && found->is_object()) {
      check_keys(*found, std::string(table) + ".", known);
    } else {
      refuse_charter(fmt::format("experiment.{} is no table", table));
    }
  }
  tree["federation"]["clients"] = charter.members;
  tree["data"] = {{"name", kServerData}};
  try {
    Experiment experiment = parse_experiment(tree, registry);
    check_servable(experiment, registry);
    if (charter.masked && experiment.federation.sums != SumForm::fixed) {
      refuse_to_serve("masked = true: it needs federation.sums = \"fixed\"");
    }
    return experiment;
  } catch (const Error& error) {
    refuse_charter(error.what(), error.hint());
  }
}

void check_servable(const Experiment& experiment, const Registry& registry) {
  const MethodInfo& method = registry.methods.find(experiment.method);
  if (method.truth != Truth::none) {
    refuse_to_serve(
        fmt::format(
            "method.name = \"{}\": it is told the truth, which nobody knows in a federation",
            experiment.method),
        "choose a method that is no oracle");
  }
  find_true(experiment.method_params, "method.",
            [](const std::string& key, const std::string& name) {
              if (name.starts_with("debug_")) {
                refuse_to_serve(fmt::format("{} = true: it would take more from members than the "
                                            "method needs",
                                            key),
                                "remove it");
              }
            });
  if (experiment.model.name == kTorchScript) {
    refuse_to_serve(
        fmt::format("model.name = \"{}\": members do not execute code of a server", kTorchScript),
        "choose a network of `winnow list models`");
  }
  if (experiment.federation.centralised) {
    refuse_to_serve("federation.centralised = true: the samples of members stay with them");
  }
  if (!experiment.noise.empty()) {
    refuse_to_serve("[[noise]]: the noise in a federation is that of its members' data",
                    "remove it; winnow deal puts noise into the files it makes");
  }
  if (experiment.federation.dropout > 0.0 || !experiment.federation.absences.empty()) {
    refuse_to_serve(fmt::format("federation.{}: in a federation members are absent by themselves",
                                experiment.federation.dropout > 0.0 ? "dropout" : "absences"),
                    "remove it");
  }
  if (experiment.local_accuracy) {
    refuse_to_serve("local_accuracy = true: the models of members are not measured in a federation",
                    "remove it");
  }
  if (experiment.validation.source != "none") {
    refuse_to_serve(fmt::format("validation.source = \"{}\": a server's validation samples lie in "
                                "the file that data.path names",
                                experiment.validation.source),
                    "put them there as validation_images and validation_labels");
  }
  if (experiment.public_images.source != "none") {
    refuse_to_serve(fmt::format("public.source = \"{}\": the public images lie in the file that "
                                "data.path names",
                                experiment.public_images.source),
                    "put them there as public_images");
  }
}

}  // namespace winnow
