// distort_images: many samples, several threads.
#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <optional>
#include <thread>
#include <vector>

#include "winnow/base/error.h"
#include "winnow/noise/image/distortion.h"

namespace winnow {
namespace {

void check_images(const at::Tensor& images) {
  if (!images.defined() || images.scalar_type() != at::kByte || images.dim() != 4 ||
      !images.is_contiguous() || !images.device().is_cpu()) {
    throw Error(ErrorKind::data,
                "images to distort must be contiguous bytes [count, channels, height, width] on "
                "the CPU");
  }
  if (images.size(1) != 1 && images.size(1) != 3) {
    throw Error(ErrorKind::data,
                fmt::format("images to distort have {} channels; 1 (grey) or 3 (red, green, blue) "
                            "are possible",
                            images.size(1)));
  }
}

void check_jobs(const at::Tensor& images, std::span<const DistortionJob> jobs) {
  std::vector<bool> seen(static_cast<std::size_t>(images.size(0)), false);
  for (const DistortionJob& job : jobs) {
    if (job.sample < 0 || job.sample >= images.size(0)) {
      throw Error(ErrorKind::internal, fmt::format("sample {} to distort is not one of the {}",
                                                   job.sample, images.size(0)));
    }
    if (job.distortion == nullptr) {
      throw Error(ErrorKind::internal,
                  fmt::format("sample {} is to be distorted by nothing", job.sample));
    }
    parse_severity(std::int64_t{job.severity});
    if (seen[static_cast<std::size_t>(job.sample)]) {
      throw Error(ErrorKind::internal,
                  fmt::format("sample {} is to be distorted twice at once", job.sample));
    }
    seen[static_cast<std::size_t>(job.sample)] = true;
  }
}

// Hands out jobs in small batches to whichever thread is free and keeps the first exception.
template <typename Function>
void for_each_job(std::span<const DistortionJob> jobs, int threads, const Function& work) {
  constexpr std::size_t kBatch = 32;
  std::atomic<std::size_t> next{0};
  const auto drain = [&](std::exception_ptr& fault) {
    try {
      for (std::size_t first = next.fetch_add(kBatch); first < jobs.size();
           first = next.fetch_add(kBatch)) {
        for (const DistortionJob& job :
             jobs.subspan(first, std::min(kBatch, jobs.size() - first))) {
          work(job);
        }
      }
    } catch (...) {
      fault = std::current_exception();
    }
  };
  std::vector<std::exception_ptr> faults(static_cast<std::size_t>(std::max(threads, 1)));
  {
    std::vector<std::jthread> helpers;
    for (std::size_t i = 1; i < faults.size(); ++i) {
      helpers.emplace_back([&drain, &fault = faults[i]] { drain(fault); });
    }
    drain(faults[0]);
  }
  for (const std::exception_ptr& fault : faults) {
    if (fault) {
      std::rethrow_exception(fault);
    }
  }
}

}  // namespace

void distort_images(at::Tensor& images, std::span<const DistortionJob> jobs, std::uint64_t seed,
                    int threads, GenMode gen_mode) {
  check_images(images);
  check_jobs(images, jobs);
  if (images.numel() == 0) {
    return;
  }
  const auto by_generator = [](const DistortionJob& job) {
    return job.distortion->name == kGenerativeSurrogate;
  };
  std::optional<GenerativeSurrogate> generator;
  if (std::ranges::any_of(jobs, by_generator)) {
    generator.emplace(seed);
  }
  auto* const bytes = images.data_ptr<std::uint8_t>();
  const ImageView shape{nullptr, images.size(1), images.size(2), images.size(3)};
  for_each_job(jobs, threads, [&](const DistortionJob& job) {
    ImageView image = shape;
    image.data = bytes + job.sample * shape.size();
    Stream stream(seed, "distortion", job.sample);
    if (!by_generator(job)) {
      job.distortion->apply(image, job.severity, stream);
    } else if (gen_mode == GenMode::fixed) {
      generator->paint_fixed(image);
    } else {
      generator->paint(image, stream);
    }
  });
}

}  // namespace winnow
