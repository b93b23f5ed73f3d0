#include "winnow/train/feed.h"

#include <ATen/ATen.h>

#include <fmt/format.h>

#include "winnow/base/error.h"

namespace winnow {
namespace {

// One image plane, cropped out of its zero-padded self and perhaps mirrored, through a level table.
void copy_plane(const std::uint8_t* from, std::int64_t height, std::int64_t width, std::int64_t dy,
                std::int64_t dx, bool flip, const std::array<float, 256>& levels, float* to) {
  for (std::int64_t y = 0; y < height; ++y) {
    const std::int64_t source_y = y + dy;
    float* row = to + y * width;
    if (source_y < 0 || source_y >= height) {
      std::fill(row, row + width, levels[0]);
      continue;
    }
    const std::uint8_t* source = from + source_y * width;
    for (std::int64_t x = 0; x < width; ++x) {
      const std::int64_t source_x = (flip ? width - 1 - x : x) + dx;
      const bool inside = source_x >= 0 && source_x < width;
      row[x] = levels[inside ? source[source_x] : 0];
    }
  }
}

}  // namespace

Feed::Feed(const at::Tensor& images, const Normalisation& normalisation, std::int64_t resize,
           at::Device device, std::int64_t crop)
    : images_(images.to(device).contiguous()), resize_(resize), crop_(crop) {
  const auto channels = static_cast<std::size_t>(images.size(1));
  if (normalisation.mean.size() != channels || normalisation.std.size() != channels) {
    throw Error(ErrorKind::experiment,
                fmt::format("data.mean and data.std have {} and {} values, the images {} channels",
                            normalisation.mean.size(), normalisation.std.size(), channels));
  }
  levels_.resize(channels);
  std::vector<float> scale(channels);
  std::vector<float> shift(channels);
  for (std::size_t c = 0; c < channels; ++c) {
    const double mean = normalisation.mean[c];
    const double std = normalisation.std[c];
    for (std::size_t level = 0; level < 256; ++level) {
      levels_[c][level] = static_cast<float>((static_cast<double>(level) / 255.0 - mean) / std);
    }
    scale[c] = static_cast<float>(1.0 / (255.0 * std));
    shift[c] = static_cast<float>(-mean / std);
  }
  const auto per_channel = [&](const std::vector<float>& values) {
    return at::tensor(values).view({1, images_.size(1), 1, 1}).to(device);
  };
  scale_ = per_channel(scale);
  shift_ = per_channel(shift);
}

at::Tensor Feed::batch(const at::Tensor& index, const Jitter& jitter, at::Tensor& buffer) const {
  at::Tensor images;
  if (images_.is_cpu()) {
    const std::int64_t count = index.size(0);
    if (!buffer.defined() || buffer.size(0) < count ||
        buffer.sizes().slice(1) != images_.sizes().slice(1)) {
      buffer = at::empty({count, images_.size(1), images_.size(2), images_.size(3)}, at::kFloat);
    }
    images = buffer.narrow(0, 0, count);
    fill_on_cpu(index, jitter, images);
  } else {
    images = make_on_device(index, jitter);
  }
  return fitted(images, jitter.defined());
}

at::Tensor Feed::fitted(at::Tensor images, bool moved) const {
  const auto scaled = [](const at::Tensor& from, std::int64_t size) {
    return size == 0 || (from.size(2) == size && from.size(3) == size)
               ? from
               : at::upsample_bilinear2d(from, {size, size}, /*align_corners=*/false);
  };
  if (crop_ > 0 && moved) {
    images = images.narrow(2, padding(), crop_).narrow(3, padding(), crop_);
    images = images.contiguous(images.suggest_memory_format());
  }
  return scaled(scaled(images, crop_), resize_);
}

void Feed::fill_on_cpu(const at::Tensor& index, const Jitter& jitter, at::Tensor& out) const {
  const std::int64_t height = images_.size(2);
  const std::int64_t width = images_.size(3);
  const std::int64_t channels = images_.size(1);
  const auto* bytes = images_.data_ptr<std::uint8_t>();
  const auto* samples = index.data_ptr<std::int64_t>();
  const auto* moves = jitter.defined() ? jitter.data_ptr<std::int64_t>() : nullptr;
  auto* target = out.data_ptr<float>();
  for (std::int64_t i = 0; i < index.size(0); ++i) {
    for (std::int64_t c = 0; c < channels; ++c) {
      const std::uint8_t* from = bytes + (samples[i] * channels + c) * height * width;
      float* to = target + (i * channels + c) * height * width;
      const auto& levels = levels_[static_cast<std::size_t>(c)];
      if (moves == nullptr) {
        for (std::int64_t p = 0; p < height * width; ++p) {
          to[p] = levels[from[p]];
        }
        continue;
      }
      const std::int64_t* move = moves + 3 * i;
      copy_plane(from, height, width, move[0] - padding(), move[1] - padding(), move[2] != 0,
                 levels, to);
    }
  }
}

at::Tensor Feed::make_on_device(const at::Tensor& index, const Jitter& jitter) const {
  at::Tensor images = images_.index_select(0, index);
  if (jitter.defined()) {
    const std::int64_t height = images.size(2);
    const std::int64_t width = images.size(3);
    const auto whole = at::device(images.device()).dtype(at::kLong);
    const at::Tensor padded =
        at::constant_pad_nd(images, {padding(), padding(), padding(), padding()}, 0);
    const at::Tensor columns = at::arange(width, whole);
    const at::Tensor flip = jitter.select(1, 2).unsqueeze(1);
    const at::Tensor x =
        at::where(flip.ne(0), width - 1 - columns, columns) + jitter.select(1, 1).unsqueeze(1);
    const at::Tensor y = at::arange(height, whole) + jitter.select(1, 0).unsqueeze(1);
    const std::int64_t count = images.size(0);
    const std::int64_t channels = images.size(1);
    const at::Tensor rows = padded.gather(
        2, y.view({count, 1, height, 1}).expand({count, channels, height, padded.size(3)}));
    images = rows.gather(3, x.view({count, 1, 1, width}).expand({count, channels, height, width}));
  }
  return images.to(at::kFloat).mul_(scale_).add_(shift_);
}

}  // namespace winnow
