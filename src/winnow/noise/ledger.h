// The noise ledger: the record of every injected corruption. It is the ground truth for metrics and
// is never shown to a method.
#pragma once

#include <cstdint>
#include <filesystem>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace winnow {

// Where data.given_labels stands among the blocks: before the first.
inline constexpr std::int64_t kGivenLabelsBlock = -1;

// What one noise block did to one client.
struct LedgerClient {
  std::int64_t client = 0;
  std::int64_t block = 0;    // position of the block in the experiment, or kGivenLabelsBlock
  std::string name;          // of the block
  double level = 0.0;        // intended share of corrupted samples
  std::int64_t picked = 0;   // samples the block chose, changed or not
  std::int64_t wrong = 0;    // samples whose given label is not the true one after the block
  std::int64_t samples = 0;  // that the client holds
  bool noisy = false;        // the truth for client identification, see Ledger::is_noisy

  double wrong_share() const {
    return samples == 0 ? 0.0 : static_cast<double>(wrong) / static_cast<double>(samples);
  }
  bool operator==(const LedgerClient&) const = default;
};

// One sample that a block really changed.
struct LedgerSample {
  std::int64_t client = 0;
  std::int64_t sample = 0;  // index in the training set
  std::int64_t block = 0;
  std::string kind = "label";  // or the name of a distortion
  std::int64_t from = -1;      // old and new label; -1 where the label stays as it is
  std::int64_t to = -1;
  std::int64_t severity = 0;  // of a distortion

  bool operator==(const LedgerSample&) const = default;
};

// Blocks are added in the order of the experiment, so their entries stay in that order.
// As a file: JSON lines, first a header, then the clients, then the samples.
class Ledger {
 public:
  // For a training set of `samples` samples over `clients` clients.
  Ledger(std::uint64_t seed, std::int64_t samples, std::int64_t clients)
      : seed_(seed), samples_(samples), client_count_(clients) {}

  // Throws Error(kind internal) when a number does not fit the federation.
  void add(LedgerClient entry);
  void add(LedgerSample entry);

  std::uint64_t seed() const { return seed_; }
  const std::vector<LedgerClient>& clients() const { return clients_; }
  const std::vector<LedgerSample>& samples() const { return entries_; }

  // True when some block, or data.given_labels, made the client noisy: it was chosen as noisy
  // (FedCorr's s_k = 1), or at least one of its labels was wrong or one of its images distorted
  // after the block. spec: partitions M, client identification
  bool is_noisy(std::int64_t client) const { return noisy_.contains(client); }
  const std::set<std::int64_t>& noisy_clients() const { return noisy_; }

  // The same corruptions when all clients' samples, this many, are one client's. Its level in a
  // block is the mean over the samples.
  Ledger of_one_client(std::int64_t samples) const;

  std::string text() const;
  std::string hash() const;  // SHA-256 of text(), in hexadecimal
  void write(const std::filesystem::path& path) const;

  // Throws Error(kind data) naming the file and the line.
  static Ledger read(const std::filesystem::path& path);
  static Ledger parse(std::string_view text, std::string_view source);

 private:
  std::string misfit(const LedgerClient& entry) const;
  std::string misfit(const LedgerSample& entry) const;

  std::uint64_t seed_;
  std::int64_t samples_;
  std::int64_t client_count_;
  std::vector<LedgerClient> clients_;
  std::vector<LedgerSample> entries_;
  std::set<std::int64_t> noisy_;
};

// Per sample of one client: is the given label not the true one now? `samples` are the client's
// indices into the true labels, in the order of `given`.
std::vector<bool> wrong_labels(std::span<const std::int64_t> given,
                               std::span<const std::int64_t> samples,
                               std::span<const std::int64_t> true_labels);

}  // namespace winnow
