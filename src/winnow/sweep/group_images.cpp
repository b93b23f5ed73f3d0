#include "winnow/sweep/group_images.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "winnow/base/base64.h"
#include "winnow/base/checked_json.h"
#include "winnow/base/error.h"
#include "winnow/base/png.h"
#include "winnow/base/random.h"
#include "winnow/run/runner.h"

namespace winnow {
namespace {

constexpr std::int64_t kImages = 9;
constexpr std::int64_t kLargestSide = 64;

// uint8 [channels, height, width], no side longer than kLargestSide.
at::Tensor made_small(const at::Tensor& image) {
  const std::int64_t side = std::max(image.size(1), image.size(2));
  if (side <= kLargestSide) {
    return image;
  }
  const auto scaled = [&](std::int64_t length) {
    return std::max<std::int64_t>(1, length * kLargestSide / side);
  };
  return at::adaptive_avg_pool2d(image.to(at::kFloat),
                                 {scaled(image.size(1)), scaled(image.size(2))})
      .round()
      .to(at::kByte);
}

std::string png_of(const at::Tensor& image) {
  const at::Tensor small = made_small(image);
  const at::Tensor pixels = small.permute({1, 2, 0}).contiguous();
  return encode_png({pixels.data_ptr<std::uint8_t>(), static_cast<std::size_t>(pixels.numel())},
                    small.size(2), small.size(1), small.size(0));
}

struct Held {
  std::int64_t client = 0;
  std::size_t place = 0;
};

Json images_of(const World& world, const std::vector<Held>& held,
               const std::set<std::int64_t>& distorted, Stream stream) {
  Json images = Json::array();
  const std::int64_t count = std::ssize(held);
  for (const std::int64_t number : stream.sample(count, std::min(kImages, count))) {
    const Held& one = held[static_cast<std::size_t>(number)];
    const ClientData& client = world.clients[static_cast<std::size_t>(one.client)];
    const std::int64_t sample = client.samples[one.place];
    const bool wrong =
        client.given[one.place] != world.data.train.labels[static_cast<std::size_t>(sample)];
    images.push_back(
        {{"client", one.client},
         {"noisy", world.truth_known ? Json(wrong || distorted.contains(sample)) : Json()},
         {"png", base64(png_of(world.data.train.images[sample]))}});
  }
  return images;
}

std::vector<std::int64_t> flagged_clients(const Json& findings, std::size_t clients) {
  std::vector<std::int64_t> flagged;
  for (const CheckedJson& client : CheckedJson(findings, "").at("flagged").elements()) {
    flagged.push_back(client.whole(0, static_cast<std::int64_t>(clients) - 1));
  }
  return flagged;
}

// Everything that a world is made from.
std::string world_key(const Experiment& experiment) {
  const Json tree = experiment.resolved();
  Json key{{"seed", experiment.seed}};
  for (const char* table : {"data", "federation", "validation", "public", "noise"}) {
    key[table] = tree.value(table, Json());
  }
  return key.dump();
}

}  // namespace

Json group_images(const World& world, const std::vector<std::int64_t>& flagged,
                  std::uint64_t seed) {
  const std::set<std::int64_t> noisy(flagged.begin(), flagged.end());
  std::set<std::int64_t> distorted;
  for (const LedgerSample& entry : world.ledger.samples()) {
    if (entry.kind != "label") {
      distorted.insert(entry.sample);
    }
  }
  std::vector<Held> of_flagged;
  std::vector<Held> of_others;
  for (std::size_t id = 0; id < world.clients.size(); ++id) {
    const auto client = static_cast<std::int64_t>(id);
    std::vector<Held>& group = noisy.contains(client) ? of_flagged : of_others;
    for (std::size_t place = 0; place < world.clients[id].samples.size(); ++place) {
      group.push_back({client, place});
    }
  }
  return {{"flagged", images_of(world, of_flagged, distorted, Stream(seed, "report images", 0))},
          {"others", images_of(world, of_others, distorted, Stream(seed, "report images", 1))}};
}

void add_group_images(Json& report, const Registry& registry) {
  struct Wanted {
    Experiment experiment;
    std::vector<Json*> runs;
  };
  std::map<std::string, Wanted> worlds;
  for (Json& run : report.at("runs")) {
    const Json flagged = run.value(Json::json_pointer("/findings/flagged"), Json());
    if (flagged.is_array() && !flagged.empty()) {
      Experiment experiment = read_run_experiment(run.at("id").get<std::string>(), registry);
      Wanted& wanted = worlds[world_key(experiment)];
      wanted.experiment = std::move(experiment);
      wanted.runs.push_back(&run);
    }
  }
  for (const auto& [key, wanted] : worlds) {
    const World world = make_world(wanted.experiment, registry);
    for (Json* run : wanted.runs) {
      try {
        const auto flagged = flagged_clients(run->at("findings"), world.clients.size());
        (*run)["images"] = group_images(world, flagged, wanted.experiment.seed);
      } catch (const Error& error) {
        throw Error(error.kind(),
                    fmt::format("{}: {}", run->at("id").get<std::string>(), error.what()));
      }
    }
  }
}

}  // namespace winnow
