// The examiner of one process: it works with the lanes of a crew.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "winnow/data/data_set.h"
#include "winnow/engine/crew.h"
#include "winnow/engine/examiner.h"
#include "winnow/engine/members.h"
#include "winnow/train/feed.h"

namespace winnow {

class LocalExaminer final : public Examiner {
 public:
  // Crew and members must outlive it.
  LocalExaminer(const DataSet& data, std::int64_t resize, std::int64_t eval_batch, Crew& crew,
                const Members& members);

  Score evaluate(const State& model) override;
  Score evaluate_each() override { return evaluate_each(members_.own_models()); }
  Score evaluate_ensemble() override { return evaluate_ensemble(members_.own_models()); }
  std::map<std::int64_t, std::vector<std::int64_t>> right_by_class(Kept kept) override {
    return right_by_class(members_.models(kept));
  }
  std::vector<Score> validate(const std::vector<State>& models) override;

  // The same of models that are given.
  Score evaluate_each(const ModelsByClient& models);
  Score evaluate_ensemble(const ModelsByClient& models);
  std::map<std::int64_t, std::vector<std::int64_t>> right_by_class(const ModelsByClient& models);
  // The terms of evaluate_each(), by client.
  std::map<std::int64_t, Score> score_each(const ModelsByClient& models);

  // Samples that models are measured on.
  enum class On : std::uint8_t { test, validation };
  // They are cut into pieces of fixed size, so that sums do not depend on who adds them up: a
  // model's score is the sum over its pieces in order.
  std::size_t pieces(On on) const;
  // A piece of work: one model on one piece.
  struct Piece {
    std::size_t model = 0;
    std::size_t piece = 0;
  };
  // One score for each; the models are of the experiment's network.
  std::vector<Score> score_pieces(const std::vector<State>& models, On on,
                                  const std::vector<Piece>& wanted) {
    return score_pieces(models, on, wanted, {});
  }
  // Throws Error(kind internal) where there is no validation set.
  void check_validation() const;

 private:
  struct Measure {
    Measure(const Samples& samples, const DataSet& data, std::int64_t resize, at::Device device);
    Feed feed;
    Labels labels;
    std::vector<std::int64_t> samples;
  };
  const Measure& measure(On on) const { return on == On::test ? test_ : *validation_; }
  // `owners`: whose models they are; none: they are of the experiment's network.
  std::vector<Score> score_pieces(const std::vector<State>& models, On on,
                                  const std::vector<Piece>& wanted,
                                  const std::vector<std::int64_t>& owners);
  std::vector<Score> score(const std::vector<State>& models, On on,
                           const std::vector<std::int64_t>& owners = {});
  std::size_t piece_size() const;

  std::int64_t eval_batch_;
  Crew& crew_;
  const Members& members_;
  Measure test_;
  std::optional<Measure> validation_;
};

}  // namespace winnow
