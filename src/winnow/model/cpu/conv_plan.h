// Convolutions of one extent, planned once: oneDNN's primitives and the memory between them. ATen
// looks for the same kernels in every call, so the bits are the same. Only in builds with oneDNN's
// headers.
#pragma once

#include <cstdint>
#include <memory>

namespace winnow {

// A square kernel with stride 1, and a map whose channels lie side by side.
struct ConvExtent {
  std::int64_t images = 0;
  std::int64_t in = 0;
  std::int64_t height = 0;
  std::int64_t width = 0;
  std::int64_t out = 0;
  std::int64_t kernel = 0;
  std::int64_t padding = 0;

  std::int64_t out_height() const { return height + 2 * padding - kernel + 1; }
  std::int64_t out_width() const { return width + 2 * padding - kernel + 1; }
  auto operator<=>(const ConvExtent&) const = default;
};

// Not thread-safe.
class ConvPlan {
 public:
  explicit ConvPlan(const ConvExtent& extent);
  ~ConvPlan();

  // Weights are contiguous, as in a model's state.
  void forward(const float* x, const float* weight, const float* bias, float* y);
  void weight_gradient(const float* x, const float* of_y, float* of_weight, float* of_bias);
  void input_gradient(const float* weight, const float* of_y, float* of_x);

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

// The calling thread's own plan, which it keeps among those it used last; valid until the next call
// on this thread.
ConvPlan& conv_plan(const ConvExtent& extent);

}  // namespace winnow
