#include "winnow/federation/absence.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "winnow/base/checked_json.h"
#include "winnow/base/random.h"

namespace winnow {

Json absences_to_json(const Absences& absences) {
  Json list = Json::array();
  for (const auto& [place, reason] : absences) {
    list.push_back({{"ask", place.ask}, {"client", place.client}, {"reason", name_of(reason)}});
  }
  return list;
}

Absences absences_of_round(const Json& list, std::int64_t round, std::int64_t clients) {
  Absences absences;
  for (const CheckedJson& absent : CheckedJson(list, "absent").elements()) {
    const OrderPlace place{round, absent.at("ask").count(),
                           absent.at("client").whole(0, clients - 1)};
    absences[place] = absence_reason(absent.at("reason").text());
  }
  return absences;
}

AbsentFleet::AbsentFleet(Fleet& fleet, double dropout, std::uint64_t seed, Absences given)
    : fleet_(fleet), dropout_(dropout), seed_(seed), given_(std::move(given)) {}

void AbsentFleet::begin(std::int64_t round) {
  round_ = round;
  ask_ = 0;
  absences_.clear();
}

std::vector<Absence> AbsentFleet::ask(const std::vector<Order>& orders, const Fold& fold) {
  std::vector<Absence> absent;
  std::vector<Order> reached;
  for (const Order& order : orders) {
    const OrderPlace place{round_, ask_, order.client};
    const auto given = given_.find(place);
    const bool lost = Stream(seed_, "dropout", round_, ask_, order.client).bernoulli(dropout_);
    if (given == given_.end() && !lost) {
      reached.push_back(order);
      continue;
    }
    const AbsenceReason reason = given == given_.end() ? AbsenceReason::silent : given->second;
    absent.push_back({order.client, reason});
    absences_[place] = reason;
  }
  ++ask_;
  const std::vector<Absence> further = fleet_.ask(reached, fold);
  for (const Absence& absence : further) {
    absences_[{round_, ask_ - 1, absence.client}] = absence.reason;
  }
  absent.insert(absent.end(), further.begin(), further.end());
  std::ranges::sort(absent, {}, &Absence::client);
  return absent;
}

}  // namespace winnow
