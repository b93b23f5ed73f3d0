#include "winnow/engine/fingerprint.h"

#include <ATen/ATen.h>

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>

#include "winnow/base/random.h"
#include "winnow/base/sha256.h"
#include "winnow/engine/threads.h"

namespace winnow {
namespace {

class Exercise {
 public:
  std::string digest() {
    for (const auto& [rows, inner, columns] : std::initializer_list<std::array<std::int64_t, 3>>{
             {5, 7, 3}, {10, 400, 120}, {33, 129, 65}, {50, 84, 10}}) {
      product(rows, inner, columns);
    }
    // LeNet-5's first layer, one with blocks of channels, one by one, and with a stride.
    convolution(1, 6, 13, 5, 1);
    convolution(16, 32, 8, 3, 1);
    convolution(24, 16, 7, 1, 1);
    convolution(3, 20, 9, 3, 2);
    functions();
    c_library();
    draws();
    return hash_.hex().substr(0, 16);
  }

 private:
  at::Tensor some(at::IntArrayRef shape) {
    at::Tensor tensor = at::empty(shape, at::kFloat);
    auto* values = tensor.data_ptr<float>();
    for (std::int64_t i = 0; i < tensor.numel(); ++i) {
      values[i] = static_cast<float>(stream_.uniform(-1.0, 1.0));
    }
    return tensor;
  }

  void take(const at::Tensor& tensor) {
    const at::Tensor flat = tensor.contiguous();
    hash_.update({static_cast<const std::byte*>(flat.data_ptr()), flat.nbytes()});
  }

  void product(std::int64_t rows, std::int64_t inner, std::int64_t columns) {
    const at::Tensor left = some({rows, inner});
    take(left.mm(some({inner, columns})));
    take(left.mm(some({columns, inner}).t()));
    take(left.t().mm(some({rows, columns})));
    take(left.mv(some({inner})));
  }

  void convolution(std::int64_t in, std::int64_t out, std::int64_t side, std::int64_t kernel,
                   std::int64_t stride) {
    const std::array<std::int64_t, 2> strides{stride, stride};
    const std::array<std::int64_t, 2> padding{kernel / 2, kernel / 2};
    const std::array<std::int64_t, 2> ones{1, 1};
    const std::array<std::int64_t, 2> none{0, 0};
    const at::Tensor images = some({3, in, side, side});
    const at::Tensor weight = some({out, in, kernel, kernel});
    const at::Tensor result = at::conv2d(images, weight, some({out}), strides, padding);
    take(result);
    const auto [to_images, to_weight, to_bias] = at::convolution_backward(
        some(result.sizes()), images, weight, at::IntArrayRef(out), strides, padding, ones,
        /*transposed=*/false, none, /*groups=*/1, {true, true, true});
    take(to_images);
    take(to_weight);
    take(to_bias);
  }

  // Odd sizes, so that what is left over beside the vectors counts as well.
  void functions() {
    const at::Tensor values = some({7, 43}) * 4.0;
    take(values.log_softmax(1));
    take(values.softmax(0));
    take(values.exp());
    take(values.abs().log());
    take(values.tanh());
    take(at::gelu(values));
    take(values.sum(0));
    take(values.sum());
    take(values.norm());
    take(values.to(at::kDouble).exp().log1p());
  }

  // ATen calls it for what it has no kernel of its own for. Its variants differ in few of these.
  void c_library() {
    for (int i = 1; i < 3000; ++i) {
      const double x = 0.0137 * i;
      const std::array<double, 3> values{std::exp(x), std::pow(x, 1.37), std::log(x)};
      hash_.update(std::as_bytes(std::span(values)));
    }
  }

  void draws() {
    for (int i = 0; i < 20; ++i) {
      for (const double value : {stream_.normal(), stream_.gamma(0.3), stream_.beta(2.0, 5.0),
                                 static_cast<double>(stream_.poisson(40.0))}) {
        hash_.update(std::as_bytes(std::span(&value, 1)));
      }
    }
  }

  Stream stream_{1, "fingerprint"};
  Sha256 hash_;
};

}  // namespace

const std::string& fingerprint() {
  static const std::string made = [] {
    use_one_thread_per_operation();
    keep_one_thread_per_operation();
    return Exercise().digest();
  }();
  return made;
}

}  // namespace winnow
