// Members and a server that really talk to each other: gRPC and TLS on this machine.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <ctime>
#include <future>
#include <mutex>
#include <thread>
#include <utility>

#include "net/open_federation.h"
#include "net/serve/desk_harness.h"
#include "winnow/data/npz_writer.h"
#include "winnow/net/join/channel.h"
#include "winnow/net/join/take_part.h"
#include "winnow/net/pki/authority.h"
#include "winnow/net/pki/revocations.h"
#include "winnow/net/serve/service.h"
#include "winnow/net/serve/serving.h"
#include "winnow/run/charter.h"
#include "winnow/run/deal.h"
#include "winnow/run/directory_lock.h"
#include "winnow/run/run_directory.h"

namespace winnow::net {
namespace {

using member::CallLimits;
using member::Channel;
using member::Unreachable;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// The least that a member can read.
Charter charter_of(const std::string& federation) {
  Charter charter;
  charter.federation = federation;
  charter.members = 3;
  charter.data = {{"class_names", {"a", "b"}},
                  {"channels", 1},
                  {"height", 8},
                  {"width", 8},
                  {"mean", {0.5}},
                  {"std", {0.5}},
                  {"crop", 0},
                  {"augment", false}};
  charter.layout = std::string(64, 'a');
  charter.arithmetic = "avx2";
  return charter;
}

// A desk on the network, with certificates for whoever wants one.
struct Wire {
  Wire() {
    const Charter charter = charter_of(authority.federation());
    bench.setup.federation = authority.federation();
    bench.setup.charter = charter.text();
    bench.setup.charter_hash = charter.hash();
    bench.setup.revoked = [this](const std::string& fingerprint) {
      return revocations.contains(fingerprint);
    };
    bench.reopen();
    service = std::make_unique<Service>(*bench.desk, kHost, 0, authority.issue_server({kHost}));
  }

  std::unique_ptr<Channel> channel(const Credentials& who, const CallLimits& limits = {}) const {
    return member::open_channel(kHost, service->port(), who, nullptr, limits);
  }
  std::unique_ptr<Channel> channel(const std::string& name) {
    return channel(authority.issue_client(name));
  }
  v1::Hello greeting(char letter = 'p') const {
    v1::Hello greeting = hello(letter);
    greeting.set_charter(raw_of(bench.setup.charter_hash));
    return greeting;
  }

  DeskHarness bench;
  Authority authority = Authority::create(bench.folder / "authority", "Wire");
  Revocations revocations{authority.revoked_file()};
  std::unique_ptr<Service> service;
};

std::future<member::Awaited> wait_for_next(Channel& channel, char letter = 'p') {
  auto promise = std::make_shared<std::promise<member::Awaited>>();
  std::future<member::Awaited> future = promise->get_future();
  v1::Report report;
  report.set_process(process(letter));
  channel.next(report,
               [promise](member::Awaited awaited) { promise->set_value(std::move(awaited)); });
  return future;
}

bool is_there(const std::future<member::Awaited>& future) {
  return future.wait_for(std::chrono::milliseconds(5)) == std::future_status::ready;
}

bool comes_soon(const std::future<member::Awaited>& future) {
  return future.wait_for(std::chrono::seconds(10)) == std::future_status::ready;
}

TEST(Wire, WhoCallsIsReadFromTheCertificate) {
  Wire wire;
  const auto ann = wire.channel("ann");
  const auto bob = wire.channel("bob");
  EXPECT_EQ(ann->join(wire.greeting()).client(), 0U);
  EXPECT_EQ(bob->join(wire.greeting()).client(), 1U);
  EXPECT_GT(wire.bench.desk->members()[0].expires, std::time(nullptr));
  wire.bench.begin();
  wire.bench.ask(0, {0});
  v1::Opening opening;
  v1::OrderId& order = *opening.mutable_order();
  order.set_number(1);
  order.set_attempt(1);
  opening.set_process(process('p'));
  EXPECT_EQ(text_of(bob->open(opening)), "not_asked: there is no order 1 for bob");
  EXPECT_EQ(text_of(ann->open(opening)), "wrong_nonce: order 1 has another nonce");
  EXPECT_EQ(text_of(wire.channel("eve")->join(wire.greeting())),
            "not_enrolled: eve is not among the members");
  Authority other = Authority::create(wire.bench.folder / "other", "Other");
  Credentials forged = other.issue_client("ann");
  forged.authority = wire.authority.certificate();
  EXPECT_THROW(wire.channel(forged)->join(wire.greeting()), Unreachable) << "TLS lets nobody in";
  const Credentials server = wire.authority.issue_server({"elsewhere"});
  EXPECT_ANY_THROW(wire.channel(server)->join(wire.greeting())) << "a server is no member";
}

TEST(Wire, ARevokedMemberIsSentAwayThoughItIsConnected) {
  Wire wire;
  const auto ann = wire.channel("ann");
  EXPECT_EQ(text_of(ann->join(wire.greeting())), "welcome");
  std::future<member::Awaited> waiting = wait_for_next(*ann);
  wire.authority.revoke("ann");
  EXPECT_EQ(text_of(ann->join(wire.greeting())), "revoked: the certificate of ann is revoked");
  ASSERT_TRUE(comes_soon(waiting));
  const member::Awaited awaited = waiting.get();
  ASSERT_TRUE(awaited.assignment);
  EXPECT_THAT(text_of(awaited.assignment->refusal()), HasSubstr("revoked"));
  EXPECT_EQ(wire.bench.desk->members()[0].status, "revoked");
  const auto again =
      wire.channel(wire.authority.issue_client("ann", kCertificateDays, Replace::yes));
  EXPECT_EQ(text_of(again->join(wire.greeting('q'))), "welcome") << "with a new certificate";
}

TEST(Wire, AnExpiredCertificateDoesNotCountThoughItIsConnected) {
  Wire wire;
  const std::int64_t now = std::time(nullptr);
  const auto ann = wire.channel(wire.authority.issue_client("ann", Validity{now - 60, now + 5}));
  EXPECT_EQ(text_of(ann->join(wire.greeting())), "welcome");
  while (std::time(nullptr) <= now + 5) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  EXPECT_EQ(error_text([&] { ann->join(wire.greeting()); }),
            "the server refuses this member: the certificate has expired");
}

TEST(Wire, WhatIsTooLongIsRefusedAndTheMemberGoesOn) {
  Wire wire;
  const auto ann = wire.channel("ann");
  EXPECT_EQ(text_of(ann->join(wire.greeting())), "welcome");
  wire.bench.begin();
  wire.bench.ask(0, {0});
  std::future<member::Awaited> told = wait_for_next(*ann);
  ASSERT_TRUE(comes_soon(told));
  v1::Opening opening;
  *opening.mutable_order() = told.get().assignment.value().task().order();
  opening.set_process(process('p'));
  opening.set_head(std::string(3 << 20, 'x'));
  EXPECT_THROW(ann->open(opening), Unreachable) << "which is tried again, and does not end it";
  opening.set_head(std::string(1'900'000, 'x'));
  EXPECT_EQ(text_of(ann->open(opening)), "oversized: a head of 1900000 bytes, expected at most 48");
}

TEST(Wire, ACheckSaysWhetherTheServerWantsThisMember) {
  Wire wire;
  const auto says = [&](const Credentials& who) {
    const Diagnosis diagnosis = member::check_server({kHost, wire.service->port()}, who);
    return std::string(diagnosis.fine ? "fine: " : "not: ") + diagnosis.sentence + " | " +
           diagnosis.hint;
  };
  const Credentials ann = wire.authority.issue_client("ann");
  EXPECT_THAT(says(ann), HasSubstr("is a server of our federation and accepts us | "));
  EXPECT_THAT(says(ann), HasSubstr("fine: "));
  EXPECT_EQ(says(wire.authority.issue_client("eve")),
            "not: the server refuses this member: eve is not among the members | ask the operator "
            "to add it to [[members]]");
  wire.authority.revoke("ann");
  EXPECT_EQ(says(ann),
            "not: the server refuses this member: the certificate of ann is revoked | ask the "
            "operator for another certificate");
  EXPECT_EQ(wire.bench.desk->joined(), 0);
}

TEST(Wire, AServerThatStopsAnswersThoseWhoWait) {
  Wire wire;
  std::vector<std::unique_ptr<Channel>> channels;
  std::vector<std::future<member::Awaited>> waiting;
  for (const char* name : {"ann", "bob", "cy"}) {
    channels.push_back(wire.channel(name));
    EXPECT_EQ(text_of(channels.back()->join(wire.greeting())), "welcome");
    waiting.push_back(wait_for_next(*channels.back()));
  }
  // A member waits once: when one of two calls is answered the other one is at the desk.
  for (std::size_t i = 0; i < channels.size(); ++i) {
    std::future<member::Awaited> other = wait_for_next(*channels[i]);
    for (int looks = 0; looks < 1000 && !is_there(waiting[i]) && !is_there(other); ++looks) {
    }
    waiting[i] = std::move(is_there(other) ? waiting[i] : other);
  }
  const auto start = std::chrono::steady_clock::now();
  wire.service.reset();
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
  for (std::future<member::Awaited>& each : waiting) {
    ASSERT_TRUE(comes_soon(each));
    const member::Awaited awaited = each.get();
    ASSERT_TRUE(awaited.assignment);
    EXPECT_TRUE(awaited.assignment->has_idle());
  }
  EXPECT_THROW(channels[0]->join(wire.greeting()), Unreachable);
}

TEST(Wire, AMemberLeavesWithoutHavingJoined) {
  Wire wire;
  const Credentials ann = wire.authority.issue_client("ann");
  EXPECT_EQ(text_of(wire.channel(ann)->join(wire.greeting())), "welcome");
  member::PartOptions options;
  options.server = {kHost, wire.service->port()};
  member::leave_federation({"ann", ann, "", wire.bench.folder / "state"}, options);
  EXPECT_EQ(wire.bench.desk->members()[0].status, "left");
  EXPECT_EQ(wire.bench.desk->samples()[0], 40) << "what it had stays known";
}

// Passes bytes on between members and a server, until its connections die without a word.
class Tunnel {
 public:
  explicit Tunnel(std::uint16_t to) : to_(to), listener_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address = loopback(0);
    socklen_t size = sizeof address;
    EXPECT_EQ(::bind(listener_, reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(::listen(listener_, 8), 0);
    EXPECT_EQ(::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size), 0);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { run(); });
  }
  ~Tunnel() {
    stop_ = true;
    thread_.join();
    for (const auto& [one, other] : pairs_) {
      ::close(one);
      ::close(other);
    }
    ::close(listener_);
  }
  Tunnel(const Tunnel&) = delete;
  Tunnel& operator=(const Tunnel&) = delete;

  std::uint16_t port() const { return port_; }
  int connections() const { return connections_; }
  // What is connected now says nothing more, and does not close either.
  void go_dead() { alive_from_ = connections_.load(); }

 private:
  static sockaddr_in loopback(std::uint16_t port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(port);
    return address;
  }

  void accept() {
    const int one = ::accept(listener_, nullptr, nullptr);
    const int other = ::socket(AF_INET, SOCK_STREAM, 0);
    const sockaddr_in address = loopback(to_);
    EXPECT_EQ(::connect(other, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    pairs_.emplace_back(one, other);
    ++connections_;
  }

  // False once one of the two has closed.
  static bool pass(int from, int to) {
    std::array<char, 65536> bytes{};
    const ssize_t count = ::recv(from, bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (count < 0) {
      return true;
    }
    for (ssize_t sent = 0; sent < count;) {
      const ssize_t now =
          ::send(to, bytes.data() + sent, static_cast<std::size_t>(count - sent), MSG_NOSIGNAL);
      if (now <= 0) {
        return false;
      }
      sent += now;
    }
    return count > 0;
  }

  void run() {
    while (!stop_) {
      pollfd coming{listener_, POLLIN, 0};
      if (::poll(&coming, 1, 2) > 0) {
        accept();
      }
      for (std::size_t i = static_cast<std::size_t>(alive_from_); i < pairs_.size(); ++i) {
        const auto [one, other] = pairs_[i];
        if (!pass(one, other) || !pass(other, one)) {
          ::shutdown(one, SHUT_RDWR);
          ::shutdown(other, SHUT_RDWR);
        }
      }
    }
  }

  std::uint16_t to_;
  std::uint16_t port_ = 0;
  int listener_;
  std::atomic<bool> stop_ = false;
  std::atomic<int> connections_ = 0;
  std::atomic<int> alive_from_ = 0;
  std::vector<std::pair<int, int>> pairs_;
  std::thread thread_;
};

TEST(Wire, AConnectionThatIsDeadWithoutAWordIsReplaced) {
  Wire wire;
  Tunnel tunnel(wire.service->port());
  const auto ann = member::open_channel(kHost, tunnel.port(), wire.authority.issue_client("ann"),
                                        nullptr, {.join = std::chrono::milliseconds(3000)});
  EXPECT_EQ(text_of(ann->join(wire.greeting())), "welcome");
  tunnel.go_dead();
  EXPECT_THROW(ann->join(wire.greeting()), Unreachable);
  EXPECT_EQ(text_of(ann->join(wire.greeting())), "welcome");
  EXPECT_EQ(tunnel.connections(), 2);
}

// From the files to the model, as `winnow serve` and `winnow swarm` do it.
TEST(Wire, AnOpenFederationEndsInTheModelOfTheSimulation) {
  OpenFederation open;
  const std::filesystem::path revoked = open.folder / "revoked.txt";
  write_file_whole(revoked, "");
  open.tree["serve"]["revoked"] = revoked.string();
  std::promise<std::uint16_t> listening;
  open.call.listening = [&](std::uint16_t port, std::uint16_t) { listening.set_value(port); };
  std::future<RunOutcome> served =
      std::async(std::launch::async, [&open] { return open.serve_it(); });
  const Stopper stopper{open.stop};
  auto port = listening.get_future();
  ASSERT_EQ(port.wait_for(std::chrono::seconds(60)), std::future_status::ready);
  const std::string hash = open.said_after("charter ");
  write_file_whole(revoked, "all of them\n");

  std::vector<member::Recruit> recruits;
  for (std::int64_t client = 0; client < 4; ++client) {
    recruits.push_back(open.recruit(client));
  }
  member::PartOptions options;
  options.server = {kHost, port.get()};
  options.runtime = on_cpu(2);
  options.agree = std::string(64, '0');
  const auto fails = [&] {
    return error_text([&] { member::take_part(recruits, open.registry, options); });
  };
  EXPECT_THAT(fails(), HasSubstr("the charter of the server has the hash " + hash));
  options.agree = hash;
  std::filesystem::create_directories(recruits[1].state);
  {
    const DirectoryLock other(recruits[1].state, "");
    EXPECT_THAT(fails(), HasSubstr("another process takes part with the state in "));
  }
  const member::Outcome outcome = member::take_part(recruits, open.registry, options);
  EXPECT_EQ(outcome.finished, 4U);
  EXPECT_EQ(outcome.answered, 8);
  const RunOutcome run = served.get();
  EXPECT_EQ(run.summary.at("model_hash"), undisturbed_hashes(open.experiment).back());
  EXPECT_EQ(outcome.model_hash, run.summary.at("model_hash"));
  EXPECT_THAT(open.said_after("revocations: "), HasSubstr("revoked.txt: line 1 is no fingerprint"));
  EXPECT_EQ(open.said_after("serve.revoked is not set"), "nothing");
  const Json members = Json::parse(read_file(open.folder / "run/members.json"));
  EXPECT_EQ(members.at("round"), 2);
  ASSERT_EQ(members.at("members").size(), 4U);
  for (const Json& each : members.at("members")) {
    EXPECT_EQ(each.at("status"), "done");
    EXPECT_EQ(each.at("rounds"), 2);
  }
}

// Not only after a round: here none begins.
TEST(Wire, MembersAreWrittenDownAsTheyComeAndGo) {
  OpenFederation open;
  std::promise<std::uint16_t> listening;
  open.call.listening = [&](std::uint16_t port, std::uint16_t) { listening.set_value(port); };
  std::future<RunOutcome> served =
      std::async(std::launch::async, [&open] { return open.serve_it(); });
  const Stopper stopper{open.stop};
  auto port = listening.get_future();
  ASSERT_EQ(port.wait_for(std::chrono::seconds(60)), std::future_status::ready);
  member::PartOptions options;
  options.server = {kHost, port.get()};
  options.runtime = on_cpu(1);
  options.agree = open.said_after("charter ");
  std::atomic<bool> leaves = false;
  options.stop = &leaves;
  const auto says = [&](const std::string& status) {
    for (int looks = 0; looks < 600; ++looks) {
      const Json members = Json::parse(read_file(open.folder / "run/members.json")).at("members");
      if (members.size() == 1 && members[0].at("status") == status) {
        return true;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    return false;
  };
  const member::Recruit recruit = open.recruit(0);
  std::future<member::Outcome> joined = std::async(
      std::launch::async, [&] { return member::take_part({recruit}, open.registry, options); });
  EXPECT_TRUE(says("present"));
  leaves = true;
  EXPECT_TRUE(joined.get().interrupted);
  options.stop = nullptr;
  member::leave_federation(recruit, options);
  EXPECT_TRUE(says("left"));
  EXPECT_EQ(read_history(open.folder / "run").size(), 0U);
  open.stop = true;
  EXPECT_TRUE(served.get().interrupted);
}

// A port that was free a moment ago.
std::uint16_t some_free_port() {
  const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in where{};
  where.sin_family = AF_INET;
  where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof where;
  EXPECT_EQ(::bind(socket, reinterpret_cast<const sockaddr*>(&where), size), 0);
  EXPECT_EQ(::getsockname(socket, reinterpret_cast<sockaddr*>(&where), &size), 0);
  ::close(socket);
  return ntohs(where.sin_port);
}

std::string answer_to_get(std::uint16_t port, const std::string& path) {
  const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in where{};
  where.sin_family = AF_INET;
  where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  where.sin_port = htons(port);
  EXPECT_EQ(::connect(socket, reinterpret_cast<const sockaddr*>(&where), sizeof where), 0);
  const std::string request =
      "GET " + path + " HTTP/1.1\r\nHost: 127.0.0.1:" + std::to_string(port) + "\r\n\r\n";
  EXPECT_EQ(::send(socket, request.data(), request.size(), MSG_NOSIGNAL), std::ssize(request));
  std::string answer;
  std::array<char, 4096> buffer{};
  for (ssize_t got = 0; (got = ::recv(socket, buffer.data(), buffer.size(), 0)) > 0;) {
    answer.append(buffer.data(), static_cast<std::size_t>(got));
  }
  ::close(socket);
  return answer;
}

TEST(Wire, PrometheusReadsTheMetricsWhileRoundsArePlayed) {
  OpenFederation open;
  const std::uint16_t at = some_free_port();
  open.tree["serve"]["metrics_port"] = at;
  struct Reader final : RunObserver {
    explicit Reader(std::uint16_t its_port) : port(its_port) {}
    void played(const Session& session, const Session::Played& /*played*/) override {
      if (session.rounds_done() == 1) {
        answer = answer_to_get(port, "/metrics");
        other = answer_to_get(port, "/");
      }
    }
    std::uint16_t port;
    std::string answer;
    std::string other;
  };
  Reader reader(at);
  open.call.observer = &reader;
  std::promise<std::pair<std::uint16_t, std::uint16_t>> listening;
  open.call.listening = [&](std::uint16_t port, std::uint16_t metrics) {
    listening.set_value({port, metrics});
  };
  std::future<RunOutcome> served =
      std::async(std::launch::async, [&open] { return open.serve_it(); });
  const Stopper stopper{open.stop};
  auto ports = listening.get_future();
  ASSERT_EQ(ports.wait_for(std::chrono::seconds(60)), std::future_status::ready);
  const auto [port, metrics] = ports.get();
  EXPECT_EQ(metrics, at);
  EXPECT_EQ(open.said_after("metrics on "), "http://127.0.0.1:" + std::to_string(at) + "/metrics");
  std::vector<member::Recruit> recruits;
  for (std::int64_t client = 0; client < 4; ++client) {
    recruits.push_back(open.recruit(client));
  }
  member::PartOptions options;
  options.server = {kHost, port};
  options.runtime = on_cpu(1);
  options.agree = open.said_after("charter ");
  EXPECT_EQ(member::take_part(recruits, open.registry, options).finished, 4U);
  EXPECT_FALSE(served.get().interrupted);
  EXPECT_THAT(reader.answer,
              AllOf(StartsWith("HTTP/1.1 200 OK\r\n"),
                    HasSubstr("Content-Type: text/plain; version=0.0.4; charset=utf-8\r\n"),
                    HasSubstr("\n# TYPE winnow_replies_total counter\n"),
                    HasSubstr("\nwinnow_replies_total{verdict=\"accepted\",reason=\"none\"} 4\n"),
                    HasSubstr("\nwinnow_members{status=\"left\"} 0\n"),
                    HasSubstr("\nwinnow_members{status=\"done\"} 0\n"),
                    HasSubstr("winnow_certificate_expiry_seconds{name=\"server\"}"),
                    HasSubstr("winnow_certificate_expiry_seconds{name=\"client-3\"}"),
                    HasSubstr("\nwinnow_round_seconds_count 1\n")));
  EXPECT_THAT(reader.other, StartsWith("HTTP/1.1 404 Not Found\r\n"));
}

TEST(Wire, AServerSaysWhereNothingCanBeRevoked) {
  OpenFederation open;
  open.call.listening = [&](std::uint16_t, std::uint16_t) { open.stop = true; };
  EXPECT_TRUE(open.serve_it().interrupted);
  EXPECT_EQ(open.said_after("serve.revoked is not set: "),
            "revoked certificates are still accepted");
}

TEST(Wire, AServerRefusesWhatNoMemberWouldAccept) {
  OpenFederation open;
  const std::int64_t channels = std::ssize(open.tree.at("data").at("mean"));
  NpzWriter file;
  file.add("test_images", at::zeros({4, channels, 28, 28}, at::kByte));
  file.add("test_labels", Labels{0, 1, 2, 3});
  file.add("class_names", std::vector<std::string>{"a", "b", "c", "d\nhash 0000"});
  file.write(open.folder / "dealt/server.npz");
  EXPECT_EQ(error_text([&] { open.serve_it(); }),
            "members would refuse the charter of the server: data.class_names[3] has a control "
            "character");
}

}  // namespace
}  // namespace winnow::net
