#include "winnow/run/verify.h"

#include <fmt/format.h>

#include "winnow/base/error.h"
#include "winnow/run/run_directory.h"
#include "winnow/run/runner.h"

namespace winnow {

Verification verify_run(const std::filesystem::path& directory, const Registry& registry,
                        const Runtime& runtime, std::int64_t rounds, const std::atomic<bool>* stop,
                        const std::function<void(std::int64_t, std::int64_t)>& progress) {
  const Experiment experiment = read_run_experiment(directory, registry);
  check_trust(experiment, runtime);
  const History logged = read_history(directory);
  if (logged.empty()) {
    throw Error(ErrorKind::run,
                fmt::format("{} has no finished round to verify", directory.string()));
  }
  check_arithmetic(directory);
  const std::int64_t available = std::ssize(logged);
  const std::int64_t total = rounds > 0 ? std::min(rounds, available) : available;
  Session session(experiment, registry, runtime, stop);
  if (available > session.rounds()) {
    throw Error(ErrorKind::run,
                fmt::format("{} logs {} rounds, but its experiment has {}",
                            (directory / kEventsFile).string(), available, session.rounds()));
  }
  Verification result;
  for (std::int64_t round = 0; round < total; ++round) {
    const RoundRecord record = session.play().record;
    const RoundRecord& expected = logged[static_cast<std::size_t>(round)];
    if (record.hash != expected.hash) {
      result.differs_at = record.round;
      result.logged = expected.hash;
      result.recomputed = record.hash;
      return result;
    }
    ++result.compared;
    progress(record.round, total);
  }
  return result;
}

}  // namespace winnow
