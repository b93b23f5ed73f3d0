// A network: code over weights that live in a flat model state.
#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "winnow/base/catalog.h"
#include "winnow/base/random.h"
#include "winnow/model/state.h"

namespace winnow {

// Fills a tensor's values at the start of a run.
using Init = std::function<void(Stream&, std::span<float>)>;

// The weights of one network: declared while it is built, then bound to a flat buffer as views.
class Weights {
 public:
  // Declares a tensor and returns where it will be; the pointer stays valid for the object's life.
  // The tensor is undefined until bind().
  // A `precise` parameter stays float32 when the others are held in bfloat16.
  const at::Tensor* add(std::string name, std::vector<std::int64_t> shape, Init init,
                        SlotKind kind = SlotKind::parameter, bool precise = false);

  // The layout of everything declared so far; call when the network is complete.
  LayoutPtr layout() const;

  // Makes every tensor a view of `flat`, and every gradient a view of `gradient` (same device, at
  // least layout()->parameters() values). An undefined `gradient` binds for inference only.
  void bind(const at::Tensor& flat, const at::Tensor& gradient);
  // Makes parameters views of `copy` instead, and running statistics views of `statistics`, buffers
  // of copy_size() values that somebody keeps equal to them; counters are views of `flat`. With
  // `channels_last`, the weights of convolutions lie in the copy in that order. A bfloat16 copy
  // leaves precise parameters in `flat`. No gradient views are made.
  void bind_copy(const at::Tensor& flat, const at::Tensor& copy, const at::Tensor& statistics,
                 bool channels_last);
  // In a copy every tensor starts where kernels can load several values at once: the offset of each
  // tensor of a kind, in the order of the layout, and the size of the whole.
  std::vector<std::int64_t> copy_offsets(SlotKind kind = SlotKind::parameter) const;
  std::int64_t copy_size(SlotKind kind = SlotKind::parameter) const;

  // The bound parameters in the order of the layout.
  std::vector<std::pair<Slot, at::Tensor>> parameters() const;

  // Fresh values from a stream per tensor, keyed by seed and name: independent of device and order.
  State initial(std::uint64_t seed) const;

 private:
  struct Declared {
    Slot slot;
    Init init;
    bool precise = false;
    at::Tensor tensor = {};
  };
  std::deque<Declared> declared_;
};

// What a network has to fit.
struct NetShape {
  std::int64_t classes = 10;
  std::int64_t channels = 3;
  std::int64_t height = 32;
  std::int64_t width = 32;
};

// How a forward pass is meant.
struct Pass {
  bool training = false;                   // batch statistics and dropout on
  const at::Generator* dropout = nullptr;  // where dropout masks come from, when training
};

// A network is a feature extractor followed by one linear head.
// Not thread-safe: a lane owns its network.
class Net {
 public:
  virtual ~Net() = default;

  // Normalised float images [batch, channels, height, width] to the head's input [batch, d].
  virtual at::Tensor features(const at::Tensor& images, const Pass& pass) const = 0;
  at::Tensor logits(const at::Tensor& features) const;
  // logits(features(images)); the one pass that a network without features of its own has, too.
  virtual at::Tensor forward(const at::Tensor& images, const Pass& pass) const {
    return logits(features(images, pass));
  }

  Weights& weights() { return weights_; }
  const Weights& weights() const { return weights_; }
  // Names of the head's tensors in the layout, "fc.weight" and "fc.bias" for instance.
  const std::string& head_name() const { return head_name_; }
  std::int64_t classes() const { return classes_; }
  // Throws Error(kind experiment) where features() cannot be had, saying what is missing.
  virtual void check_features() const {}

 protected:
  // Declares the head; every constructor calls it once.
  void declare_head(const std::string& name, std::int64_t in, std::int64_t out, Init weight,
                    Init bias);
  // Its tensors, for networks whose code is not over Weights; null before declare_head().
  const at::Tensor* head_weight() const { return head_weight_; }
  const at::Tensor* head_bias() const { return head_bias_; }

  Weights weights_;
  std::int64_t classes_ = 0;  // logits of an image; declare_head() knows it

 private:
  std::string head_name_;
  const at::Tensor* head_weight_ = nullptr;
  const at::Tensor* head_bias_ = nullptr;
};

// Makes one more network like the others of a run.
using MakeNet = std::function<std::unique_ptr<Net>()>;

// An entry of the zoo.
struct NetInfo {
  std::string name;
  std::string summary;
  NetShape usual;           // the shape its published parameter count is for
  std::int64_t resize = 0;  // the square input it was made for; 0: takes images as they are
  std::function<std::unique_ptr<Net>(const NetShape&)> make;
};

// The networks of a program, in the order `winnow list models` shows them.
using Networks = Catalog<NetInfo>;
const Networks& builtin_networks();

}  // namespace winnow
