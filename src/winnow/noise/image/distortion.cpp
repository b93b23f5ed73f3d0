#include "winnow/noise/image/distortion.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <system_error>

#include "winnow/base/error.h"
#include "winnow/base/text.h"
#include "winnow/noise/image/distortion_blur.h"
#include "winnow/noise/image/distortion_colour.h"
#include "winnow/noise/image/distortion_geometry.h"
#include "winnow/noise/image/distortion_noise.h"
#include "winnow/noise/image/distortion_spatter.h"
#include "winnow/noise/image/distortion_weather.h"
#include "winnow/noise/image/jpeg.h"

namespace winnow {
namespace {

using Apply = std::function<void(ImageView, int, Stream&)>;

// Distortions without a random part.
Apply steady(void (*function)(const ImageView&, int)) {
  return [function](ImageView image, int severity, Stream&) { function(image, severity); };
}

void jpeg(const ImageView& image, int severity) {
  constexpr distortion::PerSeverity<int> kQuality{80, 65, 58, 50, 40};
  distortion::jpeg_round_trip(image, distortion::at_severity(kQuality, severity));
}

std::vector<DistortionInfo> make_distortions() {
  namespace d = distortion;
  return {
      {"gaussian_noise", "normal noise on every value", true, d::gaussian_noise},
      {"shot_noise", "Poisson noise of counted photons", true, d::shot_noise},
      {"impulse_noise", "salt and pepper: some values become 0 or 255", true, d::impulse_noise},
      {"speckle_noise", "normal noise in proportion to the value", true, d::speckle_noise},
      {"gaussian_blur", "Gaussian filter", true, steady(d::gaussian_blur)},
      {"defocus_blur", "a lens out of focus: correlation with a disc", true,
       steady(d::defocus_blur)},
      {"glass_blur", "frosted glass: pixels copied from neighbours between two blurs", true,
       [](ImageView image, int severity, Stream& stream) {
         d::glass_blur(image, severity, stream);
       }},
      {"motion_blur", "a moving camera: one-sided blur along a random line", true, d::motion_blur},
      {"zoom_blur", "a zooming camera: the mean of several enlargements", true,
       steady(d::zoom_blur)},
      {"snow", "blurred flakes over a whitened picture", true, d::snow},
      {"fog", "a plasma cloud over a dimmed picture", true, d::fog},
      {"brightness", "a lighter picture, in HSV", true, steady(d::brightness)},
      {"contrast", "lower contrast: values move towards the mean of each channel", true,
       steady(d::contrast)},
      {"saturate", "weaker (1, 2) or stronger (3 to 5) colours in HSV", true,
       steady(static_cast<void (*)(const ImageView&, int)>(d::saturate))},
      {"elastic", "a random affine map and a smooth random displacement", true, d::elastic},
      {"pixelate", "reduced in size and enlarged again", true, steady(d::pixelate)},
      {"jpeg", "JPEG compression, 4:2:0", true, steady(jpeg)},
      {"spatter", "drops of water (1 to 3) or mud (4, 5)", true, d::spatter},
      {"black", "patch: the whole image becomes black", false,
       [](ImageView image, int, Stream&) { d::black(image); }},
      {"gaussian_patch", "patch: the whole image becomes clipped normal noise", false,
       [](ImageView image, int, Stream& stream) { d::gaussian_patch(image, stream); }},
      {kGenerativeSurrogate, "patch: the whole image comes from an untrained random generator",
       false,
       [](ImageView image, int, Stream& stream) {
         GenerativeSurrogate(stream.next_u64()).paint(image, stream);
       }},
  };
}

[[noreturn]] void refuse_severity(std::string_view text) {
  throw Error(ErrorKind::experiment, fmt::format("severity '{}' is not known", text),
              "use low (1), medium (3), high (5) or a number from 1 to 5");
}

}  // namespace

const Distortions& builtin_distortions() {
  static const Distortions all = [] {
    Distortions list("distortion", "winnow list distortions");
    for (DistortionInfo& info : make_distortions()) {
      list.add(std::move(info));
    }
    return list;
  }();
  return all;
}

const DistortionInfo& find_distortion(std::string_view name, const Distortions& known) {
  if (const DistortionInfo* info = known.look_up(name)) {
    return *info;
  }
  if (name == "frost") {
    throw Error(ErrorKind::experiment,
                "distortion 'frost' is not offered: it needs photographs of frost, which are not "
                "part of Winnow",
                "use 'snow' or 'fog'");
  }
  throw Error(ErrorKind::experiment, fmt::format("distortion '{}' is not known", name),
              suggestion(name, known.known(), "winnow list distortions"));
}

int parse_severity(std::string_view text) {
  if (text == "low") {
    return 1;
  }
  if (text == "medium") {
    return 3;
  }
  if (text == "high") {
    return 5;
  }
  std::int64_t number = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (fault != std::errc() || end != text.data() + text.size()) {
    refuse_severity(text);
  }
  return parse_severity(number);
}

int parse_severity(std::int64_t number) {
  if (number < 1 || number > 5) {
    refuse_severity(std::to_string(number));
  }
  return static_cast<int>(number);
}

const std::vector<std::string>& distortion_set(std::string_view name) {
  // spec: input-noise 1.8, A11
  static const std::map<std::string, std::vector<std::string>, std::less<>> sets{
      {"main", {"contrast", "gaussian_blur", "defocus_blur"}},
      {"patch", {"black", "gaussian_patch", "generative_surrogate"}},
      {"mixed",
       {"contrast", "gaussian_blur", "defocus_blur", "black", "gaussian_patch",
        "generative_surrogate"}},
      {"all",
       {"gaussian_noise", "shot_noise", "impulse_noise", "pixelate", "defocus_blur", "glass_blur",
        "motion_blur", "gaussian_blur", "brightness", "contrast", "saturate", "snow", "fog",
        "elastic", "spatter", "jpeg", "zoom_blur"}},
      {"everything",
       {"gaussian_noise", "shot_noise", "impulse_noise", "pixelate", "defocus_blur", "glass_blur",
        "motion_blur", "gaussian_blur", "brightness", "contrast", "saturate", "snow", "fog",
        "elastic", "spatter", "jpeg", "black", "gaussian_patch", "generative_surrogate"}}};
  const auto found = sets.find(name);
  if (found == sets.end()) {
    const std::vector<std::string> known{"main", "patch", "mixed", "all", "everything"};
    throw Error(ErrorKind::experiment, fmt::format("distortion set '{}' is not known", name),
                suggestion(name, known));
  }
  return found->second;
}

}  // namespace winnow
