// Serves a federation from its start, or from where it was left, to its end.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "winnow/net/serve/fail_point.h"
#include "winnow/net/serve/serve_options.h"
#include "winnow/run/runner.h"

namespace winnow::net {

struct ServeCall {
  std::filesystem::path directory;  // of the run; may be that of one that was left
  Runtime runtime = {};             // but for its engine
  const std::atomic<bool>* stop = nullptr;
  RunObserver* observer = nullptr;  // told as those of other runs
  bool replace = false;             // a run that is there
  // A line for the person who runs it.
  std::function<void(const std::string& line)> say = {};
  // Told the ports when they are known; that of the metrics is 0 where there is none.
  std::function<void(std::uint16_t port, std::uint16_t metrics)> listening = {};
  FailPoint fail = {};
  // Seconds for members to hear that it is over. One that has lost the connection comes back within
  // a minute; when all have heard it ends at once.
  double farewell = 75.0;
};

// Throws Error(kind experiment) for what cannot be served, Error(kind run) where the directory
// holds something else, a journal is damaged or the port is taken.
RunOutcome serve(const ServeFile& file, const Registry& registry, const ServeCall& call);

}  // namespace winnow::net
