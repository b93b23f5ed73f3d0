// A map by client whose copies share what has not changed: a copy of a million entries, kept to
// take back a round, costs microseconds, and what differs between two copies is found without
// looking at the rest.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "winnow/base/error.h"

namespace winnow {

// As std::map, ascending by client, with one difference: entries are changed through operator[]
// alone, and the reference that it returns lasts until the next change. Not thread-safe.
template <typename T>
class ByClient {
 public:
  using key_type = std::int64_t;
  using mapped_type = T;
  using value_type = std::pair<std::int64_t, T>;

 private:
  using Chunk = std::vector<value_type>;  // sorted
  using Chunks = std::vector<std::shared_ptr<Chunk>>;
  static constexpr std::int64_t kIdsOfChunk = 512;
  static constexpr std::int64_t kHighest = 1'000'000'000;

 public:
  // NOLINTNEXTLINE(readability-identifier-naming): as containers call it
  class const_iterator {
   public:
    using iterator_category = std::forward_iterator_tag;
    using value_type = ByClient::value_type;
    using difference_type = std::ptrdiff_t;
    using pointer = const value_type*;
    using reference = const value_type&;

    const_iterator() = default;
    const_iterator(const Chunks* chunks, std::size_t chunk, std::size_t place)
        : chunks_(chunks), chunk_(chunk), place_(place) {
      skip_empty();
    }
    reference operator*() const { return (*(*chunks_)[chunk_])[place_]; }
    pointer operator->() const { return &**this; }
    const_iterator& operator++() {
      ++place_;
      skip_empty();
      return *this;
    }
    const_iterator operator++(int) {
      const_iterator before = *this;
      ++*this;
      return before;
    }
    bool operator==(const const_iterator& other) const {
      return chunk_ == other.chunk_ && place_ == other.place_;
    }

   private:
    void skip_empty() {
      while (chunk_ < chunks_->size() &&
             ((*chunks_)[chunk_] == nullptr || place_ >= (*chunks_)[chunk_]->size())) {
        ++chunk_;
        place_ = 0;
      }
    }

    const Chunks* chunks_ = nullptr;
    std::size_t chunk_ = 0;
    std::size_t place_ = 0;
  };

  ByClient() = default;
  ByClient(std::initializer_list<value_type> entries) {
    for (const auto& [client, value] : entries) {
      (*this)[client] = value;
    }
  }
  // NOLINTNEXTLINE(google-explicit-constructor): the same in another form
  ByClient(const std::map<std::int64_t, T>& entries) {
    for (const auto& [client, value] : entries) {
      (*this)[client] = value;
    }
  }

  std::map<std::int64_t, T> map() const { return {begin(), end()}; }
  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  const_iterator begin() const { return {&chunks_, 0, 0}; }
  const_iterator end() const { return {&chunks_, chunks_.size(), 0}; }

  const_iterator find(std::int64_t client) const {
    const Chunk* chunk = chunk_of(client);
    if (chunk == nullptr) {
      return end();
    }
    const auto found = place_in(*chunk, client);
    return found == chunk->end() || found->first != client
               ? end()
               : const_iterator(&chunks_, number_of(client),
                                static_cast<std::size_t>(found - chunk->begin()));
  }
  bool contains(std::int64_t client) const { return find(client) != end(); }
  const T& at(std::int64_t client) const {
    const auto found = find(client);
    if (found == end()) {
      throw Error(ErrorKind::internal, fmt::format("there is nothing of client {}", client));
    }
    return found->second;
  }

  T& operator[](std::int64_t client) {
    Chunk& chunk = own_chunk(client);
    auto place = std::ranges::lower_bound(chunk, client, {}, &value_type::first);
    if (place == chunk.end() || place->first != client) {
      place = chunk.emplace(place, client, T());
      ++size_;
    }
    return place->second;
  }
  // Does nothing where there is one already.
  void emplace(std::int64_t client, T value) {
    if (!contains(client)) {
      (*this)[client] = std::move(value);
    }
  }
  void erase(std::int64_t client) {
    if (contains(client)) {
      Chunk& chunk = own_chunk(client);
      chunk.erase(std::ranges::lower_bound(chunk, client, {}, &value_type::first));
      --size_;
    }
  }
  void clear() { *this = {}; }

  // Calls `tell` with every client whose entry was added, removed or changed since `older`, a
  // former copy; `same` compares two entries.
  template <typename Same, typename Tell>
  void each_change(const ByClient& older, const Same& same, const Tell& tell) const {
    static const Chunk none;
    for (std::size_t i = 0; i < std::max(chunks_.size(), older.chunks_.size()); ++i) {
      const Chunk* now = i < chunks_.size() ? chunks_[i].get() : nullptr;
      const Chunk* before = i < older.chunks_.size() ? older.chunks_[i].get() : nullptr;
      if (now != before) {
        compare(now == nullptr ? none : *now, before == nullptr ? none : *before, same, tell);
      }
    }
  }

 private:
  static std::size_t number_of(std::int64_t client) {
    return static_cast<std::size_t>(client / kIdsOfChunk);
  }
  static auto place_in(const Chunk& chunk, std::int64_t client) {
    return std::ranges::lower_bound(chunk, client, {}, &value_type::first);
  }
  const Chunk* chunk_of(std::int64_t client) const {
    const bool is_there = client >= 0 && number_of(client) < chunks_.size();
    return is_there ? chunks_[number_of(client)].get() : nullptr;
  }
  // The client's chunk, shared with no copy.
  Chunk& own_chunk(std::int64_t client) {
    if (client < 0 || client > kHighest) {
      throw Error(ErrorKind::internal, fmt::format("{} cannot be the id of a client", client));
    }
    const std::size_t number = number_of(client);
    if (number >= chunks_.size()) {
      chunks_.resize(number + 1);
    }
    std::shared_ptr<Chunk>& chunk = chunks_[number];
    if (chunk == nullptr) {
      chunk = std::make_shared<Chunk>();
    } else if (chunk.use_count() > 1) {
      chunk = std::make_shared<Chunk>(*chunk);
    }
    return *chunk;
  }

  template <typename Same, typename Tell>
  static void compare(const Chunk& now, const Chunk& before, const Same& same, const Tell& tell) {
    auto old = before.begin();
    for (const auto& [client, value] : now) {
      for (; old != before.end() && old->first < client; ++old) {
        tell(old->first);
      }
      const bool known = old != before.end() && old->first == client;
      if (!known || !same(value, old->second)) {
        tell(client);
      }
      if (known) {
        ++old;
      }
    }
    for (; old != before.end(); ++old) {
      tell(old->first);
    }
  }

  Chunks chunks_;  // by number; null: empty
  std::size_t size_ = 0;
};

}  // namespace winnow
