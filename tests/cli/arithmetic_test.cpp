// The program computes with what it is told to, whatever its environment says.
#include "winnow/base/arithmetic.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "cli/program.h"
#include "winnow/base/text.h"

namespace winnow::arithmetic_test {

using ::testing::HasSubstr;
using ::testing::StartsWith;

Json first_event(const std::filesystem::path& directory) {
  return Json::parse(split(read_file(directory / "events.jsonl"), '\n').front());
}

// Changes what the log of a run says it was computed with.
void forge(const std::filesystem::path& directory, const std::string& key,
           const std::string& value) {
  std::string events = read_file(directory / "events.jsonl");
  Json event = first_event(directory);
  event[key] = value;
  events.replace(0, events.find('\n'), event.dump());
  write_file_whole(directory / "events.jsonl", events);
}

bool native_is_baseline() {
  return parse_arithmetic("native") == Arithmetic::baseline;
}

// "HASH FINGERPRINT" of the small experiment.
std::string result_of(const Workshop& shop, const std::string& arithmetic, const Words& settings) {
  std::filesystem::remove_all(shop / "r");
  const Ended ended = winnow_program(
      {"run", "e.toml", "--out", "r", "--quiet", "--arithmetic", arithmetic}, shop.place(settings));
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_EQ(ended.err, "");
  const Json summary = Json::parse(read_file(shop / "r/summary.json"));
  EXPECT_EQ(summary.at("arithmetic"), arithmetic);
  EXPECT_EQ(first_event(shop / "r").at("arithmetic"), arithmetic);
  EXPECT_EQ(first_event(shop / "r").at("fingerprint"), summary.at("fingerprint"));
  return summary.at("model_hash").get<std::string>() + " " +
         summary.at("fingerprint").get<std::string>();
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST(Arithmetic, IsAdoptedBeforeLibTorchStarts) {
  const Workshop shop;
  const Ended ended = winnow_program(
      {"run", "e.toml", "--out", "r", "--quiet", "--arithmetic", "baseline"},
      shop.place({"LD_DEBUG=files", "LD_DEBUG_OUTPUT=" + (shop / "loader").string()}));
  EXPECT_EQ(ended.code, 0) << ended.err;
  int starts = 0;
  for (const std::string& name : names_in(shop / ".")) {
    if (name.starts_with("loader")) {
      for (const std::string& line : split(read_file(shop / name), '\n')) {
        starts += line.find("calling init:") != std::string::npos &&
                  line.find("libtorch_cpu") != std::string::npos;
      }
    }
  }
  EXPECT_EQ(starts, 1) << "the program started LibTorch and then started again";
}
#endif

class NamedArithmetic : public ::testing::TestWithParam<Arithmetic> {};

TEST_P(NamedArithmetic, GivesTheSameBitsWhateverTheLibrariesWereTold) {
  if (!cpu_has(GetParam())) {
    GTEST_SKIP() << "this CPU does not have it";
  }
  // A network of convolutions and products, and noise that is drawn.
  const Workshop shop("[model]\nname = \"lenet5\"\n");
  std::set<std::string> results;
  for (const Words& settings :
       {Words{},
        {"OPENBLAS_CORETYPE=Prescott", "ONEDNN_MAX_CPU_ISA=SSE41", "DNNL_MAX_CPU_ISA=SSE41",
         "ATEN_CPU_CAPABILITY=default", "GLIBC_TUNABLES=glibc.cpu.hwcaps=-AVX2,-FMA"},
        {"OPENBLAS_CORETYPE=Haswell", "ONEDNN_MAX_CPU_ISA=AVX2", "ATEN_CPU_CAPABILITY=avx2",
         "OMP_NUM_THREADS=3", "OPENBLAS_NUM_THREADS=2"},
        {"OPENBLAS_CORETYPE=SkylakeX", "DNNL_MAX_CPU_ISA=AVX", "ATEN_CPU_CAPABILITY=avx512",
         "GLIBC_TUNABLES=glibc.cpu.hwcaps=-AVX512F:glibc.malloc.check=0"}}) {
    results.insert(result_of(shop, arithmetic_name(GetParam()), settings));
  }
  EXPECT_EQ(results.size(), 1U) << ::testing::PrintToString(results);
}

INSTANTIATE_TEST_SUITE_P(Arithmetic, NamedArithmetic,
                         ::testing::Values(Arithmetic::avx512, Arithmetic::avx2,
                                           Arithmetic::baseline),
                         [](const auto& info) { return arithmetic_name(info.param); });

TEST(Arithmetic, FingerprintsTellThemApart) {
  if (native_is_baseline()) {
    GTEST_SKIP() << "this CPU has only one";
  }
  const Workshop shop;
  EXPECT_NE(result_of(shop, "baseline", {}),
            result_of(shop, arithmetic_name(parse_arithmetic("native")), {}));
}

TEST(Arithmetic, CanBeGivenBeforeAndAfterTheCommandOrByTheEnvironment) {
  const Workshop shop;
  shop.done({"--arithmetic", "baseline", "run", "e.toml", "--out", "before", "--quiet"});
  shop.done({"run", "e.toml", "--arithmetic=baseline", "--out", "after", "--quiet"});
  const Ended ended = winnow_program({"run", "e.toml", "--out", "environment", "--quiet"},
                                     shop.place({"WINNOW_ARITHMETIC=baseline"}));
  EXPECT_EQ(ended.code, 0) << ended.err;
  for (const char* name : {"before", "after", "environment"}) {
    EXPECT_EQ(first_event(shop / name).at("arithmetic"), "baseline") << name;
  }
}

TEST(Arithmetic, AnUnknownOneIsAUsageErrorForEveryCommand) {
  const Workshop shop;
  for (const Words& words : {Words{"run", "e.toml", "--arithmetic", "avx3"},
                             {"--arithmetic", "avx3", "list", "models"}}) {
    const Ended ended = shop.call(words);
    EXPECT_EQ(ended.code, 2);
    EXPECT_EQ(ended.err, "winnow: unknown arithmetic 'avx3'\n  did you mean 'avx2'?\n");
  }
  const Ended ended = winnow_program({"run", "e.toml"}, shop.place({"WINNOW_ARITHMETIC=fast"}));
  EXPECT_EQ(ended.code, 2);
  EXPECT_EQ(ended.err,
            "winnow: unknown arithmetic 'fast'\n  known: native, avx512, avx2, baseline\n");
}

TEST(Arithmetic, StandsInTheVersion) {
  const Workshop shop;
  const Ended ended = winnow_program({"--version"}, shop.place({"WINNOW_ARITHMETIC=baseline"}));
  EXPECT_THAT(ended.out, HasSubstr("\narithmetic: baseline (this CPU has "));
}

TEST(Arithmetic, ResumeAndVerifyFollowTheRun) {
  if (native_is_baseline()) {
    GTEST_SKIP() << "this CPU has only one";
  }
  const Workshop shop;
  shop.done({"run", "e.toml", "--out", "r", "--quiet", "--arithmetic", "baseline"});
  const Place place = shop.place({"WINNOW_ARITHMETIC=native"});
  const std::string said = "r was computed with the baseline kernels; continuing with them\n";

  const Ended verified = winnow_program({"verify", "r"}, place);
  EXPECT_EQ(verified.code, 0);
  EXPECT_EQ(verified.err, said);
  EXPECT_EQ(verified.out, "4 rounds verified, every model hash agrees\n");

  std::filesystem::remove(shop / "r/summary.json");
  const Ended resumed = winnow_program({"resume", "r", "--quiet"}, place);
  EXPECT_EQ(resumed.code, 0);
  EXPECT_EQ(resumed.err, said);
  const Json summary = Json::parse(read_file(shop / "r/summary.json"));
  EXPECT_EQ(summary.at("arithmetic"), "baseline");
}

TEST(Arithmetic, ResumeAndVerifyRefuseAnotherOne) {
  if (native_is_baseline()) {
    GTEST_SKIP() << "this CPU has only one";
  }
  const Workshop shop;
  const std::string native = arithmetic_name(parse_arithmetic("native"));
  shop.done({"run", "e.toml", "--out", "r", "--quiet", "--arithmetic", "baseline"});
  std::filesystem::remove(shop / "r/summary.json");
  for (const char* command : {"resume", "verify"}) {
    const Ended ended = shop.call({command, "r", "--arithmetic", "native"});
    EXPECT_EQ(ended.code, 5);
    EXPECT_EQ(ended.err, "winnow: r was computed with the arithmetic baseline, not " + native +
                             "\n  leave --arithmetic out, or start a new run with 'winnow run'\n");
  }
  forge(shop / "r", "arithmetic", "avx1024");
  for (const char* command : {"resume", "verify"}) {
    const Ended ended = shop.call({command, "r"});
    EXPECT_EQ(ended.code, 5);
    EXPECT_EQ(ended.err,
              "winnow: r was computed with the arithmetic avx1024, which this CPU does not have\n"
              "  use a CPU that has it, or start a new run with 'winnow run'\n");
  }
}

TEST(Arithmetic, AnotherFingerprintIsAWarning) {
  const Workshop shop;
  shop.done({"run", "e.toml", "--out", "r", "--quiet"});
  const auto here = first_event(shop / "r").at("fingerprint").get<std::string>();
  forge(shop / "r", "fingerprint", "0123456789abcdef");
  const std::string warning =
      "warning: r was computed with other versions of the libraries (fingerprint "
      "0123456789abcdef, here " +
      here + "): the bits may differ\n";
  const Ended verified = shop.done({"verify", "r"});
  EXPECT_EQ(verified.err, warning);
  std::filesystem::remove(shop / "r/summary.json");
  std::filesystem::remove_all(shop / "r/checkpoint");  // which knows the hash of the log
  EXPECT_THAT(shop.done({"resume", "r", "--quiet"}).err, StartsWith(warning));
}

TEST(Arithmetic, RunsOfASweepGetIt) {
  const Workshop shop("[grid]\nseed = [1]\n");
  shop.done({"sweep", "e.toml", "--out", "s", "--quiet", "--arithmetic", "baseline"});
  bool seen = false;
  for (const auto& entry : std::filesystem::directory_iterator(shop / "s")) {
    if (std::filesystem::exists(entry.path() / "events.jsonl")) {
      EXPECT_EQ(first_event(entry.path()).at("arithmetic"), "baseline");
      seen = true;
    }
  }
  EXPECT_TRUE(seen);
}

TEST(Arithmetic, ThePeerOfABenchmarkGetsItToo) {
  const Workshop shop;
  write_file_whole(shop / "peer.sh",
                   "echo '{\"steps_per_second\": 1.0, \"torch\": \"'"
                   "$OPENBLAS_CORETYPE $ONEDNN_MAX_CPU_ISA $ATEN_CPU_CAPABILITY'\"}'\n");
  const Words words{"bench",   "--job",    "clients-100", "--seconds",    "0.1",
                    "--lanes", "1",        "--python",    "sh",           "--peer",
                    "peer.sh", "--device", "cpu",         "--arithmetic", "baseline"};
  const Ended ended = shop.done(words);
  EXPECT_THAT(ended.out, HasSubstr("\narithmetic of both: baseline, fingerprint "));
  EXPECT_THAT(ended.out, HasSubstr("\npeer: torch Nehalem SSE41 default, "));
}

}  // namespace winnow::arithmetic_test
