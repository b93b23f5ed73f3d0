#include "winnow/report/partition_parts.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "winnow/base/error.h"
#include "winnow/base/text.h"

namespace winnow::partition_parts {
namespace {

constexpr std::array<Colour, 10> kPalette{{{0x4e, 0x79, 0xa7},
                                           {0xf2, 0x8e, 0x2b},
                                           {0xe1, 0x57, 0x59},
                                           {0x76, 0xb7, 0xb2},
                                           {0x59, 0xa1, 0x4f},
                                           {0xed, 0xc9, 0x48},
                                           {0xb0, 0x7a, 0xa1},
                                           {0xff, 0x9d, 0xa7},
                                           {0x9c, 0x75, 0x5f},
                                           {0xba, 0xb0, 0xac}}};

}  // namespace

Colour class_colour(std::size_t index, std::size_t classes) {
  if (classes <= kPalette.size()) {
    return kPalette.at(index);
  }
  const double x = 0.04 + 0.92 * static_cast<double>(index) / static_cast<double>(classes - 1);
  const auto level = [x](const std::array<double, 6>& terms) {
    const double value = std::accumulate(terms.rbegin(), terms.rend(), 0.0,
                                         [x](double sum, double term) { return sum * x + term; });
    return static_cast<int>(std::lround(255.0 * std::clamp(value, 0.0, 1.0)));
  };
  return {level({0.13572138, 4.61539260, -42.66032258, 132.13108234, -152.94239396, 59.28637943}),
          level({0.09140261, 2.19418839, 4.84296658, -14.18503333, 4.27729857, 2.82956604}),
          level({0.10667330, 12.64194608, -60.58204836, 110.36276771, -89.90310912, 27.34824973})};
}

void check(const Census& picture) {
  for (std::size_t id = 0; id < picture.clients.size(); ++id) {
    const ClientCensus& client = picture.clients[id];
    for (const auto* counts : {&client.true_counts, &client.given_counts}) {
      if (counts->size() != picture.class_names.size()) {
        throw Error(ErrorKind::internal,
                    fmt::format("client {} of a partition picture counts {} classes, expected {}",
                                id, counts->size(), picture.class_names.size()));
      }
      const bool negative =
          std::any_of(counts->begin(), counts->end(), [](std::int64_t count) { return count < 0; });
      if (negative ||
          std::accumulate(counts->begin(), counts->end(), std::int64_t{0}) != client.samples) {
        throw Error(ErrorKind::internal,
                    fmt::format("the classes of client {} of a partition picture do not add up to "
                                "its {} samples",
                                id, client.samples));
      }
    }
    for (const double share : {client.wrong_share, client.distorted_share}) {
      if (!(share >= 0.0 && share <= 1.0)) {
        throw Error(ErrorKind::internal,
                    fmt::format("client {} of a partition picture has a share of {}, expected 0..1",
                                id, share));
      }
    }
  }
}

std::string Totals::percent(std::int64_t part) const {
  return percent_text(samples == 0 ? 0.0
                                   : static_cast<double>(part) / static_cast<double>(samples));
}

Totals totals_of(const Census& picture) {
  Totals totals;
  totals.least = picture.clients.empty() ? 0 : picture.clients.front().samples;
  for (const ClientCensus& client : picture.clients) {
    const auto samples = static_cast<double>(client.samples);
    totals.samples += client.samples;
    totals.least = std::min(totals.least, client.samples);
    totals.most = std::max(totals.most, client.samples);
    totals.noisy += client.noisy ? 1 : 0;
    totals.wrong += std::llround(client.wrong_share * samples);
    totals.distorted += std::llround(client.distorted_share * samples);
  }
  return totals;
}

std::string counted(std::int64_t count, std::string_view thing) {
  return fmt::format("{} {}{}", count, thing, count == 1 ? "" : "s");
}

std::string who_holds_what(const Census& picture, const Totals& totals) {
  return fmt::format("{}, {} ({} to {} each)", counted(std::ssize(picture.clients), "client"),
                     counted(totals.samples, "sample"), totals.least, totals.most);
}

std::string how_noisy(const Census& picture, const Totals& totals) {
  if (!picture.truth_known) {
    return "which labels are wrong and which clients are noisy is not known";
  }
  const std::string counts =
      fmt::format("{}, {} ({}), {} ({})", counted(totals.noisy, "noisy client"),
                  counted(totals.wrong, "wrong label"), totals.percent(totals.wrong),
                  counted(totals.distorted, "distorted image"), totals.percent(totals.distorted));
  return picture.only_injected ? "injected: " + counts + "; what was wrong before is not known"
                               : counts;
}

}  // namespace winnow::partition_parts
