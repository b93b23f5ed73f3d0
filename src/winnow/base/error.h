// The one exception type of Winnow: a kind, one line for a person, and what to do about it.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

namespace winnow {

enum class ErrorKind {
  usage,       // the command line is wrong
  experiment,  // the experiment file or a value in it is wrong
  data,        // a data file is missing, damaged or of the wrong shape
  run,         // a run directory or a running experiment failed
  peer,        // another process sent something that does not fit
  internal,    // our own bug
};

// The text with control characters written out ("\x1b"), but for line ends and tabs: what comes
// from a file must neither cut a message short nor command the terminal.
std::string printable(std::string_view text);

// Thrown where the fault is known, printed once at the edge of the program.
class Error : public std::runtime_error {
 public:
  // Both texts are made printable.
  Error(ErrorKind kind, std::string_view message, std::string_view hint = "");

  ErrorKind kind() const { return kind_; }
  const std::string& hint() const { return hint_; }

 private:
  ErrorKind kind_;
  std::string hint_;
};

// The documented exit code of the program for an error of this kind.
int exit_code(ErrorKind kind);

inline constexpr int kExitMismatch = 7;       // `verify` found a difference
inline constexpr int kExitSweepFailed = 8;    // some run of a sweep failed
inline constexpr int kExitInterrupted = 130;  // stopped by a signal after saving

}  // namespace winnow
