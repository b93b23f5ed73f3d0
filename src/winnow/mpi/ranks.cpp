#include "winnow/mpi/ranks.h"

#include <fmt/format.h>
#include <mpi.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <new>
#include <thread>

#include "winnow/base/error.h"

namespace winnow {
namespace {

using Clock = std::chrono::steady_clock;

// MPI counts in int, so longer messages go in parts.
constexpr std::size_t kPart = std::size_t{1} << 30;
constexpr int kTriesBeforeRest = 20'000;  // a transfer that is under way is over in no time
constexpr std::size_t kNameBytes = 256;

int number(Tag tag) {
  return static_cast<int>(tag);
}

double since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

}  // namespace

std::chrono::microseconds Backoff::next() {
  const std::chrono::microseconds now = pause_;
  pause_ = std::min(2 * pause_, kLongest);
  return now;
}

void Backoff::rest() {
  std::this_thread::sleep_for(next());
}

// What is on its way, with the memory that it is read from.
struct Ranks::Sending {
  int to = 0;
  std::string bytes = {};
  at::Tensor values = {};
  std::vector<MPI_Request> requests = {};

  bool done() {
    int all = 0;
    MPI_Testall(static_cast<int>(requests.size()), requests.data(), &all, MPI_STATUSES_IGNORE);
    return all != 0;
  }
  void start(const char* data, std::size_t size, Tag tag) {
    for (std::size_t start = 0; start < size; start += kPart) {
      MPI_Isend(data + start, static_cast<int>(std::min(kPart, size - start)), MPI_BYTE, to,
                number(tag), MPI_COMM_WORLD, &requests.emplace_back());
    }
  }
};

Ranks::Ranks() {
  int level = 0;
  MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &level);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
  MPI_Comm_size(MPI_COMM_WORLD, &size_);
  if (level < MPI_THREAD_FUNNELED) {
    throw Error(ErrorKind::run, "this MPI does not allow threads beside the one that calls it",
                "use an MPI that supports MPI_THREAD_FUNNELED, such as Open MPI");
  }
  exchange_names();
  count_sharers();
}

Ranks::~Ranks() {
  flush();
  MPI_Finalize();
}

void Ranks::exchange_names() {
  std::array<char, kNameBytes> own{};
  ::gethostname(own.data(), own.size() - 1);
  std::vector<char> all(kNameBytes * static_cast<std::size_t>(size_));
  MPI_Allgather(own.data(), kNameBytes, MPI_CHAR, all.data(), kNameBytes, MPI_CHAR, MPI_COMM_WORLD);
  for (int rank = 0; rank < size_; ++rank) {
    nodes_.emplace_back(all.data() + kNameBytes * static_cast<std::size_t>(rank));
  }
}

void Ranks::count_sharers() {
  MPI_Comm node = MPI_COMM_NULL;
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank_, MPI_INFO_NULL, &node);
  int size = 0;
  MPI_Comm_size(node, &size);
  MPI_Comm_rank(node, &node_rank_);
  node_.resize(static_cast<std::size_t>(size));
  MPI_Allgather(&rank_, 1, MPI_INT, node_.data(), 1, MPI_INT, node);
  cpu_set_t mask;
  CPU_ZERO(&mask);
  ::sched_getaffinity(0, sizeof mask, &mask);
  cores_ = std::max(1, CPU_COUNT(&mask));
  std::vector<cpu_set_t> all(node_.size());
  MPI_Allgather(&mask, sizeof mask, MPI_BYTE, all.data(), sizeof mask, MPI_BYTE, node);
  sharers_ = static_cast<int>(std::ranges::count_if(
      all, [&](const cpu_set_t& other) { return CPU_EQUAL(&other, &mask) != 0; }));
  MPI_Comm_free(&node);
}

std::string Ranks::name(int rank) const {
  return fmt::format("rank {} ({})", rank, nodes_[static_cast<std::size_t>(rank)]);
}

void Ranks::send(int to, Tag tag, std::string bytes) {
  // The length goes ahead, so that the receiver knows how many parts there are.
  const std::uint64_t length = bytes.size();
  bytes.insert(0, reinterpret_cast<const char*>(&length), sizeof length);
  auto sending = std::make_unique<Sending>(Sending{.to = to, .bytes = std::move(bytes)});
  sending->start(sending->bytes.data(), sending->bytes.size(), tag);
  sendings_.push_back(std::move(sending));
}

void Ranks::send(int to, const at::Tensor& values) {
  auto sending = std::make_unique<Sending>(Sending{.to = to, .values = values});
  sending->start(static_cast<const char*>(values.data_ptr()), values.nbytes(), Tag::values);
  sendings_.push_back(std::move(sending));
}

std::size_t Ranks::under_way() {
  sendings_.remove_if([](const auto& sending) { return sending->done(); });
  return sendings_.size();
}

void Ranks::flush() {
  for (const auto& sending : sendings_) {
    const auto start = Clock::now();
    for (int tries = 0; !sending->done(); ++tries) {
      if (tries < kTriesBeforeRest) {
        ::sched_yield();
      } else {
        std::this_thread::sleep_for(std::chrono::microseconds(50));
        if (sending->to != 0 && since(start) > patience_) {
          give_up_on(sending->to);
        }
      }
    }
  }
  sendings_.clear();
}

void Ranks::read_into(char* place, std::size_t size, int from, Tag tag) {
  for (std::size_t start = 0; start < size; start += kPart) {
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Irecv(place + start, static_cast<int>(std::min(kPart, size - start)), MPI_BYTE, from,
              number(tag), MPI_COMM_WORLD, &request);
    const auto begun = Clock::now();
    int done = 0;
    for (int tries = 0; MPI_Test(&request, &done, MPI_STATUS_IGNORE) == MPI_SUCCESS && done == 0;
         ++tries) {
      if (tries < kTriesBeforeRest) {
        ::sched_yield();
      } else {
        std::this_thread::sleep_for(std::chrono::microseconds(50));
        if (from != 0 && since(begun) > patience_) {
          give_up_on(from);
        }
      }
    }
  }
  bytes_received_ += static_cast<std::int64_t>(size);
}

std::optional<Ranks::Arrival> Ranks::poll(Tag tag, std::optional<int> from) {
  int there = 0;
  MPI_Message message = MPI_MESSAGE_NULL;
  MPI_Status status;
  MPI_Improbe(from.value_or(MPI_ANY_SOURCE), number(tag), MPI_COMM_WORLD, &there, &message,
              &status);
  if (there == 0) {
    return std::nullopt;
  }
  int count = 0;
  MPI_Get_count(&status, MPI_BYTE, &count);
  std::string first(static_cast<std::size_t>(count), '\0');
  MPI_Mrecv(first.data(), count, MPI_BYTE, &message, MPI_STATUS_IGNORE);
  bytes_received_ += count;
  std::uint64_t length = 0;
  std::memcpy(&length, first.data(), sizeof length);
  first.erase(0, sizeof length);
  const std::size_t have = first.size();
  if (have < length) {
    first.resize(length);
    read_into(first.data() + have, length - have, status.MPI_SOURCE, tag);
  }
  return Arrival{status.MPI_SOURCE, std::move(first)};
}

std::string Ranks::receive(int from, Tag tag) {
  Backoff backoff;
  const auto start = Clock::now();
  for (;;) {
    if (auto arrival = poll(tag, from)) {
      return std::move(arrival->bytes);
    }
    under_way();
    backoff.rest();
    if (from != 0 && since(start) > patience_) {
      give_up_on(from);
    }
  }
}

void Ranks::receive(int from, at::Tensor& values) {
  read_into(static_cast<char*>(values.data_ptr()), values.nbytes(), from, Tag::values);
}

void Ranks::give_up_on(int rank) const {
  const std::string text = fmt::format(
      "winnow: {} has been silent for {} seconds and is given up\n"
      "  the run can be continued with 'winnow resume'; --patience says how long to wait\n",
      name(rank), patience_);
  std::fputs(text.c_str(), stderr);
  std::fflush(stderr);
  abort(exit_code(ErrorKind::run));
}

void Ranks::give_up() const {
  int code = exit_code(ErrorKind::internal);
  std::string text;
  try {
    throw;
  } catch (const Error& error) {
    code = exit_code(error.kind());
    text = error.what();
  } catch (const std::bad_alloc&) {
    code = exit_code(ErrorKind::run);
    text = "out of memory";
  } catch (const std::exception& error) {
    text = error.what();
  }
  text = fmt::format("winnow: {}: {}\n  the run can be continued with 'winnow resume'\n",
                     name(rank_), text);
  std::fputs(text.c_str(), stderr);
  std::fflush(stderr);
  abort(code);
}

void Ranks::abort(int code) {
  MPI_Abort(MPI_COMM_WORLD, code);
  ::_exit(code);
}

}  // namespace winnow
