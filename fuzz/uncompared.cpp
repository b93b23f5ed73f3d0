// For targets whose inputs are changed by a mutator that knows their form: what libFuzzer learns
// from comparisons is of little use to them and takes a third of their time, so comparisons are
// not reported. (Linked with --wrap, see CMakeLists.txt.)
#include <cstdint>

extern "C" {
void __wrap___sanitizer_cov_trace_cmp1(std::uint8_t, std::uint8_t) {}
void __wrap___sanitizer_cov_trace_cmp2(std::uint16_t, std::uint16_t) {}
void __wrap___sanitizer_cov_trace_cmp4(std::uint32_t, std::uint32_t) {}
void __wrap___sanitizer_cov_trace_cmp8(std::uint64_t, std::uint64_t) {}
void __wrap___sanitizer_cov_trace_const_cmp1(std::uint8_t, std::uint8_t) {}
void __wrap___sanitizer_cov_trace_const_cmp2(std::uint16_t, std::uint16_t) {}
void __wrap___sanitizer_cov_trace_const_cmp4(std::uint32_t, std::uint32_t) {}
void __wrap___sanitizer_cov_trace_const_cmp8(std::uint64_t, std::uint64_t) {}
void __wrap___sanitizer_cov_trace_switch(std::uint64_t, std::uint64_t*) {}
}
