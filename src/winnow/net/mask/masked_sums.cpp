#include "winnow/net/mask/masked_sums.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "winnow/base/error.h"
#include "winnow/federation/fixed_sum.h"
#include "winnow/net/mask/letters.h"
#include "winnow/net/mask/secrets.h"
#include "winnow/net/mask/shamir.h"

namespace winnow::mask {
namespace {

using Clients = std::set<std::int64_t>;

Message session_task(const std::string& kind, const std::string& session) {
  return Message(kind).set(kSession, numbers_of(session));
}

// One sum on its way through the four asks.
class Summing {
 public:
  Summing(Fleet& fleet, const std::vector<FieldRule>& rules, const Fleet::Hear& hear,
          const MaskTerms& terms, const std::string& session)
      : fleet_(fleet), rules_(rules), hear_(hear), terms_(terms), session_(session) {}

  Sums run(const std::vector<Order>& orders) {
    gather_keys(orders);
    gather_shares();
    gather_words(orders);
    if (!added_.empty()) {
      open_masks();
      for (const auto& [name, field] : fields_) {
        sums_.means.emplace(name, mean_of(field));
      }
    }
    sums_.added.assign(added_.begin(), added_.end());
    std::ranges::sort(sums_.absent, {}, &Absence::client);
    return std::move(sums_);
  }

 private:
  // A model that is summed.
  struct Field {
    LayoutPtr layout;
    std::vector<std::uint64_t> words;
    PartWeights weights;
    at::Device device = at::kCPU;
  };

  void require(std::size_t members, const char* what) const {
    if (static_cast<std::int64_t>(members) < needed_) {
      throw MasksRemain(fmt::format("{} of {} members {}, needed are {}", members, roster_.size(),
                                    what, needed_));
    }
  }

  void note_absent(const std::vector<Absence>& absent) {
    sums_.absent.insert(sums_.absent.end(), absent.begin(), absent.end());
  }

  void gather_keys(const std::vector<Order>& orders) {
    if (std::ssize(orders) < kFewestMasked || std::ssize(orders) > kMostMasked) {
      throw Error(ErrorKind::run,
                  fmt::format("a sum of {} members under masks: expected {} to {}", orders.size(),
                              kFewestMasked, kMostMasked),
                  "change federation.fraction, or serve without secure_sums");
    }
    std::vector<Order> asked;
    for (const Order& order : orders) {
      asked.push_back({order.client, session_task(kKeysTask, session_)});
    }
    std::set<std::string> names;
    note_absent(fleet_.ask(asked, [&](std::int64_t client, const Message& reply) {
      MaskOffer offer = MaskOffer::read(bytes_in(reply.get<std::vector<float>>(kLetter)));
      if (!names.insert(check_offer(terms_, session_, client, offer)).second) {
        throw Error(ErrorKind::peer, "another client has the certificate already");
      }
      roster_.emplace(client, std::move(offer));
    }));
    needed_ = std::max(threshold_of(std::ssize(roster_)), kFewestMasked);
    require(roster_.size(), "have sent keys");
  }

  void gather_shares() {
    const Message task =
        session_task(kSharesTask, session_).set(kLetter, numbers_of(letter_of(roster_)));
    std::vector<Order> asked;
    for (const auto& [client, offer] : roster_) {
      asked.push_back({client, task});
    }
    note_absent(fleet_.ask(asked, [&](std::int64_t client, const Message& reply) {
      const std::string bytes = bytes_in(reply.get<std::vector<float>>(kLetter));
      LetterReader reader(bytes, "the shares of a member");
      std::map<std::int64_t, std::string> sealed;
      for (const auto& [other, offer] : roster_) {
        if (other != client) {
          sealed.emplace(other, reader.take(kSealedShare));
        }
      }
      reader.end();
      sealed_.emplace(client, std::move(sealed));
    }));
    require(sealed_.size(), "have shared their keys");
  }

  // What the others have sealed for a member.
  std::string letters_for(std::int64_t client) const {
    LetterWriter writer;
    for (const auto& [from, sealed] : sealed_) {
      if (from != client) {
        writer.put(static_cast<std::uint32_t>(from));
        writer.put(sealed.at(client));
      }
    }
    return writer.bytes();
  }

  void gather_words(const std::vector<Order>& orders) {
    std::vector<Order> asked;
    for (const Order& order : orders) {
      if (sealed_.contains(order.client)) {
        asked.push_back({order.client, order.task.renamed(masked_kind(order.task.kind()))});
        asked.back()
            .task.set(kSession, numbers_of(session_))
            .set(kLetter, numbers_of(letters_for(order.client)));
      }
    }
    std::size_t answered = 0;
    note_absent(fleet_.ask(asked, [&](std::int64_t client, const Message& reply) {
      ++answered;
      const Message numbers = numbers_in(reply);
      if (reply.get<std::uint8_t>(kFits) == 0 || !hear_(client, numbers)) {
        sums_.rejected.push_back(client);
        return;
      }
      add_masked(reply, numbers);
      added_.insert(client);
    }));
    require(answered, "have sent words");
    if (!added_.empty() && std::ssize(added_) < needed_) {
      throw Error(ErrorKind::run,
                  fmt::format("the replies of {} members count, and a sum under masks needs {}",
                              added_.size(), needed_),
                  "the training diverged: lower train.lr");
    }
  }

  Message numbers_in(const Message& reply) const {
    Message numbers(reply.kind());
    for (const FieldRule& rule : rules_) {
      if (!rule.sum) {
        numbers.set(rule.name, field_in(reply, rule.name));
      }
    }
    return numbers;
  }

  void add_masked(const Message& reply, const Message& numbers) {
    for (const FieldRule& rule : rules_) {
      if (!rule.sum) {
        continue;
      }
      const Halves halves{reply.get<State>(rule.name + "_low"),
                          reply.get<State>(rule.name + "_high")};
      const std::vector<std::uint64_t> words = words_in(halves);
      Field& field = fields_[rule.name];
      if (field.words.empty()) {
        field.layout = halves.low.layout;
        field.words.resize(words.size());
      }
      if (words.size() != field.words.size()) {
        throw Error(ErrorKind::peer, "models of different layouts cannot be averaged");
      }
      for (std::size_t i = 0; i < words.size(); ++i) {
        field.words[i] += words[i];
      }
      field.device = halves.low.flat.device();
      field.weights += part_weights(*rule.sum, numbers.get<std::uint32_t>("samples"));
    }
  }

  void open_masks() {
    LetterWriter arrived;
    for (const std::int64_t client : added_) {
      arrived.put(static_cast<std::uint32_t>(client));
    }
    const Message task =
        session_task(kOpenTask, session_).set(kLetter, numbers_of(arrived.bytes()));
    std::vector<Order> asked;
    for (const std::int64_t client : added_) {
      asked.push_back({client, task});
    }
    // Whose words are in the sum is in it, whether or not it answers this.
    std::map<std::int64_t, std::map<std::uint16_t, std::string>> shares;
    std::size_t opened = 0;
    std::ignore = fleet_.ask(asked, [&](std::int64_t client, const Message& reply) {
      const std::string bytes = bytes_in(reply.get<std::vector<float>>(kLetter));
      LetterReader reader(bytes, "the opened shares of a member");
      std::map<std::int64_t, std::string> own;
      for (const auto& [other, sealed] : sealed_) {
        own.emplace(other, reader.take(kKeyBytes));
      }
      reader.end();
      if (static_cast<std::int64_t>(opened) < needed_) {  // no more are needed
        ++opened;
        for (auto& [other, share] : own) {
          shares[other].emplace(place_of(client), std::move(share));
        }
      }
    });
    require(opened, "have opened masks");
    for (const auto& [client, of_client] : shares) {
      const std::string secret = join_secret(of_client);
      if (added_.contains(client)) {
        cancel(derived(secret, own_purpose(session_, client)), /*subtract=*/true);
      } else {
        cancel_pairs(client, secret);
      }
    }
  }

  // From 1 on, in the order of the roster.
  std::uint16_t place_of(std::int64_t client) const {
    return static_cast<std::uint16_t>(1 + std::distance(roster_.begin(), roster_.find(client)));
  }

  void cancel(const std::string& key, bool subtract) {
    MaskStream stream(key);
    for (const FieldRule& rule : rules_) {
      if (rule.sum) {
        std::vector<std::uint64_t>& words = fields_.at(rule.name).words;
        subtract ? stream.take_from(words) : stream.add_to(words);
      }
    }
  }

  // What those whose words arrived have in common with one whose words did not.
  void cancel_pairs(std::int64_t client, const std::string& secret) {
    if (known_part(secret) != roster_.at(client).mask) {
      throw MasksRemain(fmt::format("the shares of client {} do not give its key", client));
    }
    for (const std::int64_t other : added_) {
      const std::string key =
          derived(agree(secret, roster_.at(other).mask), pair_purpose(session_, client, other));
      cancel(key, /*subtract=*/other < client);
    }
  }

  static State mean_of(const Field& field) {
    FixedSum sum;
    sum.add(field.layout, field.words, field.weights);
    if (!sum.plausible()) {
      throw MasksRemain("the masks do not cancel: a member did not keep to the protocol");
    }
    return sum.mean().to(field.device);
  }

  Fleet& fleet_;
  const std::vector<FieldRule>& rules_;
  const Fleet::Hear& hear_;
  const MaskTerms& terms_;
  const std::string& session_;
  std::int64_t needed_ = 0;
  Roster roster_;                                                       // who has told keys
  std::map<std::int64_t, std::map<std::int64_t, std::string>> sealed_;  // by sender, by receiver
  Clients added_;  // whose words are in the sum
  std::map<std::string, Field> fields_;
  Sums sums_;
};

}  // namespace

Sums masked_sums(Fleet& fleet, const std::vector<Order>& orders,
                 const std::vector<FieldRule>& rules, const Fleet::Hear& hear,
                 const MaskTerms& terms, const std::string& session) {
  return Summing(fleet, rules, hear, terms, session).run(orders);
}

}  // namespace winnow::mask
