// The client side of FedRN: it decides with its neighbours' models which of its samples are clean.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "winnow/federation/client.h"

namespace winnow::fedrn {

// What a client judges its samples with first: its own model of its last turn, or the received one.
enum class OwnModel { last, global };

// What a client does with the models it is sent.
struct ClientOptions {
  double threshold =
      0.5;               // a sample counts as clean when its probability of being so is above this
  bool finetune = true;  // fit the neighbours' heads before they vote
  std::int64_t finetune_epochs = 1;
  OwnModel own_model = OwnModel::last;
  ScoreView score_view = ScoreView::augmented;
  std::int64_t score_batch = 50;
};

// The random input x~ whose logits make models comparable: one image of N(0, 1) values, the same
// for every client of a run (spec: label-noise B.4 #2). `shape` is channels, height, width.
at::Tensor noise_input(std::uint64_t seed, const std::vector<std::int64_t>& shape);

// A copy of a neighbour's model whose head was trained on `set` while its body stayed. The batches
// depend on the client and the round alone, so every neighbour sees the same ones.
State finetune_head(const State& neighbour, const LocalSet& set, std::int64_t epochs,
                    std::int64_t round, ClientContext& context);

// Answers "warmup" and "robust" with "local_done". The client remembers its last local model in its
// archive as "local"; without one the received model takes its place.
class Client final : public ClientSide {
 public:
  explicit Client(ClientOptions options) : options_(options) {}

  Message handle(const Message& task, ClientContext& context) const override;
  void check_memory(ClientContext& context) const override;

 private:
  // The samples that the client and its neighbours hold to be clean.
  std::vector<bool> find_clean(const Message& task, std::int64_t round,
                               ClientContext& context) const;
  // One model's opinion of every local sample; `voter` is 0 for the client itself.
  std::vector<double> vote(const State& model, std::size_t voter, std::int64_t round,
                           ClientContext& context) const;
  at::Tensor logits(const State& model, const std::string& purpose, std::int64_t round,
                    ClientContext& context) const;
  Message report(const State& local, std::int64_t round, ClientContext& context) const;

  ClientOptions options_;
};

}  // namespace winnow::fedrn
