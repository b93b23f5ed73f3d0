#include "winnow/method/system/clipfl/ncs_ledger.h"

#include <algorithm>
#include <tuple>

namespace winnow::clipfl {

std::set<std::int64_t> below_the_best(std::vector<Judgement> round, std::int64_t keep) {
  std::ranges::sort(round, [](const Judgement& a, const Judgement& b) {
    return a.accuracy != b.accuracy ? a.accuracy > b.accuracy : a.client < b.client;
  });
  std::set<std::int64_t> rest;
  for (auto place = static_cast<std::size_t>(keep); place < round.size(); ++place) {
    rest.insert(round[place].client);
  }
  return rest;
}

double NcsLedger::Record::ratio() const {
  return sampled == 0 ? 0.0 : static_cast<double>(ncs) / static_cast<double>(sampled);
}

double NcsLedger::Record::mean_accuracy() const {
  return judged == 0 ? 0.0 : accuracy_sum / static_cast<double>(judged);
}

NcsLedger::Record NcsLedger::of(std::int64_t client) const {
  const auto found = records_.find(client);
  return found == records_.end() ? Record{} : found->second;
}

void NcsLedger::judge(const Judgement& judgement) {
  Record& record = records_[judgement.client];
  ++record.sampled;
  ++record.judged;
  record.accuracy_sum += judgement.accuracy;
}

void NcsLedger::reject(std::int64_t client) {
  Record& record = records_[client];
  ++record.sampled;
  ++record.ncs;
}

void NcsLedger::flag(std::int64_t client) {
  ++records_[client].ncs;
}

std::vector<std::int64_t> NcsLedger::worst(std::span<const std::int64_t> candidates,
                                           std::int64_t count, Tie tie) const {
  std::vector<std::int64_t> order(candidates.begin(), candidates.end());
  // Ascending order of the key is worst first.
  const auto key = [&](std::int64_t client) {
    const Record record = of(client);
    const bool by_ratio = tie == Tie::ratio;
    return std::tuple(-record.ncs, by_ratio ? -record.ratio() : 0.0,
                      by_ratio ? record.mean_accuracy() : 0.0, client);
  };
  std::ranges::sort(order, {}, key);
  order.resize(std::min(order.size(), static_cast<std::size_t>(count)));
  return order;
}

std::map<std::int64_t, double> NcsLedger::scores() const {
  std::map<std::int64_t, double> scores;
  for (const auto& [client, record] : records_) {
    scores[client] = static_cast<double>(record.ncs);
  }
  return scores;
}

std::map<std::int64_t, double> NcsLedger::ratios() const {
  std::map<std::int64_t, double> ratios;
  for (const auto& [client, record] : records_) {
    ratios[client] = record.ratio();
  }
  return ratios;
}

std::map<std::int64_t, double> NcsLedger::accuracies() const {
  std::map<std::int64_t, double> accuracies;
  for (const auto& [client, record] : records_) {
    if (record.judged > 0) {
      accuracies[client] = record.mean_accuracy();
    }
  }
  return accuracies;
}

void NcsLedger::save(Archive& archive, const std::string& column) const {
  archive.put_column(column, records_, [](const Record& record) {
    return Json{{"ncs", record.ncs},
                {"sampled", record.sampled},
                {"judged", record.judged},
                {"accuracy_sum", record.accuracy_sum}};
  });
}

NcsLedger NcsLedger::load(const Archive& archive, const std::string& column,
                          const std::optional<CheckedJson>& saved) {
  NcsLedger ledger;
  if (const auto* kept = archive.column<Record>(column)) {
    ledger.records_ = *kept;
    return ledger;
  }
  ledger.records_ = read_by_client(saved, archive.bounds, [](const CheckedJson& each) {
    Record record;
    record.sampled = each.at("sampled").count();
    record.ncs = each.at("ncs").whole(0, record.sampled);
    record.judged = each.at("judged").whole(0, record.sampled);
    record.accuracy_sum = each.at("accuracy_sum").number(0.0, static_cast<double>(record.judged));
    return record;
  });
  return ledger;
}

}  // namespace winnow::clipfl
