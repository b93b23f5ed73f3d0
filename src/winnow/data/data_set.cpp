#include "winnow/data/data_set.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <string_view>

#include "winnow/base/error.h"

namespace winnow {
namespace {

[[noreturn]] void contradict(const DataSet& set, const std::string& what) {
  throw Error(ErrorKind::data, fmt::format("data set '{}': {}", set.name, what));
}

void check_labels(const DataSet& set, std::string_view part, const Labels& labels) {
  for (std::size_t i = 0; i < labels.size(); ++i) {
    if (labels[i] < 0 || labels[i] >= set.classes) {
      contradict(set, fmt::format("{} label {} of sample {} is outside 0..{}", part, labels[i], i,
                                  set.classes - 1));
    }
  }
}

void check_samples(const DataSet& set, std::string_view part, const Samples& samples) {
  const at::Tensor& images = samples.images;
  if (samples.labels.empty()) {
    contradict(set, fmt::format("the {} part is empty", part));
  }
  if (!images.defined() || images.scalar_type() != at::kByte || images.dim() != 4 ||
      !images.is_contiguous() || !images.device().is_cpu()) {
    contradict(set, fmt::format("the {} images must be contiguous bytes of shape [count, channels, "
                                "height, width] on the CPU",
                                part));
  }
  if (images.size(0) != samples.size()) {
    contradict(set,
               fmt::format("{} {} images but {} labels", images.size(0), part, samples.size()));
  }
  check_labels(set, part, samples.labels);
}

void check_normalisation(const DataSet& set) {
  const auto channels = static_cast<std::size_t>(set.channels());
  const Normalisation& normalisation = set.normalisation;
  if (normalisation.mean.size() != channels || normalisation.std.size() != channels) {
    contradict(set, fmt::format("{} channels but {} means and {} standard deviations", channels,
                                normalisation.mean.size(), normalisation.std.size()));
  }
  for (const double deviation : normalisation.std) {
    if (!(deviation > 0.0)) {
      contradict(set, fmt::format("standard deviation {} must be above 0", deviation));
    }
  }
}

}  // namespace

void validate(const DataSet& set) {
  if (set.classes < 1 || set.classes > kMostClasses) {
    contradict(set, fmt::format("{} classes, expected 1 to {}", set.classes, kMostClasses));
  }
  if (std::ssize(set.class_names) != set.classes) {
    contradict(set,
               fmt::format("{} classes but {} class names", set.classes, set.class_names.size()));
  }
  check_samples(set, "train", set.train);
  check_samples(set, "test", set.test);
  if (set.train.images.sizes().slice(1) != set.test.images.sizes().slice(1)) {
    contradict(set, fmt::format("train images are {}x{}x{} but test images are {}x{}x{}",
                                set.channels(), set.height(), set.width(), set.test.images.size(1),
                                set.test.images.size(2), set.test.images.size(3)));
  }
  if (!set.given.empty()) {
    if (set.given.size() != set.train.labels.size()) {
      contradict(set, fmt::format("{} given labels but {} train samples", set.given.size(),
                                  set.train.labels.size()));
    }
    check_labels(set, "given", set.given);
  }
  if (!set.names.empty() && set.names.size() != set.train.labels.size()) {
    contradict(set, fmt::format("{} names but {} train samples", set.names.size(),
                                set.train.labels.size()));
  }
  if (!set.owners.empty() && set.owners.size() != set.train.labels.size()) {
    contradict(set, fmt::format("{} samples have an owner, but there are {} train samples",
                                set.owners.size(), set.train.labels.size()));
  }
  check_normalisation(set);
}

}  // namespace winnow
