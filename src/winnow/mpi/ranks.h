// The ranks of an MPI job, as much of MPI as Winnow needs. Only ranks.cpp includes mpi.h.
#pragma once

#include <ATen/core/Tensor.h>

#include <chrono>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace winnow {

enum class Tag : int { command, answer, values, cancel, world };

// Rests longer and longer between two looks, so that waiting takes no core from the lanes.
class Backoff {
 public:
  // Until something has come: 50 us at first, 1 ms at most.
  std::chrono::microseconds next();
  void rest();
  void reset() { pause_ = kShortest; }

 private:
  static constexpr std::chrono::microseconds kShortest{50};
  static constexpr std::chrono::microseconds kLongest{1000};
  std::chrono::microseconds pause_ = kShortest;
};

// Messages between ranks come in the order they were sent, for each pair and tag. All calls must
// come from the thread that made the object. A rank that owes something and stays silent for longer
// than the patience ends the whole job, with its name and exit code 5.
class Ranks {
 public:
  // Starts MPI. Throws Error(kind run) where it does not support threads beside the one that calls.
  Ranks();
  // Ends it; all ranks must come here.
  ~Ranks();
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  bool leads() const { return rank_ == 0; }
  // "rank 3 (node07)"
  std::string name(int rank) const;
  // The ranks of this node, ascending, and this one's place among them.
  const std::vector<int>& node() const { return node_; }
  int node_size() const { return static_cast<int>(node_.size()); }
  int node_rank() const { return node_rank_; }
  // How many ranks of this node may run on exactly the cores that this one may.
  int sharers() const { return sharers_; }
  // The cores that this process may run on.
  int cores() const { return cores_; }
  void be_patient(double seconds) { patience_ = seconds; }

  // Sends without waiting; what is sent is kept until it is gone.
  void send(int to, Tag tag, std::string bytes);
  void send(int to, const at::Tensor& values);  // contiguous, on the CPU
  // Sends that are still under way; gives MPI time to go on with them.
  std::size_t under_way();
  // Waits until none is.
  void flush();

  // The next message of that tag, or nothing when there is none yet. Without `from` of any rank.
  struct Arrival {
    int from = 0;
    std::string bytes;
  };
  std::optional<Arrival> poll(Tag tag, std::optional<int> from = std::nullopt);
  // Waits for it. The leading rank may take as long as it likes.
  std::string receive(int from, Tag tag);
  void receive(int from, at::Tensor& values);

  std::int64_t bytes_received() const { return bytes_received_; }

  // Says that a rank is silent and ends the job.
  [[noreturn]] void give_up_on(int rank) const;
  // Says why this rank cannot go on while others wait for it, and ends the job. Must be called
  // while an exception is handled.
  [[noreturn]] void give_up() const;
  // Ends the job where this rank cannot go on and others may wait for it.
  [[noreturn]] static void abort(int code);
  double patience() const { return patience_; }

 private:
  struct Sending;
  void exchange_names();
  void count_sharers();
  void read_into(char* place, std::size_t size, int from, Tag tag);

  int rank_ = 0;
  int size_ = 1;
  std::vector<int> node_{0};
  int node_rank_ = 0;
  int sharers_ = 1;
  int cores_ = 1;
  double patience_ = 1800.0;
  std::int64_t bytes_received_ = 0;
  std::vector<std::string> nodes_;
  std::list<std::unique_ptr<Sending>> sendings_;
};

}  // namespace winnow
