// The picture of a partition as an SVG page.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <string_view>
#include <vector>

#include "winnow/base/text.h"
#include "winnow/report/drawn_text.h"
#include "winnow/report/partition_parts.h"
#include "winnow/report/partition_picture.h"

namespace winnow {

using partition_parts::add;
using partition_parts::check;
using partition_parts::class_colour;
using partition_parts::Colour;
using partition_parts::counted;
using partition_parts::how_noisy;
using partition_parts::Totals;
using partition_parts::totals_of;
using partition_parts::who_holds_what;

namespace {

std::string hex(const Colour& colour) {
  return fmt::format("#{:02x}{:02x}{:02x}", colour.red, colour.green, colour.blue);
}

// `most` numbers of 0..count-1, evenly spread from the first to the last; all when they are fewer.
std::vector<std::size_t> evenly(std::size_t count, std::size_t most) {
  std::vector<std::size_t> chosen(std::min(count, most));
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    chosen[i] = count <= most ? i : i * (count - 1) / (most - 1);
  }
  return chosen;
}

constexpr double kWidth = 1200.0;
constexpr double kLeft = 66.0;
constexpr double kPlotWidth = kWidth - kLeft - 18.0;
constexpr double kPlotTop = 26.0;    // below the heading of a panel
constexpr double kBelowPlot = 48.0;  // ticks, axis title, space
constexpr double kCharacter = 6.7;   // mean width at 12 pixels, on the safe side
constexpr std::size_t kMostBars = 120;
constexpr std::size_t kMostNames = 120;
constexpr std::string_view kNoisyColour = "#c1121f";
constexpr std::string_view kOtherColour = "#9aa5b1";
constexpr std::string_view kDistortedColour = "#1d3557";

struct Axis {
  double top = 1.0;
  double step = 1.0;
};

// At most seven whole steps of 1, 2 or 5 times a power of ten, the last of them reaching `most`.
Axis whole_axis(double most) {
  constexpr double kMostSteps = 7.0;
  double step = 1.0;
  while (10.0 * step <= most / kMostSteps) {
    step *= 10.0;
  }
  for (const double factor : {2.0, 2.5, 2.0}) {
    if (most / step > kMostSteps) {
      step *= factor;
    }
  }
  return {step * std::ceil(most / step), step};
}

// One of the panels under each other: the same clients at the same places.
struct Panel {
  double top = 0.0;
  double height = 0.0;
  Axis axis;
  std::span<const std::size_t> shown;

  double slot() const {
    return kPlotWidth / static_cast<double>(std::max<std::size_t>(1, shown.size()));
  }
  double middle(std::size_t place) const {
    return kLeft + slot() * (static_cast<double>(place) + 0.5);
  }
  double bar() const { return std::min(0.84 * slot(), 64.0); }
  double bottom() const { return top + kPlotTop + height; }
  // In the hundredths that are written, so that stacked bars meet exactly.
  double y(double value) const {
    return std::round(100.0 * (bottom() - height * value / axis.top)) / 100.0;
  }
  double end() const { return bottom() + kBelowPlot; }
};

void add_rect(std::string& out, double x, double y, double width, double height,
              std::string_view colour) {
  add(out, "<rect x=\"{:.2f}\" y=\"{:.2f}\" width=\"{:.2f}\" height=\"{:.2f}\" fill=\"{}\"/>\n", x,
      y, width, height, colour);
}

void add_frame(std::string& out, const Panel& panel, std::string_view heading,
               std::string_view y_title) {
  add(out, "<text x=\"{}\" y=\"{:.1f}\" font-size=\"14\" font-weight=\"bold\">{}</text>\n", kLeft,
      panel.top + 14.0, heading);
  for (double value = 0.0; value <= panel.axis.top; value += panel.axis.step) {
    add(out, "<path d=\"M{} {:.1f}h{}\" stroke=\"{}\"/>\n", kLeft, panel.y(value), kPlotWidth,
        value == 0.0 ? "#333" : "#ddd");
    add(out, "<text x=\"{}\" y=\"{:.1f}\" text-anchor=\"end\">{:.0f}</text>\n", kLeft - 6.0,
        panel.y(value) + 4.0, value);
  }
  const double middle = panel.bottom() - panel.height / 2.0;
  add(out,
      "<text transform=\"translate(16 {:.1f}) rotate(-90)\" text-anchor=\"middle\">{}</text>\n",
      middle, y_title);
  // Labels at least 36 pixels apart, at a step that people count in.
  std::size_t step = 1;
  for (const std::size_t next : {2, 5, 10, 20, 50}) {
    step = static_cast<double>(step) * panel.slot() < 36.0 ? next : step;
  }
  for (std::size_t place = 0; place < panel.shown.size(); place += step) {
    add(out, "<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">{}</text>\n",
        panel.middle(place), panel.bottom() + 19.0, panel.shown[place]);
  }
  add(out, "<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">client number</text>\n",
      kLeft + kPlotWidth / 2.0, panel.bottom() + 35.0);
}

void add_tooltip(std::string& out, std::size_t id, const Census& picture) {
  const ClientCensus& client = picture.clients[id];
  if (!picture.truth_known) {
    add(out, "<title>client {}: {}</title>\n", id, counted(client.samples, "sample"));
    return;
  }
  add(out, "<title>client {}: {}, {} wrong labels, {} distorted images{}</title>\n", id,
      counted(client.samples, "sample"), percent_text(client.wrong_share),
      percent_text(client.distorted_share), client.noisy ? ", noisy" : "");
}

// The classes of every client as one stacked bar each.
void add_classes(std::string& out, const Panel& panel, const Census& picture,
                 std::vector<std::int64_t> ClientCensus::*counts, std::string_view name,
                 std::string_view label) {
  add_frame(out, panel, fmt::format("Samples of each class, by {}", label), "samples");
  add(out, "<g id=\"{}-labels\" shape-rendering=\"crispEdges\">\n", name);
  for (std::size_t place = 0; place < panel.shown.size(); ++place) {
    const ClientCensus& client = picture.clients[panel.shown[place]];
    out += "<g>";
    add_tooltip(out, panel.shown[place], picture);
    std::int64_t below = 0;
    for (std::size_t c = 0; c < picture.class_names.size(); ++c) {
      const std::int64_t count = (client.*counts)[c];
      if (count > 0) {
        const double top = panel.y(static_cast<double>(below + count));
        add_rect(out, panel.middle(place) - panel.bar() / 2.0, top, panel.bar(),
                 panel.y(static_cast<double>(below)) - top,
                 hex(class_colour(c, picture.class_names.size())));
        below += count;
      }
    }
    out += "</g>\n";
  }
  out += "</g>\n";
}

void add_diamond(std::string& out, double x, double y) {
  add(out, "<path d=\"M{:.2f} {:.2f}l5 5l-5 5l-5-5z\" fill=\"{}\" stroke=\"white\"/>\n", x, y - 5.0,
      kDistortedColour);
}

void add_noise_key(std::string& out, double top) {
  out += "<g id=\"noise-key\">\n";
  double x = kLeft + 330.0;
  const auto entry = [&](std::string_view text) {
    add(out, "<text x=\"{:.1f}\" y=\"{:.1f}\">{}</text>\n", x + 16.0, top + 14.0, text);
    x += 34.0 + kCharacter * static_cast<double>(text.size());
  };
  add_rect(out, x, top + 4.0, 11.0, 11.0, kNoisyColour);
  entry("wrong labels, noisy client");
  add_rect(out, x, top + 4.0, 11.0, 11.0, kOtherColour);
  entry("wrong labels, other client");
  add_diamond(out, x + 6.0, top + 10.0);
  entry("distorted images");
  add(out, "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\" fill=\"{}\"/>\n", x + 8.0, top + 10.0,
      kNoisyColour);
  entry("noisy client");
  out += "</g>\n";
}

void add_noise(std::string& out, const Panel& panel, const Census& picture) {
  add_frame(out, panel, "Noise level", "share of samples, %");
  add_noise_key(out, panel.top);
  out += "<g id=\"noise\">\n";
  for (std::size_t place = 0; place < panel.shown.size(); ++place) {
    const ClientCensus& client = picture.clients[panel.shown[place]];
    const double x = panel.middle(place);
    out += "<g>";
    add_tooltip(out, panel.shown[place], picture);
    if (client.wrong_share > 0.0) {
      const double top = panel.y(100.0 * client.wrong_share);
      add_rect(out, x - panel.bar() / 2.0, top, panel.bar(), panel.bottom() - top,
               client.noisy ? kNoisyColour : kOtherColour);
    }
    if (client.distorted_share > 0.0) {
      add_diamond(out, x, panel.y(100.0 * client.distorted_share));
    }
    // Below the axis, so that a noisy client without any wrong label is seen too.
    if (client.noisy) {
      add(out, "<circle cx=\"{:.2f}\" cy=\"{:.2f}\" r=\"{:.1f}\" fill=\"{}\"/>\n", x,
          panel.bottom() + 5.0, std::min(3.0, panel.bar() / 2.0), kNoisyColour);
    }
    out += "</g>\n";
  }
  out += "</g>\n";
}

// The classes in columns; returns where the legend ends.
double add_legend(std::string& out, const Census& picture, double top) {
  constexpr double kRow = 18.0;
  const std::size_t classes = picture.class_names.size();
  const std::vector<std::size_t> named = evenly(classes, kMostNames);
  std::size_t longest = 1;
  for (const std::size_t c : named) {
    longest = std::max(longest, length_of(clean(picture.class_names[c])));
  }
  const double column = 32.0 + kCharacter * static_cast<double>(longest);
  const std::size_t columns =
      std::max<std::size_t>(1, static_cast<std::size_t>((kPlotWidth + 16.0) / column));
  out += "<g id=\"classes\">\n";
  for (std::size_t i = 0; i < named.size(); ++i) {
    const double x = kLeft + column * static_cast<double>(i % columns);
    const std::size_t row = i / columns;
    const double y = top + kRow * static_cast<double>(row);
    add_rect(out, x, y, 11.0, 11.0, hex(class_colour(named[i], classes)));
    add(out, "<text x=\"{:.1f}\" y=\"{:.1f}\">{}</text>\n", x + 16.0, y + 10.0,
        escaped(picture.class_names[named[i]]));
  }
  out += "</g>\n";
  const std::size_t rows = (named.size() + columns - 1) / columns;
  return top + kRow * static_cast<double>(rows);
}

// What the page leaves out, or "".
std::string omissions(const Census& picture) {
  std::vector<std::string> notes;
  if (picture.clients.size() > kMostBars) {
    notes.push_back(
        fmt::format("{} of {} clients shown, evenly chosen", kMostBars, picture.clients.size()));
  }
  if (picture.class_names.size() > kMostNames) {
    notes.push_back(fmt::format("{} of {} classes named", kMostNames, picture.class_names.size()));
  }
  return join(notes, "; ");
}

}  // namespace

std::string partition_svg(const Census& picture) {
  check(picture);
  const std::vector<std::size_t> shown = evenly(picture.clients.size(), kMostBars);
  double most = 1.0;
  double noise = 10.0;
  for (const std::size_t id : shown) {
    const ClientCensus& client = picture.clients[id];
    most = std::max(most, static_cast<double>(client.samples));
    noise = std::max(noise, 100.0 * std::max(client.wrong_share, client.distorted_share));
  }
  const Totals totals = totals_of(picture);
  const std::string note = omissions(picture);
  std::string body;
  if (!note.empty()) {
    add(body, "<text x=\"{}\" y=\"70\" font-size=\"13\" fill=\"#444\">{}</text>\n", kLeft, note);
  }
  const double first = add_legend(body, picture, note.empty() ? 68.0 : 86.0) + 14.0;
  double end = first;
  const auto panel = [&](double height, const Axis& axis) {
    const Panel next{end, height, axis, shown};
    end = next.end();
    return next;
  };
  if (picture.truth_known) {
    add_classes(body, panel(220.0, whole_axis(most)), picture, &ClientCensus::true_counts, "true",
                picture.only_injected ? "label before the noise" : "true label");
  }
  add_classes(body, panel(220.0, whole_axis(most)), picture, &ClientCensus::given_counts, "given",
              "given label");
  if (picture.truth_known) {
    add_noise(body, panel(150.0, whole_axis(noise)), picture);
  }

  std::string svg;
  add(svg,
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1:.0f}\" "
      "viewBox=\"0 0 {0} {1:.0f}\" font-family=\"sans-serif\" font-size=\"12\" fill=\"#222\">\n"
      "<title>{2}</title>\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
      "<text x=\"{3}\" y=\"30\" font-size=\"18\" font-weight=\"bold\">{2}</text>\n"
      "<text id=\"totals\" x=\"{3}\" y=\"51\" font-size=\"13\" fill=\"#444\">{4}</text>\n",
      kWidth, end, escaped(picture.title), kLeft,
      who_holds_what(picture, totals) + "; " + how_noisy(picture, totals));
  return svg + body + "</svg>\n";
}

}  // namespace winnow
