// What the tests of this room share: an experiment dealt out as files, and a server that is only an
// engine, whose clients are sites.
#pragma once

#include <algorithm>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "run/method_schedules.h"
#include "winnow/engine/crew.h"
#include "winnow/experiment/server_world.h"
#include "winnow/federation/codec.h"
#include "winnow/federation/firewall.h"
#include "winnow/net/join/member_data.h"
#include "winnow/net/join/site.h"
#include "winnow/net/mask/masked_sums.h"
#include "winnow/net/pki/authority.h"
#include "winnow/run/charter.h"
#include "winnow/run/deal.h"
#include "winnow/run/workplace.h"

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

// A dealt experiment with a site for every member; masked, models leave them under masks.
struct Dealing {
  Dealing(const Experiment& experiment, const std::filesystem::path& folder, bool masked = false,
          Registry its_registry = methods())
      : registry(std::move(its_registry)) {
    deal_out(experiment, registry, folder);
    served = served_experiment(folder, registry);
    place = std::make_unique<Workplace>(served, server_world(served, registry), registry, on_cpu(1),
                                        nullptr);
    if (masked) {
      Authority authority = Authority::create(folder / "authority", "dealt");
      const std::vector<Exchange> exchanges =
          mask::masked_exchanges(place->exchanges(), place->setting().clients);
      charter = read_charter(
          make_masked_charter(authority.federation(), served, *place, exchanges).text());
      masks = mask::MaskTerms{authority.federation(), charter.hash(), authority.certificate()};
      for (std::int64_t client = 0; client < charter.members; ++client) {
        credentials[client] = authority.issue_client(member_name(client));
      }
    } else {
      charter = read_charter(make_charter("0123456789abcdef", served, *place).text());
    }
    for (std::int64_t client = 0; client < charter.members; ++client) {
      files.push_back(folder / (member_name(client) + ".npz"));
    }
  }

  std::unique_ptr<Site> site(std::int64_t client, const std::atomic<bool>* stop = nullptr) const {
    std::map<std::int64_t, Samples> held;
    held[client] = read_member_data(files[static_cast<std::size_t>(client)], charter);
    std::map<std::int64_t, Credentials> own;
    if (masks) {
      own.emplace(client, credentials.at(client));
    }
    return std::make_unique<Site>(charter, registry, std::move(held),
                                  bytes_in(place->world().public_images), on_cpu(1), stop,
                                  std::move(own));
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
  std::optional<mask::MaskTerms> masks;
  std::map<std::int64_t, Credentials> credentials;  // by client, where there are masks
};

// Its clients are sites, and nothing but bytes goes between.
class SiteEngine final : public Engine {
 public:
  SiteEngine(std::vector<std::shared_ptr<Site>> sites, const Workplace& place,
             std::optional<mask::MaskTerms> masks = {})
      : sites_(std::move(sites)),
        place_(place),
        masks_(std::move(masks)),
        exchanges_(masks_ ? mask::masked_exchanges(place.exchanges(), std::ssize(sites_))
                          : place.exchanges()) {}

  // Who does not answer which task of which round.
  std::function<bool(std::int64_t round, std::int64_t client, const Message& task)> silent = {};
  // What the server sees of models: the kinds of all replies that had some.
  std::vector<Message> seen = {};

  void begin(std::int64_t round) override {
    round_ = round;
    sums_ = 0;
  }

  std::int64_t size() const override { return std::ssize(sites_); }
  std::int64_t samples(std::int64_t client) const override {
    return sites_[static_cast<std::size_t>(client)]->samples(client);
  }
  std::vector<Absence> ask(const std::vector<Order>& orders, const Fold& fold) override {
    std::vector<Absence> absent;
    for (const std::size_t place : fold_order(orders, *this)) {
      const Order& order = orders[place];
      if (silent && silent(round_, order.client, order.task)) {
        absent.push_back({order.client, AbsenceReason::silent});
        continue;
      }
      Site& site = *sites_[static_cast<std::size_t>(order.client)];
      const std::string sent = bytes_of(pack_task(order.task, exchanges_));
      const Parcel task = parcel_of(sent);
      const Site::Work work =
          site.answer(order.client, memory(order.client), site.task_in(order.client, task, {}));
      const std::string returned = bytes_of(work.reply);
      if (watch) {
        watch(order.client, order.task.kind(), returned);
      }
      const Message reply = unpack_reply(
          parcel_of(returned), order.task.kind(), exchanges_,
          {.layouts = {place_.crew().layout_of(order.client)}, .samples = samples(order.client)});
      EXPECT_FALSE(judge(reply, order.task, samples(order.client), exchanges_));
      if (masks_) {
        seen.push_back(reply);
      }
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
    std::ranges::sort(absent, {}, &Absence::client);
    return absent;
  }
  Sums ask_for_sums(const std::vector<Order>& orders, const std::vector<FieldRule>& rules,
                    SumForm form, const Hear& hear) override {
    if (!masks_) {
      return Engine::ask_for_sums(orders, rules, form, hear);
    }
    std::string session(mask::kSessionBytes, '\0');
    session[0] = static_cast<char>(round_);
    session[1] = static_cast<char>(sums_++);
    session[2] = static_cast<char>(attempt);
    return mask::masked_sums(*this, orders, rules, hear, *masks_, session);
  }
  std::int64_t attempt = 0;
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
  std::optional<mask::MaskTerms> masks_;
  std::vector<Exchange> exchanges_;
  std::int64_t round_ = 0;
  std::int64_t sums_ = 0;  // asked for in the round
  Traffic traffic_;
  TrainingLoss loss_;
  Traces traces_;
  std::map<std::int64_t, std::string> own_;
  std::map<std::int64_t, ClientMemory> memories_;
  std::map<std::int64_t, ClientMemory> pending_;
};

}  // namespace winnow::member
