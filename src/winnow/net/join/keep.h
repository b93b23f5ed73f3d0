// What a member keeps on its own disk, so that neither its end nor the server's costs anything: the
// charter it has agreed to, what it remembers, and the replies it owes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "winnow/base/json.h"
#include "winnow/federation/codec.h"
#include "winnow/federation/memory.h"
#include "winnow/train/passes.h"

namespace winnow::member {

// An order, as its number and the rest of what the server has called it.
struct OrderName {
  std::uint64_t number = 0;
  std::uint32_t round = 0;  // from 0
  std::uint32_t attempt = 0;
  std::uint32_t ask = 0;
  std::string nonce = {};  // 16 bytes

  bool operator==(const OrderName&) const = default;
};

// What became of an order, as far as the member knows.
enum class Fate { open, accepted, refused, absent };

// A reply with what goes along with it.
struct Outgoing {
  Parcel reply;
  std::int64_t steps = 0;
  Passes passes = {};
  std::string own_model = {};  // hash() of the model that stays, or empty
};

// A folder with `state.json`, `memory-ORDER.safetensors` and `outbox/ORDER.parcel`. Memory is a
// chain: what is committed, then a link for every order of the round that was answered, each with
// the memory as that order left it. Links count only once the server has said that their round is
// done; a link whose reply does not count goes, with all that were built on it.
//
// Every change writes new files first and then replaces state.json, which alone says what holds; so
// a crash at any instant leaves the state before the change or the one after. Not thread-safe; one
// process at a time (see DirectoryLock).
class Keep {
 public:
  // Called before each step on the disk; for tests, which end a change there by throwing.
  using Watch = std::function<void(const std::string& step)>;

  // Opens the folder, or begins one. Throws Error(kind run) that names the file which is damaged.
  explicit Keep(std::filesystem::path folder, Watch watch = {});

  // The hash of the charter that was agreed to; empty: none yet.
  const std::string& charter() const { return content_.charter; }
  // Begins anew under another charter: nothing that was learned under the one before is kept.
  void agree(const std::string& federation, const std::string& charter);

  // Its number in the federation, told by the server.
  std::optional<std::int64_t> client() const { return content_.client; }
  // Throws Error(kind peer) where it was another one before.
  void become(std::int64_t client);

  std::int64_t committed_round() const { return content_.committed_round; }
  std::uint64_t settled_up_to() const { return content_.settled_up_to; }

  // What the next task begins with. Throws Error(kind run) where a file is damaged.
  ClientMemory memory() const;
  // The reply to an order that was answered, as long as it may have to be sent again.
  bool answered(const OrderName& order) const;
  Outgoing outgoing(const OrderName& order) const;
  // Whether the fate of the newest link is not known yet.
  std::optional<std::uint64_t> undecided() const;
  // The highest number of an order that the member has seen anything of.
  std::uint64_t newest() const;

  // An order was answered: the reply, and the memory as the task left it. On the disk when this
  // returns; throws Error(kind run) with nothing changed where it cannot be written.
  void add(const OrderName& order, const Outgoing& outgoing, const ClientMemory& memory);

  // What the server said of one order when the reply was delivered; it may still change its mind
  // and say so by learn().
  void settle(std::uint64_t order, Fate fate);

  // What every assignment begins with: rounds that are done for good, the attempt at the one under
  // way, and what became of orders. Throws Error(kind peer) where the server has gone back.
  void learn(std::int64_t committed_round, std::uint32_t attempt,
             const std::vector<std::pair<std::uint64_t, Fate>>& settled);

 private:
  // A file by the order that it belongs to, with the SHA-256 of its bytes.
  struct Piece {
    std::uint64_t order = 0;
    std::string hash;
  };
  struct Link {
    OrderName order;
    bool accepted = false;
    std::optional<Piece> memory;  // nothing: the member remembers nothing
    std::string outbox;           // SHA-256 of the parcel
    std::int64_t steps = 0;
    Passes passes = {};
    std::string own_model = {};
  };
  // What state.json says.
  struct Content {
    std::string federation;
    std::string charter;
    std::optional<std::int64_t> client;
    std::int64_t committed_round = 0;
    std::uint64_t settled_up_to = 0;
    std::optional<Piece> memory;
    std::vector<Link> links;
  };
  static Json to_json(const Content& content);
  static Content content_of(const Json& json);

  std::filesystem::path memory_file(std::uint64_t order) const;
  std::filesystem::path outbox_file(std::uint64_t order) const;
  std::string read_checked(const std::filesystem::path& path, const std::string& hash) const;
  void step(const std::string& name) const;
  void load();
  // Makes it what holds, on the disk first.
  void replace_by(Content content);
  void remove_others() const;
  const Link* link_of(std::uint64_t order) const;

  std::filesystem::path folder_;
  Watch watch_;
  Content content_;
};

}  // namespace winnow::member
