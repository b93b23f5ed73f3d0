#include "winnow/run/runtime.h"

#include <fmt/format.h>
#include <torch/cuda.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>

#include "winnow/base/error.h"

namespace winnow {

FoldBy fold_by(const std::string& name) {
  constexpr std::array<const char*, 3> kNames{"best", "gather", "segments"};
  const auto found = std::ranges::find(kNames, name);
  if (found == kNames.end()) {
    throw Error(ErrorKind::usage, fmt::format("--fold {}: unknown", name),
                "expected best, gather or segments");
  }
  return static_cast<FoldBy>(found - kNames.begin());
}

std::string precision_name(Precision precision) {
  switch (precision) {
    case Precision::tf32:
      return "tf32";
    case Precision::bf16:
      return "bf16";
    default:
      return "fp32";
  }
}

Precision choose_precision(const std::string& name, at::Device device) {
  if (name == "auto") {
    return device.is_cpu() ? Precision::fp32 : Precision::tf32;
  }
  if (name == "fp32") {
    return Precision::fp32;
  }
  if (name != "tf32" && name != "bf16") {
    throw Error(ErrorKind::usage,
                fmt::format("--precision {}: expected fp32, tf32, bf16 or auto", name));
  }
  if (device.is_cpu()) {
    throw Error(ErrorKind::usage, fmt::format("--precision {}: a CPU computes in fp32", name),
                "leave --precision out, or use --device cuda");
  }
  return name == "tf32" ? Precision::tf32 : Precision::bf16;
}

at::Device choose_device(const std::string& name) {
  // More hardware queues than the default 8, so that the streams of many lanes do not wait for each
  // other. Read once, when CUDA starts; what the user has set is left alone.
  setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", /*overwrite=*/0);  // NOLINT(concurrency-mt-unsafe)
  const bool has_cuda = torch::cuda::is_available();
  if (name == "auto") {
    return has_cuda ? at::Device(at::kCUDA, 0) : at::Device(at::kCPU);
  }
  if (name == "cpu") {
    return at::kCPU;
  }
  if (name != "cuda" && !name.starts_with("cuda:")) {
    throw Error(ErrorKind::usage,
                fmt::format("--device {}: expected cpu, cuda, cuda:N or auto", name));
  }
  if (!has_cuda) {
    throw Error(ErrorKind::usage, fmt::format("--device {}: no CUDA device can be used here", name),
                "use --device cpu, or a LibTorch built with CUDA on a machine that has a GPU");
  }
  int index = 0;
  if (name.size() > 5) {
    const char* end = name.data() + name.size();
    const auto [rest, error] = std::from_chars(name.data() + 5, end, index);
    const auto count = static_cast<int>(torch::cuda::device_count());
    if (error != std::errc() || rest != end || index < 0 || index >= count) {
      throw Error(
          ErrorKind::usage,
          fmt::format("--device {}: there are {} CUDA devices, counted from 0", name, count));
    }
  }
  return {at::kCUDA, static_cast<at::DeviceIndex>(index)};
}

}  // namespace winnow
