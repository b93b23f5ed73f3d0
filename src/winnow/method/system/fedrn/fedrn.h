// FedRN (spec: label-noise B): clients borrow the models of reliable neighbours to find their clean
// samples together, and train on those alone.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "winnow/federation/model_store.h"
#include "winnow/method/round.h"
#include "winnow/method/system/fedrn/arithmetic.h"
#include "winnow/method/system/fedrn/client.h"

namespace winnow {

namespace fedrn {

// The names are those of the method's parameters.
struct Options {
  std::int64_t neighbours = 1;
  std::int64_t warmup = 100;
  double alpha = 0.6;
  Helpers choice = Helpers::reliable;
  Votes random_weights = Votes::equal;
  bool fresh = false;
  Similarity similarity = Similarity::logits;
  ClientOptions client = {};
  std::int64_t store_limit_mb = 2048;
  std::string store_folder = {};
};

}  // namespace fedrn

// Plain FedAvg for the warm-up rounds, in which the server collects every client's model, its
// accuracy on its own labels and its output for one random input. After that every selected client
// is sent the models of its most reliable neighbours as they were when the round began, or with
// `fresh` as they are.
class FedRN : public Method {
 public:
  void declare(Params& params) override;
  void check(const Setting& setting) const override;
  bool needs_features() const override {
    return options_.client.finetune && options_.neighbours > 0;
  }
  ServerNeeds server_needs() const override {
    return ServerNeeds::models("it keeps the last model of every client and sends it to others");
  }
  std::unique_ptr<ClientSide> client_side() const override;
  std::vector<Exchange> exchanges(const Setting& setting) const override;
  void play(std::int64_t number, Server& server) override;
  Findings findings() const override;
  Findings claims() const override { return {}; }
  Details details() const override;
  void save(Archive& archive) const override;
  void load(const Archive& archive) override;

 private:
  // Whom a target asks, and how the votes weigh: its own reliability first.
  struct Neighbours {
    std::vector<std::int64_t> clients;
    std::vector<double> reliability;
  };
  Neighbours choose(const Round& round, std::int64_t client) const;
  Message robust_task(const Round& round, const Neighbours& neighbours) const;
  // Of one client, in a warm-up or a robust round; `asked` gets the neighbours of the latter.
  Message task(const Round& round, std::int64_t client, Json& asked) const;
  // Takes a reply into the store.
  void keep(std::int64_t client, const Message& reply);
  ModelStoreOptions store_options() const;
  // Out of a file.
  void load_profiles(const Archive& archive);

  fedrn::Options options_;

  fedrn::Profiles profiles_;          // of the clients that have uploaded
  std::optional<ModelStore> models_;  // theirs; made once the parameters are read
};

MethodInfo fedrn_info();

}  // namespace winnow
