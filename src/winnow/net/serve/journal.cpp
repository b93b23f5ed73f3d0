#include "winnow/net/serve/journal.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>

#include "winnow/base/checked_json.h"
#include "winnow/base/error.h"

namespace winnow::net {
namespace {

constexpr std::int64_t kJournalVersion = 1;

constexpr const char* kTablesOfJournal = R"(
CREATE TABLE federation(id TEXT PRIMARY KEY, experiment TEXT NOT NULL, charter_hash TEXT NOT NULL,
  charter TEXT NOT NULL, layout TEXT NOT NULL, committed INTEGER NOT NULL) STRICT;
CREATE TABLE member(client INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE,
  fingerprint TEXT NOT NULL, samples INTEGER NOT NULL,
  status TEXT NOT NULL CHECK(status IN ('enrolled', 'present', 'left', 'revoked', 'done')),
  version TEXT NOT NULL, arithmetic TEXT NOT NULL, seen INTEGER NOT NULL,
  rounds INTEGER NOT NULL, absences INTEGER NOT NULL, refusals INTEGER NOT NULL) STRICT;
CREATE TABLE round(number INTEGER PRIMARY KEY, attempt INTEGER NOT NULL,
  samples TEXT NOT NULL) STRICT;
CREATE TABLE ask(round INTEGER NOT NULL, attempt INTEGER NOT NULL, number INTEGER NOT NULL,
  opened INTEGER NOT NULL, deadline INTEGER NOT NULL,
  PRIMARY KEY(round, attempt, number)) STRICT, WITHOUT ROWID;
CREATE TABLE orders(id INTEGER PRIMARY KEY AUTOINCREMENT, round INTEGER NOT NULL,
  attempt INTEGER NOT NULL, ask INTEGER NOT NULL, client INTEGER NOT NULL REFERENCES member,
  exchange TEXT NOT NULL, nonce BLOB NOT NULL, task_digest TEXT NOT NULL,
  verdict TEXT NOT NULL CHECK(verdict IN ('open', 'accepted', 'refused', 'absent')),
  reason TEXT NOT NULL, head BLOB, models TEXT, digest TEXT NOT NULL, bytes INTEGER NOT NULL,
  steps INTEGER NOT NULL, forward INTEGER NOT NULL, backward INTEGER NOT NULL,
  own_model TEXT NOT NULL, horizon INTEGER NOT NULL, settled INTEGER NOT NULL,
  UNIQUE(round, attempt, ask, client)) STRICT;
CREATE TABLE own(client INTEGER PRIMARY KEY, hash TEXT NOT NULL) STRICT;
CREATE TABLE refusal(at INTEGER NOT NULL, client INTEGER NOT NULL, name TEXT NOT NULL,
  orders INTEGER NOT NULL, reason TEXT NOT NULL, detail TEXT NOT NULL) STRICT;
CREATE TABLE norm(round INTEGER NOT NULL, attempt INTEGER NOT NULL, ask INTEGER NOT NULL,
  client INTEGER NOT NULL, exchange TEXT NOT NULL, value REAL NOT NULL,
  PRIMARY KEY(round, attempt, ask, client)) STRICT, WITHOUT ROWID;
PRAGMA user_version = 1;
)";

constexpr std::array<const char*, 5> kStatusNames{"enrolled", "present", "left", "revoked", "done"};
constexpr std::array<const char*, 4> kVerdictNames{"open", "accepted", "refused", "absent"};

template <typename Enum, std::size_t count>
Enum by_name(const std::array<const char*, count>& names, const std::string& name) {
  const auto found = std::ranges::find(names, name);
  return static_cast<Enum>(found == names.end() ? 0 : found - names.begin());
}

const char* verdict_name(OrderVerdict verdict) {
  return kVerdictNames.at(static_cast<std::size_t>(verdict));
}

std::string models_text(const std::vector<PackedModel>& models) {
  Json list = Json::array();
  for (const PackedModel& model : models) {
    list.push_back({{"digest", model.digest}, {"layout", model.layout}});
  }
  return list.dump();
}

bool is_digest(const std::string& text) {
  return text.size() == 64 && text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

std::vector<PackedModel> models_in(const std::string& text) {
  std::vector<PackedModel> models;
  if (text.empty()) {
    return models;
  }
  const Json list = parse_json(text, "the models of an order");
  for (const CheckedJson& model : CheckedJson(list, "models").elements()) {
    models.push_back({model.at("digest").text(), model.at("layout").text()});
    if (!is_digest(models.back().digest) || !is_digest(models.back().layout)) {
      throw Error(ErrorKind::run, "a model of an order has no digest");
    }
  }
  return models;
}

OrderRow order_in(const Statement& row) {
  OrderRow order;
  order.id = row.number(0);
  order.round = row.number(1);
  order.attempt = row.number(2);
  order.ask = row.number(3);
  order.client = row.number(4);
  order.exchange = row.text(5);
  order.nonce = row.text(6);
  order.task_digest = row.text(7);
  order.verdict = by_name<OrderVerdict>(kVerdictNames, row.text(8));
  order.reason = row.text(9);
  order.reply = {.head = row.text(10),
                 .models = models_in(row.text(11)),
                 .digest = row.text(12),
                 .bytes = row.number(13),
                 .steps = row.number(14),
                 .forward = row.number(15),
                 .backward = row.number(16),
                 .own_model = row.text(17)};
  order.horizon = row.number(18);
  order.settled = row.number(19) != 0;
  return order;
}

}  // namespace

std::string name_of(MemberStatus status) {
  return kStatusNames.at(static_cast<std::size_t>(status));
}

Journal::Journal(const std::filesystem::path& path, const JournalOwner& owner,
                 const std::vector<std::string>& members)
    : database_(path) {
  database_.execute("PRAGMA journal_mode = WAL");
  database_.execute("PRAGMA synchronous = FULL");
  database_.execute("PRAGMA foreign_keys = ON");
  prepare(owner, members);
}

void Journal::refuse(const std::string& why, const std::string& hint) const {
  throw Error(ErrorKind::run, fmt::format("{} {}", database_.path().string(), why), hint);
}

void Journal::prepare(const JournalOwner& owner, const std::vector<std::string>& members) {
  const auto number = [this](const char* sql) {
    Statement row = database_.statement(sql);
    return row.step() ? row.number(0) : 0;
  };
  const std::int64_t found = number("PRAGMA user_version");
  const bool empty = number("SELECT COUNT(*) FROM sqlite_master") == 0;
  if (found == 0 && empty) {
    write([&] {
      database_.execute(kTablesOfJournal);
      database_.statement("INSERT INTO federation VALUES(?, ?, ?, ?, ?, 0)")
          .bind(owner.federation, owner.experiment, owner.charter_hash, owner.charter, owner.layout)
          .run();
      std::int64_t client = 0;
      for (const std::string& name : members) {
        database_
            .statement("INSERT INTO member VALUES(?, ?, '', 0, 'enrolled', '', '', 0, 0, 0, 0)")
            .bind(client++, name)
            .run();
      }
    });
    return;
  }
  if (found == 0) {
    refuse("is not a journal", "put it elsewhere, or choose another --out");
  }
  if (found != kJournalVersion) {
    refuse(fmt::format("was written by {} Winnow: format {}, this program reads {}",
                       found > kJournalVersion ? "a newer" : "an older", found, kJournalVersion),
           "serve it with the version that started it");
  }
  Statement check = database_.statement("PRAGMA quick_check(1)");
  if (!check.step() || check.text(0) != "ok") {
    refuse(fmt::format("is damaged: {}", check.text(0)),
           "restore it from a copy, or start a new federation with another --out");
  }
  check_owner(owner);
  check_members(members);
}

void Journal::check_owner(const JournalOwner& owner) {
  Statement row =
      database_.statement("SELECT id, experiment, charter_hash, layout FROM federation");
  if (!row.step()) {
    refuse("is damaged: it does not say whose it is",
           "restore it from a copy, or start a new federation with another --out");
  }
  const auto expect = [&](int column, const std::string& expected, const char* what) {
    if (row.text(column) != expected) {
      refuse(fmt::format("belongs to another {}: {}, not {}", what, row.text(column).substr(0, 16),
                         expected.substr(0, 16)),
             "serve the file that it was begun with, or choose another --out");
    }
  };
  expect(0, owner.federation, "federation");
  expect(1, owner.experiment, "experiment");
  expect(2, owner.charter_hash, "charter");
  expect(3, owner.layout, "layout");
}

void Journal::check_members(const std::vector<std::string>& members) {
  if (members.empty()) {
    return;
  }
  const std::vector<MemberRow> known = read_members();
  if (!std::ranges::equal(known, members, {}, &MemberRow::name)) {
    refuse("has other members, or in another order, than the file",
           "the order of members decides what is computed: restore the [[members]]");
  }
}

void Journal::write(const std::function<void()>& change) {
  const auto start = std::chrono::steady_clock::now();
  Database::Transaction transaction(database_);
  change();
  transaction.keep();
  if (observer_) {
    observer_(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
}

void Journal::observe(std::function<void(double)> observer) {
  const std::lock_guard lock(mutex_);
  observer_ = std::move(observer);
}

std::vector<MemberRow> Journal::read_members() const {
  std::vector<MemberRow> members;
  Statement row = database_.statement(
      "SELECT client, name, fingerprint, samples, status, version, arithmetic, seen, rounds, "
      "absences, refusals FROM member ORDER BY client");
  while (row.step()) {
    members.push_back({.client = row.number(0),
                       .name = row.text(1),
                       .fingerprint = row.text(2),
                       .samples = row.number(3),
                       .status = by_name<MemberStatus>(kStatusNames, row.text(4)),
                       .version = row.text(5),
                       .arithmetic = row.text(6),
                       .seen = row.number(7),
                       .rounds = row.number(8),
                       .absences = row.number(9),
                       .refusals = row.number(10)});
  }
  return members;
}

std::vector<MemberRow> Journal::members() const {
  const std::lock_guard lock(mutex_);
  return read_members();
}

void Journal::put(const MemberRow& member) {
  const std::lock_guard lock(mutex_);
  write([&] {
    database_
        .statement(
            "INSERT INTO member VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, 0, 0, 0) "
            "ON CONFLICT(client) DO UPDATE SET fingerprint = ?3, samples = ?4, status = ?5, "
            "version = ?6, arithmetic = ?7, seen = ?8")
        .bind(member.client, member.name, member.fingerprint, member.samples,
              name_of(member.status), member.version, member.arithmetic, member.seen)
        .run();
  });
}

std::int64_t Journal::committed() const {
  const std::lock_guard lock(mutex_);
  Statement row = database_.statement("SELECT committed FROM federation");
  return row.step() ? row.number(0) : 0;
}

std::optional<RoundRow> Journal::round(std::int64_t number) const {
  const std::lock_guard lock(mutex_);
  Statement row =
      database_.statement("SELECT number, attempt, samples FROM round WHERE number = ?");
  if (!row.bind(number).step()) {
    return std::nullopt;
  }
  RoundRow round{row.number(0), row.number(1)};
  const Json samples = parse_json(row.text(2), "the samples of a round");
  for (const CheckedJson& count : CheckedJson(samples, "samples").elements()) {
    round.samples.push_back(count.count());
  }
  return round;
}

void Journal::put(const RoundRow& round) {
  const std::lock_guard lock(mutex_);
  write([&] {
    database_.statement("INSERT OR REPLACE INTO round VALUES(?, ?, ?)")
        .bind(round.number, round.attempt, Json(round.samples).dump())
        .run();
  });
}

std::optional<AskRow> Journal::ask(std::int64_t round, std::int64_t attempt,
                                   std::int64_t number) const {
  const std::lock_guard lock(mutex_);
  Statement row = database_.statement(
      "SELECT opened, deadline FROM ask WHERE round = ? AND attempt = ? AND number = ?");
  if (!row.bind(round, attempt, number).step()) {
    return std::nullopt;
  }
  return AskRow{round, attempt, number, row.number(0), row.number(1)};
}

void Journal::put(const AskRow& ask, std::vector<OrderRow>& orders) {
  const std::lock_guard lock(mutex_);
  write([&] {
    database_.statement("INSERT INTO ask VALUES(?, ?, ?, ?, ?)")
        .bind(ask.round, ask.attempt, ask.number, ask.opened, ask.deadline)
        .run();
    for (OrderRow& order : orders) {
      database_
          .statement(
              "INSERT INTO orders(round, attempt, ask, client, exchange, nonce, task_digest, "
              "verdict, reason, digest, bytes, steps, forward, backward, own_model, horizon, "
              "settled) VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, '', 0, 0, 0, 0, '', 0, 0)")
          .bind(order.round, order.attempt, order.ask, order.client, order.exchange,
                Blob{order.nonce}, order.task_digest, verdict_name(order.verdict), order.reason)
          .run();
      order.id = database_.last_id();
      order.horizon = order.id - 1;
      database_.statement("UPDATE orders SET horizon = ? WHERE id = ?")
          .bind(order.horizon, order.id)
          .run();
    }
  });
}

std::vector<OrderRow> Journal::orders() const {
  const std::lock_guard lock(mutex_);
  std::vector<OrderRow> orders;
  Statement row = database_.statement(
      "SELECT id, round, attempt, ask, client, exchange, nonce, task_digest, verdict, reason, "
      "head, models, digest, bytes, steps, forward, backward, own_model, horizon, settled "
      "FROM orders ORDER BY id");
  while (row.step()) {
    try {
      orders.push_back(order_in(row));
    } catch (const Error& error) {
      refuse(fmt::format("is damaged: order {}: {}", row.number(0), error.what()),
             "restore it from a copy, or start a new federation with another --out");
    }
  }
  return orders;
}

void Journal::accept(const OrderRow& order, const std::optional<NormRow>& norm) {
  const std::lock_guard lock(mutex_);
  write([&] {
    const ReplyRow& reply = order.reply;
    database_
        .statement(
            "UPDATE orders SET verdict = 'accepted', reason = '', head = ?, models = ?, "
            "digest = ?, bytes = ?, steps = ?, forward = ?, backward = ?, own_model = ? "
            "WHERE id = ? AND verdict = 'open'")
        .bind(Blob{reply.head}, models_text(reply.models), reply.digest, reply.bytes, reply.steps,
              reply.forward, reply.backward, reply.own_model, order.id)
        .run();
    if (norm) {
      database_.statement("INSERT OR REPLACE INTO norm VALUES(?, ?, ?, ?, ?, ?)")
          .bind(order.round, order.attempt, order.ask, order.client, norm->exchange, norm->value)
          .run();
    }
  });
}

void Journal::decide(const std::vector<OrderRow>& orders) {
  const std::lock_guard lock(mutex_);
  write([&] {
    for (const OrderRow& order : orders) {
      database_
          .statement(
              "UPDATE orders SET verdict = ?, reason = ?, horizon = ?, head = NULL, models = NULL "
              "WHERE id = ?")
          .bind(verdict_name(order.verdict), order.reason, order.horizon, order.id)
          .run();
    }
  });
}

std::int64_t Journal::take_back(std::int64_t round, std::int64_t attempt) {
  const std::lock_guard lock(mutex_);
  std::int64_t horizon = 0;
  write([&] {
    Statement last = database_.statement("SELECT COALESCE(MAX(id), 0) FROM orders");
    last.step();
    horizon = last.number(0);
    database_
        .statement(
            "UPDATE orders SET verdict = 'absent', reason = 'taken_back', head = NULL, "
            "models = NULL, horizon = ? WHERE round = ? AND attempt = ?")
        .bind(horizon, round, attempt)
        .run();
    database_.statement("DELETE FROM norm WHERE round = ?").bind(round).run();
    database_.statement("UPDATE round SET attempt = ? WHERE number = ?")
        .bind(attempt + 1, round)
        .run();
  });
  return horizon;
}

void Journal::settle(std::int64_t rounds) {
  const std::lock_guard lock(mutex_);
  write([&] {
    database_
        .statement(
            "INSERT OR REPLACE INTO own SELECT client, own_model FROM orders "
            "WHERE round < ? AND settled = 0 AND verdict = 'accepted' AND own_model <> '' "
            "ORDER BY id")
        .bind(rounds)
        .run();
    database_
        .statement(
            "UPDATE member SET rounds = rounds + (SELECT COUNT(DISTINCT round) FROM orders "
            "WHERE orders.client = member.client AND round < ?1 AND settled = 0 "
            "AND verdict = 'accepted'), absences = absences + (SELECT COUNT(*) FROM orders "
            "WHERE orders.client = member.client AND round < ?1 AND settled = 0 "
            "AND verdict IN ('absent', 'refused') AND reason <> 'taken_back')")
        .bind(rounds)
        .run();
    database_
        .statement(
            "UPDATE orders SET settled = 1, head = NULL, models = NULL "
            "WHERE round < ? AND settled = 0")
        .bind(rounds)
        .run();
    database_.statement("DELETE FROM ask WHERE round < ?").bind(rounds).run();
    database_.statement("DELETE FROM round WHERE number < ?").bind(rounds).run();
    database_.statement("UPDATE federation SET committed = ?").bind(rounds).run();
  });
}

void Journal::acknowledge(std::int64_t client, std::int64_t order) {
  const std::lock_guard lock(mutex_);
  write([&] {
    database_.statement("DELETE FROM orders WHERE client = ? AND settled = 1 AND horizon < ?")
        .bind(client, order)
        .run();
  });
}

void Journal::put(const RefusalRow& refusal) {
  const std::lock_guard lock(mutex_);
  write([&] {
    database_.statement("INSERT INTO refusal VALUES(?, ?, ?, ?, ?, ?)")
        .bind(refusal.at, refusal.client, refusal.name, refusal.order, refusal.reason,
              refusal.detail)
        .run();
    database_.statement("UPDATE member SET refusals = refusals + 1 WHERE client = ?")
        .bind(refusal.client)
        .run();
  });
}

std::vector<double> Journal::norms(std::int64_t before, const std::string& exchange) const {
  const std::lock_guard lock(mutex_);
  std::vector<double> values;
  Statement row = database_.statement(
      "SELECT value FROM norm WHERE round < ? AND exchange = ? ORDER BY round DESC LIMIT 1000");
  row.bind(before, exchange);
  while (row.step()) {
    values.push_back(row.real(0));
  }
  return values;
}

std::map<std::int64_t, std::string> Journal::own_models() const {
  const std::lock_guard lock(mutex_);
  std::map<std::int64_t, std::string> models;
  Statement row = database_.statement("SELECT client, hash FROM own");
  while (row.step()) {
    models[row.number(0)] = row.text(1);
  }
  return models;
}

}  // namespace winnow::net
