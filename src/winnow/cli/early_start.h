// For the main.cpp of a program, and for nothing else: has the program adopt its arithmetic before
// any library starts. Setting up LibTorch takes a quarter of a second, lost when the program
// then starts itself again. What this gets wrong the program puts right later.
#pragma once

#include <unistd.h>

#include "winnow/cli/arithmetic_choice.h"

// The sanitizers must be the first to run.
#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define WINNOW_SANITIZED
#endif
#elif defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define WINNOW_SANITIZED
#endif
#if defined(__GLIBC__) && !defined(WINNOW_SANITIZED)
namespace {

void start_early(int /*argc*/, char** argv, char** variables) {
  environ = variables;  // the C library sets it later
  winnow::guess_arithmetic(argv);
}

// NOLINTNEXTLINE(cppcoreguidelines-avoid-non-const-global-variables)
[[gnu::used, gnu::section(".preinit_array")]] void (*const kStartEarly)(int, char**,
                                                                        char**) = start_early;

}  // namespace
#endif
