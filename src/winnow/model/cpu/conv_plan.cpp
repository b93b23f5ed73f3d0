#include "winnow/model/cpu/conv_plan.h"

#if WINNOW_WITH_ONEDNN

#include <algorithm>
#include <dnnl.hpp>
#include <list>

namespace winnow {
namespace {

using dnnl::algorithm;
using dnnl::memory;
using dnnl::prop_kind;

constexpr std::size_t kMostPlans = 16;  // of a thread

const dnnl::engine& processor() {
  static const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

memory::desc described(const memory::dims& dims, memory::format_tag order) {
  return {dims, memory::data_type::f32, order};
}

// Memory of somebody else's, named in every call.
memory lent(const memory::desc& desc) {
  return {desc, processor(), nullptr};
}

void lend(const memory& memory, const float* data) {
  memory.set_data_handle(const_cast<float*>(data));
}

// Its temporary memory is ours, as ATen has it.
dnnl::primitive_attr own_scratch() {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attributes;
}

}  // namespace

struct ConvPlan::Parts {
  explicit Parts(const ConvExtent& extent)
      : map(described({extent.images, extent.in, extent.height, extent.width},
                      memory::format_tag::acdb)),
        result(described({extent.images, extent.out, extent.out_height(), extent.out_width()},
                         memory::format_tag::acdb)),
        weights({extent.out, extent.in, extent.kernel, extent.kernel}),
        biases(described({extent.out}, memory::format_tag::a)),
        padding{extent.padding, extent.padding},
        forward({prop_kind::forward_training, algorithm::convolution_direct, map, any_weights(),
                 biases, result, strides, padding, padding},
                own_scratch(), processor()) {}

  memory::desc any_weights() const { return described(weights, memory::format_tag::any); }
  memory::desc plain_weights() const { return described(weights, memory::format_tag::abcd); }

  const memory::dims strides{1, 1};
  memory::desc map;
  memory::desc result;
  memory::dims weights;
  memory::desc biases;
  memory::dims padding;
  dnnl::convolution_forward::primitive_desc forward;
  dnnl::stream stream{processor()};

  struct Forward {
    explicit Forward(const Parts& parts)
        : run(parts.forward),
          x(lent(parts.map)),
          plain(lent(parts.plain_weights())),
          weight(parts.forward.weights_desc(), processor()),
          bias(lent(parts.biases)),
          y(lent(parts.result)),
          scratch(parts.forward.scratchpad_desc(), processor()),
          arrange(plain, weight) {}
    dnnl::convolution_forward run;
    memory x, plain, weight, bias, y, scratch;
    dnnl::reorder arrange;
  };

  struct WeightGradient {
    explicit WeightGradient(const Parts& parts)
        : plan({algorithm::convolution_direct, parts.map, parts.any_weights(), parts.biases,
                parts.result, parts.strides, parts.padding, parts.padding},
               own_scratch(), processor(), parts.forward),
          run(plan),
          x(lent(parts.map)),
          of_y(lent(parts.result)),
          weight(plan.diff_weights_desc(), processor()),
          plain(lent(parts.plain_weights())),
          bias(lent(parts.biases)),
          scratch(plan.scratchpad_desc(), processor()),
          arrange(weight, plain) {}
    dnnl::convolution_backward_weights::primitive_desc plan;
    dnnl::convolution_backward_weights run;
    memory x, of_y, weight, plain, bias, scratch;
    dnnl::reorder arrange;
  };

  struct InputGradient {
    explicit InputGradient(const Parts& parts)
        : plan({algorithm::convolution_direct, parts.map, parts.any_weights(), parts.result,
                parts.strides, parts.padding, parts.padding},
               own_scratch(), processor(), parts.forward),
          run(plan),
          of_y(lent(parts.result)),
          plain(lent(parts.plain_weights())),
          weight(plan.weights_desc(), processor()),
          of_x(lent(parts.map)),
          scratch(plan.scratchpad_desc(), processor()),
          arrange(plain, weight) {}
    dnnl::convolution_backward_data::primitive_desc plan;
    dnnl::convolution_backward_data run;
    memory of_y, plain, weight, of_x, scratch;
    dnnl::reorder arrange;
  };

  // Made when first needed: scoring needs no gradients.
  template <typename Part>
  Part& made(std::unique_ptr<Part>& part) {
    if (part == nullptr) {
      part = std::make_unique<Part>(*this);
    }
    return *part;
  }

  std::unique_ptr<Forward> forward_part;
  std::unique_ptr<WeightGradient> weight_part;
  std::unique_ptr<InputGradient> input_part;
};

ConvPlan::ConvPlan(const ConvExtent& extent) : parts_(std::make_unique<Parts>(extent)) {}

ConvPlan::~ConvPlan() = default;

void ConvPlan::forward(const float* x, const float* weight, const float* bias, float* y) {
  auto& part = parts_->made(parts_->forward_part);
  lend(part.x, x);
  lend(part.plain, weight);
  lend(part.bias, bias);
  lend(part.y, y);
  part.arrange.execute(parts_->stream, part.plain, part.weight);
  part.run.execute(parts_->stream, {{DNNL_ARG_SRC, part.x},
                                    {DNNL_ARG_WEIGHTS, part.weight},
                                    {DNNL_ARG_BIAS, part.bias},
                                    {DNNL_ARG_DST, part.y},
                                    {DNNL_ARG_SCRATCHPAD, part.scratch}});
  parts_->stream.wait();
}

void ConvPlan::weight_gradient(const float* x, const float* of_y, float* of_weight,
                               float* of_bias) {
  auto& part = parts_->made(parts_->weight_part);
  lend(part.x, x);
  lend(part.of_y, of_y);
  lend(part.plain, of_weight);
  lend(part.bias, of_bias);
  part.run.execute(parts_->stream, {{DNNL_ARG_SRC, part.x},
                                    {DNNL_ARG_DIFF_DST, part.of_y},
                                    {DNNL_ARG_DIFF_WEIGHTS, part.weight},
                                    {DNNL_ARG_DIFF_BIAS, part.bias},
                                    {DNNL_ARG_SCRATCHPAD, part.scratch}});
  part.arrange.execute(parts_->stream, part.weight, part.plain);
  parts_->stream.wait();
}

void ConvPlan::input_gradient(const float* weight, const float* of_y, float* of_x) {
  auto& part = parts_->made(parts_->input_part);
  lend(part.of_y, of_y);
  lend(part.plain, weight);
  lend(part.of_x, of_x);
  part.arrange.execute(parts_->stream, part.plain, part.weight);
  part.run.execute(parts_->stream, {{DNNL_ARG_DIFF_DST, part.of_y},
                                    {DNNL_ARG_WEIGHTS, part.weight},
                                    {DNNL_ARG_DIFF_SRC, part.of_x},
                                    {DNNL_ARG_SCRATCHPAD, part.scratch}});
  parts_->stream.wait();
}

ConvPlan& conv_plan(const ConvExtent& extent) {
  struct Kept {
    ConvExtent extent;
    ConvPlan plan;
    explicit Kept(const ConvExtent& of) : extent(of), plan(of) {}
  };
  static thread_local std::list<Kept> kept;  // the one used last is the first
  const auto found = std::ranges::find(kept, extent, &Kept::extent);
  if (found != kept.end()) {
    kept.splice(kept.begin(), kept, found);
    return kept.front().plan;
  }
  kept.emplace_front(extent);
  if (kept.size() > kMostPlans) {
    kept.pop_back();
  }
  return kept.front().plan;
}

}  // namespace winnow

#endif
