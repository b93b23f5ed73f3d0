#include "winnow/data/fit.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "winnow/base/error.h"

namespace winnow {
namespace {

at::Tensor fit_channels(const at::Tensor& images, std::int64_t channels) {
  const std::int64_t have = images.size(1);
  if (have == channels) {
    return images;
  }
  if (have == 1 && channels == 3) {
    return images.repeat({1, 3, 1, 1});
  }
  if (have == 3 && channels == 1) {
    const at::Tensor weights = at::tensor({0.299, 0.587, 0.114}).view({1, 3, 1, 1});
    return images.to(at::kFloat)
        .mul(weights.to(at::kFloat))
        .sum(1, /*keepdim=*/true)
        .round()
        .to(at::kByte);
  }
  throw Error(
      ErrorKind::data,
      fmt::format("images with {} channels cannot be combined with images with {}", have, channels),
      "only grey (1) and colour (3) images can be combined");
}

}  // namespace

at::Tensor fit_images(const at::Tensor& images, std::int64_t channels, std::int64_t height,
                      std::int64_t width) {
  const at::Tensor fitting = fit_channels(images, channels);
  if (fitting.size(2) == height && fitting.size(3) == width) {
    return fitting.contiguous();
  }
  return at::upsample_bilinear2d(fitting.to(at::kFloat), {height, width}, /*align_corners=*/false)
      .round()
      .to(at::kByte);
}

}  // namespace winnow
