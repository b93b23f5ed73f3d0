#include "winnow/engine/members.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <utility>

#include "winnow/base/error.h"
#include "winnow/train/gpu/device.h"

namespace winnow {
namespace {

void check_count(const char* what, std::size_t count, std::int64_t samples) {
  if (count != static_cast<std::size_t>(samples)) {
    throw Error(ErrorKind::run, fmt::format("it has {} {}, expected one for each of {} samples",
                                            count, what, samples));
  }
}

void check_labels(const std::optional<Labels>& labels, std::int64_t samples, std::int64_t classes) {
  if (!labels) {
    return;
  }
  check_count("labels", labels->size(), samples);
  for (const std::int64_t label : *labels) {
    if (label < 0 || label >= classes) {
      throw Error(ErrorKind::run,
                  fmt::format("it has the label {}, expected 0 to {}", label, classes - 1));
    }
  }
}

// One that diverged is kept, so a client's own model need not be finite.
void check_model(const at::Tensor& flat, const LayoutPtr& layout) {
  if (flat.defined() &&
      (flat.dim() != 1 || flat.numel() != layout->total() || flat.scalar_type() != at::kFloat)) {
    throw Error(ErrorKind::run,
                fmt::format("its model is not {} values in float32", layout->total()));
  }
}

}  // namespace

Members::Members(const DataSet& data, const std::vector<ClientData>& clients,
                 const TrainOptions& train, std::uint64_t seed, std::int64_t resize,
                 const at::Tensor& public_images, Crew& crew)
    : train_(train), seed_(seed), crew_(crew), clients_(clients) {
  std::vector<std::int64_t> holding;
  for (std::int64_t client = 0; client < size(); ++client) {
    if (samples(client) > 0) {
      holding.push_back(client);
    }
  }
  with_samples_ = std::move(holding);
  if (public_images.defined()) {
    public_feed_.emplace(public_images, data.normalisation, resize, crew.device(), data.crop);
  }
}

std::int64_t Members::samples(std::int64_t client) const {
  return static_cast<std::int64_t>(clients_[static_cast<std::size_t>(client)].samples.size());
}

ClientContext Members::context(std::int64_t client, ClientMemory& memory, Lane& lane) const {
  return {client, clients_[static_cast<std::size_t>(client)], memory, lane, train_,
          seed_,  public_feed_ ? &*public_feed_ : nullptr};
}

const ClientMemory* Members::memory_of(std::int64_t client) const {
  if (const auto pending = pending_.find(client); pending != pending_.end()) {
    return &pending->second;
  }
  const auto known = memories_.find(client);
  return known != memories_.end() ? &known->second : nullptr;
}

ClientMemory Members::memory(std::int64_t client) const {
  const ClientMemory* known = memory_of(client);
  return known != nullptr ? *known : ClientMemory{};
}

Members::Answer Members::answer(std::int64_t client, ClientMemory memory, const Message& task,
                                std::size_t worker) const {
  Answer answer{Message(""), std::move(memory)};
  Lane& lane = crew_.lane_for(worker, client);
  ClientContext context = this->context(client, answer.memory, lane);
  const Passes before = lane.passes();
  lane.on_stream([&] {
    answer.reply = side_->handle(task, context);
    wait_for(crew_.device());  // the reply is read on another stream
  });
  answer.steps = context.steps();
  answer.loss = context.loss();
  answer.passes = lane.passes() - before;
  return answer;
}

void Members::keep(std::int64_t client, ClientMemory memory) {
  const ClientMemory* before = memory_of(client);
  if (memory.empty() && before == nullptr) {  // an emptied memory is a change too
    return;
  }
  // Here and not in commit(), which must not fail: the disk may be full.
  std::int64_t in_memory = in_memory_ - (before != nullptr ? bytes_in_memory(*before) : 0);
  keep_within(memory, spill_, in_memory);
  in_memory_ = in_memory;
  pending_[client] = std::move(memory);
}

std::vector<std::int64_t> Members::commit() {
  std::vector<std::int64_t> changed;
  for (auto& [client, memory] : pending_) {
    changed.push_back(client);
    changed_.insert(client);
    traces_.erase(client);
    if (!memory.trace.empty()) {
      traces_[client] = memory.trace;
    }
    memories_.erase(client);
    if (!memory.empty()) {
      memories_[client] = std::move(memory);
    }
  }
  pending_.clear();
  return changed;
}

void Members::rollback() {
  for (const auto& [client, memory] : pending_) {
    const auto known = memories_.find(client);
    in_memory_ += known != memories_.end() ? bytes_in_memory(known->second) : 0;
    in_memory_ -= bytes_in_memory(memory);
  }
  pending_.clear();
}

std::vector<std::int64_t> Members::take_changed() {
  const std::set<std::int64_t> changed = std::exchange(changed_, {});
  return {changed.begin(), changed.end()};
}

ClientMemory Members::committed(std::int64_t client) const {
  const auto known = memories_.find(client);
  return known != memories_.end() ? known->second : ClientMemory{};
}

ModelsByClient Members::models(Kept kept) const {
  const auto model = kept == Kept::own ? &ClientMemory::model : &ClientMemory::last_model;
  ModelsByClient models;
  for (std::int64_t client = 0; client < size(); ++client) {
    const ClientMemory* memory = memory_of(client);
    if (memory != nullptr && (memory->*model).defined()) {
      models[client] = {crew_.layout_of(client), (memory->*model).to(crew_.device())};
    }
  }
  return models;
}

void Members::check(std::int64_t client, ClientMemory& memory) const {
  if (client < 0 || client >= size()) {
    throw Error(ErrorKind::run, fmt::format("it is not one of the {} clients", size()));
  }
  const std::int64_t held = samples(client);
  const Trace& trace = memory.trace;
  check_labels(trace.labels, held, crew_.prototype().shape().classes);
  check_labels(trace.last_labels, held, crew_.prototype().shape().classes);
  if (trace.selected) {
    check_count("marks of selected samples", trace.selected->size(), held);
  }
  if (trace.suspected) {
    check_count("marks of suspected samples", trace.suspected->size(), held);
  }
  check_model(memory.model, crew_.layout_of(client));
  check_model(memory.last_model, crew_.layout_of(client));
  if (memory.last_model.defined() && !memory.last_model.isfinite().all().item<bool>()) {
    throw Error(ErrorKind::run, "the last model it sent is not finite");
  }
  if (side_ != nullptr) {
    ClientContext context = this->context(client, memory, crew_.lane_for(0, client));
    side_->check_memory(context);
  }
}

void Members::restore(std::map<std::int64_t, ClientMemory> memories) {
  Traces traces;
  std::int64_t in_memory = 0;
  for (auto& [client, memory] : memories) {
    try {
      check(client, memory);
      keep_within(memory, spill_, in_memory);
      drop_pages(memory);
    } catch (const Error& error) {
      throw Error(error.kind(), fmt::format("client {}: {}", client, error.what()), error.hint());
    }
    if (!memory.trace.empty()) {
      traces[client] = memory.trace;
    }
  }
  pending_.clear();
  memories_ = std::move(memories);
  in_memory_ = in_memory;
  changed_.clear();
  for (const auto& [client, memory] : memories_) {
    changed_.insert(changed_.end(), client);
  }
  traces_ = std::move(traces);
}

}  // namespace winnow
