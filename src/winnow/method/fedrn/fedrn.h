// FedRN (spec: label-noise B): clients borrow the models of reliable neighbours to find their clean
// samples together, and train on those alone.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "winnow/federation/model_store.h"
#include "winnow/method/fedrn/fedrn_client.h"
#include "winnow/method/fedrn/reliability.h"
#include "winnow/method/method.h"

namespace winnow {

// Plain FedAvg for the warm-up rounds, in which the server collects every client's model, its
// accuracy on its own labels and its output for one random input. After that every selected client
// is sent the models of its most reliable neighbours as they were when the round began, or with
// `fresh` as they are.
class FedRN : public Method {
 public:
  void declare(Params& params) override;
  void check(const Setting& setting) const override;
  bool needs_features() const override { return client_.finetune && neighbours_ > 0; }
  std::unique_ptr<ClientSide> client_side() const override;
  std::vector<Schema> schemas() const override;
  void play(std::int64_t round, Server& server) override;
  Findings findings() const override;
  Details details() const override;
  void save(Archive& archive) const override;
  void load(const Archive& archive) override;

 private:
  // Whom a target asks, and how the votes weigh: its own reliability first.
  struct Neighbours {
    std::vector<std::int64_t> clients;
    std::vector<double> reliability;
  };
  Neighbours choose(std::int64_t client, std::int64_t round, const Setting& setting) const;
  Message robust_task(std::int64_t round, const Neighbours& neighbours, const State& global) const;
  // Of one client, in a warm-up or a robust round; `asked` gets the neighbours of the latter.
  Message task(std::int64_t client, std::int64_t round, const Server& server, Json& asked) const;
  // Takes a reply into the store; false when it holds values that are not finite.
  bool accept(std::int64_t client, const Message& reply, const Setting& setting);
  ModelStoreOptions store_options() const;
  Similarity compared_by() const;

  std::int64_t neighbours_ = 1;
  std::int64_t warmup_ = 100;
  double alpha_ = 0.6;
  std::string choice_ = "reliable";
  std::string random_weights_ = "equal";
  bool fresh_ = false;
  std::string similarity_ = "logits";
  FedRNClientOptions client_;
  std::int64_t store_limit_mb_ = 2048;
  std::string store_folder_;

  Profiles profiles_;                 // of the clients that have uploaded
  std::optional<ModelStore> models_;  // theirs; made once the parameters are read
};

MethodInfo fedrn_info();

}  // namespace winnow
