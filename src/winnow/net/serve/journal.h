// The journal: the server's durable record of its members, of what it has asked and what became of
// every order. What it has taken down survives the process and the machine.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "winnow/federation/codec.h"
#include "winnow/net/serve/database.h"

namespace winnow::net {

// Whose journal it is.
struct JournalOwner {
  std::string federation;
  std::string experiment;    // hash
  std::string charter_hash;  // hexadecimal
  std::string charter;
  std::string layout;
};

enum class MemberStatus {
  enrolled,  // its place is kept, it has never come
  present,
  left,
  revoked,
  done,  // it has heard that the federation is over
};
std::string name_of(MemberStatus status);

struct MemberRow {
  std::int64_t client = 0;
  std::string name;
  std::string fingerprint = {};  // of its certificate
  std::int64_t samples = 0;
  MemberStatus status = MemberStatus::enrolled;
  std::string version = {};
  std::string arithmetic = {};
  std::int64_t seen = 0;  // milliseconds since 1970
  // Of rounds that are settled:
  std::int64_t rounds = 0;    // in which a reply of it counted
  std::int64_t absences = 0;  // orders without
  std::int64_t refusals = 0;
};

// The numbers are those of the wire.
enum class OrderVerdict { open = 0, accepted = 1, refused = 2, absent = 3 };

// An accepted reply; the values of its models lie in the spool.
struct ReplyRow {
  std::string head = {};
  std::vector<PackedModel> models = {};
  std::string digest = {};  // of all that was announced
  std::int64_t bytes = 0;   // that its models have
  std::int64_t steps = 0;
  std::int64_t forward = 0;
  std::int64_t backward = 0;
  std::string own_model = {};  // hexadecimal, or empty
};

struct OrderRow {
  std::int64_t id = 0;
  std::int64_t round = 0;
  std::int64_t attempt = 1;
  std::int64_t ask = 0;
  std::int64_t client = 0;
  std::string exchange = {};  // its task
  std::string nonce = {};
  std::string task_digest = {};
  OrderVerdict verdict = OrderVerdict::open;
  std::string reason = {};  // why it has no reply that counts
  ReplyRow reply = {};
  // The member is told of the verdict until it says that it knows of orders beyond this one.
  std::int64_t horizon = 0;
  bool settled = false;  // its round is done for good
};

struct RoundRow {
  std::int64_t number = 0;
  std::int64_t attempt = 1;
  std::vector<std::int64_t> samples = {};  // by client, as the round counts them
};

struct AskRow {
  std::int64_t round = 0;
  std::int64_t attempt = 1;
  std::int64_t number = 0;
  std::int64_t opened = 0;    // milliseconds since 1970
  std::int64_t deadline = 0;  // the same
};

struct RefusalRow {
  std::int64_t at = 0;
  std::int64_t client = -1;
  std::string name;
  std::int64_t order = 0;
  std::string reason;
  std::string detail;
};

// How far a reply's model was from the one sent.
struct NormRow {
  std::string exchange;
  double value = 0.0;
};

// Everything here is on the disk when a call returns. May be used by several threads; one at a time
// gets in.
class Journal {
 public:
  // `members`: their names by client; none where they enrol by themselves.
  // Throws Error(kind run) that names the file where it is damaged, of another version or belongs
  // to another federation, experiment or charter, and where the members are others.
  Journal(const std::filesystem::path& path, const JournalOwner& owner,
          const std::vector<std::string>& members);

  std::vector<MemberRow> members() const;
  void put(const MemberRow& member);

  // Rounds that are done for good.
  std::int64_t committed() const;
  std::optional<RoundRow> round(std::int64_t number) const;
  void put(const RoundRow& round);

  std::optional<AskRow> ask(std::int64_t round, std::int64_t attempt, std::int64_t number) const;
  // Takes down an ask with its orders and gives them their ids.
  void put(const AskRow& ask, std::vector<OrderRow>& orders);
  // All that are known, by id.
  std::vector<OrderRow> orders() const;

  void accept(const OrderRow& order, const std::optional<NormRow>& norm);
  // What is decided about orders that have no reply that counts, and their horizon.
  void decide(const std::vector<OrderRow>& orders);
  // The attempt does not count: its orders become absent and get the horizon that is returned.
  std::int64_t take_back(std::int64_t round, std::int64_t attempt);
  // The first so many rounds are done for good: their replies are forgotten.
  void settle(std::int64_t rounds);
  // The member knows what became of its orders up to this one.
  void acknowledge(std::int64_t client, std::int64_t order);

  void put(const RefusalRow& refusal);
  // Of earlier rounds than this one.
  std::vector<double> norms(std::int64_t before, const std::string& exchange) const;
  // The models that stay with the members, by client, as of the settled rounds.
  std::map<std::int64_t, std::string> own_models() const;

  // Told how many seconds each durable write took.
  void observe(std::function<void(double seconds)> observer);

 private:
  void prepare(const JournalOwner& owner, const std::vector<std::string>& members);
  void check_owner(const JournalOwner& owner);
  void check_members(const std::vector<std::string>& members);
  // Does something in one transaction.
  void write(const std::function<void()>& change);
  [[noreturn]] void refuse(const std::string& why, const std::string& hint) const;
  std::vector<MemberRow> read_members() const;

  mutable std::mutex mutex_;
  mutable Database database_;
  std::function<void(double)> observer_;
};

}  // namespace winnow::net
