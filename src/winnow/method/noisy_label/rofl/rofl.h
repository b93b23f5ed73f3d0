// RoFL (spec: baselines 16): server and clients agree on a centroid of every class in feature
// space; clients train on small losses, and give samples that lie elsewhere a pseudo-label.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "winnow/method/method.h"
#include "winnow/method/noisy_label/rofl/arithmetic.h"

namespace winnow {

// The server learns of a client its model and its centroids. Their width is that of the model's
// features, which it learns from the first replies: tasks of the first round carry no centroids.
class Rofl final : public Method {
 public:
  void declare(Params& params) override { rofl::declare(options_, params); }
  bool needs_features() const override { return true; }
  ServerNeeds server_needs() const override {
    return ServerNeeds::sums("it averages the models; class centroids are sent separately");
  }
  std::unique_ptr<ClientSide> client_side() const override;
  std::vector<Exchange> exchanges(const Setting& setting) const override;
  // Parameters become the plain mean, running statistics the mean by samples. Throws Error(kind
  // peer) for a list of centroids of the wrong size. Notes `stage`.
  void play(std::int64_t number, Server& server) override;
  void save(Archive& archive) const override;
  void load(const Archive& archive) override;

 private:
  rofl::Options options_;
  std::vector<float> centroids_;  // classes x width; empty before the first round
};

MethodInfo rofl_info();

}  // namespace winnow
