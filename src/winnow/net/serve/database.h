// SQLite, as much of it as a journal needs.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>

struct sqlite3;
struct sqlite3_stmt;

namespace winnow::net {

// Bytes to be stored as a BLOB.
struct Blob {
  std::string_view bytes;
};

// A prepared statement in use; it is ready for the next use when this goes. Values are bound in
// order. Every failure is an Error(kind run) that names the file.
class Statement {
 public:
  Statement(sqlite3_stmt* statement, const std::filesystem::path& path)
      : statement_(statement), path_(path) {}
  ~Statement();
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;

  template <typename... Values>
  Statement& bind(const Values&... values) {
    (bind_next(values), ...);
    return *this;
  }
  // False when there are no more rows.
  bool step();
  void run() { step(); }

  std::int64_t number(int column) const;
  double real(int column) const;
  std::string text(int column) const;  // also of a BLOB
  bool is_null(int column) const;

 private:
  void bind_next(std::int64_t value);
  void bind_next(double value);
  void bind_next(std::string_view value);
  void bind_next(const std::string& value) { bind_next(std::string_view(value)); }
  void bind_next(const char* value) { bind_next(std::string_view(value)); }
  void bind_next(const Blob& value);
  void check(int result) const;

  sqlite3_stmt* statement_;
  const std::filesystem::path& path_;
  int bound_ = 0;
};

class Database {
 public:
  // Opens or makes the file.
  explicit Database(std::filesystem::path path);
  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  // Statements without values or results.
  void execute(const char* sql);
  // Prepared once and kept; the text must be a literal.
  Statement statement(const char* sql);
  std::int64_t last_id() const;

  // All or nothing: what was done since is taken back unless keep() is called.
  class Transaction {
   public:
    explicit Transaction(Database& database) : database_(database) {
      database_.statement("BEGIN IMMEDIATE").run();
    }
    ~Transaction();
    Transaction(const Transaction&) = delete;
    Transaction& operator=(const Transaction&) = delete;
    void keep();

   private:
    Database& database_;
    bool kept_ = false;
  };

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  sqlite3* database_ = nullptr;
  std::map<const char*, sqlite3_stmt*> statements_;
};

}  // namespace winnow::net
