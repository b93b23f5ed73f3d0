// The spool: where the models of replies lie until their round counts. Each has a file named by its
// digest, which is there whole or not at all, and is mapped when it is used: the server holds
// hardly more memory than one model, however many arrive early.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "winnow/model/state.h"

namespace winnow::net {

// A model that is coming in, piece by piece, in any order. Its file has a name of its own until it
// is complete, and goes away with this. Belongs to one thread at a time.
class IncomingModel {
 public:
  // Room for it is taken now. Throws Error(kind run) where there is none.
  IncomingModel(const std::filesystem::path& folder, std::int64_t bytes);
  ~IncomingModel();
  IncomingModel(const IncomingModel&) = delete;
  IncomingModel& operator=(const IncomingModel&) = delete;

  std::int64_t bytes() const { return bytes_; }
  std::uint64_t pieces() const { return digests_.size(); }
  // How long a piece is that there is.
  std::size_t length_of(std::uint64_t number) const;
  // Takes a piece of that length. Throws Error(kind run) where it cannot be written.
  void put(std::uint64_t number, std::string_view data);
  // The first piece that is missing; pieces() when none is.
  std::uint64_t first_missing() const;
  bool complete() const { return first_missing() == pieces(); }
  bool finite() const { return finite_; }
  // Of the whole, as hash() gives it.
  std::string digest() const;

 private:
  friend class Spool;
  std::filesystem::path path_;
  std::int64_t bytes_;
  int descriptor_ = -1;
  std::vector<std::string> digests_;  // of the pieces that are there
  bool finite_ = true;
};

// Its functions may be called by several threads as long as each model has one.
class Spool {
 public:
  explicit Spool(std::filesystem::path folder);

  // At the start: removes everything but the models that are `wanted` (their sizes by digest).
  // Throws Error(kind run) that names the file where one of them is missing or is not what it was.
  void check(const std::map<std::string, std::int64_t>& wanted) const;
  // Removes all complete models but these.
  void keep_only(const std::set<std::string>& wanted) const;

  bool holds(const std::string& digest, std::int64_t bytes) const;
  std::unique_ptr<IncomingModel> receive(std::int64_t bytes) const;
  // Down to the disk and under its name. What failed may be tried again.
  void keep(IncomingModel& model, const std::string& digest) const;
  void keep(const State& model, const std::string& digest) const;

  // The model, mapped: its values may only be read. Throws Error(kind run) where it is not there or
  // too short.
  State map(const std::string& digest, const LayoutPtr& layout) const;

  std::int64_t bytes() const;

 private:
  std::filesystem::path path_of(const std::string& digest) const;

  std::filesystem::path folder_;
};

}  // namespace winnow::net
