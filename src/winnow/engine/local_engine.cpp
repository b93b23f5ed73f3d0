#include "winnow/engine/local_engine.h"

#include <fmt/format.h>

#include <chrono>
#include <optional>

#include "winnow/base/error.h"
#include "winnow/federation/firewall.h"
#include "winnow/train/gpu/device.h"

namespace winnow {
namespace {

// A message out of a parcel, its models where the lanes work. Both sides count the same payload.
Message arrived(const Message& unpacked, const Message& sent, at::Device device) {
  if (unpacked.bytes() != sent.bytes()) {
    throw Error(ErrorKind::internal,
                fmt::format("message '{}' has {} bytes, and had {} before it was packed",
                            sent.kind(), unpacked.bytes(), sent.bytes()));
  }
  Message message(unpacked.kind());
  for (auto [name, field] : unpacked.fields()) {
    if (auto* model = std::get_if<State>(&field)) {
      *model = model->to(device);
    } else if (auto* models = std::get_if<std::vector<State>>(&field)) {
      for (State& one : *models) {
        one = one.to(device);
      }
    }
    message.set(name, std::move(field));
  }
  return message;
}

}  // namespace

void LocalEngine::serve(std::unique_ptr<ClientSide> side, std::vector<Exchange> exchanges) {
  members_.serve(std::move(side));
  exchanges_ = std::move(exchanges);
}

Known LocalEngine::known_of(std::int64_t client) const {
  return {.layouts = {crew_.layout_of(client)}, .samples = samples(client)};
}

Message LocalEngine::sent(const Order& order) const {
  const Parcel parcel = parcel_of(bytes_of(pack_task(order.task, exchanges_)));
  return arrived(unpack_task(parcel, exchanges_, known_of(order.client)), order.task,
                 crew_.device());
}

Message LocalEngine::sent_back(const Message& reply, const Order& order) const {
  const std::string& task = order.task.kind();
  const Parcel parcel = parcel_of(bytes_of(pack_reply(reply, task, exchanges_)));
  return arrived(unpack_reply(parcel, task, exchanges_, known_of(order.client)), reply,
                 crew_.device());
}

Members::Answer LocalEngine::answer(const Order& order, ClientMemory memory,
                                    std::size_t worker) const {
  if (!wire_) {
    return members_.answer(order.client, std::move(memory), order.task, worker);
  }
  const Message task = sent(order);
  wait_for(crew_.device());  // the lane works on a stream of its own
  Members::Answer answer = members_.answer(order.client, std::move(memory), task, worker);
  answer.reply = sent_back(answer.reply, order);
  wait_for(crew_.device());
  return answer;
}

std::vector<Absence> LocalEngine::ask(const std::vector<Order>& orders, const Fold& fold) {
  if (!members_.served()) {
    throw Error(ErrorKind::internal, "the engine was asked before it was told whom to serve");
  }
  check_orders(orders, size(), exchanges_);
  const std::vector<std::size_t> places = fold_order(orders, *this);
  std::vector<ClientMemory> memories;
  for (const std::size_t place : places) {
    memories.push_back(members_.memory(orders[place].client));
  }
  std::vector<std::optional<Members::Answer>> answers(places.size());
  const auto work = [&](std::size_t worker, std::size_t item) {
    const Order& order = orders[places[item]];
    answers[item] = answer(order, std::move(memories[item]), worker);
  };
  const auto take = [&](std::size_t item) {
    const Order& order = orders[places[item]];
    Members::Answer& answer = *answers[item];
    // In this process a reply that does not fit is a bug of the client side, not bad luck.
    if (const auto refusal = judge(answer.reply, order.task, samples(order.client), exchanges_)) {
      throw Error(ErrorKind::peer, fmt::format("client {}: {}", order.client, refusal->detail));
    }
    traffic_.bytes_down += order.task.bytes();
    traffic_.bytes_up += answer.reply.bytes();
    traffic_.client_steps += answer.steps;
    loss_ += answer.loss;
    traffic_.participations += answer.steps > 0 ? 1 : 0;
    traffic_.passes += answer.passes;
    members_.keep(order.client, std::move(answer.memory));
    fold(order.client, answer.reply);
    keep_models_until_read(answer.reply);
    answers[item].reset();
  };
  const auto started = std::chrono::steady_clock::now();
  const std::int64_t steps_before = traffic_.client_steps;
  crew_.run(places.size(), work, take);  // tasks may hold what this thread has only asked for
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
  traffic_.train_seconds += seconds;
  crew_.note(traffic_.client_steps - steps_before, seconds);
  return {};
}

std::vector<std::int64_t> LocalEngine::commit() {
  loss_ = {};
  return members_.commit();
}

void LocalEngine::rollback() {
  loss_ = {};
  members_.rollback();
}

}  // namespace winnow
