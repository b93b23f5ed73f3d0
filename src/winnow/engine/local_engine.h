// The local engine: a fleet of members in this process, served by the crew's lanes.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "winnow/engine/crew.h"
#include "winnow/engine/engine.h"
#include "winnow/engine/members.h"
#include "winnow/federation/codec.h"
#include "winnow/federation/exchange.h"

namespace winnow {

class LocalEngine : public Engine {
 public:
  // Both must outlive it. With `wire` messages cross as bytes, as they would between machines.
  LocalEngine(Members& members, Crew& crew, bool wire = false)
      : members_(members), crew_(crew), wire_(wire) {}

  // The method's client side and exchanges; must be set before ask().
  void serve(std::unique_ptr<ClientSide> side, std::vector<Exchange> exchanges);

  std::int64_t size() const override { return members_.size(); }
  std::int64_t samples(std::int64_t client) const override { return members_.samples(client); }
  ClientList with_samples() const override { return members_.with_samples(); }
  // Nobody in this process is ever absent.
  [[nodiscard]] std::vector<Absence> ask(const std::vector<Order>& orders,
                                         const Fold& fold) override;
  const Traffic& traffic() const override { return traffic_; }

  Workforce workforce() const override { return crew_.workforce(); }
  const TrainingLoss& training_loss() const override { return loss_; }
  std::vector<std::int64_t> commit() override;
  void rollback() override;
  const Traces& traces() const override { return members_.traces(); }
  ModelsByClient own_models() const override { return members_.own_models(); }
  std::map<std::int64_t, std::string> own_hashes() const override {
    return hashes_of(members_.own_models());
  }
  std::map<std::int64_t, ClientMemory> memories() const override { return members_.memories(); }
  std::vector<std::int64_t> take_changed() override { return members_.take_changed(); }
  ClientMemory memory(std::int64_t client) const override { return members_.committed(client); }
  std::vector<MemoryPart> save_parts(const std::filesystem::path& /*folder*/,
                                     std::int64_t /*round*/) override {
    return {};
  }
  void restore(std::map<std::int64_t, ClientMemory> memories) override {
    members_.restore(std::move(memories));
  }
  void restore(const Traffic& traffic) override { traffic_ = traffic; }

 private:
  Members::Answer answer(const Order& order, ClientMemory memory, std::size_t worker) const;
  // The message as its receiver would have it after a wire.
  Message sent(const Order& order) const;
  Message sent_back(const Message& reply, const Order& order) const;
  Known known_of(std::int64_t client) const;

  Members& members_;
  Crew& crew_;
  bool wire_;
  std::vector<Exchange> exchanges_;
  Traffic traffic_;
  TrainingLoss loss_;  // since the last commit
};

}  // namespace winnow
