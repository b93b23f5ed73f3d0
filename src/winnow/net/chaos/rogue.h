// A member that speaks the protocol by hand, so that it can say what no `winnow join` would. It
// trains as any other and remembers nothing: for methods without memory.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "winnow/net/chaos/stage.h"
#include "winnow/net/join/channel.h"
#include "winnow/net/join/site.h"

namespace winnow::chaos {

namespace v1 = net::v1;

// A reply as it is sent.
struct Reply {
  v1::Opening opening;
  Parcel parcel;
};

// "accepted", "open", "absent" or the reason of a refusal.
std::string verdict_of(const v1::Receipt& receipt);

// Calls throw member::Unreachable and Error(kind peer) as those of a channel do.
class Rogue {
 public:
  // `port` 0: that of the federation.
  Rogue(const Federation& federation, std::int64_t client, std::uint16_t port = 0);
  ~Rogue();
  Rogue(const Rogue&) = delete;
  Rogue& operator=(const Rogue&) = delete;

  std::int64_t client() const { return client_; }
  member::Channel& channel() { return *channel_; }
  const LayoutPtr& layout() const;

  // What an honest member would say.
  v1::Hello hello() const;
  // Joins; the server must welcome it.
  void join();

  // What the server has for it; waits for the answer.
  v1::Assignment next();
  // The next task. Throws Failed where the federation is over.
  v1::Task await_task();
  // The right answer to a task.
  Reply answer(const v1::Task& task);

  // Sends a reply with all its pieces; the last receipt.
  v1::Receipt deliver(const Reply& reply);
  v1::Receipt open(const Reply& reply) { return channel_->open(reply.opening); }
  v1::Receipt put(const Reply& reply, std::uint64_t number, const std::string& data);
  v1::Receipt seal(const Reply& reply);
  // The values of the model of a reply, with its digest.
  static void set_values(Reply& reply, std::string values);

  // Takes part until the federation is over. `deal` does something with each task; none: answers
  // it. Comes back after every loss of the connection.
  using Deal = std::function<void(const v1::Task& task)>;
  void take_part(const Deal& deal = {});

 private:
  Message read(const v1::Task& task);

  const Federation& federation_;
  std::int64_t client_;
  std::string process_;
  std::uint64_t settled_ = 0;
  std::unique_ptr<member::Channel> channel_;
  std::unique_ptr<member::Site> site_;
};

}  // namespace winnow::chaos
