// One member of a federation at work: what it says to the server, and what it does with what it is
// told.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "winnow/net/join/channel.h"
#include "winnow/net/join/keep.h"
#include "winnow/net/join/shelf.h"
#include "winnow/net/join/site.h"

namespace winnow::member {

// Not thread-safe: one thread at a time deals with a member, but it need not be the same one. What
// a server sends is only ever a task of the exchanges, numbers and models of the known layouts.
class Joiner {
 public:
  struct Parts {
    std::string name;  // for messages
    Channel& channel;
    Site& site;
    Shelf& shelf;
    Keep& keep;
    std::int64_t client = 0;
    std::string charter_hash;
    std::string process;
    std::string version;
    std::string arithmetic;
    std::string fingerprint;
    // Seconds after which a member that trains tells the server that it is still there.
    double pulse = 15.0;
    // A line for the person who runs it.
    std::function<void(const std::string& line)> say = {};
  };
  explicit Joiner(Parts parts);

  const std::string& name() const { return parts_.name; }
  Channel& channel() { return parts_.channel; }

  // Says hello, first and after every loss of the connection. Throws Unreachable, and Error(kind
  // peer) where the server does not want this member.
  void join();
  // What to ask for the next assignment with.
  v1::Report report(std::uint64_t working_on = 0) const;

  enum class Then {
    ask,       // for the next assignment
    pause,     // a moment before that: something failed here
    finished,  // the federation is done
  };
  // Does what the server says, a training perhaps. Throws Unreachable where the connection is lost
  // on the way: after join() and another assignment nothing is done twice. Throws Interrupted, and
  // Error where this member cannot go on.
  Then take(const v1::Assignment& assignment);

  // Of the federation, once it is finished.
  const std::string& model_hash() const { return model_hash_; }
  std::int64_t answered() const { return answered_; }

 private:
  Then work(const v1::Task& task);
  void deliver(const OrderName& order);
  v1::Receipt send(const v1::Opening& opening, const Parcel& parcel);
  // Whether it is done with: a verdict or a refusal for good.
  bool judged(const OrderName& order, const v1::Receipt& receipt);
  Message read(const v1::Task& task);
  State model(const v1::Model& model);
  void say(const std::string& line) const;

  Parts parts_;
  std::string model_hash_;
  std::int64_t answered_ = 0;
};

}  // namespace winnow::member
