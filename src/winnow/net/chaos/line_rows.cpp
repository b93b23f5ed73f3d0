// Rows 6, 7, 19 and 20: the line between a member and the server is bad.
#include <fmt/format.h>
#include <sys/socket.h>

#include <array>
#include <thread>

#include "winnow/net/chaos/namespaces.h"
#include "winnow/net/chaos/outcome.h"
#include "winnow/net/chaos/proxy.h"
#include "winnow/net/chaos/rows.h"
#include "winnow/net/chaos/sockets.h"

namespace winnow::chaos {
namespace {

namespace fs = std::filesystem;

// Two of the members are behind such lines, each with a proxy of its own. Returns how many
// connections met their fault.
std::int64_t play_behind(Federation& federation, const std::function<Line(std::int64_t)>& line) {
  federation.serve();
  std::vector<std::unique_ptr<Proxy>> proxies;
  std::vector<std::unique_ptr<Process>> members;
  for (const std::int64_t client : {2L, kTarget}) {
    proxies.push_back(std::make_unique<Proxy>(federation.port(), line));
    members.push_back(federation.join(client, proxies.back()->port()));
  }
  federation.swarm({0, 1});
  federation.finish();
  std::int64_t faults = 0;
  for (const auto& proxy : proxies) {
    faults += proxy->faults();
  }
  return faults;
}

// A model of 6.5 MB, which takes seven pieces: after each cut it goes on with what is missing.
std::string cut_deliveries(const Stage& stage, const fs::path& folder) {
  Federation federation(stage, folder, {.experiment = {"rounds=2", "model.name=\"cnn2\""}});
  const std::int64_t cuts = play_behind(federation, [](std::int64_t number) {
    constexpr std::array<std::int64_t, 4> kPlaces{2'500'000, 400'000, 3'300'000, 5'000'000};
    Line line;
    line.up.cut_at = number < std::ssize(kPlaces) ? kPlaces[static_cast<std::size_t>(number)] : -1;
    return line;
  });
  require(cuts >= 4, fmt::format("only {} cuts", cuts));
  return fmt::format("{} cuts, {}", cuts, federation.same_model());
}

std::string flipped_bits(const Stage& stage, const fs::path& folder) {
  Federation federation(stage, folder);
  const std::int64_t flips = play_behind(federation, [](std::int64_t number) {
    Line line;
    if (number < 3) {
      (number % 2 == 0 ? line.up : line.down).flip_at = 60'000 + 40'000 * number;
    }
    return line;
  });
  require(flips >= 4, fmt::format("only {} bits were changed", flips));
  return fmt::format("{} bits, {}", flips, federation.same_model());
}

// One value of /metrics; -1 where it is not there.
double metric(std::uint16_t port, const std::string& name) {
  const Socket socket = connect_here(port);
  if (!socket.open()) {
    return -1;
  }
  const std::string request =
      fmt::format("GET /metrics HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nConnection: close\r\n\r\n", port);
  ::send(socket.descriptor(), request.data(), request.size(), MSG_NOSIGNAL);
  std::string answer;
  std::array<char, 4096> buffer{};
  for (ssize_t got = 0; (got = ::recv(socket.descriptor(), buffer.data(), buffer.size(), 0)) > 0;) {
    answer.append(buffer.data(), static_cast<std::size_t>(got));
  }
  const std::size_t place = answer.find("\n" + name + " ");
  return place == std::string::npos ? -1 : std::stod(answer.substr(place + name.size() + 2));
}

// The peer is gone without a word: nothing comes, and no connection ends.
std::string half_open(const Stage& stage, const fs::path& folder) {
  const std::uint16_t port = quiet_port();
  Federation federation(
      stage, folder,
      {.experiment = {"rounds=9"},
       .serve = {"deadline=3", "patience=2.0", fmt::format("metrics_port={}", port)}});
  federation.serve();
  federation.swarm(honest());
  Proxy proxy(federation.port(), [](std::int64_t) { return Line{}; });
  const auto target = federation.join(kTarget, proxy.port());
  federation.await_rounds(2);
  proxy.stall();
  await([&] { return !federation.heard("absent").empty(); }, 30, "an absence", stage.stop);
  await([&] { return metric(port, "winnow_members{status=\"away\"}") == 1; }, 30,
        "'away' in the metrics", stage.stop);
  proxy.heal();
  federation.finish();
  const std::string seen = federation.same_absences();
  const std::string said = target->said();
  require(said.find("the server is back") != std::string::npos, "it did not come back");
  return "away, back; " + seen;
}

std::string late_and_slow(const Stage& stage, const fs::path& folder) {
  Federation late(stage, folder / "late", {.experiment = {"rounds=3"}});
  play_behind(late, [](std::int64_t) {
    return Line{.up = {.delay = 0.15, .jitter = 0.1}, .down = {.delay = 0.15, .jitter = 0.1}};
  });
  const std::string delayed = late.same_model();
  Federation slow(stage, folder / "slow", {.experiment = {"rounds=2"}});
  constexpr double kMegabit = 125'000;  // bytes a second
  play_behind(slow, [](std::int64_t) {
    return Line{.up = {.rate = kMegabit}, .down = {.rate = kMegabit}};
  });
  return fmt::format("200 ms: {}; 1 Mbit/s: {}", delayed, slow.same_model());
}

std::string loss(const Stage& stage, const fs::path& folder) {
  fs::create_directories(folder);
  const Namespaces networks(folder);
  std::string seen;
  for (const int percent : {1, 5}) {
    networks.lose(percent);
    Federation federation(stage, folder / fmt::format("loss-{}", percent),
                          {.experiment = {"rounds=3"}, .host = kFarSide});
    federation.serve(networks.at_server());
    federation.swarm({0, 1, 2, 3}, networks.at_members());
    federation.finish();
    seen += fmt::format("; {} % lost: {}", percent, federation.same_model());
  }
  return seen;
}

std::string bad_weather(const Stage& stage, const fs::path& folder) {
  const std::string seen = late_and_slow(stage, folder);
  try {
    return seen + loss(stage, folder / "loss");
  } catch (const Skipped& skipped) {
    throw Skipped(fmt::format("{}; loss of packets skipped: {}", seen, skipped.what()));
  }
}

}  // namespace

void add_line_rows(std::vector<Row>& rows) {
  rows.push_back({6, "delivery cut off in the middle", "continues where it stopped, same model",
                  cut_deliveries});
  rows.push_back({7, "a bit flipped under TLS", "the connection ends and is made again, same model",
                  flipped_bits});
  rows.push_back({19, "half-open connection: the peer disappears silently",
                  "absent, away, back; the model with this absence", half_open});
  rows.push_back({20, "200 ms with jitter; 1 Mbit/s; 1 % and 5 % of packets lost",
                  "within the deadline, same model", bad_weather});
}

}  // namespace winnow::chaos
