// Power-of-Choice (spec: baselines 15): of some candidates drawn by chance, those whose data the
// global model fits worst are trained.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "winnow/base/random.h"
#include "winnow/method/base_method.h"

namespace winnow {

// Up to `count` members of `pool`, drawn one after the other with probability proportional to
// `weights` (side by side with `pool`), in ascending order. A weight of 0 is never drawn.
std::vector<std::int64_t> draw_by_weight(std::span<const std::int64_t> pool,
                                         std::vector<double> weights, std::int64_t count,
                                         Stream& stream);

struct Candidate {
  std::int64_t client = 0;
  double loss = 0.0;  // not NaN
};

// The `count` candidates of the largest losses, largest first; of equal ones the lower id.
std::vector<std::int64_t> largest_losses(std::vector<Candidate> candidates, std::int64_t count);

// What a client's loss is known to be: nothing when it had none that is finite.
using KnownLoss = std::optional<double>;

// FedAvg but for select(), which asks the candidates for their loss, and for the weights.
class PowerOfChoice : public BaseMethod {
 public:
  void declare(Params& params) override;
  void check(const Setting& setting) const override;
  std::unique_ptr<ClientSide> client_side() const override;
  std::vector<Schema> schemas() const override;
  // Candidates come from `pool` only. Where all of them are needed, nobody is asked.
  std::vector<std::int64_t> select(std::span<const std::int64_t> pool, std::int64_t count,
                                   std::int64_t round, Server& server) override;
  void begin(const State& global) override;
  void add(const Upload& upload) override;
  State finish() override;
  // Scores "loss", as last known, and "times_chosen", of all who were a candidate.
  Findings findings() const override;
  void save(Archive& archive) const override;
  void load(const Archive& archive) override;

 private:
  std::vector<std::int64_t> draw(std::span<const std::int64_t> pool, std::int64_t count,
                                 std::int64_t round, const Server& server) const;
  // Asks all candidates for the loss of the global model.
  void evaluate(const std::vector<std::int64_t>& candidates, std::int64_t round,
                const Server& server);
  std::vector<std::int64_t> best_of(const std::vector<std::int64_t>& candidates, std::int64_t count,
                                    Json& notes) const;

  std::int64_t candidates_ = 30;
  std::string draw_ = "samples";
  std::string loss_ = "whole";
  std::string weighting_ = "mean";

  WeightedMean models_;  // of the round

  // Lasting, by client; one that was never heard of or asked to train is not there.
  std::map<std::int64_t, KnownLoss> losses_;
  std::map<std::int64_t, std::int64_t> times_chosen_;
};

MethodInfo power_of_choice_info();

}  // namespace winnow
