// A site: the members that one process hosts, and the lanes that work for them.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "winnow/federation/codec.h"
#include "winnow/net/pki/credentials.h"
#include "winnow/run/charter.h"
#include "winnow/run/workplace.h"

namespace winnow::member {

// The world of a charter in which only the members given, by client, have samples.
World member_world(const Charter& charter, const Experiment& experiment,
                   std::map<std::int64_t, Samples> held, at::Tensor public_images);

// Whatever is asked of one of its members it answers as a simulation with these samples would, bit
// for bit. Several threads may ask at once; each takes a lane while it works and waits while none
// is free.
class Site {
 public:
  // `public_images`: their bytes, as the charter's digest has them; empty where there are none.
  // `stop`, when set, makes answer() throw Interrupted at the next training step. Throws Error(kind
  // peer) where the charter and this program do not agree on the networks, or on what leaves a
  // member: that is shown from the charter and enforced from the exchanges.
  // `credentials`: of every member, by client, where the charter has models travel under masks.
  Site(const Charter& charter, const Registry& registry, std::map<std::int64_t, Samples> held,
       const std::string& public_images, const Runtime& runtime, const std::atomic<bool>* stop,
       std::map<std::int64_t, Credentials> credentials = {});

  std::int64_t samples(std::int64_t client) const;
  // Of the models that this member takes and gives.
  const LayoutPtr& layout_of(std::int64_t client) const;
  // That a task can refer to.
  std::size_t most_models() const { return most_models_; }
  std::size_t lanes() const { return busy_.size(); }
  // The samples of all its members.
  const World& world() const { return place_->world(); }

  // The task in a parcel for that member. `held` finds models that the parcel only names. Throws
  // Error(kind peer).
  using FindModel = std::function<std::optional<State>(const std::string& digest)>;
  Message task_in(std::int64_t client, const Parcel& parcel, const FindModel& held) const;

  struct Work {
    Parcel reply;
    ClientMemory memory;  // as the task left it
    std::int64_t steps = 0;
    Passes passes = {};
    std::string own_model = {};  // hash() of the model that stays with the member; mostly empty
  };
  Work answer(std::int64_t client, ClientMemory memory, const Message& task);

  // Throws Error(kind run) for a memory that cannot be that member's.
  void check_memory(std::int64_t client, const ClientMemory& memory);

 private:
  class Lease;
  std::size_t take_lane(std::optional<std::size_t> wanted);
  void give_back(std::size_t lane);

  std::unique_ptr<Workplace> place_;
  std::vector<Exchange> exchanges_;  // the method's, or those under masks
  std::size_t most_models_ = 0;      // of a task
  std::mutex mutex_;
  std::condition_variable freed_;
  std::vector<bool> busy_;  // by lane
};

}  // namespace winnow::member
