#include "winnow/net/chaos/rogue.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <future>
#include <map>
#include <span>
#include <thread>

#include "winnow/base/build_info.h"
#include "winnow/base/error.h"
#include "winnow/base/sha256.h"
#include "winnow/net/chaos/outcome.h"
#include "winnow/net/join/member_data.h"
#include "winnow/net/join/offer.h"
#include "winnow/net/serve/wire_form.h"
#include "winnow/run/deal.h"
#include "winnow/train/lane.h"

namespace winnow::chaos {
namespace {

constexpr std::chrono::milliseconds kBreath{200};  // before a lost connection is tried again
constexpr double kLongestAbsence = 90.0;           // seconds for which a server may be away

}  // namespace

std::string verdict_of(const v1::Receipt& receipt) {
  if (receipt.has_refusal()) {
    return net::name_of(receipt.refusal().reason());
  }
  switch (receipt.verdict()) {
    case v1::ACCEPTED:
      return "accepted";
    case v1::REFUSED:
      return "refused";
    case v1::ABSENT:
      return "absent";
    default:
      return "open";
  }
}

Rogue::Rogue(const Federation& federation, std::int64_t client, std::uint16_t port)
    : federation_(federation),
      client_(client),
      process_(member::random_process()),
      channel_(member::open_channel(federation.host(), port == 0 ? federation.port() : port,
                                    federation.stage().credentials(member_name(client)),
                                    federation.stage().stop)) {}

Rogue::~Rogue() = default;

const LayoutPtr& Rogue::layout() const {
  return site_->layout_of(client_);
}

v1::Hello Rogue::hello() const {
  v1::Hello hello;
  hello.set_protocol_low(member::kSpoken);
  hello.set_protocol_high(member::kSpoken);
  hello.set_version(build_info::kVersion);
  hello.set_charter(net::raw_of(federation_.charter()));
  hello.set_samples(site_ == nullptr ? 0 : static_cast<std::uint64_t>(site_->samples(client_)));
  hello.set_numerics(kNumerics);
  hello.set_process(process_);
  return hello;
}

void Rogue::join() {
  if (site_ == nullptr) {
    const member::Offer offer = member::ask_offer(*channel_, process_);
    std::map<std::int64_t, Samples> held;
    held[client_] = member::read_member_data(federation_.data_of(client_), offer.charter);
    site_ = std::make_unique<member::Site>(
        offer.charter, federation_.stage().registry, std::move(held), "",
        Runtime{.lanes = 1, .device = "cpu"}, federation_.stage().stop);
  }
  const v1::Welcome welcome = channel_->join(hello());
  if (welcome.has_refusal()) {
    throw Failed("not welcome: " + net::name_of(welcome.refusal().reason()));
  }
}

v1::Assignment Rogue::next() {
  auto promise = std::make_shared<std::promise<member::Awaited>>();
  std::future<member::Awaited> future = promise->get_future();
  v1::Report report;
  report.set_settled_up_to(settled_);
  report.set_process(process_);
  channel_->next(report,
                 [promise](member::Awaited awaited) { promise->set_value(std::move(awaited)); });
  bool cancelled = false;
  while (future.wait_for(std::chrono::milliseconds(50)) != std::future_status::ready) {
    const std::atomic<bool>* stop = federation_.stage().stop;
    if (stop != nullptr && stop->load() && !cancelled) {
      cancelled = true;
      channel_->cancel();
    }
  }
  const member::Awaited awaited = future.get();
  if (cancelled) {
    throw Interrupted();
  }
  if (awaited.failure) {
    std::rethrow_exception(awaited.failure);
  }
  for (const v1::Settled& each : awaited.assignment->settled()) {
    settled_ = std::max(settled_, each.order());
  }
  return *awaited.assignment;
}

v1::Task Rogue::await_task() {
  for (;;) {
    const v1::Assignment assignment = next();
    if (assignment.has_task()) {
      return assignment.task();
    }
    require(!assignment.has_finished(), "the federation was over too early");
    if (assignment.has_refusal()) {
      throw Failed("refused: " + net::name_of(assignment.refusal().reason()));
    }
  }
}

Message Rogue::read(const v1::Task& task) {
  Parcel parcel{task.head()};
  std::map<std::string, State> models;
  for (const v1::Model& each : task.models()) {
    std::string values;
    v1::PieceRequest request;
    request.set_digest(each.digest());
    while (values.size() < each.bytes()) {
      request.set_number(values.size() / member::kPiece);
      const v1::Piece piece = channel_->fetch(request);
      if (piece.has_refusal() || piece.data().empty()) {
        throw member::Unreachable("a model is not given");
      }
      values += piece.data();
    }
    State state{layout(), at::empty({layout()->total()}, at::kFloat)};
    require(values.size() == static_cast<std::size_t>(state.bytes()), "a model of another size");
    std::memcpy(state.flat.data_ptr<float>(), values.data(), values.size());
    const std::string digest = net::hexadecimal_of(each.digest());
    parcel.models.push_back({digest, net::hexadecimal_of(each.layout())});
    models.insert_or_assign(digest, std::move(state));
  }
  return site_->task_in(client_, parcel, [&](const std::string& digest) {
    const auto found = models.find(digest);
    return found == models.end() ? std::nullopt : std::optional(found->second);
  });
}

Reply Rogue::answer(const v1::Task& task) {
  const Message asked = read(task);
  member::Site::Work work = site_->answer(client_, ClientMemory(), asked);
  Reply reply;
  *reply.opening.mutable_order() = task.order();
  reply.opening.set_head(work.reply.head);
  for (const PackedModel& packed : work.reply.models) {
    v1::Model& model = *reply.opening.add_models();
    model.set_digest(net::raw_of(packed.digest));
    model.set_layout(net::raw_of(packed.layout));
    model.set_bytes(packed.values.size());
  }
  reply.opening.set_steps(static_cast<std::uint64_t>(work.steps));
  reply.opening.set_forward(static_cast<std::uint64_t>(work.passes.forward));
  reply.opening.set_backward(static_cast<std::uint64_t>(work.passes.backward));
  reply.opening.set_own_model(net::raw_of(work.own_model));
  reply.opening.set_process(process_);
  reply.parcel = std::move(work.reply);
  return reply;
}

void Rogue::set_values(Reply& reply, std::string values) {
  reply.opening.mutable_models(0)->set_digest(
      net::raw_of(sha256_in_pieces(std::as_bytes(std::span(values)))));
  reply.parcel.models.at(0).values = std::move(values);
}

v1::Receipt Rogue::put(const Reply& reply, std::uint64_t number, const std::string& data) {
  v1::Portion portion;
  *portion.mutable_order() = reply.opening.order();
  portion.set_number(number);
  portion.set_data(data);
  portion.set_process(process_);
  return channel_->put(portion);
}

v1::Receipt Rogue::seal(const Reply& reply) {
  v1::Sealing sealing;
  *sealing.mutable_order() = reply.opening.order();
  sealing.set_process(process_);
  return channel_->seal(sealing);
}

v1::Receipt Rogue::deliver(const Reply& reply) {
  v1::Receipt opened = open(reply);
  if (opened.has_refusal() || opened.verdict() != v1::OPEN) {
    return opened;
  }
  for (const v1::Missing& missing : opened.missing()) {
    const std::string& values = reply.parcel.models.at(missing.model()).values;
    for (std::uint64_t number = missing.first(); number * member::kPiece < values.size();
         ++number) {
      v1::Receipt receipt =
          put(reply, number, values.substr(number * member::kPiece, member::kPiece));
      if (receipt.has_refusal() || receipt.verdict() != v1::OPEN) {
        return receipt;
      }
    }
  }
  return seal(reply);
}

void Rogue::take_part(const Deal& deal) {
  auto heard = std::chrono::steady_clock::now();
  bool joined = false;
  for (;;) {
    try {
      if (!joined) {
        join();
        joined = true;
      }
      const v1::Assignment assignment = next();
      heard = std::chrono::steady_clock::now();
      if (assignment.has_finished()) {
        return;
      }
      if (assignment.has_refusal()) {
        require(assignment.refusal().try_again(),
                "refused: " + net::name_of(assignment.refusal().reason()));
        std::this_thread::sleep_for(kBreath);
      } else if (assignment.has_task() && deal) {
        deal(assignment.task());
      } else if (assignment.has_task()) {
        deliver(answer(assignment.task()));
      }
    } catch (const member::Unreachable& error) {
      const std::chrono::duration<double> away = std::chrono::steady_clock::now() - heard;
      require(away.count() < kLongestAbsence,
              fmt::format("no way to the server: {}", error.what()));
      if (const std::atomic<bool>* stop = federation_.stage().stop;
          stop != nullptr && stop->load()) {
        throw Interrupted();
      }
      joined = false;
      std::this_thread::sleep_for(kBreath);
    }
  }
}

}  // namespace winnow::chaos
