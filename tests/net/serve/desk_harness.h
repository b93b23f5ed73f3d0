// A desk with a fake clock, and what a member would say to it.
#pragma once

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "run/small_run.h"
#include "winnow/federation/codec.h"
#include "winnow/net/serve/desk.h"

namespace winnow::net {

class FakeClock final : public Clock {
 public:
  std::int64_t now() const override { return time_; }
  std::int64_t wall() const override { return 1'700'000'000'000 + time_; }
  void advance(double seconds) { time_ += static_cast<std::int64_t>(seconds * 1000.0); }

 private:
  std::atomic<std::int64_t> time_{1'000'000};
};

inline const std::string kFederation = "0123456789abcdef0123456789abcdef";
inline const std::string kCharterHash(64, 'c');

inline Identity identity(const std::string& name) {
  return {kFederation, name, "fingerprint of " + name};
}

inline std::string process(char letter) {
  return std::string(kNonceBytes, letter);
}

// Two MiB and a bit: three pieces.
inline LayoutPtr three_pieces() {
  return std::make_shared<const Layout>(std::vector<Slot>{{"w", {600'000}}});
}

inline State filled(const LayoutPtr& layout, float value) {
  return {layout, at::full({layout->total()}, value, at::kFloat)};
}

inline std::vector<Exchange> exchanges_of_test() {
  return {
      {"train",
       {field::round(), field::global_model()},
       "train_done",
       {field::trained_model(), field::samples(), field::number("loss", "its loss").between(0, 10),
        field::numbers("histogram", "its labels", Length::exactly(3, "C"))}},
      {"score",
       {field::round(), field::global_model()},
       "scored",
       {field::number("loss", "its loss").between(0, 10)}}};
}

inline Message trained(const State& model, std::uint32_t samples = 40, double loss = 0.5,
                       std::vector<double> histogram = {1, 2, 3}) {
  return Message("train_done")
      .set("model", model)
      .set("samples", samples)
      .set("loss", loss)
      .set("histogram", std::move(histogram));
}

inline JournalOwner owner_of_test() {
  return {kFederation, "experiment", kCharterHash, "{}", "layout"};
}

// "reason: detail", with "(try again)" where that helps; "accepted" and such otherwise.
inline std::string text_of(const v1::Refusal& refusal) {
  return name_of(refusal.reason()) + ": " + refusal.detail() +
         (refusal.try_again() ? " (try again)" : "");
}
inline std::string text_of(const v1::Receipt& receipt) {
  constexpr std::array<const char*, 4> kVerdicts{"open", "accepted", "refused", "absent"};
  return receipt.has_refusal() ? text_of(receipt.refusal())
                               : kVerdicts.at(static_cast<std::size_t>(receipt.verdict()));
}
inline std::string text_of(const v1::Welcome& welcome) {
  return welcome.has_refusal() ? text_of(welcome.refusal()) : "welcome";
}

inline v1::Hello hello(char letter = 'p', std::uint64_t samples = 40) {
  v1::Hello hello;
  hello.set_protocol_low(1);
  hello.set_protocol_high(1);
  hello.set_version("0.1.0");
  hello.set_charter(raw_of(kCharterHash));
  hello.set_samples(samples);
  hello.set_numerics(1);
  hello.set_process(process(letter));
  return hello;
}

struct DeskHarness {
  explicit DeskHarness(const std::function<void(DeskSetup&)>& change = {}) {
    declare_server_metrics(metrics);
    setup.federation = kFederation;
    setup.charter = "{}";
    setup.charter_hash = kCharterHash;
    setup.exchanges = exchanges_of_test();
    setup.layouts = {layout, layout, layout};
    setup.deadline = 100;
    setup.samples_at_most = 1000;
    setup.log = [this](const std::string&, const std::string& event, const Json&) {
      events.push_back(event);
    };
    if (change) {
      change(setup);
    }
    reopen();
  }

  // As after the death of the process.
  void reopen() {
    desk.reset();
    spool.reset();
    journal.reset();
    journal = std::make_unique<Journal>(
        folder / "journal.sqlite", owner_of_test(),
        setup.open ? std::vector<std::string>() : std::vector<std::string>{"ann", "bob", "cy"});
    spool = std::make_unique<Spool>(folder / "spool");
    desk = std::make_unique<Desk>(setup, *journal, *spool, clock, metrics);
  }

  void join_all() {
    for (const char* name : {"ann", "bob", "cy"}) {
      EXPECT_EQ(text_of(desk->join(identity(name), hello())), "welcome") << name;
    }
  }

  void begin(std::int64_t round = 0) {
    if (!journal->round(round)) {
      journal->put(RoundRow{round, 1, {40, 40, 40}});
    }
    desk->begin(round, journal->round(round)->attempt, {40, 40, 40});
  }

  // Puts a task before the clients; the same question again gives the same orders.
  std::vector<std::int64_t> ask(std::int64_t number, const std::vector<std::int64_t>& clients,
                                float value = 1.0F, const std::string& kind = "train") {
    const State model = filled(layout, value);
    std::vector<Outgoing> orders;
    for (const std::int64_t client : clients) {
      Outgoing outgoing{client, kind, {}};
      outgoing.parcel = pack_task(Message(kind).set("round", std::uint32_t{0}).set("model", model),
                                  setup.exchanges, [](const std::string&) { return true; });
      orders.push_back(std::move(outgoing));
    }
    return desk->put_out(number, orders, {{hash(model), model}});
  }

  // What a poll is answered at once, if it is.
  std::optional<v1::Assignment> poll(const std::string& name, char letter = 'p',
                                     std::uint64_t settled_up_to = 0,
                                     std::uint64_t working_on = 0) {
    auto got = std::make_shared<std::optional<v1::Assignment>>();
    v1::Report report;
    report.set_process(process(letter));
    report.set_settled_up_to(settled_up_to);
    report.set_working_on(working_on);
    desk->next(identity(name), report,
               [got](v1::Assignment assignment) { *got = std::move(assignment); });
    last_poll = got;
    return *got;
  }

  v1::Task task(const std::string& name) {
    const auto assignment = poll(name);
    EXPECT_TRUE(assignment && assignment->has_task());
    return assignment && assignment->has_task() ? assignment->task() : v1::Task();
  }

  Parcel parcel_of_reply(const Message& reply, const std::string& kind = "train") const {
    return pack_reply(reply, kind, setup.exchanges);
  }

  static v1::Opening opening(const v1::OrderId& order, const Parcel& parcel, char letter = 'p') {
    v1::Opening opening;
    *opening.mutable_order() = order;
    opening.set_head(parcel.head);
    for (const PackedModel& packed : parcel.models) {
      v1::Model& model = *opening.add_models();
      model.set_digest(raw_of(packed.digest));
      model.set_layout(raw_of(packed.layout));
      model.set_bytes(packed.values.size());
    }
    opening.set_steps(4);
    opening.set_forward(40);
    opening.set_backward(40);
    opening.set_process(process(letter));
    return opening;
  }

  static v1::Portion portion(const v1::OrderId& order, const std::string& values,
                             std::uint64_t number) {
    v1::Portion portion;
    *portion.mutable_order() = order;
    portion.set_number(number);
    portion.set_data(values.substr(number * kPieceBytes, kPieceBytes));
    portion.set_process(process('p'));
    return portion;
  }

  static v1::Sealing sealing(const v1::OrderId& order) {
    v1::Sealing sealing;
    *sealing.mutable_order() = order;
    sealing.set_process(process('p'));
    return sealing;
  }

  // Everything that a member does to deliver; what the last call said.
  v1::Receipt deliver(const std::string& name, const v1::OrderId& order, const Parcel& parcel) {
    v1::Receipt receipt = desk->open(identity(name), opening(order, parcel));
    if (receipt.has_refusal() || receipt.verdict() != v1::OPEN) {
      return receipt;
    }
    for (const v1::Missing& missing : receipt.missing()) {
      const std::string& values = parcel.models.at(missing.model()).values;
      for (std::uint64_t number = missing.first(); number * kPieceBytes < values.size(); ++number) {
        v1::Portion piece = portion(order, values, number);
        piece.set_model(missing.model());
        v1::Receipt answer = desk->put(identity(name), piece);
        if (answer.has_refusal()) {
          return answer;
        }
      }
    }
    return desk->seal(identity(name), sealing(order));
  }

  TestFolder folder;
  FakeClock clock;
  Metrics metrics;
  LayoutPtr layout = three_pieces();
  DeskSetup setup;
  std::vector<std::string> events;
  std::unique_ptr<Journal> journal;
  std::unique_ptr<Spool> spool;
  std::unique_ptr<Desk> desk;
  std::shared_ptr<std::optional<v1::Assignment>> last_poll;
};

}  // namespace winnow::net
