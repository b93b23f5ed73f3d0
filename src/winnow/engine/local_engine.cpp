#include "winnow/engine/local_engine.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <chrono>
#include <numeric>
#include <set>

#include "winnow/base/error.h"
#include "winnow/engine/threads.h"

namespace winnow {
namespace {

// Batches evaluated as one piece of work; fixed, so that sums do not depend on the lanes.
constexpr std::int64_t kBatchesPerPiece = 8;

// Numbers of lanes that are compared where none is asked for.
const std::vector<std::int64_t> kNumbersTried{5, 10, 20};

NetShape shape_of(const DataSet& data, std::int64_t resize) {
  return {data.classes, data.channels(), resize > 0 ? resize : data.height(),
          resize > 0 ? resize : data.width()};
}

// A lane's memory, which it may use again once the reply is gone.
void keep_models_until_read(const Message& reply) {
  for (const auto& [name, field] : reply.fields()) {
    if (const State* model = std::get_if<State>(&field)) {
      keep_until_read(model->flat);
    } else if (const auto* models = std::get_if<std::vector<State>>(&field)) {
      for (const State& one : *models) {
        keep_until_read(one.flat);
      }
    }
  }
}

}  // namespace

LocalEngine::Measure::Measure(const Samples& measured, const Normalisation& normalisation,
                              std::int64_t resize, at::Device device)
    : feed(measured.images, normalisation, resize, device),
      labels(measured.labels),
      samples(measured.labels.size()) {
  std::iota(samples.begin(), samples.end(), std::int64_t{0});
}

LocalEngine::LocalEngine(const DataSet& data, std::vector<ClientData> clients, const NetInfo& net,
                         const TrainOptions& train, const LocalEngineOptions& options,
                         const std::atomic<bool>* stop)
    : train_(train),
      precision_(options.precision),
      seed_(options.seed),
      shape_(shape_of(data, options.resize)),
      augment_(options.augment),
      stop_(stop),
      clients_(std::move(clients)),
      train_feed_(data.train.images, data.normalisation, options.resize, options.device),
      test_(data.test, data.normalisation, options.resize, options.device),
      prototype_(net.make(shape_)),
      choice_(options.lanes > 0 ? std::vector{options.lanes} : kNumbersTried),
      pool_(static_cast<std::size_t>(choice_.most())) {
  if (data.validation.size() > 0) {
    validation_.emplace(data.validation, data.normalisation, options.resize, options.device);
  }
  for (std::int64_t lane = 0; lane < choice_.most(); ++lane) {
    lanes_.push_back(make_lane(net));
  }
  if (options.public_images.defined()) {
    public_feed_.emplace(options.public_images, data.normalisation, options.resize, options.device);
  }
}

std::unique_ptr<Lane> LocalEngine::make_lane(const NetInfo& net) const {
  return std::make_unique<Lane>([make = net.make, shape = shape_] { return make(shape); },
                                train_feed_, augment_, stop_, precision_ == Precision::bf16);
}

void LocalEngine::serve(std::unique_ptr<ClientSide> side, std::vector<Schema> schemas,
                        const std::vector<NetInfo>& networks) {
  side_ = std::move(side);
  schemas_ = std::move(schemas);
  networks_.clear();
  for (const NetInfo& net : networks) {
    networks_.push_back({net, net.make(shape_)->weights().layout()});
    networks_.back().lanes.resize(lanes_.size());
  }
}

Lane& LocalEngine::lane_for(std::size_t worker, std::int64_t client) {
  if (networks_.empty()) {
    return *lanes_[worker];
  }
  OtherNetwork& network = networks_[static_cast<std::size_t>(client) % networks_.size()];
  std::unique_ptr<Lane>& lane = network.lanes[worker];
  if (lane == nullptr) {
    lane = make_lane(network.net);
    wait_for(device());  // it works on a stream of its own
  }
  return *lane;
}

const LayoutPtr& LocalEngine::layout_of(std::int64_t client) const {
  return networks_.empty() ? layout()
                           : networks_[static_cast<std::size_t>(client) % networks_.size()].layout;
}

std::int64_t LocalEngine::samples(std::int64_t client) const {
  return static_cast<std::int64_t>(clients_[static_cast<std::size_t>(client)].samples.size());
}

void LocalEngine::check_orders(const std::vector<Order>& orders) const {
  if (side_ == nullptr) {
    throw Error(ErrorKind::internal, "the engine was asked before it was told whom to serve");
  }
  std::set<std::int64_t> asked;
  for (const Order& order : orders) {
    if (order.client < 0 || order.client >= size()) {
      throw Error(ErrorKind::internal, fmt::format("there is no client {}", order.client));
    }
    if (!asked.insert(order.client).second) {
      throw Error(ErrorKind::internal, fmt::format("client {} was given two orders", order.client));
    }
    check_task(order.task, schemas_);
  }
}

const ClientMemory* LocalEngine::memory_of(std::int64_t client) const {
  if (const auto pending = pending_.find(client); pending != pending_.end()) {
    return &pending->second;
  }
  const auto known = memories_.find(client);
  return known != memories_.end() ? &known->second : nullptr;
}

void LocalEngine::ask(const std::vector<Order>& orders, const Fold& fold) {
  struct Job {
    const Order* order = nullptr;
    ClientMemory memory;
    std::optional<Message> reply;
    std::int64_t steps = 0;
  };
  check_orders(orders);
  std::vector<Job> jobs;
  for (const std::size_t place : fold_order(orders, *this)) {
    const ClientMemory* memory = memory_of(orders[place].client);
    jobs.push_back({&orders[place], memory != nullptr ? *memory : ClientMemory{}, std::nullopt, 0});
  }
  const auto work = [&](std::size_t worker, std::size_t item) {
    keep_one_thread_per_operation();
    Job& job = jobs[item];
    const std::int64_t client = job.order->client;
    Lane& lane = lane_for(worker, client);
    ClientContext context(client, clients_[static_cast<std::size_t>(client)], job.memory, lane,
                          train_, seed_, public_feed_ ? &*public_feed_ : nullptr);
    lane.on_stream([&] {
      job.reply = side_->handle(job.order->task, context);
      wait_for(device());  // the reply is read on another stream
    });
    job.steps = context.steps();
  };
  const auto take = [&](std::size_t item) {
    Job& job = jobs[item];
    check_reply(*job.reply, job.order->task, schemas_);
    traffic_.bytes_down += job.order->task.bytes();
    traffic_.bytes_up += job.reply->bytes();
    traffic_.client_steps += job.steps;
    traffic_.participations += job.steps > 0 ? 1 : 0;
    // An emptied memory is a change too.
    if (!job.memory.empty() || memory_of(job.order->client) != nullptr) {
      pending_[job.order->client] = std::move(job.memory);
    }
    fold(job.order->client, *job.reply);
    keep_models_until_read(*job.reply);
    job.reply.reset();
  };
  const auto started = std::chrono::steady_clock::now();
  const std::int64_t steps_before = traffic_.client_steps;
  wait_for(device());  // tasks may hold what this thread has only asked for
  pool_.run(jobs.size(), work, take, static_cast<std::size_t>(choice_.lanes()));
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
  traffic_.train_seconds += seconds;
  choice_.note(traffic_.client_steps - steps_before, seconds);
}

std::vector<Score> LocalEngine::score(const std::vector<State>& models, const Measure& measure,
                                      const std::vector<std::int64_t>& owners) {
  const std::size_t count = measure.samples.size();
  const auto piece = static_cast<std::size_t>(kBatchesPerPiece * train_.eval_batch);
  const std::size_t pieces = (count + piece - 1) / piece;
  std::vector<Score> scores(models.size() * pieces);
  const auto work = [&](std::size_t worker, std::size_t item) {
    keep_one_thread_per_operation();
    const std::size_t start = item % pieces * piece;
    const std::size_t size = std::min(piece, count - start);
    const std::size_t model = item / pieces;
    Lane& lane = owners.empty() ? *lanes_[worker] : lane_for(worker, owners[model]);
    lane.on_stream([&] {
      lane.load(models[model]);
      scores[item] = lane.score(measure.feed,
                                {std::span(measure.samples).subspan(start, size),
                                 std::span(measure.labels).subspan(start, size)},
                                train_.eval_batch);
    });
  };
  std::vector<Score> totals(models.size());
  wait_for(device());
  pool_.run(
      scores.size(), work, [&](std::size_t item) { totals[item / pieces] += scores[item]; },
      static_cast<std::size_t>(choice_.lanes()));
  return totals;
}

Score LocalEngine::evaluate(const State& model) {
  return score({model}, test_).front();
}

std::map<std::int64_t, State> LocalEngine::models_kept_as(const std::string& name) const {
  std::map<std::int64_t, State> models;
  for (std::int64_t client = 0; client < size(); ++client) {
    const ClientMemory* memory = memory_of(client);
    if (memory == nullptr) {
      continue;
    }
    const auto found = memory->archive.tensors.find(name);
    if (found != memory->archive.tensors.end()) {
      models[client] = {layout_of(client), found->second.to(device())};
    }
  }
  return models;
}

Score LocalEngine::evaluate_clients() {
  std::vector<State> models;
  std::vector<std::int64_t> owners;
  for (const auto& [client, model] : own_models()) {
    owners.push_back(client);
    models.push_back(model);
  }
  Score total;
  for (const Score& one : score(models, test_, owners)) {
    total += one;
  }
  return total;
}

Score LocalEngine::evaluate_ensemble() {
  const std::map<std::int64_t, State> models = own_models();
  const std::size_t count = models.empty() ? 0 : test_.samples.size();
  const auto piece = static_cast<std::size_t>(kBatchesPerPiece * train_.eval_batch);
  std::vector<Score> scores((count + piece - 1) / piece);
  const auto work = [&](std::size_t worker, std::size_t item) {
    keep_one_thread_per_operation();
    const std::size_t start = item * piece;
    const std::size_t size = std::min(piece, count - start);
    at::Tensor mean = at::zeros({1}, at::kDouble);
    for (const auto& [client, model] : models) {
      Lane& lane = lane_for(worker, client);
      lane.on_stream([&, state = &model] {
        lane.load(*state);
        const at::Tensor outputs = lane.logits(
            test_.feed, std::span(test_.samples).subspan(start, size), train_.eval_batch);
        mean = mean + outputs.softmax(1).to(at::kDouble).cpu() / static_cast<double>(models.size());
      });
    }
    const at::Tensor labels =
        at::tensor(at::ArrayRef(test_.labels).slice(start, size), at::kLong).unsqueeze(1);
    scores[item] = {
        mean.argmax(1, true).eq(labels).sum().item<std::int64_t>(), static_cast<std::int64_t>(size),
        -mean.gather(1, labels).log().sum().item<double>(), count_among_five(mean, labels)};
  };
  Score total;
  wait_for(device());
  pool_.run(
      scores.size(), work, [&](std::size_t item) { total += scores[item]; },
      static_cast<std::size_t>(choice_.lanes()));
  return total;
}

std::map<std::int64_t, std::vector<std::int64_t>> LocalEngine::right_by_class(
    const std::string& name) {
  const std::map<std::int64_t, State> models = models_kept_as(name);
  std::vector<std::int64_t> clients;
  for (const auto& [client, model] : models) {
    clients.push_back(client);
  }
  std::map<std::int64_t, std::vector<std::int64_t>> right;
  std::vector<std::vector<std::int64_t>> found(clients.size());
  const auto work = [&](std::size_t worker, std::size_t item) {
    keep_one_thread_per_operation();
    Lane& lane = lane_for(worker, clients[item]);
    lane.on_stream([&] {
      lane.load(models.at(clients[item]));
      const at::Tensor said =
          lane.logits(test_.feed, test_.samples, train_.eval_batch).argmax(1).cpu().contiguous();
      std::vector<std::int64_t> counts(static_cast<std::size_t>(shape_.classes));
      for (std::size_t i = 0; i < test_.labels.size(); ++i) {
        counts[static_cast<std::size_t>(test_.labels[i])] +=
            said.data_ptr<std::int64_t>()[i] == test_.labels[i] ? 1 : 0;
      }
      found[item] = std::move(counts);
    });
  };
  wait_for(device());
  pool_.run(
      clients.size(), work,
      [&](std::size_t item) { right[clients[item]] = std::move(found[item]); },
      static_cast<std::size_t>(choice_.lanes()));
  return right;
}

std::vector<Score> LocalEngine::validate(const std::vector<State>& models) {
  if (!validation_) {
    throw Error(ErrorKind::internal, "there is no validation set to measure models on");
  }
  return score(models, *validation_);
}

State LocalEngine::initial_state(std::uint64_t seed) const {
  return prototype_->weights().initial(seed).to(device());
}

std::vector<std::int64_t> LocalEngine::commit() {
  std::vector<std::int64_t> changed;
  for (auto& [client, memory] : pending_) {
    changed.push_back(client);
    if (memory.empty()) {
      memories_.erase(client);
    } else {
      memories_[client] = std::move(memory);
    }
  }
  pending_.clear();
  return changed;
}

void LocalEngine::rollback() {
  pending_.clear();
}

void LocalEngine::check_memory(std::int64_t client, ClientMemory& memory) {
  if (client < 0 || client >= size()) {
    throw Error(ErrorKind::run, fmt::format("it is not one of the {} clients", size()));
  }
  const auto require_samples = [&](const char* what, std::size_t count) {
    if (count != static_cast<std::size_t>(samples(client))) {
      throw Error(ErrorKind::run, fmt::format("it has {} {}, expected one for each of {} samples",
                                              count, what, samples(client)));
    }
  };
  for (const std::optional<Labels>* labels : {&memory.labels, &memory.last_labels}) {
    if (*labels) {
      require_samples("labels", (*labels)->size());
      for (const std::int64_t label : **labels) {
        if (label < 0 || label >= shape_.classes) {
          throw Error(ErrorKind::run, fmt::format("it has the label {}, expected 0 to {}", label,
                                                  shape_.classes - 1));
        }
      }
    }
  }
  if (memory.selected) {
    require_samples("marks of selected samples", memory.selected->size());
  }
  if (const auto model = memory.archive.tensors.find(kOwnModel);
      model != memory.archive.tensors.end()) {
    const at::Tensor& flat = model->second;
    const std::int64_t expected = layout_of(client)->total();
    if (flat.dim() != 1 || flat.numel() != expected || flat.scalar_type() != at::kFloat) {
      throw Error(ErrorKind::run, fmt::format("its model is not {} values in float32", expected));
    }
  }
  require_range(memory.archive.tensor(kSuspected, at::kLong, {samples(client)}), kSuspected, 0, 1);
  if (side_ != nullptr) {
    ClientContext context(client, clients_[static_cast<std::size_t>(client)], memory,
                          lane_for(0, client), train_, seed_,
                          public_feed_ ? &*public_feed_ : nullptr);
    side_->check_memory(context);
  }
}

void LocalEngine::restore(std::map<std::int64_t, ClientMemory> memories) {
  for (auto& [client, memory] : memories) {
    try {
      check_memory(client, memory);
    } catch (const Error& error) {
      throw Error(error.kind(), fmt::format("client {}: {}", client, error.what()), error.hint());
    }
  }
  pending_.clear();
  memories_ = std::move(memories);
}

}  // namespace winnow
