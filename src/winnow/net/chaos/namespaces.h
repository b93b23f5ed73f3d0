// Two networks of their own with a wire between them, for what only the kernel can do to packets.
// Needs root, iproute2 and nftables. Nothing outside of the two is touched.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "winnow/net/chaos/process.h"

namespace winnow::chaos {

// Gone when this goes, with everything in them.
class Namespaces {
 public:
  // Throws Skipped where they cannot be made. `folder` is for what the tools say.
  explicit Namespaces(std::filesystem::path folder);
  ~Namespaces();
  Namespaces(const Namespaces&) = delete;
  Namespaces& operator=(const Namespaces&) = delete;

  // How a process is started in each of them. The server's side is kFarSide.
  Launch at_server() const { return {.before = {"ip", "netns", "exec", server_}}; }
  Launch at_members() const { return {.before = {"ip", "netns", "exec", members_}}; }

  // Every packet is lost with this chance, in percent, on both sides.
  void lose(int percent) const;

 private:
  int run(const std::vector<std::string>& words) const;
  void must(const std::vector<std::string>& words) const;

  std::filesystem::path folder_;
  std::string server_;
  std::string members_;
};

}  // namespace winnow::chaos
