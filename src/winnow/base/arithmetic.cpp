#include "winnow/base/arithmetic.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "winnow/base/error.h"
#include "winnow/base/text.h"

namespace winnow {
namespace {

constexpr std::array kAll{Arithmetic::avx512, Arithmetic::avx2, Arithmetic::baseline};

// Says which process has set what, so that none starts itself again for ever. The number of a
// process outlives its exec().
constexpr const char* kGuard = "WINNOW_ARITHMETIC_SET_BY";
constexpr const char* kTunables = "GLIBC_TUNABLES";

// The names of one arithmetic in the libraries.
struct Kernels {
  const char* name;
  const char* openblas;
  const char* onednn;
  const char* aten;
  const char* mkl;
};

const Kernels& kernels_of(Arithmetic arithmetic) {
  static constexpr Kernels kAvx512{"avx512", "SkylakeX", "AVX512_CORE", "avx512", "AVX512"};
  static constexpr Kernels kAvx2{"avx2", "Haswell", "AVX2", "avx2", "AVX2"};
  static constexpr Kernels kBaseline{"baseline", "Nehalem", "SSE41", "default", "SSE4_2"};
  switch (arithmetic) {
    case Arithmetic::avx512:
      return kAvx512;
    case Arithmetic::avx2:
      return kAvx2;
    case Arithmetic::baseline:
      break;
  }
  return kBaseline;
}

std::string variable(const char* name) {
  const char* value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): no thread sets any
  return value == nullptr ? "" : value;
}

void set_variable(const std::string& name, const std::string& value) {
  // NOLINTBEGIN(concurrency-mt-unsafe): no other thread runs yet
  if (value.empty()) {
    ::unsetenv(name.c_str());
  } else {
    ::setenv(name.c_str(), value.c_str(), /*overwrite=*/1);
  }
  // NOLINTEND(concurrency-mt-unsafe)
}

bool is_set(const std::pair<std::string, std::string>& setting) {
  return variable(setting.first.c_str()) == setting.second;
}

}  // namespace

std::span<const Arithmetic> all_arithmetics() {
  return kAll;
}

std::string arithmetic_name(Arithmetic arithmetic) {
  return kernels_of(arithmetic).name;
}

bool cpu_has(Arithmetic arithmetic) {
  __builtin_cpu_init();
  const bool baseline = __builtin_cpu_supports("sse4.2") != 0;
  const bool avx2 =
      baseline && __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0;
  switch (arithmetic) {
    case Arithmetic::avx512:
      return avx2 && __builtin_cpu_supports("avx512f") != 0 &&
             __builtin_cpu_supports("avx512dq") != 0 && __builtin_cpu_supports("avx512bw") != 0 &&
             __builtin_cpu_supports("avx512vl") != 0 && __builtin_cpu_supports("avx512cd") != 0;
    case Arithmetic::avx2:
      return avx2;
    case Arithmetic::baseline:
      break;
  }
  return baseline;
}

Arithmetic parse_arithmetic(const std::string& name) {
  if (name == "native") {
    const auto best = std::ranges::find_if(kAll, cpu_has);
    if (best == kAll.end()) {
      throw Error(ErrorKind::usage, "this CPU is older than SSE4.2 and cannot run Winnow");
    }
    return *best;
  }
  std::vector<std::string> known{"native"};
  for (const Arithmetic arithmetic : kAll) {
    known.push_back(arithmetic_name(arithmetic));
    if (known.back() != name) {
      continue;
    }
    if (!cpu_has(arithmetic)) {
      throw Error(ErrorKind::usage, fmt::format("this CPU does not have the arithmetic '{}'", name),
                  "'--arithmetic native' takes the best it has");
    }
    return arithmetic;
  }
  throw Error(ErrorKind::usage, fmt::format("unknown arithmetic '{}'", name),
              suggestion(name, known));
}

Arithmetic default_arithmetic() {
  const std::string asked = variable("WINNOW_ARITHMETIC");
  return parse_arithmetic(asked.empty() ? "native" : asked);
}

std::string pinned_tunables(Arithmetic arithmetic, std::string_view tunables) {
  std::string kept;
  const auto keep = [&](std::string_view entry) {
    kept += fmt::format("{}{}", kept.empty() ? "" : ":", entry);
  };
  for (const std::string& entry : split(std::string(tunables), ':')) {
    if (!entry.empty() && !entry.starts_with("glibc.cpu.hwcaps=")) {
      keep(entry);
    }
  }
  // Every CPU with AVX2 and FMA gets the same functions of libm. Of the others only some have FMA.
  if (arithmetic == Arithmetic::baseline) {
    keep("glibc.cpu.hwcaps=-AVX2,-FMA,-FMA4");
  }
  return kept;
}

std::vector<std::pair<std::string, std::string>> arithmetic_environment(Arithmetic arithmetic) {
  const Kernels& kernels = kernels_of(arithmetic);
  std::vector<std::pair<std::string, std::string>> settings{
      {"WINNOW_ARITHMETIC", kernels.name},
      {"OPENBLAS_CORETYPE", kernels.openblas},
      {"ATEN_CPU_CAPABILITY", kernels.aten},
      {"MKL_CBWR", kernels.mkl},
      {"MKL_ENABLE_INSTRUCTIONS", kernels.mkl},
      {kTunables, pinned_tunables(arithmetic, variable(kTunables))}};
  // oneDNN reads its variables under its present and under its former name.
  for (const char* prefix : {"ONEDNN", "DNNL"}) {
    settings.emplace_back(fmt::format("{}_MAX_CPU_ISA", prefix), kernels.onednn);
    settings.emplace_back(fmt::format("{}_CPU_ISA_HINTS", prefix), "NO_HINTS");
    settings.emplace_back(fmt::format("{}_DEFAULT_FPMATH_MODE", prefix), "STRICT");
  }
  return settings;
}

void adopt_arithmetic(Arithmetic arithmetic, const char* const* argv) {
  const auto settings = arithmetic_environment(arithmetic);
  if (std::ranges::all_of(settings, is_set)) {
    return;
  }
  const std::string mark = fmt::format("{} {}", ::getpid(), arithmetic_name(arithmetic));
  if (variable(kGuard) == mark) {
    throw Error(ErrorKind::run,
                fmt::format("cannot compute with '{}': something changes the environment of this "
                            "program while it starts",
                            arithmetic_name(arithmetic)));
  }
  for (const auto& [name, value] : settings) {
    set_variable(name, value);
  }
  set_variable(kGuard, mark);
  ::execv("/proc/self/exe", const_cast<char* const*>(argv));
  throw Error(ErrorKind::run,
              fmt::format("cannot start this program again: {}", std::strerror(errno)));
}

std::string current_arithmetic() {
  for (const Arithmetic arithmetic : kAll) {
    if (std::ranges::all_of(arithmetic_environment(arithmetic), is_set)) {
      return arithmetic_name(arithmetic);
    }
  }
  return kUnnamedArithmetic;
}

}  // namespace winnow
