// What a test asserts about an error: its text as a person would read it.
#pragma once

#include <functional>
#include <string>

#include "winnow/base/error.h"

namespace winnow {

// "message | hint" of the Error that the action throws, the message alone where there is no hint,
// or "no error".
inline std::string error_text(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.hint().empty() ? error.what() : std::string(error.what()) + " | " + error.hint();
  }
  return "no error";
}

}  // namespace winnow
