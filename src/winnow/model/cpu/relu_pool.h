// ReLU and the maximum over disjoint 2x2 windows as one pass over memory each way, for maps whose
// channels lie side by side. Only comparisons, so the results are ATen's to the last bit.
#pragma once

#include <cstdint>

namespace winnow {

// Of the map that is pooled. A last odd row or column is in no window.
struct MapShape {
  std::int64_t images = 0;
  std::int64_t height = 0;
  std::int64_t width = 0;
  std::int64_t channels = 0;

  std::int64_t values() const { return images * height * width * channels; }
  std::int64_t pooled_values() const { return images * (height / 2) * (width / 2) * channels; }
};

// Whether this CPU can (AVX2).
bool has_relu_pool();

// `winner` gets which value of its window each pooled one is, or that there is none above 0. The
// first of equal values wins; a NaN wins over numbers.
void relu_pool_forward(const float* map, const MapShape& shape, float* pooled,
                       std::int32_t* winner);
// The gradient of the map, all of it.
void relu_pool_gradient(const float* of_pooled, const std::int32_t* winner, const MapShape& shape,
                        float* of_map);

}  // namespace winnow
