#include "winnow/mpi/desk.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "winnow/base/error.h"
#include "winnow/engine/crew.h"
#include "winnow/engine/members.h"
#include "winnow/federation/codec.h"
#include "winnow/mpi/protocol.h"

namespace winnow {
namespace {

// 64 digits that stand for the n-th model of a reply: nobody else sees them.
std::string number_as_digest(std::size_t number) {
  return fmt::format("{:064x}", number);
}

}  // namespace

Desk::Desk(Workplace& place, std::vector<DeskOrder> orders, Models models,
           std::optional<SumForm> form)
    : place_(place),
      orders_(std::move(orders)),
      models_(std::move(models)),
      form_(form),
      memories_([&] {
        std::vector<ClientMemory> memories;
        for (const DeskOrder& order : orders_) {
          memories.push_back(place.members().memory(order.client));
        }
        return memories;
      }()),
      replies_(orders_.size()),
      shift_(place.crew(), orders_.size(),
             [this](std::size_t worker, std::size_t item) { work(worker, item); }) {}

Known known_of(const Workplace& place, std::int64_t client, const Desk::Models& models) {
  const LayoutPtr& layout = place.crew().layout_of(client);
  return {.layouts = {layout},
          .samples = std::ssize(place.world().clients[static_cast<std::size_t>(client)].samples),
          .model = [&models](const std::string& digest) -> std::optional<State> {
            const auto found = models.find(digest);
            return found == models.end() ? std::nullopt : std::optional(found->second);
          }};
}

void Desk::work(std::size_t worker, std::size_t item) {
  const DeskOrder& order = orders_[item];
  const Message task = unpack_task(parcel_of(order.parcel), place_.exchanges(),
                                   known_of(place_, order.client, models_));
  Members::Answer answer =
      place_.members().answer(order.client, std::move(memories_[item]), task, worker);
  DeskReply reply;
  reply.task = task.kind();
  // They may be equal, but no two are the same.
  const auto name = [&reply](const State& model) {
    std::string digest = number_as_digest(reply.models.size());
    reply.models[digest] = model;
    return digest;
  };
  reply.parcel = bytes_of(pack_reply(
      answer.reply, task.kind(), place_.exchanges(), [](const std::string&) { return true; },
      name));
  reply.fits = !form_ || std::ranges::all_of(reply.models, [this](const auto& entry) {
    return fits_sum(entry.second, *form_);
  });
  reply.memory = std::move(answer.memory);
  reply.steps = answer.steps;
  reply.loss = answer.loss;
  reply.passes = answer.passes;
  replies_[item] = std::move(reply);
}

std::optional<DeskReply> Desk::next(std::chrono::microseconds wait) {
  const auto item = shift_.next(wait);
  if (!item) {
    return std::nullopt;
  }
  DeskReply reply = std::move(*replies_[*item]);
  replies_[*item].reset();
  steps_ += reply.steps;
  // It stays here: the client's next task must come to this rank.
  const std::int64_t client = orders_[*item].client;
  place_.members().keep(client, std::move(reply.memory));
  reply.remembers = place_.members().remembers(client);
  return reply;
}

void Desk::note() {
  place_.crew().note(steps_, shift_.seconds());
}

std::vector<State> take_models(DeskReply& reply) {
  std::vector<State> models;
  for (const auto& [number, model] : std::exchange(reply.models, {})) {
    models.push_back({model.layout, model.flat.to(at::kCPU).contiguous()});
  }
  return models;
}

void send_reply(Ranks& ranks, const DeskReply& reply, bool with_values) {
  ByteWriter answer;
  answer.put(Outcome::done).text(reply.task).text(reply.parcel);
  answer.put(reply.remembers).put(reply.steps).put(reply.loss).put(reply.passes);
  answer.put(reply.fits).put(with_values);
  std::vector<std::int64_t> sizes;
  std::vector<at::Tensor> values;
  for (const auto& [digest, model] : reply.models) {
    sizes.push_back(model.flat.numel());
    if (with_values) {
      values.push_back(model.flat.to(at::kCPU).contiguous());
    }
  }
  ranks.send(0, Tag::answer, answer.list(sizes).take());
  for (const at::Tensor& tensor : values) {
    ranks.send(0, tensor);
  }
}

DeskReply receive_reply(Ranks& ranks, int from, const std::string& answer, const Workplace& place,
                        std::int64_t client) {
  ByteReader bytes(answer);
  check_answer(bytes, ranks.name(from));
  DeskReply reply;
  reply.task = bytes.text();
  reply.parcel = bytes.text();
  reply.remembers = bytes.get<bool>();
  reply.steps = bytes.get<std::int64_t>();
  reply.loss = bytes.get<TrainingLoss>();
  reply.passes = bytes.get<Passes>();
  reply.fits = bytes.get<bool>();
  reply.here = bytes.get<bool>();
  for (const std::int64_t size : bytes.list<std::int64_t>()) {
    at::Tensor values;
    if (reply.here) {
      values = at::empty({size}, at::kFloat);
      ranks.receive(from, values);
    } else {
      values = at::zeros({1}, at::kFloat).expand({size});
    }
    reply.models[number_as_digest(reply.models.size())] =
        State{place.crew().layout_of(client), values}.to(place.crew().device());
  }
  return reply;
}

}  // namespace winnow
