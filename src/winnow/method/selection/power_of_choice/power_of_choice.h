// Power-of-Choice (spec: baselines 15): of some candidates drawn by chance, those whose data the
// global model fits worst are trained.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <vector>

#include "winnow/base/random.h"
#include "winnow/method/base_method.h"

namespace winnow {

namespace power_of_choice {

// How candidates are drawn: in proportion to their samples, or each as likely as any other.
enum class Draw { samples, uniform };

// The loss by which candidates are compared: on all their data, on one batch, or of their last
// training.
enum class Loss { whole, batch, last };

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

}  // namespace power_of_choice

// FedAvg but for select(), which asks the candidates for their loss, and for the weights.
class PowerOfChoice : public BaseMethod {
 public:
  void declare(Params& params) override;
  void check(const Setting& setting) const override;
  ServerNeeds server_needs() const override {
    return needs_sums_as<PowerOfChoice>(ServerNeeds::two_phases(
        "candidates send their losses first, then the models of the chosen ones are averaged",
        true));
  }
  std::unique_ptr<ClientSide> client_side() const override;
  std::vector<Exchange> exchanges(const Setting& setting) const override;
  // Candidates come from the round's pool only. Where all of them are needed, nobody is asked.
  std::vector<std::int64_t> select(Round& round, std::int64_t count) override;
  void begin(Round& round) override;
  void add(Round& round, const Upload& upload) override;
  void hear(Round& round, std::int64_t client, const Message& numbers) override;
  void add_sums(Round& round, const Sums& sums) override;
  State finish(Round& round) override;
  // Scores "loss", as last known, and "times_chosen", of all who were a candidate.
  Findings findings() const override;
  Findings claims() const override { return {}; }
  void save(Archive& archive) const override;
  void load(const Archive& archive) override;

 private:
  std::vector<std::int64_t> draw(const Round& round, std::int64_t count) const;
  // Asks all candidates for the loss of the global model, and returns who was absent.
  std::vector<Absence> evaluate(const Round& round, const std::vector<std::int64_t>& candidates);
  // Notes the losses.
  std::vector<std::int64_t> best_of(const Round& round, const std::vector<std::int64_t>& candidates,
                                    const std::vector<Absence>& absent, std::int64_t count) const;

  std::int64_t candidates_ = 30;
  power_of_choice::Draw draw_ = power_of_choice::Draw::samples;
  power_of_choice::Loss loss_ = power_of_choice::Loss::whole;
  Weighting weighting_ = Weighting::equal;

  WeightedMean models_;  // of the round

  // Lasting, by client; one that was never heard of or asked to train is not there.
  ByClient<power_of_choice::KnownLoss> losses_;
  ByClient<std::int64_t> times_chosen_;
};

MethodInfo power_of_choice_info();

}  // namespace winnow
