// What FedNoRo and FedELC share on the server: a first stage with logit-adjusted clients, one
// comparison of all clients by their class-wise losses, and a second stage in which the noisy ones
// train in another way (spec: rivals 2, 3).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "winnow/federation/robust/robust.h"
#include "winnow/method/method.h"

namespace winnow::fednoro {

// Tasks: "train" for the first stage and for clean clients, "train_noisy" for noisy ones,
// "class_losses" for everybody before the second stage.
class TwoStage : public Method {
 public:
  // Refuses a first stage that the run does not outlast, and too many classes: the comparison has
  // covariances of all pairs.
  void check(const Setting& setting) const override;
  ServerNeeds server_needs() const override {
    return ServerNeeds::models(
        "its second stage weights every model by its distance from those of clean clients");
  }
  std::vector<Exchange> exchanges(const Setting& setting) const override;
  // Notes `stage`, and once the clients are compared `flagged`, the number of noisy ones, and
  // `unjudged`, those that could not be compared and count as clean.
  void play(std::int64_t number, Server& server) override;
  // Flagged clients after the comparison; score `class_loss`: the mean of a client's vector as it
  // is compared.
  Findings findings() const override;
  void save(Archive& archive) const override;
  void load(const Archive& archive) override;

 protected:
  virtual std::string name() const = 0;
  virtual std::int64_t warmup() const = 0;
  // The fields of "train_noisy" beside round and model, and their values in a round.
  virtual std::vector<FieldRule> noisy_asks() const { return {}; }
  virtual void fill_noisy(Message& /*task*/, std::int64_t /*round*/, Json& /*notes*/) const {}
  // From the models of a round of the second stage to the next one.
  virtual State fuse(HeldModels held, const std::set<std::int64_t>& noisy) const;

 private:
  void compare(std::int64_t number, Server& server);

  std::optional<std::set<std::int64_t>> noisy_;  // once the clients were compared
  std::map<std::int64_t, double> scores_;
};

// The weights of FedNoRo: samples times distance_factors().
State by_distance(const HeldModels& held, const std::set<std::int64_t>& noisy);

}  // namespace winnow::fednoro
