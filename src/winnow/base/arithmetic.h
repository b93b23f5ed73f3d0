// The kernels that LibTorch and the libraries below it compute with, chosen by name and not by what
// each of them makes of the CPU it runs on. Under the same name every x86-64 CPU that has it gives
// the same bits.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace winnow {

enum class Arithmetic {
  avx512,    // AVX-512 F, DQ, BW, VL and CD, but nothing later
  avx2,      // AVX2 and FMA
  baseline,  // SSE4.2, for CPUs without AVX2: slow
};

// All of them, the fastest first.
std::span<const Arithmetic> all_arithmetics();
std::string arithmetic_name(Arithmetic arithmetic);
bool cpu_has(Arithmetic arithmetic);

// By its name; "native" is the best this CPU has. Throws Error(kind usage) for an unknown name and
// for one this CPU does not have.
Arithmetic parse_arithmetic(const std::string& name);
// What WINNOW_ARITHMETIC says, or else "native".
Arithmetic default_arithmetic();

// What a value of GLIBC_TUNABLES becomes: the C library's choice of kernels by CPU is taken out and
// fixed, everything else stays.
std::string pinned_tunables(Arithmetic arithmetic, std::string_view tunables);

// The environment of a process that computes with it: what replaces whatever was set.
std::vector<std::pair<std::string, std::string>> arithmetic_environment(Arithmetic arithmetic);

// Makes this process compute with an arithmetic. The libraries read their settings when they are
// loaded, so unless they are right already this sets them and starts the program again, with the
// same arguments and in the same process; it then returns in the new one. Call it first thing in
// main(), before any thread. Throws Error(kind run) where that is impossible.
void adopt_arithmetic(Arithmetic arithmetic, const char* const* argv);

// The name of what this process has adopted, or else this one.
inline constexpr const char* kUnnamedArithmetic = "unnamed";
std::string current_arithmetic();

}  // namespace winnow
