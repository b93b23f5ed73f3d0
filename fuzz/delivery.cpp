// What members say to a server, in any order: an input is a sequence of steps, each a byte that
// says what happens, one that says to which of three members, and what the step needs. Time is the
// input's too, as are restarts of the server and rounds that are taken back.
#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <tuple>

#include "memory_disk.h"
#include "target.h"
#include "winnow/net/serve/desk.h"

using namespace winnow;
using namespace winnow::net;

namespace {

constexpr std::size_t kMembersOfTarget = 3;
constexpr std::size_t kLarge = 2;  // the member whose model takes two pieces
constexpr int kMostLargePieces = 4;
constexpr std::int64_t kSamples = 40;
constexpr double kDeadline = 100.0;
constexpr int kMostRounds = 20;
constexpr int kMostAsks = 4;  // of a round
constexpr int kMostRestarts = 8;
const std::string kFederationOfTarget = "0123456789abcdef0123456789abcdef";
const std::string kCharterOfTarget(64, 'c');

class StepClock final : public Clock {
 public:
  std::int64_t now() const override { return time_; }
  std::int64_t wall() const override { return 1'700'000'000'000 + time_; }
  void advance(std::int64_t seconds) { time_ += seconds * 1000; }

 private:
  std::int64_t time_ = 1'000'000;
};

// What is the same for every input.
struct Fixed {
  std::vector<LayoutPtr> layouts;
  std::vector<Exchange> exchanges;
  std::array<State, kMembersOfTarget> sent;
  std::array<std::array<Parcel, 2>, kMembersOfTarget> replies;  // to a train task
  Parcel score;                                                 // to a score task
  DeskSetup setup;
  fuzz::Scratch folder;
  Spool spool{folder.path() / "spool"};  // a desk that starts empties it
  Metrics metrics;                       // which nobody reads

  Fixed() {
    const auto small = std::make_shared<const Layout>(std::vector<Slot>{{"w", {4}}, {"b", {1}}});
    const auto large = std::make_shared<const Layout>(
        std::vector<Slot>{{"w", {static_cast<std::int64_t>(kPieceBytes / sizeof(float)) + 3}}});
    layouts = {small, small, large};
    exchanges = {{"train",
                  {field::round(), field::global_model()},
                  "train_done",
                  {field::trained_model(), field::samples(),
                   field::number("loss", "its loss").between(0, 10),
                   field::numbers("histogram", "its labels", Length::exactly(3, "C"))}},
                 {"score",
                  {field::round(), field::global_model()},
                  "scored",
                  {field::number("loss", "its loss").between(0, 10)}}};
    for (std::size_t client = 0; client < kMembersOfTarget; ++client) {
      const LayoutPtr& layout = layouts[client];
      sent[client] = {layout, at::full({layout->total()}, 1.0F, at::kFloat)};
      for (std::size_t value = 0; value < 2; ++value) {
        // A reply may well hold the model that was sent.
        const State model{
            layout, at::full({layout->total()}, 1.0F + static_cast<float>(value), at::kFloat)};
        replies[client][value] =
            pack_reply(Message("train_done")
                           .set("model", model)
                           .set("samples", static_cast<std::uint32_t>(kSamples))
                           .set("loss", 0.5)
                           .set("histogram", std::vector<double>{1, 2, 3}),
                       "train", exchanges);
      }
    }
    score = pack_reply(Message("scored").set("loss", 0.5), "score", exchanges);
    setup.federation = kFederationOfTarget;
    setup.charter = "{}";
    setup.charter_hash = kCharterOfTarget;
    setup.exchanges = exchanges;
    setup.layouts = layouts;
    setup.deadline = kDeadline;
    setup.samples_at_most = 1000;
    setup.strict = true;
    declare_server_metrics(metrics);
  }
};

Fixed& fixed() {
  static Fixed made;
  return made;
}

// The task of a round, whose packing takes longer than its way through the desk.
const Outgoing& task_of(std::int64_t round, const std::string& kind, std::size_t client) {
  static std::map<std::tuple<std::int64_t, std::string, std::size_t>, Outgoing> packed;
  Outgoing& task = packed[{round, kind, client}];
  if (task.exchange.empty()) {
    task = {static_cast<std::int64_t>(client), kind,
            pack_task(Message(kind)
                          .set("round", static_cast<std::uint32_t>(round))
                          .set("model", fixed().sent[client]),
                      fixed().exchanges, [](const std::string&) { return true; })};
  }
  return task;
}

// One journal for all inputs, in memory: making one takes longer than most inputs. Its orders are
// looked at beside it, as little of them as is needed: a whole row takes long to read.
class JournalOfAll {
 public:
  struct Order {
    std::int64_t id = 0;
    std::int64_t round = 0;
    std::int64_t attempt = 0;
    bool accepted = false;
    bool settled = false;
  };

  JournalOfAll() { disk_.keep(); }

  // As it was when it was new.
  void renew() { disk_.put_back(); }
  Journal& journal() { return journal_; }

  // By id.
  std::vector<Order> orders() {
    std::vector<Order> orders;
    Statement row = beside_.statement(
        "SELECT id, round, attempt, verdict = 'accepted', settled FROM orders ORDER BY id");
    while (row.step()) {
      orders.push_back(
          {row.number(0), row.number(1), row.number(2), row.number(3) != 0, row.number(4) != 0});
    }
    return orders;
  }
  bool has_accepted(std::int64_t id) {
    return beside_.statement("SELECT 1 FROM orders WHERE id = ? AND verdict = 'accepted'")
        .bind(id)
        .step();
  }
  bool has_open() {
    return beside_.statement("SELECT 1 FROM orders WHERE verdict = 'open'").step();
  }

 private:
  // SQLite gets its memory at once: half of an input's time was allocations of it.
  static bool set_up_sqlite() {
    constexpr int kPage = 4096 + 512;
    constexpr int kPages = 200;
    static std::vector<std::int64_t> pages(std::size_t{kPage} * kPages / sizeof(std::int64_t));
    return sqlite3_config(SQLITE_CONFIG_URI, 1) == SQLITE_OK &&
           sqlite3_config(SQLITE_CONFIG_SINGLETHREAD) == SQLITE_OK &&
           sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0) == SQLITE_OK &&
           sqlite3_config(SQLITE_CONFIG_PAGECACHE, pages.data(), kPage, kPages) == SQLITE_OK &&
           sqlite3_config(SQLITE_CONFIG_LOOKASIDE, 1200, 400) == SQLITE_OK;
  }

  static fuzz::MemoryDisk& disk() {
    static const bool is_set_up = set_up_sqlite();  // once: it cannot be after the first use
    fuzz::require(is_set_up, "SQLite is set up before it is used");
    return fuzz::MemoryDisk::instance();
  }

  fuzz::MemoryDisk& disk_ = disk();
  Journal journal_{fuzz::MemoryDisk::place(),
                   JournalOwner{kFederationOfTarget, "experiment", kCharterOfTarget, "{}", "x"},
                   {"member-0", "member-1", "member-2"}};
  Database beside_{fuzz::MemoryDisk::place()};
};

Identity identity_of_member(std::size_t client) {
  return {kFederationOfTarget, fmt::format("member-{}", client), "fingerprint"};
}

std::string process_named(char letter) {
  return std::string(kNonceBytes, letter);
}

// The server with its members, and what has been promised to them.
class Play {
 public:
  explicit Play(JournalOfAll& all) : all_(all), journal_(all.journal()) { restart(); }

  void step(fuzz::Input& input) {
    const std::uint8_t what = input.byte();
    const std::size_t client = input.byte() % kMembersOfTarget;
    switch (what % 12) {
      case 0:
        return join(client, input.byte());
      case 1:
        return poll(client, input.byte());
      case 2:
        return open(client, input);
      case 3:
        return raw_open(client, input);
      case 4:
        return put(client, input);
      case 5:
        return raw_put(client, input);
      case 6:
        return seal(client, input.byte());
      case 7:
        clock_.advance(8 * input.byte());
        return desk_->tick();
      case 8:
        return ++restarts_ > kMostRestarts ? void() : restart();
      case 9:
        return fetch(client, input);
      case 10:
        return leave(client, input.byte());
      default:
        return serve(input.byte());
    }
  }

  // Whatever was said: what was promised holds, and a server that starts now finds it all.
  void check() {
    for (const JournalOfAll::Order& order : all_.orders()) {
      fuzz::require(!order.accepted || promised_.contains(order.id),
                    "nothing counts that its member was not told of");
    }
    restart();
    std::set<std::int64_t> counted;
    for (const JournalOfAll::Order& order : all_.orders()) {
      if (order.accepted) {
        counted.insert(order.id);
      }
    }
    for (const std::int64_t id : promised_) {
      fuzz::require(counted.contains(id) || forgotten_.contains(id),
                    "what was promised to count does count");
    }
  }

 private:
  // As after the death of the process: only the journal and the spool are left.
  void restart() {
    desk_.reset();
    desk_ = std::make_unique<Desk>(fixed().setup, journal_, fixed().spool, clock_, fixed().metrics);
    begin();
    for (std::int64_t ask = 0; ask < asks_; ++ask) {
      put_out(ask);
    }
  }

  void begin() {
    std::optional<RoundRow> row = journal_.round(round_);
    if (!row) {
      row = RoundRow{round_, 1, {kSamples, kSamples, kSamples}};
      journal_.put(*row);
    }
    desk_->begin(round_, row->attempt, row->samples);
  }

  void put_out(std::int64_t ask) {
    const std::string kind = ask % 2 == 0 ? "train" : "score";
    std::vector<Outgoing> orders;
    std::map<std::string, State> models;
    for (std::size_t client = 0; client < kMembersOfTarget; ++client) {
      const State& model = fixed().sent[client];
      orders.push_back(task_of(round_, kind, client));
      models.try_emplace(orders.back().parcel.models.at(0).digest, model);
    }
    desk_->put_out(ask, orders, models);
  }

  // As the engine does it: the next thing only when all orders are decided.
  void serve(std::uint8_t choice) {
    clock_.advance(static_cast<std::int64_t>(kDeadline) + 1);
    desk_->tick();
    fuzz::require(!all_.has_open(), "when its time is up an order is decided");
    if (choice % 4 == 0 && asks_ > 0 && round_ < kMostRounds) {
      forget(/*settled=*/true);
      desk_->settle(++round_);
      asks_ = 0;
      begin();
    } else if (choice % 4 == 1 && asks_ > 0) {
      forget(/*settled=*/false);
      desk_->take_back();
      asks_ = 0;
      begin();
    } else if (choice % 4 == 2 && asks_ > 0) {
      const JournalOfAll::Order last = all_.orders().back();
      if (last.accepted && !last.settled) {
        desk_->refuse_by_method(last.id, "not this one");
        forgotten_.insert(last.id);
      }
    } else if (asks_ < kMostAsks) {
      put_out(asks_++);
    }
  }

  // Rows that are settled may be deleted, those that are taken back do not count.
  void forget(bool settled) {
    const std::int64_t attempt = journal_.round(round_)->attempt;
    for (const JournalOfAll::Order& order : all_.orders()) {
      if (order.round == round_ && (settled || order.attempt == attempt)) {
        forgotten_.insert(order.id);
      }
    }
  }

  void join(std::size_t client, std::uint8_t variant) {
    v1::Hello hello;
    hello.set_protocol_low((variant & 1U) != 0 ? 2 : 1);
    hello.set_protocol_high(2);
    hello.set_version(std::string(variant / 16, 'v'));
    hello.set_charter((variant & 2U) != 0 ? "other" : raw_of(kCharterOfTarget));
    hello.set_samples((variant & 4U) != 0 ? 1001 : kSamples);
    hello.set_numerics(1);
    letters_[client] = (variant & 8U) != 0 ? 'q' : 'p';
    hello.set_process(process_named(letters_[client]));
    const v1::Welcome welcome = desk_->join(identity_of_member(client), hello);
    fuzz::require(welcome.has_refusal() || welcome.client() == client, "a member keeps its number");
  }

  void poll(std::size_t client, std::uint8_t settled) {
    v1::Report report;
    report.set_process(process_named(letters_[client]));
    report.set_settled_up_to(settled);
    // It may be answered now, later or, by a restart, never.
    const auto got = polls_[client] = std::make_shared<std::optional<v1::Assignment>>();
    desk_->next(identity_of_member(client), report, [got](v1::Assignment assignment) {
      fuzz::require(!got->has_value(), "a poll is answered once");
      *got = std::move(assignment);
    });
  }

  // The task that the member knows of, or none.
  v1::OrderId order_of(std::size_t client) {
    if (const auto& poll = polls_[client]; poll && *poll && (*poll)->has_task()) {
      tasks_[client] = (*poll)->task();
    }
    return tasks_[client].order();
  }

  const Parcel& reply_of(std::size_t client, std::uint8_t value) {
    const v1::OrderId order = order_of(client);
    return order.ask() % 2 == 1 ? fixed().score : fixed().replies[client][value % 2];
  }

  v1::Opening opening_of(std::size_t client, std::uint8_t value) {
    v1::Opening opening;
    *opening.mutable_order() = order_of(client);
    const Parcel& parcel = reply_of(client, value);
    opening.set_head(parcel.head);
    for (const PackedModel& packed : parcel.models) {
      v1::Model& model = *opening.add_models();
      model.set_digest(raw_of(packed.digest));
      model.set_layout(raw_of(packed.layout));
      model.set_bytes(packed.values.size());
    }
    opening.set_steps(4);
    opening.set_process(process_named(letters_[client]));
    return opening;
  }

  void open(std::size_t client, fuzz::Input& input) {
    const std::uint8_t change = input.byte();
    v1::Opening opening = opening_of(client, change / 16);
    v1::OrderId& order = *opening.mutable_order();
    std::string& head = *opening.mutable_head();
    switch (change % 16) {
      case 1:
        order.set_number(order.number() ^ input.byte());
        break;
      case 2:
        order.set_round(order.round() + input.byte());
        break;
      case 3:
        order.set_attempt(input.byte());
        break;
      case 4:
        order.set_ask(input.byte());
        break;
      case 5:
        order.set_nonce(std::string(input.take(input.byte())));
        break;
      case 6:
        head[input.byte() % head.size()] = static_cast<char>(input.byte());
        break;
      case 7:
        head.resize(input.byte());
        break;
      case 8:
        if (opening.models_size() > 0) {
          *opening.add_models() = opening.models(0);
        }
        break;
      case 9:
        if (opening.models_size() > 0) {
          opening.mutable_models(0)->set_digest(std::string(input.take(input.byte() % 40)));
        }
        break;
      case 10:
        if (opening.models_size() > 0) {
          opening.mutable_models(0)->set_bytes(opening.models(0).bytes() << (input.byte() % 64) >>
                                               (input.byte() % 8));
        }
        break;
      case 11:
        opening.set_forward(std::uint64_t{1} << (input.byte() % 64));
        break;
      case 12:
        opening.set_own_model(std::string(input.take(input.byte() % 40)));
        break;
      case 13:
        opening.set_process(std::string(input.take(16)));
        break;
      default:
        break;
    }
    hear(order, desk_->open(identity_of_member(client), opening));
  }

  void raw_open(std::size_t client, fuzz::Input& input) {
    const std::string_view bytes = input.take(input.byte());
    v1::Opening opening;
    if (opening.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
      hear(opening.order(), desk_->open(identity_of_member(client), opening));
    }
  }

  void put(std::size_t client, fuzz::Input& input) {
    const std::uint8_t change = input.byte();
    const std::uint8_t number = input.byte() % 4;
    const Parcel& parcel = reply_of(client, change / 16);
    if (parcel.models.empty() || (client == kLarge && ++large_pieces_ > kMostLargePieces)) {
      return;
    }
    v1::Portion portion;
    *portion.mutable_order() = order_of(client);
    portion.set_number(number);
    const std::string& values = parcel.models[0].values;
    const std::size_t begin = number * kPieceBytes;
    portion.set_data(begin < values.size() ? values.substr(begin, kPieceBytes) : "");
    portion.set_process(process_named(letters_[client]));
    switch (change % 8) {
      case 1:
        portion.set_number(std::uint64_t{1} << (input.byte() % 64));
        break;
      case 2:
        portion.mutable_data()->resize(portion.data().size() / 2);
        break;
      case 3:
        portion.mutable_data()->append("longer");
        break;
      case 4:
        if (!portion.data().empty()) {
          (*portion.mutable_data())[0] = static_cast<char>(input.byte());
        }
        break;
      case 5:
        portion.set_model(input.byte());
        break;
      case 6:  // infinity
        if (portion.data().size() >= 4) {
          portion.mutable_data()->replace(0, 4, std::string("\x00\x00\x80\x7f", 4));
        }
        break;
      default:
        break;
    }
    hear(portion.order(), desk_->put(identity_of_member(client), portion));
  }

  void raw_put(std::size_t client, fuzz::Input& input) {
    const std::string_view bytes = input.take(input.byte());
    v1::Portion portion;
    if (portion.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
      hear(portion.order(), desk_->put(identity_of_member(client), portion));
    }
  }

  void seal(std::size_t client, std::uint8_t variant) {
    v1::Sealing sealing;
    *sealing.mutable_order() = order_of(client);
    sealing.set_process(process_named(letters_[client]));
    if (variant % 4 == 1) {
      sealing.mutable_order()->set_nonce("other");
    } else if (variant % 4 == 2) {
      *sealing.mutable_order() = order_of((client + 1) % kMembersOfTarget);
    }
    hear(sealing.order(), desk_->seal(identity_of_member(client), sealing));
  }

  void fetch(std::size_t client, fuzz::Input& input) {
    v1::PieceRequest request;
    request.set_number(input.byte());
    const std::uint8_t length = input.byte();
    order_of(client);
    request.set_digest(length == 0 && tasks_[client].models_size() > 0
                           ? tasks_[client].models(0).digest()
                           : std::string(input.take(length % 64)));
    const v1::Piece piece = desk_->fetch(identity_of_member(client), request);
    fuzz::require(piece.data().size() <= kPieceBytes, "a piece is no longer than pieces are");
  }

  void leave(std::size_t client, std::uint8_t variant) {
    v1::Farewell farewell;
    farewell.set_process(variant % 8 == 1 ? process_named(letters_[client]) : "nobody");
    std::ignore = desk_->leave(identity_of_member(client), farewell);
  }

  // A promise is kept: what was said to be accepted is in the journal.
  void hear(const v1::OrderId& id, const v1::Receipt& receipt) {
    if (receipt.has_refusal()) {
      fuzz::require(receipt.verdict() != v1::ACCEPTED, "a refusal accepts nothing");
      return;
    }
    if (receipt.verdict() != v1::ACCEPTED) {
      return;
    }
    const auto number = static_cast<std::int64_t>(id.number());
    fuzz::require(all_.has_accepted(number), "what is accepted stands in the journal");
    promised_.insert(number);
  }

  StepClock clock_;
  JournalOfAll& all_;
  Journal& journal_;
  std::unique_ptr<Desk> desk_;
  std::int64_t round_ = 0;
  std::int64_t asks_ = 0;
  int large_pieces_ = 0;
  int restarts_ = 0;
  std::array<char, kMembersOfTarget> letters_{'p', 'p', 'p'};
  std::array<std::shared_ptr<std::optional<v1::Assignment>>, kMembersOfTarget> polls_;
  std::array<v1::Task, kMembersOfTarget> tasks_;
  std::set<std::int64_t> promised_;   // orders of which it was said that they count
  std::set<std::int64_t> forgotten_;  // which may do so no longer
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    static JournalOfAll journal;
    fuzz::Input input(data, size);
    journal.renew();
    Play play(journal);
    while (!input.rest().empty()) {
      play.step(input);
    }
    play.check();
  } catch (const Error& error) {
    // Nothing that a member says is a fault of the server.
    throw std::logic_error(std::string("the server fails: ") + error.what());
  }
  return 0;
}
