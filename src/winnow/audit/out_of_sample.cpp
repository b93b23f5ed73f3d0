#include "winnow/audit/out_of_sample.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "winnow/base/error.h"
#include "winnow/engine/crew.h"
#include "winnow/method/audit/audit/judging.h"
#include "winnow/run/workplace.h"

namespace winnow {
namespace {

constexpr std::int64_t kParts = 4;  // of a single owner's samples
constexpr std::int64_t kAgreementSamples = 500;
constexpr std::int64_t kPiece = 1024;  // samples that a lane looks at in one go, about

std::size_t place(std::int64_t number) {
  return static_cast<std::size_t>(number);
}

at::Tensor index_of(const std::vector<std::int64_t>& rows) {
  at::Tensor index = at::empty({std::ssize(rows)}, at::kLong);
  std::ranges::copy(rows, index.data_ptr<std::int64_t>());
  return index;
}

// One fold: its federation, trained, and what it says.
class FoldJudge {
 public:
  FoldJudge(Crew& crew, const State& model, const Feed& feed, std::int64_t batch, bool features)
      : crew_(crew), model_(model), feed_(feed), batch_(batch), features_(features) {}

  // In the order of `samples`, of which those of a client lie next to each other: `groups` says
  // how many there are of each. A client's are looked at in the batches that it would form itself.
  audit::Said ask(const std::vector<std::int64_t>& samples,
                  const std::vector<std::int64_t>& groups) const {
    std::vector<std::span<const std::int64_t>> pieces;
    const std::int64_t most = std::max<std::int64_t>(1, kPiece / batch_) * batch_;
    std::int64_t first = 0;
    for (const std::int64_t group : groups) {
      for (std::int64_t done = 0; done < group; done += most) {
        pieces.push_back(
            std::span(samples).subspan(place(first + done), place(std::min(most, group - done))));
      }
      first += group;
    }
    std::vector<at::Tensor> logits(pieces.size());
    std::vector<at::Tensor> features(pieces.size());
    crew_.run(
        pieces.size(),
        [&](std::size_t worker, std::size_t item) {
          Lane& lane = crew_.lane(worker);
          lane.on_stream([&] {
            lane.scorer().load(model_);
            std::vector<at::Tensor> own_logits;
            std::vector<at::Tensor> own_features;
            if (features_) {
              lane.scorer().each_batch(
                  feed_, pieces[item], batch_, {}, /*training=*/false,
                  [&](const at::Tensor& taken, const at::Tensor& out) {
                    own_features.push_back(taken.flatten(1).to(at::kCPU, at::kFloat));
                    own_logits.push_back(out.to(at::kCPU, at::kFloat));
                  });
              features[item] = at::cat(own_features);
              logits[item] = at::cat(own_logits);
            } else {
              logits[item] =
                  lane.scorer().logits(feed_, pieces[item], batch_).to(at::kCPU, at::kFloat);
            }
          });
        },
        [](std::size_t /*item*/) {});
    if (samples.empty()) {
      return {.p = at::zeros({0, crew_.prototype().shape().classes})};
    }
    return audit::said_of(features_ ? at::cat(features) : at::Tensor(), at::cat(logits));
  }

 private:
  Crew& crew_;
  const State& model_;
  const Feed& feed_;
  std::int64_t batch_;
  bool features_;
};

// The parts of an audit that come together over all folds.
class Judging {
 public:
  Judging(const Experiment& experiment, const World& world, const std::vector<HeldSample>& held,
          const at::Tensor& judged, const JudgeOptions& options)
      : experiment_(experiment), world_(world), held_(held), images_(judged), options_(options) {
    const std::size_t count = held.size();
    result_.classes = world.data.classes;
    result_.p.assign(count * place(result_.classes), 0.0F);
    if (options.repetitions > 1) {
      result_.p_of.assign(place(options.repetitions), result_.p);
    }
    result_.model_of.assign(place(options.repetitions), std::vector<std::int64_t>(count, 0));
    result_.judged.assign(count, true);
    result_.gradient_norm.assign(count, 0.0);
    result_.distance.assign(count, 0.0);
    result_.fold_of.assign(world.clients.size(), -1);
    result_.update_cosine.assign(world.clients.size(), 0.0);
    result_.update_norm.assign(world.clients.size(), 1.0);
    if (options.in_sample) {
      result_.p_in_sample.assign(result_.p.size(), 0.0F);
    }
    starts_.push_back(0);
    for (const ClientData& client : world.clients) {
      starts_.push_back(starts_.back() + client.samples.size());
    }
  }

  void judge_fold(const Folds& folds, std::int64_t fold, std::int64_t number,
                  const Registry& registry, const Runtime& runtime, const std::atomic<bool>* stop,
                  const std::function<void(double agreement)>& played) {
    std::vector<std::int64_t> places;
    for (std::size_t client = 0; client < folds.of.size(); ++client) {
      for (std::size_t i = 0; i < folds.of[client].size(); ++i) {
        if (folds.of[client][i] == fold) {
          places.push_back(static_cast<std::int64_t>(starts_[client] + i));
        }
      }
    }
    World world = training_world(folds, fold, places);
    Experiment experiment = experiment_;
    experiment.federation.clients = std::ssize(world.clients);
    experiment.federation.centralised = false;
    experiment.federation.absences = "";
    // Labels and images are as noise left them. Who attacks a training says nothing about data, and
    // the clients without a fold have other numbers.
    experiment.noise.clear();
    experiment.eval_every = 1'000'000'000;
    experiment.local_accuracy = false;
    experiment.truth = Truth::none;
    experiment.seed = audit::fold_seed(experiment_.seed, number);
    std::vector<bool> known(place(world.data.classes), false);
    for (const ClientData& client : world.clients) {
      for (const std::int64_t label : client.given) {
        known[place(label)] = true;
      }
    }
    auto workplace =
        std::make_unique<Workplace>(experiment, std::move(world), registry, runtime, stop);
    Crew& crew = workplace->crew();
    Session session(experiment, host_locally(std::move(workplace), runtime), stop);
    if (session.measured() != Measured::global) {
      throw Error(ErrorKind::experiment,
                  fmt::format("method {}: an audit needs one model that all clients share",
                              experiment.method),
                  "choose another one with --method; fedavg is the default");
    }
    while (session.rounds_done() < session.rounds()) {
      const Session::Played round = session.play();
      played(round.record.accuracy ? *round.record.accuracy : 0.0);
    }
    ++result_.trainings;
    for (const std::int64_t at : places) {
      result_.model_of[place(number / options_.folds)][place(at)] = fold;
    }
    take(crew, session.global(), places, known, number / options_.folds);
    if (folds.over_clients && options_.repetitions == 1) {
      result_.fold_of = folds.of_clients;
    }
    if (folds.over_clients) {
      probe_updates(crew, session, folds, fold);
    }
  }

  Judgement finish(std::int64_t repetitions, std::int64_t folds) {
    const auto scale = [](std::vector<float>& values, double by) {
      for (float& value : values) {
        value = static_cast<float>(static_cast<double>(value) * by);
      }
    };
    scale(result_.p, 1.0 / static_cast<double>(repetitions));
    if (options_.in_sample) {
      scale(result_.p_in_sample, 1.0 / static_cast<double>(repetitions * (folds - 1)));
    }
    for (std::size_t i = 0; i < held_.size(); ++i) {
      result_.gradient_norm[i] /= static_cast<double>(repetitions);
      result_.distance[i] /= static_cast<double>(repetitions);
    }
    return std::move(result_);
  }

 private:
  // The clients without the fold; the fold itself, with the labels it was given, is what the rounds
  // are evaluated on.
  World training_world(const Folds& folds, std::int64_t fold,
                       const std::vector<std::int64_t>& places) const {
    World world{world_.data, without_fold(world_.clients, folds, fold, kParts),
                Ledger(experiment_.seed, world_.data.train.size(), std::ssize(world_.clients)),
                world_.public_images};
    world.truth_known = false;
    if (world.clients.empty()) {
      throw Error(ErrorKind::data, "nothing is left to train on without a fold",
                  "lower --folds, or audit more data");
    }
    std::vector<std::int64_t> shown;
    const std::int64_t step = std::max<std::int64_t>(1, std::ssize(places) / kAgreementSamples);
    world.data.test.labels.clear();
    for (std::int64_t i = 0; i < std::ssize(places); i += step) {
      const HeldSample& sample = held_[place(places[place(i)])];
      shown.push_back(sample.sample);
      world.data.test.labels.push_back(sample.given);
    }
    world.data.test.images = images_.index_select(0, index_of(shown));
    return world;
  }

  void take(Crew& crew, const State& model, const std::vector<std::int64_t>& places,
            const std::vector<bool>& known, std::int64_t repetition) {
    const bool features = has_features(crew.prototype());
    const Feed feed(images_, world_.data.normalisation, input_side(crew.prototype().shape()),
                    crew.device(), world_.data.crop);
    const FoldJudge judge(crew, model, feed, experiment_.train.eval_batch, features);
    std::vector<std::int64_t> samples;
    for (const std::int64_t at : places) {
      samples.push_back(held_[place(at)].sample);
    }
    const std::vector<std::int64_t> groups = groups_of(places);
    const audit::Said said = judge.ask(samples, groups);
    add_rows(said.p, places, result_.p);
    if (!result_.p_of.empty()) {
      add_rows(said.p, places, result_.p_of[place(repetition)]);
    }
    for (std::size_t i = 0; i < places.size(); ++i) {
      const std::size_t at = place(places[i]);
      result_.gradient_norm[at] += said.gradient_norms[i];
      if (!known[place(held_[at].given)]) {
        result_.judged[at] = false;
      }
    }
    if (said.features.defined()) {
      measure_distances(crew, said.features, places, groups);
    }
    if (options_.in_sample) {
      judge_seen(judge, places);
    }
  }

  static bool has_features(const Prototype& network) {
    try {
      network.check_features();
      return true;
    } catch (const Error&) {
      return false;  // the network has a forward pass only
    }
  }

  std::int64_t input_side(const NetShape& shape) const {
    const DataSet& data = world_.data;
    return shape.height == data.seen_height() && shape.width == data.seen_width() ? 0
                                                                                  : shape.height;
  }

  void add_rows(const at::Tensor& p, const std::vector<std::int64_t>& places,
                std::vector<float>& sum) const {
    const auto classes = place(result_.classes);
    const float* row = p.data_ptr<float>();
    for (const std::int64_t at : places) {
      for (std::size_t c = 0; c < classes; ++c) {
        sum[place(at) * classes + c] += *row++;
      }
    }
  }

  void judge_seen(const FoldJudge& judge, const std::vector<std::int64_t>& places) {
    std::vector<bool> left_out(held_.size(), false);
    for (const std::int64_t at : places) {
      left_out[place(at)] = true;
    }
    std::vector<std::int64_t> seen;
    std::vector<std::int64_t> samples;
    for (std::size_t at = 0; at < held_.size(); ++at) {
      if (!left_out[at]) {
        seen.push_back(static_cast<std::int64_t>(at));
        samples.push_back(held_[at].sample);
      }
    }
    add_rows(judge.ask(samples, groups_of(seen)).p, seen, result_.p_in_sample);
  }

  // How many of the places, in their order, are of one client after the other.
  std::vector<std::int64_t> groups_of(const std::vector<std::int64_t>& places) const {
    std::vector<std::int64_t> groups;
    for (std::size_t i = 0; i < places.size(); ++i) {
      if (i == 0 || held_[place(places[i])].client != held_[place(places[i - 1])].client) {
        groups.push_back(0);
      }
      ++groups.back();
    }
    return groups;
  }

  void measure_distances(Crew& crew, const at::Tensor& features,
                         const std::vector<std::int64_t>& places,
                         const std::vector<std::int64_t>& groups) {
    std::vector<std::int64_t> firsts{0};
    for (const std::int64_t group : groups) {
      firsts.push_back(firsts.back() + group);
    }
    std::vector<std::vector<double>> found(groups.size());
    crew.run(
        groups.size(),
        [&](std::size_t /*worker*/, std::size_t item) {
          found[item] = audit::neighbour_distances(features.narrow(0, firsts[item], groups[item]));
        },
        [](std::size_t /*item*/) {});
    std::vector<double> all;
    StatHistogram histogram;
    for (const std::vector<double>& group : found) {
      for (const double distance : group) {
        all.push_back(distance);
        histogram.add(on_log_scale(distance));
      }
    }
    const double middle = audit::middle_distance(histogram);
    for (std::size_t i = 0; i < places.size(); ++i) {
      result_.distance[place(places[i])] += all[i] / middle;
    }
  }

  // A round more, of the clients that the next fold judges: how they would move this model.
  void probe_updates(Crew& crew, const Session& session, const Folds& folds, std::int64_t fold) {
    const std::int64_t next = (fold + 1) % folds.count;
    std::vector<std::size_t> clients;
    for (std::size_t client = 0; client < folds.of_clients.size(); ++client) {
      if (folds.of_clients[client] == next && next != fold) {
        clients.push_back(client);
      }
    }
    const State& start = session.global();
    std::vector<at::Tensor> updates(clients.size());
    crew.run(
        clients.size(),
        [&](std::size_t worker, std::size_t item) {
          Lane& lane = crew.lane(worker);
          const ClientData& data = world_.clients[clients[item]];
          lane.on_stream([&] {
            const TrainOutcome outcome =
                lane.trainer().train(start, {data.samples, data.given}, experiment_.train, {},
                                     {session.experiment().seed, session.rounds(),
                                      static_cast<std::int64_t>(clients[item])});
            updates[item] = audit::thinned_update(start, outcome.state);
          });
        },
        [](std::size_t /*item*/) {});
    const std::vector<audit::UpdateShape> shapes = audit::compare_updates(updates);
    for (std::size_t i = 0; i < clients.size(); ++i) {
      result_.update_cosine[clients[i]] = shapes[i].cosine;
      result_.update_norm[clients[i]] = shapes[i].norm;
    }
  }

  const Experiment& experiment_;
  const World& world_;
  const std::vector<HeldSample>& held_;
  const at::Tensor& images_;
  const JudgeOptions& options_;
  std::vector<std::size_t> starts_;  // of each client in `held_`
  Judgement result_;
};

}  // namespace

std::vector<HeldSample> samples_of(const std::vector<ClientData>& clients) {
  std::vector<HeldSample> held;
  for (std::size_t client = 0; client < clients.size(); ++client) {
    for (std::size_t i = 0; i < clients[client].samples.size(); ++i) {
      held.push_back({static_cast<std::int64_t>(client), clients[client].samples[i],
                      clients[client].given[i]});
    }
  }
  return held;
}

Judgement judge_out_of_sample(const Experiment& experiment, const World& world,
                              const std::vector<HeldSample>& held, const at::Tensor& judged,
                              const JudgeOptions& options, const Registry& registry,
                              const Runtime& runtime, const std::atomic<bool>* stop,
                              const JudgeProgress& progress) {
  Judging judging(experiment, world, held, judged, options);
  const std::int64_t trainings = options.folds * options.repetitions;
  std::int64_t number = 0;
  for (std::int64_t repetition = 0; repetition < options.repetitions; ++repetition) {
    const Folds folds =
        make_folds(world.clients, world.data.classes, options.folds, experiment.seed, repetition);
    for (std::int64_t fold = 0; fold < options.folds; ++fold, ++number) {
      std::int64_t round = 0;
      judging.judge_fold(folds, fold, number, registry, runtime, stop, [&](double agreement) {
        ++round;
        progress(number * experiment.rounds + round, trainings * experiment.rounds, agreement);
      });
    }
  }
  return judging.finish(options.repetitions, options.folds);
}

}  // namespace winnow
