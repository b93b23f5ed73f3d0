#include "winnow/engine/local_engine.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <chrono>
#include <numeric>

#include "winnow/base/error.h"

namespace winnow {
namespace {

// Batches evaluated as one piece of work; fixed, so that sums do not depend on the lanes.
constexpr std::int64_t kBatchesPerPiece = 8;

NetShape shape_of(const DataSet& data, std::int64_t resize) {
  return {data.classes, data.channels(), resize > 0 ? resize : data.height(),
          resize > 0 ? resize : data.width()};
}

}  // namespace

LocalEngine::LocalEngine(const DataSet& data, std::vector<ClientData> clients, const NetInfo& net,
                         const TrainOptions& train, const LocalEngineOptions& options,
                         const std::atomic<bool>* stop)
    : train_(train),
      seed_(options.seed),
      clients_(std::move(clients)),
      train_feed_(data.train.images, data.normalisation, options.resize, options.device),
      test_feed_(data.test.images, data.normalisation, options.resize, options.device),
      test_labels_(data.test.labels),
      test_samples_(data.test.labels.size()),
      prototype_(net.make(shape_of(data, options.resize))),
      pool_(static_cast<std::size_t>(options.lanes)) {
  std::iota(test_samples_.begin(), test_samples_.end(), std::int64_t{0});
  for (std::int64_t lane = 0; lane < options.lanes; ++lane) {
    lanes_.push_back(std::make_unique<Lane>(net.make(shape_of(data, options.resize)), train_feed_,
                                            options.augment, stop));
  }
}

void LocalEngine::serve(std::unique_ptr<ClientSide> side, std::vector<Schema> schemas) {
  side_ = std::move(side);
  schemas_ = std::move(schemas);
}

std::int64_t LocalEngine::samples(std::int64_t client) const {
  return static_cast<std::int64_t>(clients_[static_cast<std::size_t>(client)].samples.size());
}

void LocalEngine::ask(const std::vector<Order>& orders, const Fold& fold) {
  struct Job {
    const Order* order = nullptr;
    ClientMemory memory;
    std::optional<Message> reply;
    std::int64_t steps = 0;
  };
  std::vector<Job> jobs;
  for (const std::size_t place : fold_order(orders, *this)) {
    const Order& order = orders[place];
    check(order.task, schemas_);
    const auto pending = pending_.find(order.client);
    const auto known = memories_.find(order.client);
    jobs.push_back({&order,
                    pending != pending_.end()  ? pending->second
                    : known != memories_.end() ? known->second
                                               : ClientMemory{},
                    std::nullopt, 0});
  }
  const auto work = [&](std::size_t worker, std::size_t item) {
    Job& job = jobs[item];
    const std::int64_t client = job.order->client;
    ClientContext context(client, clients_[static_cast<std::size_t>(client)], job.memory,
                          *lanes_[worker], train_, seed_);
    job.reply = side_->handle(job.order->task, context);
    job.steps = context.steps();
  };
  const auto take = [&](std::size_t item) {
    Job& job = jobs[item];
    check(*job.reply, schemas_);
    traffic_.bytes_down += job.order->task.bytes();
    traffic_.bytes_up += job.reply->bytes();
    traffic_.client_steps += job.steps;
    traffic_.participations += job.steps > 0 ? 1 : 0;
    if (!job.memory.empty()) {
      pending_[job.order->client] = std::move(job.memory);
    }
    fold(job.order->client, *job.reply);
    job.reply.reset();
  };
  const auto started = std::chrono::steady_clock::now();
  pool_.run(jobs.size(), work, take);
  traffic_.train_seconds +=
      std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
}

Score LocalEngine::evaluate(const State& model) {
  const auto count = static_cast<std::int64_t>(test_samples_.size());
  const std::int64_t piece = kBatchesPerPiece * train_.eval_batch;
  std::vector<Score> scores(static_cast<std::size_t>((count + piece - 1) / piece));
  const auto work = [&](std::size_t worker, std::size_t item) {
    const std::size_t start = item * static_cast<std::size_t>(piece);
    const std::size_t size =
        std::min(static_cast<std::size_t>(piece), static_cast<std::size_t>(count) - start);
    Lane& lane = *lanes_[worker];
    lane.load(model);
    scores[item] = lane.score(test_feed_,
                              {std::span(test_samples_).subspan(start, size),
                               std::span(test_labels_).subspan(start, size)},
                              train_.eval_batch);
  };
  Score total;
  pool_.run(scores.size(), work, [&](std::size_t item) { total += scores[item]; });
  return total;
}

State LocalEngine::initial_state(std::uint64_t seed) const {
  return prototype_->weights().initial(seed).to(device());
}

void LocalEngine::commit() {
  for (auto& [client, memory] : pending_) {
    memories_[client] = std::move(memory);
  }
  pending_.clear();
}

void LocalEngine::rollback() { pending_.clear(); }

void LocalEngine::restore(std::map<std::int64_t, ClientMemory> memories) {
  pending_.clear();
  memories_ = std::move(memories);
}

}  // namespace winnow
