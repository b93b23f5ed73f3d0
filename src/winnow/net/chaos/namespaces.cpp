#include "winnow/net/chaos/namespaces.h"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <optional>
#include <thread>

#include "winnow/base/child.h"
#include "winnow/net/chaos/outcome.h"
#include "winnow/net/chaos/stage.h"

namespace winnow::chaos {
namespace {

constexpr const char* kNeeds = "needs root and nftables";

}  // namespace

Namespaces::Namespaces(std::filesystem::path folder)
    : folder_(std::move(folder)),
      server_(fmt::format("winnow-{}-server", ::getpid())),
      members_(fmt::format("winnow-{}-members", ::getpid())) {
  if (::geteuid() != 0 || run({"nft", "--version"}) != 0 || run({"ip", "-V"}) != 0) {
    throw Skipped(kNeeds);
  }
  if (run({"ip", "netns", "add", server_}) != 0) {
    throw Skipped("needs network namespaces");
  }
  try {
    must({"ip", "netns", "add", members_});
    must({"ip", "-n", server_, "link", "add", "wire", "type", "veth", "peer", "name", "wire",
          "netns", members_});
    for (const auto& [side, address] :
         {std::pair{server_, fmt::format("{}/24", kFarSide)}, {members_, "10.77.0.2/24"}}) {
      must({"ip", "-n", side, "address", "add", address, "dev", "wire"});
      must({"ip", "-n", side, "link", "set", "wire", "up"});
      must({"ip", "-n", side, "link", "set", "lo", "up"});
    }
  } catch (...) {
    run({"ip", "netns", "delete", server_});
    run({"ip", "netns", "delete", members_});
    throw;
  }
}

Namespaces::~Namespaces() {
  run({"ip", "netns", "delete", server_});
  run({"ip", "netns", "delete", members_});
}

int Namespaces::run(const std::vector<std::string>& words) const {
  const pid_t child =
      start_program(words.front(), {words.begin() + 1, words.end()}, folder_ / "network.log");
  std::optional<int> code;
  while (!(code = poll_child(child))) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return *code;
}

void Namespaces::must(const std::vector<std::string>& words) const {
  std::string line;
  for (const std::string& word : words) {
    line += (line.empty() ? "" : " ") + word;
  }
  if (run(words) != 0) {
    throw Skipped(fmt::format("'{}' does not work here", line));
  }
}

void Namespaces::lose(int percent) const {
  for (const std::string& side : {server_, members_}) {
    const std::vector<std::string> nft{"ip", "netns", "exec", side, "nft"};
    const auto with = [&](std::vector<std::string> words) {
      words.insert(words.begin(), nft.begin(), nft.end());
      must(words);
    };
    run({"ip", "netns", "exec", side, "nft", "delete", "table", "inet", "weather"});
    with({"add", "table", "inet", "weather"});
    with({"add", "chain", "inet", "weather", "in",
          "{ type filter hook input priority 0; policy accept; }"});
    with({"add", "rule", "inet", "weather", "in", "iifname", "wire", "numgen", "random", "mod",
          "100", "<", std::to_string(percent), "drop"});
  }
}

}  // namespace winnow::chaos
