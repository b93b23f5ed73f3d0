// The desk: what the server says to its members, and the firewall that every reply has to pass. A
// plain class without a network, so that it can be tested call by call.
#pragma once

#include <ATen/core/Tensor.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "winnow/base/json.h"
#include "winnow/federation/codec.h"
#include "winnow/federation/exchange.h"
#include "winnow/net/pki/identity.h"
#include "winnow/net/serve/clock.h"
#include "winnow/net/serve/fail_point.h"
#include "winnow/net/serve/journal.h"
#include "winnow/net/serve/metrics.h"
#include "winnow/net/serve/spool.h"
#include "winnow/net/serve/wire_form.h"

namespace winnow::net {

// What the desk knows from the start.
struct DeskSetup {
  std::string federation;  // id of the authority
  std::string charter;
  std::string charter_hash;  // hexadecimal
  std::uint32_t numerics = 1;
  bool open = false;  // whether members enrol by themselves
  double deadline = 600.0;
  double patience = 75.0;
  bool strict = false;
  double norm_band = 0.0;
  std::int64_t samples_at_most = 0;  // 0: any number
  std::vector<Exchange> exchanges = {};
  std::vector<LayoutPtr> layouts = {};  // of every client's network
  at::Tensor public_images = {};        // bytes on the CPU; undefined: none
  std::string public_digest = {};
  // Whether a certificate counts no more; none: all do.
  std::function<bool(const std::string& fingerprint)> revoked = {};
  // Told what happens, for the log of the network: "join", "refusal", ...
  std::function<void(const std::string& level, const std::string& event, const Json& fields)> log =
      {};
  FailPoint fail = {};
};

// A task on its way out.
struct Outgoing {
  std::int64_t client = 0;
  std::string exchange;  // the task's kind
  Parcel parcel;         // without values: they are fetched by digest
};

struct MemberView {
  MemberRow row;
  std::string status;        // also "working" and "away"
  std::int64_t expires = 0;  // its certificate, in seconds since 1970; 0: not known
};

// Every call stands alone. All but next() answer at once; each is short but for the writing of
// pieces, and may come from any thread. What the peer says of lengths is never believed: the
// layouts and the exchanges have them.
class Desk {
 public:
  using Answer = std::function<void(v1::Assignment assignment)>;

  // All must outlive it. Replies that the journal counts on are looked at in the spool: throws
  // Error(kind run) where they are damaged.
  Desk(DeskSetup setup, Journal& journal, Spool& spool, const Clock& clock, Metrics& metrics);
  ~Desk();
  Desk(const Desk&) = delete;
  Desk& operator=(const Desk&) = delete;

  // The members' side. -----------------------------------------------------------------------

  // `expires`: their certificate.
  v1::Welcome join(const Identity& who, const v1::Hello& hello, std::int64_t expires = 0);
  // Calls `answer` once: now, when there is something to do, after 25 seconds, or when the server
  // stops. It must not call the desk.
  void next(const Identity& who, const v1::Report& report, Answer answer);
  v1::Piece fetch(const Identity& who, const v1::PieceRequest& request);
  v1::Receipt open(const Identity& who, const v1::Opening& opening);
  v1::Receipt put(const Identity& who, const v1::Portion& portion);
  v1::Receipt seal(const Identity& who, const v1::Sealing& sealing);
  v1::Receipt leave(const Identity& who, const v1::Farewell& farewell);

  // The server's side. -----------------------------------------------------------------------

  // Lets time pass: ends waits and asks whose time is up. To be called a few times a second.
  void tick();
  // Answers all waits, and every later one at once.
  void shut();
  // The federation is done; everybody who asks is told.
  void finish(const std::string& model_hash);
  // Whether everybody who takes part has been told.
  bool all_told() const;

  std::vector<MemberView> members() const;
  // How many have joined and not left.
  std::int64_t joined() const;
  // Waits until so many have; in the middle of a federation that is said. Throws Interrupted when
  // `stop` is set.
  void await_members(std::int64_t count, const std::atomic<bool>* stop);
  // How many samples each client has, also one that has left: it is drawn as before and absent,
  // which a simulation can play again. 0 for those that have never come.
  std::vector<std::int64_t> samples() const;

  // Orders that follow belong to this attempt at this round.
  void begin(std::int64_t round, std::int64_t attempt, std::vector<std::int64_t> samples);
  // Puts tasks before the members and returns the numbers of their orders. Where the journal has
  // this ask already it goes on as it was: throws Error(kind internal) where the tasks are others.
  // `models`: all that the parcels refer to, by digest.
  std::vector<std::int64_t> put_out(std::int64_t ask, const std::vector<Outgoing>& orders,
                                    const std::map<std::string, State>& models);
  // Waits until the order is decided. Throws Interrupted when `stop` is set.
  OrderRow await(std::int64_t order, const std::atomic<bool>* stop);
  // The method wants nothing of an accepted reply.
  void refuse_by_method(std::int64_t order, const std::string& why);
  // A model of an accepted reply.
  State model(const std::string& digest, const LayoutPtr& layout) const;
  // All replies of the round are in the model: what was sent out for them is let go of.
  void folded();
  // The round is played again from its start, as another attempt. `why`: for the log.
  void take_back(const std::string& why = {});
  // The first so many rounds are on the disk. Throws Error(kind run) where the journal cannot be of
  // the run that has so many.
  void settle(std::int64_t rounds);

 private:
  struct Refused;
  struct Part;
  struct Delivery;
  struct Poll;
  struct Member;
  struct Live;
  class Visit;
  class Unlocked;
  class Busy;

  // Who calls, if it is somebody: nothing where nobody has that name.
  Member* known(const Identity& who);
  Member& admit(const Identity& who);
  // Throws where no place is free for somebody new.
  void require_place(const Identity& who) const;
  Member& enrol(const Identity& who);
  void check_process(Member& member, const std::string& process);
  void check_hello(const Identity& who, const v1::Hello& hello, v1::Welcome& welcome);
  void check_samples(std::uint64_t samples) const;
  void welcome_member(Member& member, const Identity& who, const v1::Hello& hello,
                      std::int64_t expires);
  template <typename Body>
  v1::Receipt receipt_for(const Identity& who, const v1::OrderId& id, const std::string& process,
                          const Body& body);
  Refused broken(const Error& error);
  void note(const Member* member, const Identity& who, const Refused& refused, std::uint64_t order);
  void log(const std::string& level, const std::string& event, const Json& fields) const;
  void fail(std::string_view point) const;

  bool has_something(const Member& member, const Poll& poll) const;
  v1::Assignment assignment_for(const Member& member, const Poll& poll) const;
  void answer_poll(Member& member);
  void refuse_poll(Member& member, const Refused& refused);
  void acknowledge(const Member& member, std::uint64_t settled_up_to);

  Live& order_of(const Member& member, const v1::OrderId& id);
  void require_open(const Live& order) const;
  Delivery& delivery_of(Member& member, const Live& order) const;
  // Everything that can be said of a reply before a value of its models is here. Returns the digest
  // of the first model field.
  std::string inspect(const Live& order, const v1::Opening& opening) const;
  void list_missing(const Delivery& delivery, v1::Receipt& receipt) const;
  bool holds(const std::string& digest, std::int64_t bytes) const;
  void store(Delivery& delivery) const;
  std::optional<double> distance(const Delivery& delivery, const std::string& sent,
                                 const LayoutPtr& layout) const;
  void check_norm(const Live& order, double distance) const;
  void accept(Member& member, Live& order, const Delivery& delivery,
              const std::optional<double>& norm);
  void decide(const std::vector<std::int64_t>& orders, OrderVerdict verdict,
              const std::string& reason);
  void expire();
  void leave_orders(Member& member, const std::string& why);
  std::set<std::string> wanted() const;

  DeskSetup setup_;
  Journal& journal_;
  Spool& spool_;
  const Clock& clock_;
  Metrics& metrics_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::unique_ptr<Member>> members_;    // by name
  std::map<std::int64_t, std::unique_ptr<Live>> orders_;      // by number
  std::map<std::int64_t, std::set<std::int64_t>> orders_of_;  // by client
  std::map<std::string, State> shown_;                        // models that may be fetched
  std::vector<std::pair<Answer, v1::Assignment>> ready_;      // to be called without the lock
  std::int64_t committed_ = 0;
  std::int64_t round_ = 0;
  std::int64_t attempt_ = 1;
  std::vector<std::int64_t> samples_;
  std::int64_t ask_ = -1;       // under way; -1: none
  std::int64_t deadline_ = 0;   // of it
  std::int64_t strangers_ = 0;  // refusals of those who are no members
  std::optional<std::string> finished_;
  bool shut_ = false;
  std::exception_ptr failure_;  // the journal cannot be written
};

}  // namespace winnow::net
