// What `winnow join` and `winnow swarm` do: take part in a federation as one member or as many.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "winnow/experiment/registry.h"
#include "winnow/net/join/consent.h"
#include "winnow/net/pki/credentials.h"
#include "winnow/net/pki/doctor.h"
#include "winnow/run/workplace.h"

namespace winnow::member {

class Channel;

struct ServerAddress {
  std::string host;
  std::uint16_t port = 0;
};
// "HOST:PORT", "[::1]:8790". Throws Error(kind usage).
ServerAddress parse_address(const std::string& text);

// Somebody who is to take part.
struct Recruit {
  std::string name;
  Credentials credentials;
  std::filesystem::path data;
  std::filesystem::path state;  // a folder of its own
};

struct PartOptions {
  ServerAddress server;
  std::string agree;                                      // as Consent::given
  std::function<bool(const std::string& text)> ask = {};  // as Consent::ask
  std::function<void(const std::string& line)> say = {};  // for a person; from any thread
  Runtime runtime;
  const std::atomic<bool>* stop = nullptr;
  // What to use in place of a member's channel, for tests that listen to it; none: the channel.
  std::function<std::unique_ptr<Channel>(std::unique_ptr<Channel> channel, const std::string& name)>
      wrap = {};
};

struct Outcome {
  std::size_t finished = 0;
  std::size_t failed = 0;
  std::int64_t answered = 0;  // tasks
  std::string model_hash;
  bool interrupted = false;
};

// What stands between a member and its server, from the connection (examine()) to whether the
// server wants this member.
Diagnosis check_server(const ServerAddress& server, const Credentials& credentials);

// Returns when the federation is finished, when `stop` is set, or when everybody has failed; keeps
// other processes out of the state folders meanwhile. Throws Error where nobody can begin, and what
// a single member failed with.
Outcome take_part(std::vector<Recruit> recruits, const Registry& registry,
                  const PartOptions& options);

// Tells the server that the member takes part no longer.
void leave_federation(const Recruit& recruit, const PartOptions& options);

}  // namespace winnow::member
