#include "winnow/sweep/report_checks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <set>
#include <string>
#include <string_view>

#include "winnow/base/error.h"

namespace winnow {
namespace {

constexpr std::int64_t kLastClient = 9'999'999;  // a federation has at most ten million clients
constexpr std::size_t kMostTimes = 1000;
constexpr std::size_t kMostNorms = 100'000;
constexpr std::size_t kSplitCounts = 4;
constexpr std::size_t kLongestWord = 256;  // names and versions of members
constexpr std::array<std::string_view, 7> kMemberStatuses{"enrolled", "present", "working", "away",
                                                          "left",     "revoked", "done"};

void check_client(const std::string& digits, const CheckedJson& value) {
  std::int64_t client = -1;
  std::from_chars(digits.data(), digits.data() + digits.size(), client);
  if (client < 0 || client > kLastClient || std::to_string(client) != digits) {
    throw Error(ErrorKind::run, fmt::format("{}: expected the number of a client", value.name()));
  }
}

void check_count(const CheckedJson& list, std::size_t count, const char* what) {
  if (!list.json().is_array() || list.json().size() != count) {
    throw Error(ErrorKind::run, fmt::format("{}: expected {} {}", list.name(), count, what));
  }
}

void check_series(const CheckedJson& times) {
  const std::vector<CheckedJson> all = times.elements();
  if (all.size() > kMostTimes) {
    throw Error(ErrorKind::run, fmt::format("{}: expected at most {} entries, not {}", times.name(),
                                            kMostTimes, all.size()));
  }
  for (const CheckedJson& scores : all) {
    for (const auto& [client, value] : scores.at("by_client").members()) {
      check_client(client, value);
      value.number();
    }
  }
}

void check_likeness(const CheckedJson& likeness) {
  likeness.at("of").text();
  const std::vector<CheckedJson> clients = likeness.at("clients").elements();
  likeness.at("known").whole(std::ssize(clients), kLastClient + 1);
  for (const CheckedJson& client : clients) {
    client.whole(0, kLastClient);
  }
  const CheckedJson values = likeness.at("values");
  check_count(values, clients.size(), "rows");
  for (const CheckedJson& row : values.elements()) {
    check_count(row, clients.size(), "numbers");
    for (const CheckedJson& value : row.elements()) {
      value.number(-1.0, 1.0);
    }
  }
}

void check_square(const CheckedJson& square) {
  const std::vector<CheckedJson> rows = square.elements();
  for (const CheckedJson& row : rows) {
    check_count(row, rows.size(), "counts");
    for (const CheckedJson& count : row.elements()) {
      count.count();
    }
  }
}

std::string word_of(const CheckedJson& value) {
  std::string word = value.text();
  if (word.empty() || word.size() > kLongestWord) {
    throw Error(ErrorKind::run, fmt::format("{}: expected 1 to {} bytes, not {}", value.name(),
                                            kLongestWord, word.size()));
  }
  return word;
}

std::string status_of_member(const CheckedJson& value) {
  std::string status = value.text();
  if (std::ranges::find(kMemberStatuses, status) == kMemberStatuses.end()) {
    throw Error(ErrorKind::run, fmt::format("{}: expected one of {}", value.name(),
                                            fmt::join(kMemberStatuses, ", ")));
  }
  return status;
}

// "2026-11-18T06:20:00.123Z", with digits in the places of its digits and numbers in their ranges.
bool is_time(std::string_view text) {
  constexpr std::string_view kForm = "0000-00-00T00:00:00.000Z";
  const auto fits = [](char wanted, char found) {
    return wanted == '0' ? found >= '0' && found <= '9' : found == wanted;
  };
  if (!std::ranges::equal(kForm, text, fits)) {
    return false;
  }
  const std::string_view month = text.substr(5, 2);
  const std::string_view day = text.substr(8, 2);
  return month >= "01" && month <= "12" && day >= "01" && day <= "31" &&
         text.substr(11, 2) <= "23" && text.substr(14, 2) <= "59" && text.substr(17, 2) <= "59";
}

Json time_of_member(const CheckedJson& value) {
  if (value.is_null()) {
    return nullptr;
  }
  std::string time = value.text();
  if (!is_time(time)) {
    throw Error(ErrorKind::run,
                fmt::format("{}: expected a time such as 2026-11-18T06:20:00.123Z", value.name()));
  }
  return time;
}

}  // namespace

Json checked_members(const Json& file) {
  const CheckedJson all(file, "");
  Json members = Json::array();
  std::set<std::int64_t> known;
  for (const CheckedJson& member : all.at("members").elements()) {
    const CheckedJson client = member.at("client");
    if (!known.insert(client.whole(0, kLastClient)).second) {
      throw Error(ErrorKind::run, fmt::format("{}: client {} is there twice", client.name(),
                                              client.json().get<std::int64_t>()));
    }
    Json entry{{"name", word_of(member.at("name"))},
               {"client", client.json()},
               {"status", status_of_member(member.at("status"))},
               {"last_seen", time_of_member(member.at("last_seen"))},
               {"expires", time_of_member(member.at("expires"))}};
    for (const char* count : {"samples", "rounds", "absences", "refusals"}) {
      entry[count] = member.at(count).count();
    }
    if (const CheckedJson version = member.at("version"); !version.text().empty()) {
      entry["version"] = word_of(version);  // who has never come has none
    }
    members.push_back(std::move(entry));
  }
  return {{"round", all.at("round").count()}, {"members", std::move(members)}};
}

void check_findings(const Json& findings) {
  const CheckedJson all(findings, "");
  if (const auto series = all.find("series")) {
    for (const auto& [name, times] : series->members()) {
      check_series(times);
    }
  }
  if (const auto likeness = all.find("likeness")) {
    check_likeness(*likeness);
  }
}

void check_labels(const Json& event) {
  const CheckedJson labels(event, "");
  labels.at("name").text();
  labels.at("round").count();
  for (const auto& [client, level] : labels.at("levels").members()) {
    check_client(client, level);
    level.number(0.0, 1.0);
  }
  for (const auto& [client, split] : labels.at("splits").members()) {
    check_client(client, split);
    check_count(split, kSplitCounts, "counts");
    for (const CheckedJson& count : split.elements()) {
      count.count();
    }
  }
  if (const auto confusions = labels.find("confusions")) {
    for (const auto& [client, square] : confusions->members()) {
      check_client(client, square);
      check_square(square);
    }
  }
}

void NormCollector::add(const Json& event) {
  const auto norms = CheckedJson(event, "").find("norms");
  if (!norms || !norms->json().is_array()) {
    return;  // a method outside of this tree may note something else under that name
  }
  for (const CheckedJson& entry : norms->elements()) {
    const std::int64_t client = entry.at("client").whole(0, kLastClient);
    std::vector<double>& own = norms_[client];
    own.clear();
    for (const CheckedJson& norm : entry.at("norms").elements()) {
      if (!norm.is_null()) {  // one that was not finite
        own.push_back(norm.number(0.0));
      }
    }
  }
}

Json NormCollector::result() const {
  if (norms_.empty()) {
    return nullptr;
  }
  std::size_t total = 0;
  for (const auto& [client, own] : norms_) {
    total += own.size();
  }
  const bool thin = total > kMostNorms;
  const std::size_t most = std::max<std::size_t>(2, kMostNorms / norms_.size());
  Json by_client = Json::object();
  for (const auto& [client, own] : norms_) {
    Json kept = Json::array();
    const std::size_t count = thin ? std::min(most, own.size()) : own.size();
    for (std::size_t i = 0; i < count; ++i) {
      kept.push_back(own[count < 2 ? i : i * (own.size() - 1) / (count - 1)]);
    }
    by_client[std::to_string(client)] = std::move(kept);
  }
  return {{"thinned", thin}, {"by_client", std::move(by_client)}};
}

}  // namespace winnow
