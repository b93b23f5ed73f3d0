#include "winnow/data/image_files.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <exception>
#include <string>
#include <thread>
#include <vector>

#if defined(WINNOW_WITH_OPENCV)
#include <opencv2/core.hpp>
#include <opencv2/imgcodecs.hpp>
#include <opencv2/imgproc.hpp>
#endif

#include "winnow/base/error.h"
#include "winnow/base/files.h"
#include "winnow/base/text.h"
#include "winnow/data/image_header.h"

namespace winnow {
namespace {

#if defined(WINNOW_WITH_OPENCV)

constexpr std::size_t kDecoders = 2;
constexpr std::uint64_t kMostPixels = 100'000'000;
constexpr std::uintmax_t kLargestFile = std::uintmax_t{1} << 30;

[[noreturn]] void reject(const std::filesystem::path& file, const std::string& reason) {
  throw Error(ErrorKind::data, fmt::format("cannot read image {}: {}", file.string(), reason),
              "expected a PNG or JPEG file");
}

// Looked at before anything is decoded: a file of some kilobytes can claim to be gigabytes.
void check_size(const std::filesystem::path& file, std::string_view bytes) {
  const auto extent = read_image_extent(bytes);
  if (!extent) {
    reject(file, "not a readable image");
  }
  if (extent->width * extent->height > kMostPixels) {
    reject(file, fmt::format("{}x{} are more than {} pixels", extent->width, extent->height,
                             kMostPixels));
  }
}

cv::Mat decode(const std::filesystem::path& file) {
  std::string bytes;
  try {
    bytes = read_file(file, kLargestFile);
  } catch (const Error& error) {
    const std::string_view what = error.what();
    reject(file, std::string(what.substr(what.rfind(": ") + 2)));
  }
  check_size(file, bytes);
  cv::Mat image;
  try {
    const cv::Mat raw(1, static_cast<int>(bytes.size()), CV_8UC1, bytes.data());
    image = cv::imdecode(raw, cv::IMREAD_COLOR);
  } catch (const cv::Exception& error) {
    reject(file, error.err);
  }
  if (image.empty()) {
    reject(file, "not a readable image");
  }
  return image;
}

// Decodes one file into `target`, three planes of side x side bytes.
void decode_into(const std::filesystem::path& file, int side, std::uint8_t* target) {
  cv::Mat image = decode(file);
  if (image.rows != side || image.cols != side) {
    cv::Mat resized;
    cv::resize(image, resized, cv::Size(side, side), 0.0, 0.0, cv::INTER_LINEAR);
    image = resized;
  }
  const std::ptrdiff_t plane = static_cast<std::ptrdiff_t>(side) * side;
  for (int channel = 0; channel < 3; ++channel) {
    cv::Mat out(side, side, CV_8UC1, target + channel * plane);
    cv::extractChannel(image, out, 2 - channel);  // OpenCV holds blue first
  }
}

void check_memory(std::size_t count, std::int64_t side) {
  const double needed = static_cast<double>(count) * 3.0 * static_cast<double>(side * side);
  const double present =
      static_cast<double>(::sysconf(_SC_PHYS_PAGES)) * static_cast<double>(::sysconf(_SC_PAGESIZE));
  if (needed > present) {
    throw Error(ErrorKind::data,
                fmt::format("{} images of {}x{} need {}, this machine has {}", count, side, side,
                            human_bytes(needed), human_bytes(present)),
                "lower data.image_size or set data.train_limit");
  }
}

#endif

}  // namespace

bool is_image_name(const std::filesystem::path& file) {
  std::string extension = file.extension().string();
  std::ranges::transform(extension, extension.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return extension == ".png" || extension == ".jpg" || extension == ".jpeg";
}

#if defined(WINNOW_WITH_OPENCV)

bool can_decode_images() {
  return true;
}

Samples decode_images(std::span<const ImageEntry> entries, std::int64_t image_size) {
  check_memory(entries.size(), image_size);
  const std::int64_t bytes = 3 * image_size * image_size;
  Samples samples;
  samples.images = at::empty({std::ssize(entries), 3, image_size, image_size}, at::kByte);
  for (const ImageEntry& entry : entries) {
    samples.labels.push_back(entry.label);
  }
  // Each thread takes one run of files and stops at its first failure, so that the error reported
  // is that of the first bad file whatever the timing.
  auto* target = samples.images.data_ptr<std::uint8_t>();
  std::array<std::exception_ptr, kDecoders> failures;
  std::vector<std::thread> threads;
  for (std::size_t worker = 0; worker < kDecoders; ++worker) {
    threads.emplace_back([&, worker] {
      const std::size_t end = entries.size() * (worker + 1) / kDecoders;
      try {
        for (std::size_t i = entries.size() * worker / kDecoders; i < end; ++i) {
          decode_into(entries[i].file, static_cast<int>(image_size),
                      target + static_cast<std::int64_t>(i) * bytes);
        }
      } catch (...) {
        failures[worker] = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  for (const std::exception_ptr& failure : failures) {
    if (failure) {
      std::rethrow_exception(failure);
    }
  }
  return samples;
}

#else

bool can_decode_images() {
  return false;
}

Samples decode_images(std::span<const ImageEntry> /*entries*/, std::int64_t /*image_size*/) {
  throw Error(ErrorKind::data, "this build cannot read image files: it was made without OpenCV",
              "install libopencv-core-dev, libopencv-imgproc-dev and libopencv-imgcodecs-dev, then "
              "build again");
}

#endif

}  // namespace winnow
