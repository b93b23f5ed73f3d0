#include "winnow/model/cpu/relu_pool.h"

#include <immintrin.h>

#include <algorithm>
#include <cmath>

#define WINNOW_AVX2 __attribute__((target("avx2")))

namespace winnow {
namespace {

constexpr std::int64_t kLanes = 8;
constexpr std::int32_t kNobody = 4;  // the ReLU lets nothing through

// Where the channels of one window begin: of its four pixels and of the pooled one.
struct Window {
  std::int64_t top = 0;
  std::int64_t bottom = 0;
  std::int64_t pooled = 0;
};

Window window_at(const MapShape& shape, std::int64_t image, std::int64_t row, std::int64_t column) {
  const std::int64_t top =
      ((image * shape.height + 2 * row) * shape.width + 2 * column) * shape.channels;
  return {
      .top = top,
      .bottom = top + shape.width * shape.channels,
      .pooled = ((image * (shape.height / 2) + row) * (shape.width / 2) + column) * shape.channels};
}

void pool_one(const float* map, const MapShape& shape, const Window& at, std::int64_t channel,
              float* pooled, std::int32_t* winner) {
  const std::int64_t places[] = {at.top, at.top + shape.channels, at.bottom,
                                 at.bottom + shape.channels};
  float best = 0.0F;
  std::int32_t who = 0;
  for (std::int32_t number = 0; number < 4; ++number) {
    const float value = map[places[number] + channel];
    const float rectified = value < 0.0F ? 0.0F : value;
    if (number == 0 || rectified > best || std::isnan(rectified)) {
      best = rectified;
      who = number;
    }
  }
  pooled[at.pooled + channel] = best;
  winner[at.pooled + channel] = best <= 0.0F ? kNobody : who;
}

WINNOW_AVX2 __m256 rectified(const float* value) {
  // Where one of the two is NaN, or both are zeros, the second is the maximum.
  return _mm256_max_ps(_mm256_setzero_ps(), _mm256_loadu_ps(value));
}

// Eight channels of a window from `channel` on.
WINNOW_AVX2 void pool_eight(const float* map, const MapShape& shape, const Window& at,
                            std::int64_t channel, float* pooled, std::int32_t* winner) {
  const float* first = map + channel;
  const float* places[] = {first + at.top, first + at.top + shape.channels, first + at.bottom,
                           first + at.bottom + shape.channels};
  __m256 best = rectified(places[0]);
  __m256i who = _mm256_setzero_si256();
  for (int number = 1; number < 4; ++number) {
    const __m256 value = rectified(places[number]);
    const __m256 wins = _mm256_or_ps(_mm256_cmp_ps(value, best, _CMP_GT_OQ),
                                     _mm256_cmp_ps(value, value, _CMP_UNORD_Q));
    best = _mm256_blendv_ps(best, value, wins);
    who = _mm256_blendv_epi8(who, _mm256_set1_epi32(number), _mm256_castps_si256(wins));
  }
  const __m256 none = _mm256_cmp_ps(best, _mm256_setzero_ps(), _CMP_LE_OQ);
  who = _mm256_blendv_epi8(who, _mm256_set1_epi32(kNobody), _mm256_castps_si256(none));
  _mm256_storeu_ps(pooled + at.pooled + channel, best);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(winner + at.pooled + channel), who);
}

// The gradient of one pixel, which is number `number` of its window and begins at `place`.
WINNOW_AVX2 void hand_back(const float* of_pooled, const std::int32_t* winner,
                           const MapShape& shape, std::int64_t pooled, std::int32_t number,
                           std::int64_t place, float* of_map) {
  const __m256i numbers = _mm256_set1_epi32(number);
  for (std::int64_t channel = 0; channel < shape.channels; channel += kLanes) {
    const std::int64_t from = pooled + channel;
    float* to = of_map + place + channel;
    if (place + channel + kLanes <= shape.values() && from + kLanes <= shape.pooled_values()) {
      const __m256i who = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(winner + from));
      const __m256 mine = _mm256_castsi256_ps(_mm256_cmpeq_epi32(who, numbers));
      _mm256_storeu_ps(to, _mm256_and_ps(_mm256_loadu_ps(of_pooled + from), mine));
      continue;
    }
    const std::int64_t count = std::min(kLanes, shape.channels - channel);
    for (std::int64_t one = 0; one < count; ++one) {
      to[one] = winner[from + one] == number ? of_pooled[from + one] : 0.0F;
    }
  }
}

}  // namespace

bool has_relu_pool() {
  return __builtin_cpu_supports("avx2") != 0;
}

// Where a map has no multiple of eight channels, the last eight of a pixel reach into the next one,
// which comes later and overwrites what is wrong there.
WINNOW_AVX2 void relu_pool_forward(const float* map, const MapShape& shape, float* pooled,
                                   std::int32_t* winner) {
  const std::int64_t values = shape.values();
  const std::int64_t pooled_values = shape.pooled_values();
  for (std::int64_t image = 0; image < shape.images; ++image) {
    for (std::int64_t row = 0; row < shape.height / 2; ++row) {
      for (std::int64_t column = 0; column < shape.width / 2; ++column) {
        const Window at = window_at(shape, image, row, column);
        for (std::int64_t channel = 0; channel < shape.channels; channel += kLanes) {
          if (at.bottom + shape.channels + channel + kLanes <= values &&
              at.pooled + channel + kLanes <= pooled_values) {
            pool_eight(map, shape, at, channel, pooled, winner);
            continue;
          }
          const std::int64_t end = std::min(channel + kLanes, shape.channels);
          for (std::int64_t one = channel; one < end; ++one) {
            pool_one(map, shape, at, one, pooled, winner);
          }
        }
      }
    }
  }
}

WINNOW_AVX2 void relu_pool_gradient(const float* of_pooled, const std::int32_t* winner,
                                    const MapShape& shape, float* of_map) {
  for (std::int64_t image = 0; image < shape.images; ++image) {
    for (std::int64_t row = 0; row < shape.height; ++row) {
      const std::int64_t start = (image * shape.height + row) * shape.width * shape.channels;
      const std::int64_t columns = row / 2 < shape.height / 2 ? shape.width / 2 : 0;
      const std::int32_t left = row % 2 == 0 ? 0 : 2;
      for (std::int64_t column = 0; column < columns; ++column) {
        const std::int64_t pooled = window_at(shape, image, row / 2, column).pooled;
        const std::int64_t place = start + 2 * column * shape.channels;
        hand_back(of_pooled, winner, shape, pooled, left, place, of_map);
        hand_back(of_pooled, winner, shape, pooled, left + 1, place + shape.channels, of_map);
      }
      std::fill(of_map + start + 2 * columns * shape.channels,
                of_map + start + shape.width * shape.channels, 0.0F);
    }
  }
}

}  // namespace winnow
