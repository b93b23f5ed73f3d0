#include "winnow/net/join/joiner.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <sys/random.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <map>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "winnow/base/build_info.h"
#include "winnow/base/checked_json.h"
#include "winnow/base/error.h"
#include "winnow/base/sha256.h"
#include "winnow/base/text.h"
#include "winnow/net/join/hex.h"

namespace winnow::member {
namespace {

constexpr int kTriesOfAReply = 3;

[[noreturn]] void refuse_server(const std::string& why) {
  throw Error(ErrorKind::peer, fmt::format("the server {}", why));
}

// What a refusal means, where its own sentence may be missing.
std::string meaning_of(v1::Reason reason) {
  switch (reason) {
    case v1::WRONG_PROTOCOL:
      return "it speaks another protocol";
    case v1::WRONG_NUMERICS:
      return "it computes differently";
    case v1::WRONG_CHARTER:
      return "its charter is different";
    case v1::NOT_ENROLLED:
      return "this member is not enrolled";
    case v1::REVOKED:
      return "the certificate of this member is revoked";
    case v1::WRONG_FEDERATION:
      return "the certificate is of another federation";
    case v1::NAME_TAKEN:
      return "another process takes part under this name";
    case v1::LATE:
      return "the reply came too late";
    case v1::NOT_NOW:
      return "not now";
    default:
      return "no reason is given";
  }
}

std::string hint_of(v1::Reason reason) {
  switch (reason) {
    case v1::WRONG_PROTOCOL:
    case v1::WRONG_NUMERICS:
      return "use the version of Winnow that the server has";
    case v1::WRONG_CHARTER:
      return "start again to read and agree to the new one";
    case v1::NOT_ENROLLED:
      return "ask the operator to add it to [[members]]";
    case v1::REVOKED:
    case v1::WRONG_FEDERATION:
      return "ask the operator for another certificate";
    case v1::NAME_TAKEN:
      return "stop the other one first; the one that joined last continues";
    default:
      return "";
  }
}

std::string words_of(const v1::Refusal& refusal) {
  constexpr std::size_t kLongest = 400;
  return refusal.detail().empty() ? meaning_of(refusal.reason())
                                  : refusal.detail().substr(0, kLongest);
}

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

// All pieces of something whose length is known, one after the other.
std::string fetch_all(Channel& channel, const std::string& digest, std::uint64_t bytes,
                      const std::string& what) {
  std::string all;
  all.reserve(bytes);
  v1::PieceRequest request;
  request.set_digest(digest);
  for (std::uint64_t number = 0; all.size() < bytes; ++number) {
    request.set_number(number);
    const v1::Piece piece = channel.fetch(request);
    if (piece.has_refusal()) {
      raise_refusal(piece.refusal(), fmt::format("does not give {}", what));
    }
    const std::uint64_t expected = std::min<std::uint64_t>(kPiece, bytes - all.size());
    if (piece.data().size() != expected) {
      refuse_server(fmt::format("sends piece {} of {} with {} bytes, expected {}", number, what,
                                piece.data().size(), expected));
    }
    all += piece.data();
  }
  return all;
}

// Signs of life while a member trains. What the server answers to them it says again later, but for
// its last word: it may be gone by then.
class Pulse {
 public:
  Pulse(Channel& channel, v1::Report report, double seconds)
      : channel_(channel),
        report_(std::move(report)),
        seconds_(seconds),
        thread_([this] { beat(); }) {}
  ~Pulse() {
    {
      const std::lock_guard lock(mutex_);
      ending_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  // The answer that it is all over, if it came.
  std::optional<v1::Assignment> over() {
    const std::lock_guard lock(mutex_);
    return over_;
  }

  Pulse(const Pulse&) = delete;
  Pulse& operator=(const Pulse&) = delete;

 private:
  void beat() {
    std::unique_lock lock(mutex_);
    while (!changed_.wait_for(lock, std::chrono::duration<double>(seconds_),
                              [this] { return ending_; })) {
      waiting_ = true;
      lock.unlock();
      channel_.next(report_, [this](const Awaited& awaited) {
        const std::lock_guard guard(mutex_);
        if (awaited.assignment && awaited.assignment->has_finished()) {
          over_ = awaited.assignment;
        }
        waiting_ = false;
        changed_.notify_all();
      });
      lock.lock();
      changed_.wait(lock, [this] { return ending_ || !waiting_; });
      if (waiting_) {
        lock.unlock();
        channel_.cancel();
        lock.lock();
        changed_.wait(lock, [this] { return !waiting_; });
      }
    }
  }

  Channel& channel_;
  v1::Report report_;
  double seconds_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool ending_ = false;
  bool waiting_ = false;
  std::optional<v1::Assignment> over_;
  std::thread thread_;
};

v1::Hello first_words(const std::string& process) {
  v1::Hello hello;
  hello.set_protocol_low(kSpoken);
  hello.set_protocol_high(kSpoken);
  hello.set_version(build_info::kVersion);
  hello.set_numerics(kNumerics);
  hello.set_process(process);
  return hello;
}

Error other_charter() {
  return {ErrorKind::peer, "the charter of the server has changed", hint_of(v1::WRONG_CHARTER)};
}

}  // namespace

std::string random_process() {
  std::string bytes(16, '\0');
  if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
    throw Error(ErrorKind::run, "the system provides no random numbers");
  }
  return bytes;
}

void raise_refusal(const v1::Refusal& refusal, const std::string& about) {
  const std::string text = fmt::format("the server {}: {}", about, words_of(refusal));
  if (refusal.try_again()) {
    throw Unreachable(printable(text));
  }
  throw Error(ErrorKind::peer, text, hint_of(refusal.reason()));
}

Offer ask_offer(Channel& channel, const std::string& process) {
  const v1::Welcome welcome = channel.join(first_words(process));
  if (welcome.has_refusal()) {
    raise_refusal(welcome.refusal(), "refuses this member");
  }
  if (welcome.protocol() != kSpoken) {
    refuse_server(fmt::format("speaks protocol {}, this program {}", welcome.protocol(), kSpoken));
  }
  Offer offer;
  offer.text = welcome.charter();
  if (offer.text.size() > kLongestCharter) {
    refuse_server(fmt::format("sends a charter of {} bytes", offer.text.size()));
  }
  offer.hash = sha256_hex(offer.text);
  if (bytes_of_hex(offer.hash) != welcome.charter_hash()) {
    refuse_server("sends a charter that does not have the hash it announces");
  }
  offer.charter = read_charter(offer.text);
  if (offer.charter.numerics != kNumerics) {
    throw Error(ErrorKind::peer,
                fmt::format("the server computes by rules {}, this program by rules {}",
                            offer.charter.numerics, kNumerics),
                "use the version of Winnow that the server has");
  }
  offer.client = welcome.client();
  if (offer.client >= offer.charter.members) {
    refuse_server(
        fmt::format("calls this member client {} of {}", offer.client, offer.charter.members));
  }
  return offer;
}

std::int64_t accept_offer(Channel& channel, const Offer& offer, const std::string& process) {
  v1::Hello hello = first_words(process);
  hello.set_charter(bytes_of_hex(offer.hash));
  const v1::Welcome welcome = channel.join(hello);
  if (welcome.has_refusal()) {
    raise_refusal(welcome.refusal(), "refuses this member");
  }
  if (welcome.charter_hash() != hello.charter()) {
    throw other_charter();
  }
  if (welcome.client() >= offer.charter.members) {
    refuse_server(
        fmt::format("calls this member client {} of {}", welcome.client(), offer.charter.members));
  }
  return welcome.client();
}

std::string fetch_public_images(Channel& channel, const Charter& charter) {
  if (charter.public_images == 0) {
    return {};
  }
  const Json& data = charter.data;
  const std::int64_t bytes = charter.public_images * data.at("channels").get<std::int64_t>() *
                             data.at("height").get<std::int64_t>() *
                             data.at("width").get<std::int64_t>();
  std::string images = fetch_all(channel, bytes_of_hex(charter.public_digest),
                                 static_cast<std::uint64_t>(bytes), "the public images");
  if (sha256_hex(images) != charter.public_digest) {
    refuse_server("sends other public images than its charter names");
  }
  return images;
}

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
