// Rows 16, 17 and 18: who has no business here, and who only stands in the way.
#include <fmt/format.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <array>
#include <chrono>
#include <ctime>
#include <future>
#include <memory>
#include <optional>
#include <set>
#include <thread>

#include "winnow/base/error.h"
#include "winnow/net/chaos/outcome.h"
#include "winnow/net/chaos/proxy.h"
#include "winnow/net/chaos/rogue.h"
#include "winnow/net/chaos/rows.h"
#include "winnow/net/chaos/sockets.h"
#include "winnow/net/join/offer.h"
#include "winnow/net/pki/doctor.h"
#include "winnow/run/deal.h"

namespace winnow::chaos {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kDay = 86'400;

// Whether somebody with these credentials gets a word out of the server.
std::optional<v1::Welcome> heard_by(const Federation& federation, const Credentials& credentials) {
  v1::Hello hello;
  hello.set_protocol_low(member::kSpoken);
  hello.set_protocol_high(member::kSpoken);
  hello.set_numerics(kNumerics);
  hello.set_process(member::random_process());
  const auto channel = member::open_channel(federation.host(), federation.port(), credentials,
                                            federation.stage().stop);
  try {
    return channel->join(hello);
  } catch (const member::Unreachable&) {
    return std::nullopt;
  }
}

// What a plain-text peer gets: true where the connection is ended without an answer in plain text.
bool plain_text_ends(std::uint16_t port) {
  const Socket socket = connect_here(port);
  const std::string request = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
  ::send(socket.descriptor(), request.data(), request.size(), MSG_NOSIGNAL);
  std::array<char, 256> buffer{};
  pollfd watched{socket.descriptor(), POLLIN, 0};
  std::string answer;
  while (::poll(&watched, 1, 15'000) > 0) {
    const ssize_t got = ::recv(socket.descriptor(), buffer.data(), buffer.size(), 0);
    if (got <= 0) {
      return answer.find("HTTP/1") == std::string::npos;
    }
    answer.append(buffer.data(), static_cast<std::size_t>(got));
  }
  return false;  // it is still open
}

// A server without TLS: says what it is to the first who comes.
Diagnosis plain_text_server(const Credentials& own) {
  const Socket listener = listen_here(0);
  std::thread server([&] {
    const Socket peer(::accept(listener.descriptor(), nullptr, nullptr));
    const std::string text = "220 mail.example.org ready\r\n";
    ::send(peer.descriptor(), text.data(), text.size(), MSG_NOSIGNAL);
    std::array<char, 64> buffer{};
    ::recv(peer.descriptor(), buffer.data(), buffer.size(), 0);
  });
  Diagnosis diagnosis = examine(kHere, port_of(listener), own);
  ::shutdown(listener.descriptor(), SHUT_RDWR);
  server.join();
  return diagnosis;
}

std::string certificates(const Stage& stage, const fs::path& folder) {
  Federation federation(stage, folder,
                        {.serve = {fmt::format("revoked=\"{}\"", stage.revoked().string())}});
  fs::create_directories(folder / "authorities");
  Authority own = Authority::open(stage.folder / "authority");
  Authority other = Authority::create(folder / "authorities" / "other", "another federation");
  const std::int64_t now = std::time(nullptr);
  const Credentials right = stage.credentials(member_name(kTarget));
  const Credentials revoked = own.issue_client("revoked");
  own.revoke("revoked");
  federation.serve();

  struct Fault {
    const char* what;
    Credentials shown;
    const char* sentence;
    const char* host = kHere;
  };
  const Credentials nothing{"", "", right.authority};
  Credentials mixed = other.issue_client("mixed");
  mixed.authority = right.authority;
  const std::vector<Fault> faults{
      {"no certificate", nothing, "our certificate"},
      {"expired", own.issue_client("expired", Validity{now - 9 * kDay, now - kDay}),
       "our certificate has expired"},
      {"not yet valid", own.issue_client("early", Validity{now + kDay, now + 9 * kDay}),
       "our certificate is not valid before"},
      {"of another federation", other.issue_client("stranger"), "is of another federation"},
      {"of another federation than its authority", mixed, "than the authority we trust"},
      {"a server's", stage.credentials("server"), "not a member's"}};
  std::set<std::string> sentences;
  for (const Fault& fault : faults) {
    const Diagnosis diagnosis = examine(fault.host, federation.port(), fault.shown);
    require(!diagnosis.fine && diagnosis.sentence.find(fault.sentence) != std::string::npos,
            fmt::format("{}: \"{}\"", fault.what, diagnosis.sentence));
    sentences.insert(diagnosis.sentence);
    require(!heard_by(federation, fault.shown), fmt::format("{}: it got in", fault.what));
  }
  const Diagnosis name = examine("localhost", federation.port(), right);
  require(name.sentence.find("is for another host") != std::string::npos, name.sentence);
  const std::optional<v1::Welcome> told = heard_by(federation, revoked);
  require(told && told->refusal().reason() == v1::REVOKED, "a revoked certificate was taken");
  const Diagnosis plain = plain_text_server(right);
  require(plain.sentence.find("speaks no TLS") != std::string::npos, plain.sentence);
  require(plain_text_ends(federation.port()), "the server speaks with a plain-text peer");
  sentences.insert({name.sentence, told->refusal().detail(), plain.sentence});
  require(sentences.size() == faults.size() + 3, "two faults have the same sentence");
  require(examine(kHere, federation.port(), right).fine, "a right certificate is refused");
  federation.swarm({0, 1, 2, 3});
  federation.finish();
  return fmt::format("{} sentences, plain text ended; {}", sentences.size(),
                     federation.same_model());
}

// Seconds until the server ends a connection on which nothing is said.
double life_of_silence(const Socket& socket) {
  const auto begun = std::chrono::steady_clock::now();
  pollfd watched{socket.descriptor(), POLLIN, 0};
  std::array<char, 256> buffer{};
  while (::poll(&watched, 1, 30'000) > 0 &&
         ::recv(socket.descriptor(), buffer.data(), buffer.size(), 0) > 0) {
  }
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
}

std::string slow_peers(const Stage& stage, const fs::path& folder) {
  constexpr double kLongest = 15.0;
  Federation federation(stage, folder, {.experiment = {"rounds=9"}, .serve = {"deadline=4"}});
  federation.serve();
  // One says nothing, one shakes hands at a byte a second, one trickles the rest of its reply.
  const Socket silent = connect_here(federation.port());
  Proxy trickle(federation.port(), [](std::int64_t number) {
    return number == 0 ? Line{.up = {.rate = 1.0}} : Line{};
  });
  const auto begun = std::chrono::steady_clock::now();
  const auto hand = member::open_channel(kHere, trickle.port(),
                                         stage.credentials(member_name(kTarget)), stage.stop);
  std::promise<void> heard;
  hand->next({}, [&](const member::Awaited&) { heard.set_value(); });
  Proxy thin(federation.port(), [](std::int64_t number) {
    return number == 0 ? Line{.up = {.rate = 1.0, .slow_from = 100'000}} : Line{};
  });
  federation.swarm(honest());
  const auto target = federation.join(kTarget, thin.port());
  const double silence = life_of_silence(silent);
  require(silence < kLongest, fmt::format("a silent peer was kept for {:.0f} s", silence));
  await([&] { return trickle.ended_by_server() > 0; }, kLongest, "the end of a slow handshake",
        stage.stop);
  const double handshake =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
  hand->cancel();
  heard.get_future().wait();
  federation.await_rounds(2);
  thin.heal();
  federation.finish();
  return fmt::format("ended after {:.0f} s and {:.0f} s; {}", silence, handshake,
                     federation.same_absences());
}

std::string many_connections(const Stage& stage, const fs::path& folder) {
  constexpr std::size_t kMany = 2000;
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  if (limit.rlim_max < 2 * kMany) {
    throw Skipped(fmt::format("needs {} open files", 2 * kMany));
  }
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
  Federation federation(stage, folder);
  federation.serve({.open_files = 1024});  // what most systems let a process begin with
  for (std::size_t number = 0; number < kMany; ++number) {
    connect_here(federation.port()).reset();  // broken off at once
  }
  std::vector<Socket> idle;
  for (std::size_t number = 0; number < kMany; ++number) {
    idle.push_back(connect_here(federation.port()));
    require(idle.back().open(), fmt::format("connection {} was not taken", number));
  }
  federation.swarm({0, 1, 2, 3});
  federation.finish();
  return fmt::format("{} broken off, {} idle; {}", kMany, kMany, federation.same_model());
}

}  // namespace

void add_door_rows(std::vector<Row>& rows) {
  rows.push_back(
      {16,
       "certificate missing, expired, not yet valid, foreign, a server's or revoked; plain text",
       "refused, each with its own message", certificates});
  rows.push_back({17, "peers that send nothing, or one byte a second",
                  "disconnected after 10 s; others are unaffected", slow_peers});
  rows.push_back({18, "2,000 aborted connections, 2,000 idle ones",
                  "members are still served, same model", many_connections});
}

}  // namespace winnow::chaos
