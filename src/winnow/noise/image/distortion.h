// Image distortions chosen by name: the corruptions of CIFAR-10-C and the patches of the FedNS
// noise benchmark. spec: input-noise 1.8, 3
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "winnow/base/catalog.h"
#include "winnow/base/random.h"
#include "winnow/noise/image/distortion_image.h"
#include "winnow/noise/image/generative_surrogate.h"

namespace winnow {

// One distortion. apply() changes the image in place, draws only from the given stream, and may run
// on many threads at once for different images; severity must be 1..5 (parse_severity). Patches
// replace the whole image and ignore severity.
//
// Grey images (one channel) count as R = G = B, and the luma of the result is written back: mud and
// water become greys, and saturate changes nothing below severity 4 and darkens above, because
// there it tints grey with red.
struct DistortionInfo {
  std::string name;
  std::string summary;  // one line, for people
  bool uses_severity = true;
  std::function<void(ImageView image, int severity, Stream& stream)> apply;
};

// The one that many samples share a generator for; see distort_images().
inline constexpr const char* kGenerativeSurrogate = "generative_surrogate";

using Distortions = Catalog<DistortionInfo>;
const Distortions& builtin_distortions();

// The entry of that name. Unknown names, and `frost`, which needs photographs, are
// Error(experiment) that say what to use instead.
const DistortionInfo& find_distortion(std::string_view name, const Distortions& known);

// "low" | "medium" | "high" = 1, 3, 5, or a number 1..5 as text; else Error(experiment).
int parse_severity(std::string_view text);
int parse_severity(std::int64_t number);

// The names in an active set: main, patch, mixed, all or everything; unknown sets are
// Error(experiment).
const std::vector<std::string>& distortion_set(std::string_view name);

// What is to happen to one sample.
struct DistortionJob {
  std::int64_t sample = 0;                     // row of the image tensor
  const DistortionInfo* distortion = nullptr;  // must outlive the job
  int severity = 5;
};

// Distorts the named samples in place; images is uint8 [n,c,h,w], contiguous, on the CPU, c = 1
// or 3. Each sample may occur once and draws from the stream (seed, "distortion", sample), so the
// result does not depend on the number of threads or the order of the jobs. The generator of
// generative_surrogate is built once, from the seed. Errors leave the images untouched.
void distort_images(at::Tensor& images, std::span<const DistortionJob> jobs, std::uint64_t seed,
                    int threads, GenMode gen_mode = GenMode::per_sample);

}  // namespace winnow
