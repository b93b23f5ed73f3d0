#include "winnow/federation/fleet.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>

#include "winnow/base/error.h"

namespace winnow {

namespace {

constexpr std::array<const char*, 4> kReasons{"silent", "late", "refused", "left"};

}  // namespace

std::string name_of(AbsenceReason reason) {
  return kReasons.at(static_cast<std::size_t>(reason));
}

AbsenceReason absence_reason(const std::string& name) {
  const auto found = std::ranges::find(kReasons, name);
  if (found == kReasons.end()) {
    throw Error(ErrorKind::run,
                fmt::format("reason \"{}\": expected silent, late, refused or left", name));
  }
  return static_cast<AbsenceReason>(found - kReasons.begin());
}

bool is_absent(std::int64_t client, const std::vector<Absence>& absent) {
  return std::ranges::binary_search(absent, client, {}, &Absence::client);
}

ClientList Fleet::with_samples() const {
  std::vector<std::int64_t> clients;
  for (std::int64_t client = 0; client < size(); ++client) {
    if (samples(client) > 0) {
      clients.push_back(client);
    }
  }
  return clients;
}

std::vector<std::size_t> fold_order(const std::vector<Order>& orders, const Fleet& fleet) {
  std::vector<std::size_t> places(orders.size());
  std::iota(places.begin(), places.end(), std::size_t{0});
  std::ranges::sort(places, [&](std::size_t a, std::size_t b) {
    const std::int64_t size_a = fleet.samples(orders[a].client);
    const std::int64_t size_b = fleet.samples(orders[b].client);
    return size_a != size_b ? size_a > size_b : orders[a].client < orders[b].client;
  });
  return places;
}

}  // namespace winnow
