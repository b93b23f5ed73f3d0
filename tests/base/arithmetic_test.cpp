#include "winnow/base/arithmetic.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "testing/errors.h"
#include "winnow/base/error.h"

namespace winnow::arithmetic_test {

std::map<std::string, std::string> settings(Arithmetic arithmetic) {
  std::map<std::string, std::string> all;
  for (const auto& [name, value] : arithmetic_environment(arithmetic)) {
    all[name] = value;
  }
  return all;
}

TEST(Arithmetic, EveryLibraryIsToldTheSame) {
  const auto avx2 = settings(Arithmetic::avx2);
  EXPECT_EQ(avx2.at("OPENBLAS_CORETYPE"), "Haswell");
  EXPECT_EQ(avx2.at("ONEDNN_MAX_CPU_ISA"), "AVX2");
  EXPECT_EQ(avx2.at("DNNL_MAX_CPU_ISA"), "AVX2");
  EXPECT_EQ(avx2.at("ATEN_CPU_CAPABILITY"), "avx2");
  EXPECT_EQ(avx2.at("MKL_CBWR"), "AVX2");
  const auto avx512 = settings(Arithmetic::avx512);
  EXPECT_EQ(avx512.at("OPENBLAS_CORETYPE"), "SkylakeX");
  EXPECT_EQ(avx512.at("ONEDNN_MAX_CPU_ISA"), "AVX512_CORE") << "nothing that only some have";
  EXPECT_EQ(avx512.at("ATEN_CPU_CAPABILITY"), "avx512");
  EXPECT_EQ(avx512.at("MKL_CBWR"), "AVX512");
}

TEST(Arithmetic, NativeIsTheBestThisCpuHas) {
  const Arithmetic native = parse_arithmetic("native");
  EXPECT_TRUE(cpu_has(native));
  for (const Arithmetic better : all_arithmetics()) {
    if (better == native) {
      break;
    }
    EXPECT_FALSE(cpu_has(better));
  }
}

TEST(Arithmetic, NamesAreReadBackAndOthersAreUsageErrors) {
  for (const Arithmetic arithmetic : all_arithmetics()) {
    const std::string name = arithmetic_name(arithmetic);
    if (cpu_has(arithmetic)) {
      EXPECT_EQ(parse_arithmetic(name), arithmetic);
    } else {
      EXPECT_EQ(error_text([&] { parse_arithmetic(name); }),
                "this CPU does not have the arithmetic '" + name +
                    "' | '--arithmetic native' takes the best it has");
    }
  }
  EXPECT_EQ(error_text([] { parse_arithmetic("avx3"); }),
            "unknown arithmetic 'avx3' | did you mean 'avx2'?");
}

TEST(Arithmetic, TunablesOfTheCLibraryKeepAllButTheChoiceOfKernels) {
  EXPECT_EQ(pinned_tunables(Arithmetic::avx2, ""), "");
  EXPECT_EQ(pinned_tunables(Arithmetic::avx2, "glibc.cpu.hwcaps=-AVX2,-FMA"), "");
  EXPECT_EQ(pinned_tunables(Arithmetic::avx512,
                            "glibc.malloc.check=1:glibc.cpu.hwcaps=-FMA:glibc.rtld.nns=4"),
            "glibc.malloc.check=1:glibc.rtld.nns=4");
  const std::string pinned = pinned_tunables(Arithmetic::baseline, "glibc.malloc.check=1");
  EXPECT_EQ(pinned, "glibc.malloc.check=1:glibc.cpu.hwcaps=-AVX2,-FMA,-FMA4");
  EXPECT_EQ(pinned_tunables(Arithmetic::baseline, pinned), pinned) << "or it would start for ever";
}

TEST(Arithmetic, TheseTestsHaveAdoptedOne) {
  EXPECT_EQ(current_arithmetic(), arithmetic_name(default_arithmetic()));
}

}  // namespace winnow::arithmetic_test
