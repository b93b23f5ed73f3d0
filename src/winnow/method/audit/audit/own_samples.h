// The owner's side of an audit: its samples one by one, and the sums it forms of them.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "winnow/method/audit/audit/sums.h"

namespace winnow::audit {

// The samples of one client with what a model that never saw them says; all lists are in one order.
struct OwnSamples {
  std::int64_t classes = 0;
  std::span<const std::int64_t> given = {};
  std::span<const float> p = {};  // a row for each
  // In any unit that tell() then has as `distance`; 0: no neighbours.
  std::span<const double> distance = {};
  std::span<const ImageStats> stats = {};
  std::function<ImageBytes(std::size_t place)> image = {};
  std::vector<bool> judged = {};

  std::size_t size() const { return given.size(); }
  std::span<const float> row(std::size_t place) const {
    const auto width = static_cast<std::size_t>(classes);
    return p.subspan(place * width, width);
  }
};

std::vector<std::int64_t> count_labels(std::span<const std::int64_t> given, std::int64_t classes);

// Classes with fewer than `least` samples stay out of sums by class, so that none is the sum of so
// few; of those `judged` must be false, too.
FirstSums first_sums(const OwnSamples& own, std::span<const double> gradient_norms,
                     std::int64_t least);

// Looks at every sample, and leaves what it finds in `found`; label issues wait for the bars.
SecondSums second_sums(const OwnSamples& own, const Told& told, std::int64_t least,
                       std::vector<SampleFinding>& found);

// spec: audit 2
void flag_labels(std::span<const std::int64_t> given, std::span<const double> bars,
                 std::span<SampleFinding> found);

// The bytes of an image of a contiguous tensor [count, channels, height, width] of bytes.
ImageBytes image_at(std::span<const std::uint8_t> bytes, std::int64_t channels, std::int64_t height,
                    std::int64_t width, std::size_t number);

}  // namespace winnow::audit
