// What the tests of this room share: an experiment dealt out as files, and a server that is only an
// engine, whose clients are sites.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "run/method_schedules.h"
#include "winnow/experiment/server_world.h"
#include "winnow/federation/codec.h"
#include "winnow/federation/firewall.h"
#include "winnow/net/join/member_data.h"
#include "winnow/net/join/site.h"
#include "winnow/run/charter.h"
#include "winnow/run/deal.h"

namespace winnow::member {

// The experiment of a dealt folder, as a server reads it.
inline Experiment served_experiment(const std::filesystem::path& folder, const Registry& registry) {
  Json tree = read_toml(folder / "federation.toml");
  tree.erase("serve");
  tree.erase("members");
  anchor_paths(tree, folder);
  return parse_experiment(tree, registry);
}

inline std::string bytes_in(const at::Tensor& images) {
  return images.defined()
             ? std::string(static_cast<const char*>(images.data_ptr()), images.nbytes())
             : std::string();
}

// A dealt experiment with a site for every member.
struct Dealing {
  Dealing(const Experiment& experiment, const std::filesystem::path& folder) : registry(methods()) {
    deal_out(experiment, registry, folder);
    served = served_experiment(folder, registry);
    place = std::make_unique<Workplace>(served, server_world(served, registry), registry, on_cpu(1),
                                        nullptr);
    charter = read_charter(make_charter("0123456789abcdef", served, *place).text());
    for (std::int64_t client = 0; client < charter.members; ++client) {
      files.push_back(folder / (member_name(client) + ".npz"));
    }
  }

  std::unique_ptr<Site> site(std::int64_t client, const std::atomic<bool>* stop = nullptr) const {
    std::map<std::int64_t, Samples> held;
    held[client] = read_member_data(files[static_cast<std::size_t>(client)], charter);
    return std::make_unique<Site>(charter, registry, std::move(held),
                                  bytes_in(place->world().public_images), on_cpu(1), stop);
  }
  std::unique_ptr<Site> site_of_all(std::int64_t lanes) const {
    std::map<std::int64_t, Samples> held;
    for (std::int64_t client = 0; client < charter.members; ++client) {
      held[client] = read_member_data(files[static_cast<std::size_t>(client)], charter);
    }
    return std::make_unique<Site>(charter, registry, std::move(held),
                                  bytes_in(place->world().public_images), on_cpu(lanes), nullptr);
  }

  Registry registry;
  Experiment served;
  std::unique_ptr<Workplace> place;
  Charter charter;
  std::vector<std::filesystem::path> files;
};

// Its clients are sites, and nothing but bytes goes between.
class SiteEngine final : public Engine {
 public:
  SiteEngine(std::vector<std::shared_ptr<Site>> sites, const Workplace& place)
      : sites_(std::move(sites)), place_(place) {}

  std::int64_t size() const override { return std::ssize(sites_); }
  std::int64_t samples(std::int64_t client) const override {
    return sites_[static_cast<std::size_t>(client)]->samples(client);
  }
  std::vector<Absence> ask(const std::vector<Order>& orders, const Fold& fold) override {
    for (const std::size_t place : fold_order(orders, *this)) {
      const Order& order = orders[place];
      Site& site = *sites_[static_cast<std::size_t>(order.client)];
      const std::string sent = bytes_of(pack_task(order.task, place_.exchanges()));
      const Parcel task = parcel_of(sent);
      const Site::Work work =
          site.answer(order.client, memory(order.client), site.task_in(order.client, task, {}));
      const std::string returned = bytes_of(work.reply);
      if (watch) {
        watch(order.client, order.task.kind(), returned);
      }
      const Message reply = unpack_reply(
          parcel_of(returned), order.task.kind(), place_.exchanges(),
          {.layouts = {place_.crew().layout_of(order.client)}, .samples = samples(order.client)});
      EXPECT_FALSE(judge(reply, order.task, samples(order.client), place_.exchanges()));
      traffic_.bytes_down += order.task.bytes();
      traffic_.bytes_up += reply.bytes();
      traffic_.client_steps += work.steps;
      traffic_.participations += work.steps > 0 ? 1 : 0;
      traffic_.passes += work.passes;
      pending_[order.client] = work.memory;
      if (!work.own_model.empty()) {
        own_[order.client] = work.own_model;
      }
      fold(order.client, reply);
    }
    return {};
  }
  const Traffic& traffic() const override { return traffic_; }
  Workforce workforce() const override { return {}; }
  const TrainingLoss& training_loss() const override { return loss_; }
  std::vector<std::int64_t> commit() override {
    for (auto& [client, memory] : pending_) {
      memories_[client] = std::move(memory);
    }
    pending_.clear();
    return {};
  }
  void rollback() override { pending_.clear(); }
  const Traces& traces() const override { return traces_; }
  ModelsByClient own_models() const override { return {}; }
  bool shows_own_models() const override { return false; }
  std::map<std::int64_t, std::string> own_hashes() const override { return own_; }
  std::map<std::int64_t, ClientMemory> memories() const override { return memories_; }
  std::vector<MemoryPart> save_parts(const std::filesystem::path& /*folder*/,
                                     std::int64_t /*round*/) override {
    return {};
  }
  void restore(std::map<std::int64_t, ClientMemory> /*memories*/) override {}
  void restore(const Traffic& traffic) override { traffic_ = traffic; }

  // Sees every reply as the bytes that leave a member, with the kind of task it answers.
  std::function<void(std::int64_t client, const std::string& task, const std::string& bytes)> watch;

 private:
  ClientMemory memory(std::int64_t client) const {
    if (const auto found = pending_.find(client); found != pending_.end()) {
      return found->second;
    }
    const auto found = memories_.find(client);
    return found == memories_.end() ? ClientMemory() : found->second;
  }

  std::vector<std::shared_ptr<Site>> sites_;
  const Workplace& place_;
  Traffic traffic_;
  TrainingLoss loss_;
  Traces traces_;
  std::map<std::int64_t, std::string> own_;
  std::map<std::int64_t, ClientMemory> memories_;
  std::map<std::int64_t, ClientMemory> pending_;
};

}  // namespace winnow::member
