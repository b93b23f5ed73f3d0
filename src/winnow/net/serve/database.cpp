#include "winnow/net/serve/database.h"

#include <fmt/format.h>
#include <sqlite3.h>

#include "winnow/base/error.h"

namespace winnow::net {
namespace {

constexpr const char* kDamagedHint =
    "restore it from a copy, or start a new federation with another --out";

[[noreturn]] void fail_database(const std::filesystem::path& path, int result, const char* why) {
  switch (result & 0xff) {
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      throw Error(ErrorKind::run, fmt::format("{} is damaged: {}", path.string(), why),
                  kDamagedHint);
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      throw Error(ErrorKind::run, fmt::format("{} is in use by another process", path.string()));
    case SQLITE_FULL:
      throw Error(ErrorKind::run, fmt::format("cannot write {}: {}", path.string(), why),
                  "free some space and give the command again");
    default:
      throw Error(ErrorKind::run, fmt::format("cannot use {}: {}", path.string(), why));
  }
}

void check_database(sqlite3* database, const std::filesystem::path& path, int result) {
  if (result != SQLITE_OK && result != SQLITE_ROW && result != SQLITE_DONE) {
    fail_database(path, result, database == nullptr ? "out of memory" : sqlite3_errmsg(database));
  }
}

}  // namespace

Statement::~Statement() {
  sqlite3_reset(statement_);
  sqlite3_clear_bindings(statement_);
}

void Statement::check(int result) const {
  check_database(sqlite3_db_handle(statement_), path_, result);
}

bool Statement::step() {
  const int result = sqlite3_step(statement_);
  check(result);
  return result == SQLITE_ROW;
}

void Statement::bind_next(std::int64_t value) {
  check(sqlite3_bind_int64(statement_, ++bound_, value));
}

void Statement::bind_next(double value) {
  check(sqlite3_bind_double(statement_, ++bound_, value));
}

void Statement::bind_next(std::string_view value) {
  check(sqlite3_bind_text64(statement_, ++bound_, value.data() == nullptr ? "" : value.data(),
                            value.size(), SQLITE_TRANSIENT, SQLITE_UTF8));
}

void Statement::bind_next(const Blob& value) {
  check(sqlite3_bind_blob64(statement_, ++bound_, value.bytes.empty() ? "" : value.bytes.data(),
                            value.bytes.size(), SQLITE_TRANSIENT));
}

std::int64_t Statement::number(int column) const {
  return sqlite3_column_int64(statement_, column);
}

double Statement::real(int column) const {
  return sqlite3_column_double(statement_, column);
}

std::string Statement::text(int column) const {
  const void* bytes = sqlite3_column_blob(statement_, column);
  const int size = sqlite3_column_bytes(statement_, column);
  return bytes == nullptr
             ? std::string()
             : std::string(static_cast<const char*>(bytes), static_cast<std::size_t>(size));
}

bool Statement::is_null(int column) const {
  return sqlite3_column_type(statement_, column) == SQLITE_NULL;
}

Database::Database(std::filesystem::path path) : path_(std::move(path)) {
  if (std::filesystem::is_symlink(path_)) {
    throw Error(ErrorKind::run, fmt::format("{} is a symbolic link", path_.string()),
                "put the file itself there, or remove the link");
  }
  const int result = sqlite3_open_v2(
      path_.c_str(), &database_,
      SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_FULLMUTEX | SQLITE_OPEN_EXRESCODE,
      nullptr);
  try {
    check_database(database_, path_, result);
    // Nothing in the file may run anything, whoever wrote it.
    sqlite3_db_config(database_, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
    sqlite3_db_config(database_, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
    sqlite3_busy_timeout(database_, 2000);
  } catch (...) {
    sqlite3_close(database_);
    throw;
  }
}

Database::~Database() {
  for (const auto& [sql, statement] : statements_) {
    sqlite3_finalize(statement);
  }
  sqlite3_close(database_);
}

void Database::execute(const char* sql) {
  check_database(database_, path_, sqlite3_exec(database_, sql, nullptr, nullptr, nullptr));
}

Statement Database::statement(const char* sql) {
  sqlite3_stmt*& known = statements_[sql];
  if (known == nullptr) {
    check_database(
        database_, path_,
        sqlite3_prepare_v3(database_, sql, -1, SQLITE_PREPARE_PERSISTENT, &known, nullptr));
  }
  return {known, path_};
}

std::int64_t Database::last_id() const {
  return sqlite3_last_insert_rowid(database_);
}

Database::Transaction::~Transaction() {
  if (!kept_) {
    try {
      database_.statement("ROLLBACK").run();
    } catch (...) {  // SQLite has taken it back by itself
    }
  }
}

void Database::Transaction::keep() {
  database_.statement("COMMIT").run();
  kept_ = true;
}

}  // namespace winnow::net
