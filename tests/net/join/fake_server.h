// A server in memory that speaks the protocol to one member, and misbehaves where a test wants it.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "winnow/base/sha256.h"
#include "winnow/federation/codec.h"
#include "winnow/net/join/channel.h"
#include "winnow/net/join/hex.h"
#include "winnow/net/join/keep.h"
#include "winnow/run/charter.h"

namespace winnow::member {

// Answers every call at once. Tasks wait in `tasks`; an order stays open until it is sealed.
class FakeServer final : public Channel {
 public:
  explicit FakeServer(const Charter& charter) : charter_(charter.text()) {}

  // Puts a task before the member and returns its order.
  OrderName put_out(std::uint64_t number, std::uint32_t round, const Parcel& parcel,
                    std::uint32_t attempt = 1) {
    v1::Task task;
    v1::OrderId& id = *task.mutable_order();
    id.set_number(number);
    id.set_round(round);
    id.set_attempt(attempt);
    id.set_nonce(std::string(16, static_cast<char>('a' + number)));
    task.set_head(parcel.head);
    for (const PackedModel& model : parcel.models) {
      v1::Model& named = *task.add_models();
      named.set_digest(bytes_of_hex(model.digest));
      named.set_layout(bytes_of_hex(model.layout));
      named.set_bytes(model.values.size());
      shown[named.digest()] = model.values;
    }
    task.set_seconds(600);
    tasks.push_back(task);
    return {number, round, attempt, 0, id.nonce()};
  }

  v1::Assignment assignment() {
    v1::Assignment given;
    given.set_committed_round(committed);
    given.set_attempt(attempt);
    for (const auto& [order, verdict] : settled) {
      v1::Settled& one = *given.add_settled();
      one.set_order(order);
      one.set_verdict(verdict);
    }
    if (refusal.reason() != v1::REASON_NONE) {
      *given.mutable_refusal() = refusal;
    } else if (!tasks.empty()) {
      *given.mutable_task() = tasks.front();
    } else if (finished) {
      given.mutable_finished()->set_model_hash("f00d");
    } else {
      given.mutable_idle();
    }
    return given;
  }

  v1::Welcome join(const v1::Hello& hello) override {
    call("join");
    hellos.push_back(hello);
    v1::Welcome welcome;
    welcome.set_protocol(kSpoken);
    welcome.set_client(client);
    welcome.set_charter(charter_);
    welcome.set_charter_hash(bytes_of_hex(sha256_hex(charter_)));
    if (change_welcome) {
      change_welcome(welcome);
    }
    return welcome;
  }
  void next(const v1::Report& report, Done done) override {
    reports.push_back(report);
    Awaited awaited;
    try {
      call("next");
      awaited.assignment = assignment();
    } catch (...) {
      awaited.failure = std::current_exception();
    }
    done(std::move(awaited));
  }
  void cancel() override {}
  v1::Piece fetch(const v1::PieceRequest& request) override {
    call("fetch");
    v1::Piece piece;
    const auto found = shown.find(request.digest());
    if (found == shown.end()) {
      piece.mutable_refusal()->set_reason(v1::NOT_ASKED);
      return piece;
    }
    const std::size_t start = request.number() * kPiece;
    piece.set_data(start < found->second.size() ? found->second.substr(start, kPiece) : "");
    if (change_piece) {
      change_piece(piece);
    }
    return piece;
  }
  v1::Receipt open(const v1::Opening& opening) override {
    call("open");
    openings.push_back(opening);
    received.assign(static_cast<std::size_t>(opening.models_size()), "");
    v1::Receipt receipt;
    if (sealed.contains(opening.order().number())) {
      receipt.set_verdict(v1::ACCEPTED);
      return receipt;
    }
    for (int model = 0; model < opening.models_size(); ++model) {
      receipt.add_missing()->set_model(static_cast<std::uint32_t>(model));
    }
    return receipt;
  }
  v1::Receipt put(const v1::Portion& portion) override {
    call("put");
    received.at(portion.model()) += portion.data();
    return {};
  }
  v1::Receipt seal(const v1::Sealing& sealing) override {
    call("seal");
    v1::Receipt receipt;
    if (seal_refusal.reason() != v1::REASON_NONE) {
      *receipt.mutable_refusal() = seal_refusal;
      return receipt;
    }
    sealed[sealing.order().number()] = {openings.back().head(), received};
    std::erase_if(tasks, [&](const v1::Task& task) {
      return task.order().number() == sealing.order().number();
    });
    call("sealed");  // what it took down it has, whatever becomes of the receipt
    receipt.set_verdict(v1::ACCEPTED);
    return receipt;
  }
  v1::Receipt leave(const v1::Farewell& /*farewell*/) override { return {}; }

  // How often a call came; the hook may throw.
  void call(const std::string& name) {
    ++calls[name];
    if (hook) {
      hook(name);
    }
  }

  std::map<std::string, int> calls;
  std::function<void(const std::string& name)> hook;
  std::function<void(v1::Welcome&)> change_welcome;
  std::function<void(v1::Piece&)> change_piece;
  std::vector<v1::Hello> hellos;
  std::vector<v1::Report> reports;
  std::vector<v1::Opening> openings;
  std::deque<v1::Task> tasks;
  std::map<std::string, std::string> shown;  // values by raw digest
  std::vector<std::string> received;
  // Head and models' values of accepted replies, by order.
  std::map<std::uint64_t, std::pair<std::string, std::vector<std::string>>> sealed;
  std::vector<std::pair<std::uint64_t, v1::Verdict>> settled;
  v1::Refusal refusal;
  v1::Refusal seal_refusal;
  std::uint32_t committed = 0;
  std::uint32_t attempt = 1;
  std::uint32_t client = 0;
  bool finished = false;

 private:
  std::string charter_;
};

}  // namespace winnow::member
