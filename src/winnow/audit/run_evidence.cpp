#include "winnow/audit/run_evidence.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <optional>
#include <system_error>
#include <utility>

#include "winnow/base/checked_json.h"
#include "winnow/base/csv.h"
#include "winnow/base/error.h"
#include "winnow/base/files.h"
#include "winnow/base/json.h"
#include "winnow/base/text.h"
#include "winnow/method/audit/audit/findings.h"
#include "winnow/run/format.h"
#include "winnow/run/run_directory.h"
#include "winnow/run/runner.h"

namespace winnow {
namespace {

constexpr std::array kShares{
    "noise_level",    "wrong_share",       "distorted_share", "probability",     "noise_rate",
    "noise_rate_low", "noise_rate_high",   "excess_rate",     "p_nothing_wrong", "p_label_noise",
    "p_input_noise",  "p_rare_but_honest", "p_hostile"};
constexpr const char* kTooFew = "too_few_to_say";

// The probabilities of an audit in the order of verdicts.
constexpr std::array<const char*, kVerdicts> kVerdictScores{
    "p_nothing_wrong", "p_label_noise", "p_input_noise", "p_rare_but_honest", "p_hostile"};
// The numbers of an audit that detect something; the others are not held against the truth.
constexpr std::array kAuditDetectors{"noise_rate", "excess_rate", "p_label_noise", "p_input_noise",
                                     "p_hostile"};

constexpr std::uintmax_t kLargestEvidence = std::uintmax_t{256} << 20;

Json read_json_of_run(const std::filesystem::path& file) {
  Json json = parse_json(read_file(file, kLargestEvidence), file.string());
  if (!json.is_object()) {
    throw Error(ErrorKind::run, fmt::format("{}: not a JSON object", file.string()));
  }
  return json;
}

std::string text_of(const Json& value) {
  if (value.is_number_float()) {
    return fmt::format("{:.4f}", value.get<double>());
  }
  if (value.is_boolean()) {
    return value.get<bool>() ? "yes" : "no";
  }
  return value.is_number() ? value.dump() : "";
}

// How often the server lent each client's model to another one as a neighbour's (FedRN), from the
// notes of the rounds; empty where no round has such notes. Ids are below `clients`.
std::vector<std::int64_t> times_chosen(const std::filesystem::path& directory,
                                       std::size_t clients) {
  std::vector<std::int64_t> times;
  read_events(directory, [&](const Json& event) {
    const auto notes = event.find("neighbours");
    if (event.value("event", "") != "round" || notes == event.end()) {
      return;
    }
    times.resize(clients);
    const CheckedJson asked(*notes,
                            fmt::format("{}: neighbours", (directory / kEventsFile).string()));
    for (const auto& [client, chosen] : asked.members()) {
      for (const CheckedJson& neighbour : chosen.elements()) {
        ++times[static_cast<std::size_t>(
            neighbour.whole(0, static_cast<std::int64_t>(clients) - 1))];
      }
    }
  });
  return times;
}

// Values by client, whichever form they have.
using ClientTexts = std::map<std::string, std::string>;

ClientTexts by_client(const Json& values) {
  ClientTexts column;
  if (values.is_object()) {
    for (const auto& [client, value] : values.items()) {
      column[client] = text_of(value);
    }
  }
  return column;
}

using Columns = std::vector<std::pair<std::string, ClientTexts>>;

void add_scores(const Json& scores, bool audit, Columns& columns, std::vector<std::string>& notes) {
  if (!scores.is_object()) {
    return;
  }
  for (const auto& [name, score] : scores.items()) {
    if (!score.is_object() || !score.contains("by_client")) {
      continue;
    }
    columns.emplace_back(name, by_client(score["by_client"]));
    if (audit && std::ranges::count(kAuditDetectors, name) == 0) {
      continue;
    }
    for (const auto& [key, words] :
         {std::pair{"roc_area", "ROC area as a detector of noisy clients"},
          std::pair{"correlation_with_noise", "correlation with the share of noise"}}) {
      if (const auto found = score.find(key); found != score.end() && found->is_number()) {
        notes.push_back(fmt::format("{}: {} {:.3f}", name, words, found->get<double>()));
      }
    }
  }
}

// A number that the audit found out about a client.
std::optional<double> score_of(const Json& scores, const std::string& name,
                               const std::string& client) {
  const auto score = scores.find(name);
  if (score == scores.end() || !score->is_object()) {
    return {};
  }
  const auto values = score->find("by_client");
  if (values == score->end() || !values->is_object()) {
    return {};
  }
  const auto value = values->find(client);
  return value != values->end() && value->is_number() ? std::optional(value->get<double>())
                                                      : std::nullopt;
}

ClientTexts* column_named(Columns& columns, const std::string& name) {
  const auto at = std::ranges::find(columns, name, &Columns::value_type::first);
  return at == columns.end() ? nullptr : &at->second;
}

// The verdict and the kind of a client's noise in words.
void add_words(const Json& scores, const std::string& client, Columns& columns) {
  std::array<double, kVerdicts> probabilities{};
  bool known = true;
  for (std::size_t v = 0; v < kVerdicts; ++v) {
    const auto p = score_of(scores, kVerdictScores[v], client);
    known = known && p.has_value();
    probabilities[v] = p.value_or(0.0);
  }
  const Verdict verdict = likeliest_verdict(probabilities);
  if (known) {
    (*column_named(columns, "verdict"))[client] = verdict_name(verdict);
    (*column_named(columns, "probability"))[client] =
        text_of(probabilities[static_cast<std::size_t>(verdict)]);
  }
  const auto kind = score_of(scores, "kind", client);
  if (kind && *kind >= 0.0 && *kind < static_cast<double>(kNoiseKinds.size())) {
    (*column_named(columns, "kind"))[client] =
        known && verdict == Verdict::input_noise
            ? "distorted images"
            : kind_name(kNoiseKinds[static_cast<std::size_t>(*kind)]);
  }
}

// Counts without decimals, and no rates of too few samples.
void mend_numbers(const Json& scores, const std::string& client, Columns& columns) {
  for (const char* name : {"judged", "label_issues", "input_issues"}) {
    if (const auto count = score_of(scores, name, client)) {
      (*column_named(columns, name))[client] = fmt::format("{:.0f}", *count);
    }
  }
  const auto judged = score_of(scores, "judged", client);
  const bool few = judged && *judged < static_cast<double>(kFewSamples);
  (*column_named(columns, kTooFew))[client] = few ? "yes" : "no";
  for (const char* name : {"noise_rate", "noise_rate_low", "noise_rate_high", "excess_rate"}) {
    if (ClientTexts* own = column_named(columns, name); few && own != nullptr) {
      own->erase(client);
    }
  }
}

// What the method `audit` found in the words of winnow audit, in the order in which people look.
Columns audit_columns(const Json& scores, Columns found) {
  Columns columns;
  for (const char* name : {"verdict", "probability", "noise_rate", "noise_rate_low",
                           "noise_rate_high", kTooFew, "kind"}) {
    columns.emplace_back(name, ClientTexts());
  }
  for (auto& [name, texts] : found) {
    if (name == "noise_level") {
      continue;  // as noise_rate
    }
    if (ClientTexts* own = column_named(columns, name)) {
      *own = std::move(texts);
    } else {
      columns.emplace_back(name, std::move(texts));
    }
  }
  const ClientTexts clients = *column_named(columns, "noise_rate");
  for (const auto& [client, rate] : clients) {
    add_words(scores, client, columns);
    mend_numbers(scores, client, columns);
  }
  return columns;
}

// The samples of each client; of members that held their data, what they said they have.
std::map<std::string, std::string> samples_of_members(const std::filesystem::path& directory) {
  std::map<std::string, std::string> samples;
  if (!std::filesystem::exists(directory / kMembersFile)) {
    return samples;
  }
  const Json members = read_json_of_run(directory / kMembersFile);
  if (const auto each = members.find("members"); each != members.end() && each->is_array()) {
    for (const Json& member : *each) {
      if (member.is_object() && member.contains("client") && member.contains("samples")) {
        samples[text_of(member["client"])] = text_of(member["samples"]);
      }
    }
  }
  return samples;
}

}  // namespace

bool is_run_directory(const std::filesystem::path& folder) {
  return std::filesystem::exists(folder / "experiment.toml") &&
         std::filesystem::exists(folder / "events.jsonl");
}

std::vector<std::vector<std::string>> RunEvidence::shown() const {
  std::vector<std::vector<std::string>> texts = rows;
  for (std::size_t i = 0; i < columns.size(); ++i) {
    if (std::ranges::count(kShares, columns[i]) == 0) {
      continue;
    }
    for (std::vector<std::string>& row : texts) {
      double share = 0.0;
      const std::string& text = row[i];
      const auto [rest, failed] = std::from_chars(text.data(), text.data() + text.size(), share);
      if (failed == std::errc() && rest == text.data() + text.size()) {
        row[i] = percent_text(share);
      }
    }
  }
  const auto few = std::ranges::find(columns, kTooFew);
  const auto rate = std::ranges::find(columns, "noise_rate");
  if (few != columns.end() && rate != columns.end()) {
    for (std::vector<std::string>& row : texts) {
      if (row[static_cast<std::size_t>(few - columns.begin())] == "yes") {
        row[static_cast<std::size_t>(rate - columns.begin())] = "too few to say";
      }
    }
  }
  return texts;
}

std::string RunEvidence::csv() const {
  std::string text = join(columns, ",") + "\n";
  for (const std::vector<std::string>& row : rows) {
    std::vector<std::string> fields;
    for (const std::string& field : row) {
      fields.push_back(csv_field(field));
    }
    text += join(fields, ",") + "\n";
  }
  return text;
}

Json RunEvidence::json() const {
  Json clients = Json::array();
  for (const std::vector<std::string>& row : rows) {
    Json client = Json::object();
    for (std::size_t i = 0; i < columns.size(); ++i) {
      client[columns[i]] = row[i];
    }
    clients.push_back(client);
  }
  return {{"method", method}, {"notes", notes}, {"clients", clients}};
}

RunEvidence read_run_evidence(const std::filesystem::path& directory) {
  first_event(directory);  // refuses newer formats
  const Json summary = read_summary(directory);
  if (summary.is_null()) {
    throw Error(ErrorKind::run, fmt::format("{}: the run is not finished", directory.string()),
                fmt::format("finish it with: winnow resume {}", directory.string()));
  }
  const Json findings = read_json_of_run(directory / "findings.json");
  const Json partition = read_json_of_run(directory / "partition.json");
  RunEvidence evidence;
  if (const auto method = summary.find("method"); method != summary.end() && method->is_string()) {
    evidence.method = method->get<std::string>();
  }
  const bool audit = evidence.method == "audit";
  Columns columns;
  if (const auto flagged = findings.find("flagged");
      flagged != findings.end() && flagged->is_array()) {
    ClientTexts column;
    for (const Json& client : *flagged) {
      column[client.dump()] = "yes";
    }
    columns.emplace_back("flagged", column);
  }
  if (const auto levels = findings.find("noise_levels");
      levels != findings.end() && levels->is_object()) {
    ClientTexts estimated;
    for (const auto& [client, level] : levels->items()) {
      if (level.is_object() && level.contains("estimated")) {
        estimated[client] = text_of(level["estimated"]);
      }
    }
    columns.emplace_back("noise_level", estimated);
  }
  const Json scores = findings.value("scores", Json::object());
  add_scores(scores, audit, columns, evidence.notes);
  if (audit && std::ranges::count(columns, "noise_rate", &Columns::value_type::first) > 0) {
    columns = audit_columns(scores, std::move(columns));
  }
  const auto clients = partition.find("clients");
  if (clients == partition.end() || !clients->is_array()) {
    throw Error(ErrorKind::run,
                fmt::format("{}: lists no clients", (directory / "partition.json").string()));
  }
  if (const auto times = times_chosen(directory, clients->size()); !times.empty()) {
    ClientTexts column;
    for (std::size_t client = 0; client < times.size(); ++client) {
      column[std::to_string(client)] = std::to_string(times[client]);
    }
    columns.emplace_back("times_chosen", column);
  }
  evidence.columns = {"client", "samples"};
  for (const auto& [name, column] : columns) {
    evidence.columns.push_back(name);
  }
  const auto members = samples_of_members(directory);
  const bool truth = !partition.contains("truth_unknown");
  if (truth) {
    evidence.columns.insert(evidence.columns.end(), {"wrong_share", "distorted_share", "noisy"});
  }
  for (const Json& client : *clients) {
    if (!client.is_object() || !client.contains("client")) {
      throw Error(ErrorKind::run, fmt::format("{}: a client without a number",
                                              (directory / "partition.json").string()));
    }
    const std::string id = text_of(client["client"]);
    const auto own = members.find(id);
    std::vector<std::string> row{
        id, own != members.end() ? own->second : text_of(client.value("samples", Json()))};
    for (const auto& [name, column] : columns) {
      const auto found = column.find(id);
      row.push_back(found != column.end() ? found->second : "");
    }
    for (const char* key : {"wrong_share", "distorted_share", "noisy"}) {
      if (truth) {
        row.push_back(text_of(client.value(key, Json())));
      }
    }
    evidence.rows.push_back(std::move(row));
  }
  if (columns.empty()) {
    evidence.notes.push_back(fmt::format("{} says nothing about single clients", evidence.method));
  }
  return evidence;
}

}  // namespace winnow
