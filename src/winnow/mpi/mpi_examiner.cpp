#include "winnow/mpi/mpi_examiner.h"

#include <ATen/ATen.h>

#include <exception>
#include <optional>
#include <utility>

#include "winnow/engine/crew.h"
#include "winnow/engine/local_examiner.h"
#include "winnow/engine/members.h"
#include "winnow/mpi/protocol.h"

namespace winnow {
namespace {

// Works here while the others work, and hears them even where it fails.
template <typename Work>
auto beside(Leader& leader, const std::vector<int>& ranks, const Work& work,
            const std::function<void(int, ByteReader&)>& take) {
  std::optional<decltype(work())> result;
  std::exception_ptr error;
  try {
    result = work();
  } catch (...) {
    error = std::current_exception();
  }
  try {
    leader.collect(ranks, take);
  } catch (...) {
    error = error ? error : std::current_exception();
  }
  if (error) {
    std::rethrow_exception(error);
  }
  return std::move(*result);
}

}  // namespace

ModelsByClient gather_own_models(Leader& leader, Workplace& place) {
  ModelsByClient models = place.members().own_models();
  leader.ask_all(ByteWriter().put(Command::own_models).take(), [&](int rank, ByteReader& answer) {
    for (const std::int64_t client : answer.list<std::int64_t>()) {
      const LayoutPtr& layout = place.crew().layout_of(client);
      at::Tensor values = at::empty({layout->total()}, at::kFloat);
      leader.ranks().receive(rank, values);
      models[client] = State{layout, values}.to(place.crew().device());
    }
  });
  return models;
}

std::vector<Score> MpiExaminer::score(const std::vector<State>& models, LocalExaminer::On on) {
  const auto ranks = static_cast<std::size_t>(leader_.ranks().size());
  const std::size_t pieces = place_.examiner().pieces(on);
  // Whole models where there are enough of them, so that each travels to one rank only.
  const bool by_model = models.size() >= ranks;
  Delivery delivery(leader_);
  std::vector<std::string> digests;
  for (const State& model : models) {
    digests.push_back(delivery.add(model));
  }
  std::vector<std::vector<LocalExaminer::Piece>> dealt(ranks);
  std::vector<int> owners;  // of all pieces in order
  for (std::size_t model = 0; model < models.size(); ++model) {
    for (std::size_t piece = 0; piece < pieces; ++piece) {
      const std::size_t rank = (by_model ? model : owners.size()) % ranks;
      owners.push_back(static_cast<int>(rank));
      dealt[rank].push_back({model, piece});
      delivery.need(static_cast<int>(rank), digests[model]);
    }
  }
  delivery.settle();
  std::vector<int> busy;
  for (const int rank : leader_.others()) {
    const auto& own = dealt[static_cast<std::size_t>(rank)];
    if (own.empty()) {
      continue;
    }
    busy.push_back(rank);
    ByteWriter command;
    command.put(Command::score);
    delivery.write(rank, command);
    command.put(on).put(static_cast<std::uint64_t>(own.size()));
    for (const auto& [model, piece] : own) {
      command.text(digests[model]).put(static_cast<std::uint64_t>(piece));
    }
    leader_.ranks().send(rank, Tag::command, command.take());
  }
  delivery.send();
  std::vector<std::vector<Score>> scores(ranks);
  scores[0] = beside(
      leader_, busy, [&] { return place_.examiner().score_pieces(models, on, dealt[0]); },
      [&](int rank, ByteReader& answer) {
        const auto number = static_cast<std::size_t>(rank);
        for (std::size_t piece = 0; piece < dealt[number].size(); ++piece) {
          scores[number].push_back(get_score(answer));
        }
      });
  std::vector<Score> totals(models.size());
  std::vector<std::size_t> taken(ranks);
  for (std::size_t item = 0; item < owners.size(); ++item) {
    const auto rank = static_cast<std::size_t>(owners[item]);
    totals[item / pieces] += scores[rank][taken[rank]++];
  }
  leader_.ranks().flush();
  return totals;
}

Score MpiExaminer::evaluate(const State& model) {
  return score({model}, LocalExaminer::On::test).front();
}

std::vector<Score> MpiExaminer::validate(const std::vector<State>& models) {
  place_.examiner().check_validation();
  return score(models, LocalExaminer::On::validation);
}

Score MpiExaminer::evaluate_each() {
  leader_.command_all(ByteWriter().put(Command::score_each).take());
  std::map<std::int64_t, Score> others;
  std::map<std::int64_t, Score> scores = beside(
      leader_, leader_.others(),
      [&] { return place_.examiner().score_each(place_.members().own_models()); },
      [&](int, ByteReader& answer) {
        for (const std::int64_t client : answer.list<std::int64_t>()) {
          others[client] = get_score(answer);
        }
      });
  scores.merge(others);
  Score total;
  for (const auto& [client, one] : scores) {
    total += one;
  }
  return total;
}

Score MpiExaminer::evaluate_ensemble() {
  return place_.examiner().evaluate_ensemble(gather_own_models(leader_, place_));
}

std::map<std::int64_t, std::vector<std::int64_t>> MpiExaminer::right_by_class(Kept kept) {
  leader_.command_all(ByteWriter().put(Command::right_by_class).put(kept).take());
  std::map<std::int64_t, std::vector<std::int64_t>> others;
  auto right = beside(
      leader_, leader_.others(), [&] { return place_.examiner().right_by_class(kept); },
      [&](int, ByteReader& answer) {
        for (const std::int64_t client : answer.list<std::int64_t>()) {
          others[client] = answer.list<std::int64_t>();
        }
      });
  right.merge(others);
  return right;
}

}  // namespace winnow
