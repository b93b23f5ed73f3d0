#include "winnow/engine/local_examiner.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <numeric>
#include <span>

#include "winnow/base/error.h"

namespace winnow {
namespace {

constexpr std::int64_t kBatchesPerPiece = 8;

}  // namespace

LocalExaminer::Measure::Measure(const Samples& measured, const DataSet& data, std::int64_t resize,
                                at::Device device)
    : feed(measured.images, data.normalisation, resize, device, data.crop),
      labels(measured.labels),
      samples(measured.labels.size()) {
  std::iota(samples.begin(), samples.end(), std::int64_t{0});
}

LocalExaminer::LocalExaminer(const DataSet& data, std::int64_t resize, std::int64_t eval_batch,
                             Crew& crew, const Members& members)
    : eval_batch_(eval_batch),
      crew_(crew),
      members_(members),
      test_(data.test, data, resize, crew.device()) {
  if (data.validation.size() > 0) {
    validation_.emplace(data.validation, data, resize, crew.device());
  }
}

std::size_t LocalExaminer::piece_size() const {
  return static_cast<std::size_t>(kBatchesPerPiece * eval_batch_);
}

std::size_t LocalExaminer::pieces(On on) const {
  return (measure(on).samples.size() + piece_size() - 1) / piece_size();
}

std::vector<Score> LocalExaminer::score_pieces(const std::vector<State>& models, On on,
                                               const std::vector<Piece>& wanted,
                                               const std::vector<std::int64_t>& owners) {
  const Measure& measured = measure(on);
  std::vector<Score> scores(wanted.size());
  const auto work = [&](std::size_t worker, std::size_t item) {
    const auto [model, piece] = wanted[item];
    const std::size_t start = piece * piece_size();
    const std::size_t size = std::min(piece_size(), measured.samples.size() - start);
    Lane& lane = owners.empty() ? crew_.lane(worker) : crew_.lane_for(worker, owners[model]);
    lane.on_stream([&, state = &models[model]] {
      lane.scorer().load(*state);
      scores[item] = lane.scorer().score(measured.feed,
                                         {std::span(measured.samples).subspan(start, size),
                                          std::span(measured.labels).subspan(start, size)},
                                         eval_batch_);
    });
  };
  crew_.run(wanted.size(), work, [](std::size_t) {});
  return scores;
}

std::vector<Score> LocalExaminer::score(const std::vector<State>& models, On on,
                                        const std::vector<std::int64_t>& owners) {
  std::vector<Piece> all;
  for (std::size_t model = 0; model < models.size(); ++model) {
    for (std::size_t piece = 0; piece < pieces(on); ++piece) {
      all.push_back({model, piece});
    }
  }
  const std::vector<Score> scores = score_pieces(models, on, all, owners);
  std::vector<Score> totals(models.size());
  for (std::size_t item = 0; item < all.size(); ++item) {
    totals[all[item].model] += scores[item];
  }
  return totals;
}

Score LocalExaminer::evaluate(const State& model) {
  return score({model}, On::test).front();
}

std::map<std::int64_t, Score> LocalExaminer::score_each(const ModelsByClient& models) {
  std::vector<State> states;
  std::vector<std::int64_t> owners;
  for (const auto& [client, model] : models) {
    owners.push_back(client);
    states.push_back(model);
  }
  const std::vector<Score> scores = score(states, On::test, owners);
  std::map<std::int64_t, Score> by_client;
  for (std::size_t i = 0; i < owners.size(); ++i) {
    by_client[owners[i]] = scores[i];
  }
  return by_client;
}

Score LocalExaminer::evaluate_each(const ModelsByClient& models) {
  Score total;
  for (const auto& [client, one] : score_each(models)) {
    total += one;
  }
  return total;
}

Score LocalExaminer::evaluate_ensemble(const ModelsByClient& models) {
  const std::size_t count = models.empty() ? 0 : test_.samples.size();
  std::vector<Score> scores((count + piece_size() - 1) / piece_size());
  const auto work = [&](std::size_t worker, std::size_t item) {
    const std::size_t start = item * piece_size();
    const std::size_t size = std::min(piece_size(), count - start);
    at::Tensor mean = at::zeros({1}, at::kDouble);
    for (const auto& [client, model] : models) {
      Lane& lane = crew_.lane_for(worker, client);
      lane.on_stream([&, state = &model] {
        lane.scorer().load(*state);
        const at::Tensor outputs = lane.scorer().logits(
            test_.feed, std::span(test_.samples).subspan(start, size), eval_batch_);
        mean = mean + outputs.softmax(1).to(at::kDouble).cpu() / static_cast<double>(models.size());
      });
    }
    const at::Tensor labels =
        at::tensor(at::ArrayRef(test_.labels).slice(start, size), at::kLong).unsqueeze(1);
    const at::Tensor said = mean.argmax(1).contiguous();
    scores[item] = {
        said.eq(labels.squeeze(1)).sum().item<std::int64_t>(), static_cast<std::int64_t>(size),
        -mean.gather(1, labels).log().sum().item<double>(), count_among_five(mean, labels),
        count_classes(std::span(test_.labels).subspan(start, size),
                      {said.data_ptr<std::int64_t>(), size}, mean.size(1))};
  };
  Score total;
  crew_.run(scores.size(), work, [&](std::size_t item) { total += scores[item]; });
  return total;
}

std::map<std::int64_t, std::vector<std::int64_t>> LocalExaminer::right_by_class(
    const ModelsByClient& models) {
  std::vector<std::int64_t> clients;
  for (const auto& [client, model] : models) {
    clients.push_back(client);
  }
  std::map<std::int64_t, std::vector<std::int64_t>> right;
  std::vector<std::vector<std::int64_t>> found(clients.size());
  const auto work = [&](std::size_t worker, std::size_t item) {
    Lane& lane = crew_.lane_for(worker, clients[item]);
    lane.on_stream([&] {
      lane.scorer().load(models.at(clients[item]));
      const at::Tensor said =
          lane.scorer().logits(test_.feed, test_.samples, eval_batch_).argmax(1).cpu().contiguous();
      std::vector<std::int64_t> counts(static_cast<std::size_t>(crew_.prototype().shape().classes));
      for (std::size_t i = 0; i < test_.labels.size(); ++i) {
        counts[static_cast<std::size_t>(test_.labels[i])] +=
            said.data_ptr<std::int64_t>()[i] == test_.labels[i] ? 1 : 0;
      }
      found[item] = std::move(counts);
    });
  };
  crew_.run(clients.size(), work,
            [&](std::size_t item) { right[clients[item]] = std::move(found[item]); });
  return right;
}

void LocalExaminer::check_validation() const {
  if (!validation_) {
    throw Error(ErrorKind::internal, "there is no validation set to measure models on");
  }
}

std::vector<Score> LocalExaminer::validate(const std::vector<State>& models) {
  check_validation();
  return score(models, On::validation);
}

}  // namespace winnow
