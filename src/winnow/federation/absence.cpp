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

std::vector<Absence> AbsentFleet::lose(std::vector<Order>& orders) {
  std::vector<Absence> lost;
  std::erase_if(orders, [&](const Order& order) {
    const OrderPlace place{round_, ask_, order.client};
    const auto given = given_.find(place);
    const bool drawn = Stream(seed_, "dropout", round_, ask_, order.client).bernoulli(dropout_);
    if (given == given_.end() && !drawn) {
      return false;
    }
    const AbsenceReason reason = given == given_.end() ? AbsenceReason::silent : given->second;
    lost.push_back({order.client, reason});
    absences_[place] = reason;
    return true;
  });
  ++ask_;
  return lost;
}

std::vector<Absence> AbsentFleet::note(std::vector<Absence> lost,
                                       const std::vector<Absence>& further) {
  for (const Absence& absence : further) {
    absences_[{round_, ask_ - 1, absence.client}] = absence.reason;
  }
  lost.insert(lost.end(), further.begin(), further.end());
  std::ranges::sort(lost, {}, &Absence::client);
  return lost;
}

std::vector<Absence> AbsentFleet::ask(const std::vector<Order>& orders, const Fold& fold) {
  std::vector<Order> reached = orders;
  std::vector<Absence> lost = lose(reached);
  return note(std::move(lost), fleet_.ask(reached, fold));
}

Sums AbsentFleet::ask_for_sums(const std::vector<Order>& orders,
                               const std::vector<FieldRule>& rules, SumForm form,
                               const Hear& hear) {
  std::vector<Order> reached = orders;
  std::vector<Absence> lost = lose(reached);
  Sums sums = fleet_.ask_for_sums(reached, rules, form, hear);
  sums.absent = note(std::move(lost), sums.absent);
  return sums;
}

}  // namespace winnow
