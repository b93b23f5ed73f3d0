#include "winnow/cli/progress.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "winnow/base/text.h"
#include "winnow/cli/console.h"

namespace winnow {
namespace {

constexpr int kBarWidth = 20;
constexpr double kSecondsBetweenLines = 1.0;

double since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Notes of the method for the live line: numbers and short texts only.
std::string note_text(const Json& notes) {
  std::string text;
  for (const auto& [name, value] : notes.items()) {
    if (value.is_string()) {
      text += fmt::format("  {} {}", name, value.get<std::string>());
    } else if (value.is_number_integer()) {
      text += fmt::format("  {} {}", name, value.get<std::int64_t>());
    } else if (value.is_number()) {
      const bool is_share = name.find("accuracy") != std::string::npos;
      text += is_share ? fmt::format("  {} {}", name, percent_text(value.get<double>()))
                       : fmt::format("  {} {:.4g}", name, value.get<double>());
    }
  }
  return text;
}

// A share of nothing is null.
std::string share_text(const Json& share) {
  return share.is_number() ? percent_text(share.get<double>()) : "-";
}

// How right the method is, as far as it claims anything.
std::string quality_text(const Session::Played& played) {
  std::string text;
  if (const auto found = played.quality.find("detection"); found != played.quality.end()) {
    text += fmt::format("  flag precision {} recall {}", share_text(found->at("flag_precision")),
                        share_text(found->at("flag_recall")));
  }
  if (played.record.label_precision) {
    text +=
        fmt::format("  label precision {} recall {}", percent_text(*played.record.label_precision),
                    percent_text(*played.record.label_recall));
  }
  return text;
}

}  // namespace

std::string bar(double share, int width) {
  const int full = std::clamp(static_cast<int>(std::lround(share * width)), 0, width);
  return fmt::format("[{:#<{}}{:-<{}}]", "", full, "", width - full);
}

void Progress::started(const Session& session) {
  terminal_ = stderr_is_terminal();
  begun_ = printed_ = Clock::now();
  first_round_ = session.rounds_done();
  first_participations_ = session.engine().traffic().participations;
  for (const RoundRecord& record : session.history()) {
    best_ = std::max(best_, record.accuracy.value_or(0.0));
  }
  const Experiment& experiment = session.experiment();
  const Workforce force = session.engine().workforce();
  tell(fmt::format(
      "{}: {} on {}, {} clients, {} rounds, {} {} on {}{}\n", experiment.name, experiment.method,
      session.world().data.name, session.engine().size(), session.rounds(), force.lanes,
      force.lanes == 1 ? "lane" : "lanes", force.device.str(),
      force.engine == "local"
          ? ""
          : fmt::format(" in {} {}", force.ranks, force.ranks == 1 ? "rank" : "ranks")));
  if (const auto& fresh = session.weight_source().left_fresh; !fresh.empty()) {
    tell(fmt::format("model.weights is for other classes: {} start fresh\n",
                     fmt::join(fresh, " and ")));
  }
  for (const std::string& notice : session.notices()) {
    tell(fmt::format("{}\n", notice));
  }
  if (first_round_ > 0) {
    tell(fmt::format("continuing after round {}\n", first_round_));
  }
}

std::string Progress::line(const Session& session, const Session::Played& played) const {
  const auto done = static_cast<double>(session.rounds_done() - first_round_);
  const double seconds = since(begun_);
  const double left =
      seconds / done * static_cast<double>(session.rounds() - session.rounds_done());
  const double rate =
      static_cast<double>(session.engine().traffic().participations - first_participations_) /
      seconds;
  return fmt::format("round {}/{}  accuracy {}  best {}  {:.1f} clients/s  {} left{}",
                     session.rounds_done(), session.rounds(), percent_text(accuracy_),
                     percent_text(best_), rate, human_seconds(left),
                     note_text(played.notes) + quality_text(played));
}

void Progress::played(const Session& session, const Session::Played& played) {
  if (played.record.accuracy) {
    accuracy_ = *played.record.accuracy;
    best_ = std::max(best_, accuracy_);
  }
  if (terminal_) {
    const double share =
        static_cast<double>(session.rounds_done()) / static_cast<double>(session.rounds());
    std::string text = fmt::format("{} {}", bar(share, kBarWidth), line(session, played));
    text.resize(std::min(text.size(), static_cast<std::size_t>(terminal_width() - 1)));
    tell(fmt::format("\r\033[K{}", text));
    line_open_ = true;
  } else if (since(printed_) >= kSecondsBetweenLines || session.rounds_done() == session.rounds()) {
    tell(fmt::format("{}\n", line(session, played)));
    printed_ = Clock::now();
  }
}

void Progress::stopped() {
  if (line_open_) {
    tell("\n");
    line_open_ = false;
  }
}

}  // namespace winnow
