// Winnow's own method (spec: winnow 1): finds out what is wrong with which client, wrong labels or
// hostile updates, and does what that calls for; where nothing is wrong it is its base method.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "winnow/method/base_choice.h"
#include "winnow/method/system/winnow/arithmetic.h"

namespace winnow {

// A round is the base method's, with two exceptions: models whose updates point against the others'
// are left out, and clients whose labels are doubted train by them as far as they can be trusted.
// Every few rounds, after the training, all clients tell sums of what the new model says of their
// samples; nothing of that touches the model or a random stream, so as long as nobody is doubted or
// left out the rounds are the base's, bit for bit.
class Winnow final : public Method {
 public:
  void know(const Offered& offered) override { base_.know(offered); }
  void declare(Params& params) override;
  // Refuses a run that ends with its warm-up, and limits in the wrong order.
  void check(const Setting& setting) const override;
  std::string needs_sgd() const override { return base_.needs_sgd(); }
  ServerNeeds server_needs() const override {
    return ServerNeeds::models("it compares the direction of every update with the others'");
  }
  std::unique_ptr<ClientSide> client_side() const override;
  std::vector<Exchange> exchanges(const Setting& setting) const override;
  // Notes `cosines`, a pair for each client that sent an update, `treated` and `left_out`, the
  // clients that were, where there are any; after an examination `diagnosis`, `doubted` and
  // `unjudged`.
  void play(std::int64_t number, Server& server) override;
  // Flagged: whose labels are doubted, or whose updates are left out. Noise levels: the estimated
  // shares of wrong labels. Scores: `wrong_labels`, `update_cosine` and `course`.
  Findings findings() const override;
  void save(Archive& archive) const override;
  void load(const Archive& archive) override;

 private:
  // What is known of a client's updates.
  struct Conduct {
    double cosine = 0.0;    // of the last one
    double course = 0.0;    // of all so far
    bool left_out = false;  // the last one

    bool operator==(const Conduct&) const = default;
  };

  bool doubted(std::int64_t client) const;
  Message task(const Round& round, std::int64_t client) const;
  // Hands the uploads to the base, those of the guard's choice left out.
  void admit(Round& round, const std::vector<Upload>& uploads);
  void examine(std::int64_t number, Server& server);
  std::string diagnosis() const;
  // Out of a file.
  static ByClient<winnowing::Labelling> read_labels(const Archive& archive);

  BaseChoice base_{{"fedavg", "fedavgm", "fedadam", "fedyogi", "fedadagrad", "fedexp"}};
  winnowing::Options options_;
  ByClient<winnowing::Labelling> labels_;  // of clients that were examined
  ByClient<Conduct> conduct_;              // of clients that took part
};

MethodInfo winnow_info();

}  // namespace winnow
