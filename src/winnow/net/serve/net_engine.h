// The engine of a real federation: orders go to members over a network, and what comes back is
// folded as everywhere else. Its journal lets a round that was interrupted go on from its replies.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "winnow/engine/engine.h"
#include "winnow/net/mask/terms.h"
#include "winnow/net/serve/desk.h"
#include "winnow/run/workplace.h"

namespace winnow::net {

struct NetEngineOptions {
  double quorum = 0.5;          // of those who have not left
  double retry = 10.0;          // seconds before another attempt
  std::int64_t start_with = 1;  // members that must have joined before the first round
  // Where models travel under masks. The desk has masked_exchanges() then.
  std::optional<mask::MaskTerms> masks = {};
};

// Members have their memory with them: there is none here, and so none in checkpoints.
class NetEngine final : public Engine {
 public:
  // All must outlive it.
  NetEngine(const Workplace& place, NetEngineOptions options, const Clock& clock,
            const std::atomic<bool>* stop);

  // Before the first round, and before anything is restored from a checkpoint.
  void attach(Desk& desk, Journal& journal);

  std::int64_t size() const override { return place_.setting().clients; }
  // As they were when the round began.
  std::int64_t samples(std::int64_t client) const override;
  [[nodiscard]] std::vector<Absence> ask(const std::vector<Order>& orders,
                                         const Fold& fold) override;
  // Under masks it is several asks of the members and one of the method.
  [[nodiscard]] Sums ask_for_sums(const std::vector<Order>& orders,
                                  const std::vector<FieldRule>& rules, SumForm form,
                                  const Hear& hear) override;
  const Traffic& traffic() const override { return traffic_; }

  Workforce workforce() const override;
  void settled(std::int64_t rounds) override;
  void begin(std::int64_t round) override;
  void end() override;
  // Those that the round counts with samples and that had not left when it began; after a restart
  // in its middle, when it went on.
  std::optional<std::vector<std::int64_t>> present() const override { return present_; }
  // The loss of training stays with the members.
  const TrainingLoss& training_loss() const override { return loss_; }
  std::vector<std::int64_t> commit() override;
  void rollback() override;
  const Traces& traces() const override { return traces_; }
  ModelsByClient own_models() const override { return {}; }
  bool shows_own_models() const override { return false; }
  std::map<std::int64_t, std::string> own_hashes() const override;
  std::map<std::int64_t, ClientMemory> memories() const override { return {}; }
  std::vector<MemoryPart> save_parts(const std::filesystem::path& /*folder*/,
                                     std::int64_t /*round*/) override {
    return {};
  }
  // Throws Error(kind run) where there is any memory: the checkpoint is of a simulation.
  void restore(std::map<std::int64_t, ClientMemory> memories) override;
  void restore(const Traffic& traffic) override { traffic_ = traffic; }

 private:
  // An order's task as it goes out; its models are added to `models`.
  Outgoing packed(const Order& order, std::map<std::string, State>& models);
  const std::string& digest_of(const State& model);
  Message reply_of(const OrderRow& row) const;
  void count(const Order& order, const OrderRow& row, const Message& reply);
  void pause_before_retry();
  Desk& desk() const;

  const Workplace& place_;
  NetEngineOptions options_;
  std::vector<Exchange> exchanges_;
  const Clock& clock_;
  const std::atomic<bool>* stop_;
  Desk* desk_ = nullptr;
  Journal* journal_ = nullptr;
  bool in_round_ = false;
  bool undecided_ = false;
  std::int64_t retry_at_ = 0;
  std::int64_t round_ = 0;
  std::int64_t attempt_ = 1;
  std::string undecided_because_;
  std::int64_t asks_ = 0;      // of the round
  std::int64_t ordered_ = 0;   // in the round, of members who have not left
  std::int64_t answered_ = 0;  // of them
  std::vector<std::int64_t> samples_;
  std::vector<std::int64_t> present_;
  // Digests of models that were sent in the round, by their tensor; the state keeps it alive.
  std::map<const void*, std::pair<State, std::string>> digests_;
  std::map<std::int64_t, std::string> own_;
  std::map<std::int64_t, std::string> pending_own_;
  Traffic traffic_;
  TrainingLoss loss_;
  Traces traces_;
};

}  // namespace winnow::net
