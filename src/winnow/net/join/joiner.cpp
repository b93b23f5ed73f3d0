#include "winnow/net/join/joiner.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <cstring>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "winnow/base/checked_json.h"
#include "winnow/base/error.h"
#include "winnow/base/text.h"
#include "winnow/net/join/hex.h"
#include "winnow/net/join/offer.h"
#include "winnow/net/join/pulse.h"
#include "winnow/net/join/refusal.h"

namespace winnow::member {
namespace {

constexpr int kTriesOfAReply = 3;

void check_digest(const std::string& digest, const char* what) {
  if (digest.size() != kDigest) {
    refuse_server(fmt::format("sends a {} of {} bytes, expected {}", what, digest.size(), kDigest));
  }
}

OrderName name_of_order(const v1::OrderId& id) {
  if (id.number() == 0 || id.number() > static_cast<std::uint64_t>(CheckedJson::kMost) ||
      id.nonce().size() != kNonce) {
    refuse_server("sends an order without a number or a nonce");
  }
  return {id.number(), id.round(), id.attempt(), id.ask(), id.nonce()};
}

v1::OrderId id_of(const OrderName& order) {
  v1::OrderId id;
  id.set_number(order.number);
  id.set_round(order.round);
  id.set_attempt(order.attempt);
  id.set_ask(order.ask);
  id.set_nonce(order.nonce);
  return id;
}

Fate fate_of(v1::Verdict verdict) {
  switch (verdict) {
    case v1::ACCEPTED:
      return Fate::accepted;
    case v1::REFUSED:
      return Fate::refused;
    case v1::ABSENT:
      return Fate::absent;
    default:
      return Fate::open;
  }
}

}  // namespace

Joiner::Joiner(Parts parts) : parts_(std::move(parts)) {}

void Joiner::say(const std::string& line) const {
  if (parts_.say) {
    parts_.say(printable(line));
  }
}

void Joiner::join() {
  v1::Hello hello;
  hello.set_protocol_low(kSpoken);
  hello.set_protocol_high(kSpoken);
  hello.set_version(parts_.version);
  hello.set_charter(bytes_of_hex(parts_.charter_hash));
  hello.set_samples(static_cast<std::uint64_t>(parts_.site.samples(parts_.client)));
  hello.set_arithmetic(parts_.arithmetic);
  hello.set_fingerprint(parts_.fingerprint);
  hello.set_numerics(kNumerics);
  hello.set_process(parts_.process);
  const v1::Welcome welcome = parts_.channel.join(hello);
  if (welcome.has_refusal()) {
    raise_refusal(welcome.refusal(), "refuses this member");
  }
  if (hex_of(welcome.charter_hash()) != parts_.charter_hash) {
    throw other_charter();
  }
  if (welcome.client() != parts_.client) {
    refuse_server(fmt::format("calls this member client {}, it is client {}", welcome.client(),
                              parts_.client));
  }
}

v1::Report Joiner::report(std::uint64_t working_on) const {
  v1::Report report;
  report.set_working_on(working_on);
  report.set_settled_up_to(parts_.keep.settled_up_to());
  report.set_process(parts_.process);
  return report;
}

Joiner::Then Joiner::take(const v1::Assignment& assignment) {
  if (assignment.has_refusal()) {
    raise_refusal(assignment.refusal(), "has nothing for this member");
  }
  std::vector<std::pair<std::uint64_t, Fate>> settled;
  for (const v1::Settled& each : assignment.settled()) {
    if (each.order() > static_cast<std::uint64_t>(CheckedJson::kMost)) {
      refuse_server(fmt::format("settles an order {}, which cannot be", each.order()));
    }
    settled.emplace_back(each.order(), fate_of(each.verdict()));
  }
  parts_.keep.learn(assignment.committed_round(), assignment.attempt(), settled);
  if (assignment.has_finished()) {
    model_hash_ = printable(assignment.finished().model_hash().substr(0, 64));
    return Then::finished;
  }
  return assignment.has_task() ? work(assignment.task()) : Then::ask;
}

State Joiner::model(const v1::Model& model) {
  check_digest(model.digest(), "digest");
  check_digest(model.layout(), "layout");
  const LayoutPtr& layout = parts_.site.layout_of(parts_.client);
  if (hex_of(model.layout()) != layout->digest()) {
    refuse_server("sends a model with the layout of another network");
  }
  const auto bytes = static_cast<std::uint64_t>(layout->total()) * sizeof(float);
  if (model.bytes() != bytes) {
    refuse_server(fmt::format("sends a model of {} bytes, expected {}", model.bytes(), bytes));
  }
  const std::string digest = hex_of(model.digest());
  if (const auto held = parts_.shelf.find(digest, *layout)) {
    return *held;
  }
  const std::string values = fetch_all(parts_.channel, model.digest(), bytes, "a model");
  State state{layout, at::empty({layout->total()}, at::kFloat)};
  std::memcpy(state.flat.data_ptr<float>(), values.data(), values.size());
  if (hash(state) != digest) {
    throw Unreachable("a model was changed on the way: its digest differs");
  }
  parts_.shelf.put(digest, state);
  return state;
}

Message Joiner::read(const v1::Task& task) {
  if (static_cast<std::size_t>(task.models_size()) > parts_.site.most_models()) {
    refuse_server(fmt::format("sends a task of {} models, expected at most {}", task.models_size(),
                              parts_.site.most_models()));
  }
  Parcel parcel{task.head()};
  std::map<std::string, State> models;
  for (const v1::Model& each : task.models()) {
    State fetched = model(each);
    parcel.models.push_back({hex_of(each.digest()), hex_of(each.layout())});
    models.insert_or_assign(parcel.models.back().digest, std::move(fetched));
  }
  return parts_.site.task_in(parts_.client, parcel, [&](const std::string& digest) {
    const auto found = models.find(digest);
    return found == models.end() ? std::nullopt : std::optional(found->second);
  });
}

Joiner::Then Joiner::work(const v1::Task& task) {
  const OrderName order = name_of_order(task.order());
  if (parts_.keep.answered(order)) {
    deliver(order);
    return Then::ask;
  }
  if (order.number <= parts_.keep.newest()) {
    refuse_server(fmt::format("asks for order {} again, which is settled", order.number));
  }
  if (const auto open = parts_.keep.undecided()) {
    refuse_server(fmt::format("has not said what became of order {}", *open));
  }
  const Message message = read(task);
  std::optional<v1::Assignment> over;
  try {
    Pulse pulse(parts_.channel, report(order.number), parts_.pulse);
    Site::Work done = parts_.site.answer(parts_.client, parts_.keep.memory(), message);
    parts_.keep.add(order, {std::move(done.reply), done.steps, done.passes, done.own_model},
                    done.memory);
    over = pulse.over();
  } catch (const Error& error) {
    // A full disk, say. The order goes unanswered, and what was remembered before still holds.
    say(fmt::format("order {} of round {} is not answered: {}", order.number, order.round + 1,
                    error.what()));
    return Then::pause;
  }
  ++answered_;
  if (over) {
    return take(*over);
  }
  deliver(order);
  return Then::ask;
}

v1::Receipt Joiner::send(const v1::Opening& opening, const Parcel& parcel) {
  v1::Receipt receipt = parts_.channel.open(opening);
  if (receipt.has_refusal() || receipt.verdict() != v1::OPEN) {
    return receipt;
  }
  for (const v1::Missing& missing : receipt.missing()) {
    if (missing.model() >= parcel.models.size()) {
      refuse_server(fmt::format("misses model {} of {}", missing.model(), parcel.models.size()));
    }
    const std::string& values = parcel.models[missing.model()].values;
    const std::uint64_t pieces = (values.size() + kPiece - 1) / kPiece;
    for (std::uint64_t number = missing.first(); number < pieces; ++number) {
      v1::Portion portion;
      *portion.mutable_order() = opening.order();
      portion.set_model(missing.model());
      portion.set_number(number);
      portion.set_data(values.substr(number * kPiece, kPiece));
      portion.set_process(parts_.process);
      v1::Receipt answer = parts_.channel.put(portion);
      if (answer.has_refusal() || answer.verdict() != v1::OPEN) {
        return answer;
      }
    }
  }
  v1::Sealing sealing;
  *sealing.mutable_order() = opening.order();
  sealing.set_process(parts_.process);
  return parts_.channel.seal(sealing);
}

bool Joiner::judged(const OrderName& order, const v1::Receipt& receipt) {
  if (receipt.has_refusal()) {
    const v1::Refusal& refusal = receipt.refusal();
    if (refusal.reason() == v1::NAME_TAKEN) {
      raise_refusal(refusal, "refuses this member");
    }
    if (refusal.try_again()) {
      return false;
    }
    say(fmt::format("the reply to order {} of round {} does not count: {}", order.number,
                    order.round + 1, words_of(refusal)));
    parts_.keep.settle(order.number, Fate::refused);
    return true;
  }
  if (receipt.verdict() == v1::OPEN && receipt.missing_size() > 0) {
    return false;
  }
  parts_.keep.settle(order.number, fate_of(receipt.verdict()));
  return true;
}

void Joiner::deliver(const OrderName& order) {
  const Outgoing outgoing = parts_.keep.outgoing(order);
  v1::Opening opening;
  *opening.mutable_order() = id_of(order);
  opening.set_head(outgoing.reply.head);
  for (const PackedModel& packed : outgoing.reply.models) {
    v1::Model& model = *opening.add_models();
    model.set_digest(bytes_of_hex(packed.digest));
    model.set_layout(bytes_of_hex(packed.layout));
    model.set_bytes(packed.values.size());
  }
  opening.set_steps(static_cast<std::uint64_t>(outgoing.steps));
  opening.set_forward(static_cast<std::uint64_t>(outgoing.passes.forward));
  opening.set_backward(static_cast<std::uint64_t>(outgoing.passes.backward));
  opening.set_own_model(bytes_of_hex(outgoing.own_model));
  opening.set_process(parts_.process);
  for (int time = 0; time < kTriesOfAReply; ++time) {
    if (judged(order, send(opening, outgoing.reply))) {
      return;
    }
  }
  throw Unreachable(fmt::format("the server does not take the reply to order {}", order.number));
}

}  // namespace winnow::member
