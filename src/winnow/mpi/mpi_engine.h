// The engine of rank 0: a fleet whose members are spread over all ranks.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "winnow/engine/engine.h"
#include "winnow/engine/members.h"
#include "winnow/mpi/asking.h"
#include "winnow/mpi/desk.h"
#include "winnow/mpi/leader.h"
#include "winnow/mpi/mpi_examiner.h"
#include "winnow/mpi/segments.h"
#include "winnow/run/workplace.h"

namespace winnow {

// Replies are folded here in the order that the orders have, whoever made them: so every bit is
// what one process would have made. A client that remembers something is served by the rank that
// holds its memory, any other by the one with the least to do.
class MpiEngine final : public Engine {
 public:
  // All ranks have made the same world, with so many lanes each. Both must outlive it.
  MpiEngine(Leader& leader, Workplace& place, std::vector<std::int64_t> lanes, FoldBy fold,
            const std::atomic<bool>* stop);
  // Has the ranks forget the world.
  ~MpiEngine() override;

  Examiner& examiner() { return examiner_; }

  std::int64_t size() const override { return place_.members().size(); }
  std::int64_t samples(std::int64_t client) const override {
    return place_.members().samples(client);
  }
  ClientList with_samples() const override { return place_.members().with_samples(); }
  // Nobody is ever absent: a rank that does not answer ends the job.
  [[nodiscard]] std::vector<Absence> ask(const std::vector<Order>& orders,
                                         const Fold& fold) override;
  // Models stay where they were trained until all replies have been heard, and every rank then adds
  // up a segment of them; where that gains nothing, or they would take too much memory, replies are
  // folded here.
  [[nodiscard]] Sums ask_for_sums(const std::vector<Order>& orders,
                                  const std::vector<FieldRule>& rules, SumForm form,
                                  const Hear& hear) override;
  bool forms_sums() const override;
  const Traffic& traffic() const override { return traffic_; }

  Workforce workforce() const override;
  const TrainingLoss& training_loss() const override { return loss_; }
  std::vector<std::int64_t> commit() override;
  void rollback() override;
  const Traces& traces() const override { return traces_; }
  ModelsByClient own_models() const override;
  std::map<std::int64_t, std::string> own_hashes() const override;
  std::map<std::int64_t, ClientMemory> memories() const override {
    return place_.members().memories();
  }
  std::vector<std::int64_t> take_changed() override { return place_.members().take_changed(); }
  ClientMemory memory(std::int64_t client) const override {
    return place_.members().committed(client);
  }
  void check_directory(const std::filesystem::path& run) override;
  std::vector<MemoryPart> save_parts(const std::filesystem::path& folder,
                                     std::int64_t round) override;
  void restore(std::map<std::int64_t, ClientMemory> memories) override;
  void restore(const Traffic& traffic) override { traffic_ = traffic; }

 private:
  // Which rank gets each of these clients, given in the order of folding.
  std::vector<int> deal(const std::vector<std::int64_t>& clients) const;
  // The orders with their ranks, in the order of folding.
  Dealt deal_out(const std::vector<Order>& orders);
  // Has `take` see every reply, in the order of folding.
  void hear_all(const Dealt& dealt,
                const std::function<void(std::size_t item, DeskReply& reply)>& take);
  // The reply as a message, judged and counted.
  Message accept(const Order& order, const DeskReply& given, int owner);
  // The fields of the replies to orders, of which there are some.
  const std::vector<FieldRule>& answers_to(const std::vector<Order>& orders) const;
  // Whether the ranks should keep the models of an ask that is dealt like this.
  bool keeps_models(const Dealt& dealt, const std::vector<FieldRule>& rules, SumForm form) const;
  // What they keep, added up.
  std::vector<State> fold_kept(const FoldPlan& plan, const std::vector<ReplyModels>& own);

  Leader& leader_;
  Workplace& place_;
  std::vector<std::int64_t> lanes_;
  FoldBy fold_;
  const std::atomic<bool>* stop_;
  MpiExaminer examiner_;
  std::map<std::int64_t, int> holders_;  // of clients that remember something, or did
  bool directory_is_shared_ = false;     // as far as it was needed
  std::uint64_t asks_ = 0;
  Traffic traffic_;
  TrainingLoss loss_;  // since the last commit
  Traces traces_;
};

}  // namespace winnow
