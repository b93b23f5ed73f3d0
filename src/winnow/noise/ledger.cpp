#include "winnow/noise/ledger.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <map>
#include <utility>

#include "winnow/base/error.h"
#include "winnow/base/files.h"
#include "winnow/base/json.h"
#include "winnow/base/sha256.h"

namespace winnow {
namespace {

constexpr std::int64_t kVersion = 1;
constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();

std::string quoted(const std::string& text) {
  return Json(text).dump(-1, ' ', false, Json::error_handler_t::replace);
}

// One line of a ledger: every key is asked for once, with its range; what is left over is an error.
class LedgerLine {
 public:
  LedgerLine(std::string_view text, std::string_view source, std::size_t number)
      : source_(source), number_(number) {
    object_ = parse_json_or_null(text);
    if (!object_.is_object()) {
      fail("expected a JSON object");
    }
  }

  [[noreturn]] void fail(const std::string& what) const {
    throw Error(ErrorKind::data, fmt::format("{} line {}: {}", source_, number_, what),
                "the ledger is damaged or is not a ledger");
  }

  bool has(const char* key) const { return object_.contains(key); }

  std::int64_t whole(const char* key, std::int64_t low = 0, std::int64_t high = kMost) {
    const Json value = take(key);
    if (!value.is_number_integer() ||
        (value.is_number_unsigned() && value.get<std::uint64_t>() > std::uint64_t{kMost}) ||
        value.get<std::int64_t>() < low || value.get<std::int64_t>() > high) {
      const std::string range =
          high == kMost ? fmt::format("from {}", low) : fmt::format("from {} to {}", low, high);
      fail(fmt::format("{} = {}: expected a whole number {}", key, value.dump(), range));
    }
    return value.get<std::int64_t>();
  }

  std::uint64_t seed(const char* key) {
    const Json value = take(key);
    if (!value.is_number_unsigned()) {
      fail(fmt::format("{} = {}: expected a whole number from 0", key, value.dump()));
    }
    return value.get<std::uint64_t>();
  }

  double number(const char* key) {
    const Json value = take(key);
    if (!value.is_number() || !std::isfinite(value.get<double>())) {
      fail(fmt::format("{} = {}: expected a number", key, value.dump()));
    }
    return value.get<double>();
  }

  bool flag(const char* key) {
    const Json value = take(key);
    if (!value.is_boolean()) {
      fail(fmt::format("{} = {}: expected true or false", key, value.dump()));
    }
    return value.get<bool>();
  }

  std::string word(const char* key) {
    const Json value = take(key);
    if (!value.is_string()) {
      fail(fmt::format("{} = {}: expected a text", key, value.dump()));
    }
    return value.get<std::string>();
  }

  void end() const {
    if (!object_.empty()) {
      fail(fmt::format("unknown key '{}'", object_.begin().key()));
    }
  }

 private:
  Json take(const char* key) {
    const auto found = object_.find(key);
    if (found == object_.end()) {
      fail(fmt::format("key '{}' is missing", key));
    }
    Json value = std::move(*found);
    object_.erase(found);
    return value;
  }

  Json object_;
  std::string_view source_;
  std::size_t number_;
};

LedgerClient read_client(LedgerLine& line) {
  LedgerClient entry;
  entry.client = line.whole("client");
  entry.block = line.whole("block", kGivenLabelsBlock);
  entry.name = line.word("name");
  entry.level = line.number("level") + 0.0;  // a negative zero becomes one
  entry.picked = line.whole("picked");
  entry.wrong = line.whole("wrong");
  entry.samples = line.whole("samples");
  entry.noisy = line.flag("noisy");
  line.end();
  return entry;
}

LedgerSample read_sample(LedgerLine& line) {
  LedgerSample entry;
  entry.sample = line.whole("sample");
  entry.client = line.whole("client");
  entry.block = line.whole("block", kGivenLabelsBlock);
  entry.kind = line.word("kind");
  if (line.has("from") || line.has("to")) {
    entry.from = line.whole("from");
    entry.to = line.whole("to");
  }
  if (line.has("severity")) {
    entry.severity = line.whole("severity", 1);
  }
  line.end();
  return entry;
}

void append(std::string& out, const LedgerClient& entry) {
  fmt::format_to(std::back_inserter(out),
                 R"({{"client":{},"block":{},"name":{},"level":{},"picked":{},"wrong":{},)"
                 R"("samples":{},"noisy":{}}})"
                 "\n",
                 entry.client, entry.block, quoted(entry.name), entry.level, entry.picked,
                 entry.wrong, entry.samples, entry.noisy);
}

void append(std::string& out, const LedgerSample& entry) {
  auto end =
      fmt::format_to(std::back_inserter(out), R"({{"sample":{},"client":{},"block":{},"kind":{})",
                     entry.sample, entry.client, entry.block, quoted(entry.kind));
  if (entry.from >= 0) {
    end = fmt::format_to(end, R"(,"from":{},"to":{})", entry.from, entry.to);
  }
  if (entry.severity > 0) {
    fmt::format_to(end, R"(,"severity":{})", entry.severity);
  }
  out += "}\n";
}

}  // namespace

std::string Ledger::misfit(const LedgerClient& entry) const {
  if (entry.client < 0 || entry.client >= client_count_) {
    return fmt::format("client {} is not one of the {} clients", entry.client, client_count_);
  }
  if (entry.samples < 0 || entry.samples > samples_) {
    return fmt::format("client {} cannot hold {} of {} samples", entry.client, entry.samples,
                       samples_);
  }
  if (std::min(entry.picked, entry.wrong) < 0 ||
      std::max(entry.picked, entry.wrong) > entry.samples) {
    return fmt::format("client {} holds {} samples, but {} are picked and {} wrong", entry.client,
                       entry.samples, entry.picked, entry.wrong);
  }
  if (!std::isfinite(entry.level)) {
    return fmt::format("the level of client {} is not a number", entry.client);
  }
  if (entry.block < kGivenLabelsBlock ||
      (!clients_.empty() && entry.block < clients_.back().block)) {
    return fmt::format("block {} is out of order", entry.block);
  }
  return "";
}

std::string Ledger::misfit(const LedgerSample& entry) const {
  if (entry.client < 0 || entry.client >= client_count_) {
    return fmt::format("client {} is not one of the {} clients", entry.client, client_count_);
  }
  if (entry.sample < 0 || entry.sample >= samples_) {
    return fmt::format("sample {} is not one of the {} samples", entry.sample, samples_);
  }
  if ((entry.from < 0) != (entry.to < 0)) {
    return fmt::format("sample {} has only one of the old and the new label", entry.sample);
  }
  if (entry.block < kGivenLabelsBlock ||
      (!entries_.empty() && entry.block < entries_.back().block)) {
    return fmt::format("block {} is out of order", entry.block);
  }
  return "";
}

void Ledger::add(LedgerClient entry) {
  if (const std::string fault = misfit(entry); !fault.empty()) {
    throw Error(ErrorKind::internal, "noise ledger: " + fault);
  }
  if (entry.noisy) {
    noisy_.insert(entry.client);
  }
  clients_.push_back(std::move(entry));
}

void Ledger::add(LedgerSample entry) {
  if (const std::string fault = misfit(entry); !fault.empty()) {
    throw Error(ErrorKind::internal, "noise ledger: " + fault);
  }
  entries_.push_back(std::move(entry));
}

Ledger Ledger::of_one_client(std::int64_t samples) const {
  Ledger one(seed_, samples_, 1);
  std::map<std::int64_t, std::int64_t> wrong;  // by client, after the block
  for (auto entry = clients_.begin(); entry != clients_.end();) {
    LedgerClient all{.block = entry->block, .name = entry->name, .samples = samples};
    for (; entry != clients_.end() && entry->block == all.block; ++entry) {
      all.level += entry->level * static_cast<double>(entry->samples);
      all.picked += entry->picked;
      all.noisy = all.noisy || entry->noisy;
      wrong[entry->client] = entry->wrong;
    }
    all.level /= static_cast<double>(std::max<std::int64_t>(samples, 1));
    for (const auto& [client, count] : wrong) {
      all.wrong += count;
    }
    one.add(std::move(all));
  }
  for (LedgerSample entry : entries_) {
    entry.client = 0;
    one.add(std::move(entry));
  }
  return one;
}

std::string Ledger::text() const {
  std::string out = fmt::format(R"({{"winnow_ledger":{},"seed":{},"samples":{},"clients":{}}})"
                                "\n",
                                kVersion, seed_, samples_, client_count_);
  for (const LedgerClient& entry : clients_) {
    append(out, entry);
  }
  for (const LedgerSample& entry : entries_) {
    append(out, entry);
  }
  return out;
}

std::string Ledger::hash() const {
  return sha256_hex(text());
}

void Ledger::write(const std::filesystem::path& path) const {
  write_file_whole(path, text());
}

Ledger Ledger::read(const std::filesystem::path& path) {
  return parse(read_file(path), path.string());
}

Ledger Ledger::parse(std::string_view text, std::string_view source) {
  std::size_t number = 0;
  const auto next_line = [&] {
    ++number;
    const std::size_t end = text.find('\n');
    if (end == std::string_view::npos) {
      throw Error(ErrorKind::data, fmt::format("{} line {}: the line is cut off", source, number),
                  "the ledger is damaged or is not a ledger");
    }
    LedgerLine line(text.substr(0, end), source, number);
    text.remove_prefix(end + 1);
    return line;
  };
  LedgerLine header = next_line();
  header.whole("winnow_ledger", kVersion, kVersion);
  const std::uint64_t seed = header.seed("seed");
  const std::int64_t samples = header.whole("samples");
  Ledger ledger(seed, samples, header.whole("clients"));
  header.end();
  const auto add = [&ledger](const LedgerLine& line, auto entry) {
    if (const std::string fault = ledger.misfit(entry); !fault.empty()) {
      line.fail(fault);
    }
    ledger.add(std::move(entry));
  };
  while (!text.empty()) {
    LedgerLine line = next_line();
    if (line.has("sample")) {
      add(line, read_sample(line));
    } else if (ledger.entries_.empty()) {
      add(line, read_client(line));
    } else {
      line.fail("a client after the first sample");
    }
  }
  return ledger;
}

std::vector<bool> wrong_labels(std::span<const std::int64_t> given,
                               std::span<const std::int64_t> samples,
                               std::span<const std::int64_t> true_labels) {
  if (given.size() != samples.size()) {
    throw Error(ErrorKind::internal,
                fmt::format("{} given labels for {} samples", given.size(), samples.size()));
  }
  std::vector<bool> wrong(given.size());
  for (std::size_t i = 0; i < given.size(); ++i) {
    wrong[i] = given[i] != true_labels[static_cast<std::size_t>(samples[i])];
  }
  return wrong;
}

}  // namespace winnow
