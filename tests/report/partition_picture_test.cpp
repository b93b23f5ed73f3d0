#include "winnow/report/partition_picture.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "winnow/base/error.h"

namespace winnow::partition_picture_test {

using ::testing::HasSubstr;
using ::testing::Not;

// What is wrong with the nesting of the elements, or "".
std::string fault_of(std::string_view xml) {
  std::vector<std::string> open;
  while (true) {
    const std::size_t begin = xml.find('<');
    const std::string_view text = xml.substr(0, begin);
    if (text.find('>') != std::string_view::npos) {
      return "a bare > in text";
    }
    for (std::size_t at = text.find('&'); at < text.size(); at = text.find('&', at + 1)) {
      if (text.substr(at, 8).find(';') == std::string_view::npos) {
        return "a bare & in text";
      }
    }
    if (begin == std::string_view::npos) {
      return open.empty() ? "" : "never closed: " + open.back();
    }
    const std::size_t end = xml.find('>', begin);
    const std::string_view tag = xml.substr(begin + 1, end - begin - 1);
    const std::string name(tag.substr(0, tag.find_first_of(" />", 1)));
    if (std::count(tag.begin(), tag.end(), '"') % 2 != 0) {
      return "odd quotes in " + name;
    }
    if (tag.starts_with('/')) {
      if (open.empty() || tag.substr(1) != open.back()) {
        return "not open: " + name;
      }
      open.pop_back();
    } else if (!tag.ends_with('/')) {
      open.push_back(name);
    }
    xml.remove_prefix(end + 1);
  }
}

struct Rect {
  double x = 0.0;
  double y = 0.0;
  double width = 0.0;
  double height = 0.0;
  std::string fill;
};

// The rectangles of the element <g id="...">, up to the next element with an id.
std::vector<Rect> rects_of(const std::string& svg, const std::string& id) {
  const std::size_t begin = svg.find(fmt::format("id=\"{}\"", id));
  EXPECT_NE(begin, std::string::npos) << id;
  const std::size_t end = svg.find("id=\"", begin + 4);
  std::vector<Rect> rects;
  for (std::size_t at = svg.find("<rect ", begin); at < end; at = svg.find("<rect ", at + 1)) {
    const auto value = [&](const std::string& name) {
      const std::string opening = fmt::format(" {}=\"", name);
      const std::size_t from = svg.find(opening, at) + opening.size();
      return svg.substr(from, svg.find('"', from) - from);
    };
    rects.push_back({std::stod(value("x")), std::stod(value("y")), std::stod(value("width")),
                     std::stod(value("height")), value("fill")});
  }
  return rects;
}

std::size_t count_of(std::string_view text, std::string_view part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string_view::npos;
       at = text.find(part, at + 1)) {
    ++count;
  }
  return count;
}

std::string error_text(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::internal);
    return error.what();
  }
  return "no error";
}

Census small() {
  return {.title = "tiny, two shards",
          .class_names = {"cat", "dog", "newt"},
          .clients = {{.samples = 40,
                       .true_counts = {10, 30, 0},
                       .given_counts = {10, 20, 10},
                       .wrong_share = 0.25,
                       .distorted_share = 0.0,
                       .noisy = true},
                      {.samples = 20,
                       .true_counts = {0, 5, 15},
                       .given_counts = {0, 5, 15},
                       .wrong_share = 0.0,
                       .distorted_share = 0.5,
                       .noisy = false},
                      {.samples = 0, .true_counts = {0, 0, 0}, .given_counts = {0, 0, 0}}}};
}

// `count` clients with one sample of each class.
Census alike(std::size_t count, std::size_t classes) {
  Census picture{.title = "alike", .class_names = {}, .clients = {}};
  for (std::size_t c = 0; c < classes; ++c) {
    picture.class_names.push_back(fmt::format("class-{}.", c));
  }
  picture.clients.assign(count, {.samples = static_cast<std::int64_t>(classes),
                                 .true_counts = std::vector<std::int64_t>(classes, 1),
                                 .given_counts = std::vector<std::int64_t>(classes, 1)});
  return picture;
}

TEST(PartitionSvg, IsWellFormedAndNeedsNothingFromOutside) {
  for (const Census& picture : {small(), alike(1, 1), alike(0, 3), alike(0, 0), alike(100, 10),
                                alike(500, 11), alike(3, 400)}) {
    const std::string svg = partition_svg(picture);
    EXPECT_EQ(fault_of(svg), "");
    EXPECT_THAT(svg, ::testing::StartsWith("<svg xmlns=\"http://www.w3.org/2000/svg\" "
                                           "width=\"1200\" "));
    EXPECT_THAT(svg, HasSubstr("font-family=\"sans-serif\""));
    EXPECT_THAT(svg, Not(HasSubstr("<script")));
    EXPECT_THAT(svg, Not(HasSubstr("href")));
    EXPECT_THAT(svg, Not(HasSubstr("nan")));
    EXPECT_THAT(svg, Not(HasSubstr("inf")));
  }
}

TEST(PartitionSvg, NamesTheClassesTheAxesAndTheTotals) {
  const std::string svg = partition_svg(small());
  for (const char* text :
       {"tiny, two shards", ">cat<", ">dog<", ">newt<", "by true label", "by given label",
        "Noise level", ">samples<", ">share of samples, %<", ">client number<"}) {
    EXPECT_THAT(svg, HasSubstr(text));
  }
  EXPECT_THAT(svg, HasSubstr(">3 clients, 60 samples (0 to 40 each); 1 noisy client, 10 wrong "
                             "labels (16.67%), 10 distorted images (16.67%)</text>"));
}

TEST(PartitionSvg, BarsAreAsLongAsTheirCounts) {
  const std::string svg = partition_svg(small());
  const std::vector<Rect> by_true = rects_of(svg, "true-labels");
  ASSERT_EQ(by_true.size(), 4U) << "classes a client does not hold are not drawn";
  const double unit = by_true[0].height / 10.0;
  EXPECT_NEAR(unit, 220.0 / 40.0, 0.001);
  EXPECT_NEAR(by_true[1].height, 30.0 * unit, 0.02);
  EXPECT_NEAR(by_true[2].height, 5.0 * unit, 0.02);
  EXPECT_NEAR(by_true[3].height, 15.0 * unit, 0.02);
  EXPECT_NEAR(by_true[1].y + by_true[1].height, by_true[0].y, 0.02) << "stacked";
  EXPECT_EQ(by_true[0].x, by_true[1].x);
  EXPECT_EQ(by_true[1].fill, by_true[2].fill) << "one colour for one class";
  EXPECT_NE(by_true[0].fill, by_true[1].fill);

  const std::vector<Rect> by_given = rects_of(svg, "given-labels");
  ASSERT_EQ(by_given.size(), 5U);
  EXPECT_NEAR(by_given[1].height, 20.0 * unit, 0.02);
  EXPECT_NEAR(by_given[2].height, 10.0 * unit, 0.02);
  EXPECT_EQ(by_given[2].fill, by_true[3].fill);
  EXPECT_EQ(by_given[3].x, by_true[2].x) << "clients stand under themselves";
}

TEST(PartitionSvg, NoiseLevelsAndNoisyClientsAreMarked) {
  Census picture = small();
  picture.clients[1].wrong_share = 0.1;
  const std::string svg = partition_svg(picture);
  const std::vector<Rect> bars = rects_of(svg, "noise");
  ASSERT_EQ(bars.size(), 2U);
  EXPECT_NEAR(bars[0].height / bars[1].height, 2.5, 0.01);
  EXPECT_EQ(bars[0].fill, "#c1121f");
  EXPECT_NE(bars[1].fill, bars[0].fill);
  const std::string noise = svg.substr(svg.find("id=\"noise\""));
  EXPECT_EQ(count_of(noise, "<circle"), 1U) << "one noisy client";
  EXPECT_EQ(count_of(noise, "<path"), 1U) << "one client with distorted images";
}

TEST(PartitionSvg, TextIsEscaped) {
  Census picture = small();
  picture.title = "a<b> & \"c\"";
  picture.class_names = {"<script>alert('x')</script>", "caf\xc3\xa9", "bad\xff\x01\x1b[31m"};
  const std::string svg = partition_svg(picture);
  EXPECT_EQ(fault_of(svg), "");
  EXPECT_THAT(svg, HasSubstr(">a&lt;b&gt; &amp; &quot;c&quot;</text>"));
  EXPECT_THAT(svg, HasSubstr("&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;"));
  EXPECT_THAT(svg, HasSubstr(">caf\xc3\xa9<"));
  EXPECT_THAT(svg, HasSubstr(">bad???[31m<"));
}

TEST(PartitionSvg, BytesThatAreNotCharactersAreReplaced) {
  // Overlong, surrogate, beyond the last plane, U+FFFF, cut short, a lone continuation, C1 control.
  for (const char* bytes : {"\xc0\xaf", "\xe0\x80\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80",
                            "\xef\xbf\xbf", "\xe2\x82", "\x80", "\xc2\x85", "\xfe"}) {
    Census picture = small();
    picture.class_names[0] = bytes;
    EXPECT_THAT(partition_svg(picture),
                HasSubstr(fmt::format(">{:?>{}}<", "", std::string_view(bytes).size())));
  }
  Census picture = small();
  picture.class_names[0] = "\xe2\x82\xac \xf0\x9f\x90\x88";
  EXPECT_THAT(partition_svg(picture), HasSubstr(">\xe2\x82\xac \xf0\x9f\x90\x88<"));
}

TEST(PartitionSvg, HundredTwentyClientsAreAllDrawnAndMoreAreThinned) {
  const std::string all = partition_svg(alike(120, 2));
  EXPECT_THAT(all, Not(HasSubstr("shown")));
  EXPECT_EQ(rects_of(all, "true-labels").size(), 240U);

  const std::string thinned = partition_svg(alike(1000, 2));
  EXPECT_THAT(thinned, HasSubstr(">1000 clients, 2000 samples (2 to 2 each);"));
  EXPECT_THAT(thinned, HasSubstr(">120 of 1000 clients shown, evenly chosen</text>"));
  EXPECT_EQ(rects_of(thinned, "true-labels").size(), 240U);
  EXPECT_THAT(thinned, HasSubstr("<title>client 0: "));
  EXPECT_THAT(thinned, HasSubstr("<title>client 999: "));
  EXPECT_THAT(thinned, Not(HasSubstr("<title>client 1: ")));
}

TEST(PartitionSvg, ManyClassesGetColoursOfTheirOwnAndAllNames) {
  const std::string svg = partition_svg(alike(1, 100));
  std::vector<std::string> fills;
  for (const Rect& rect : rects_of(svg, "true-labels")) {
    fills.push_back(rect.fill);
  }
  std::sort(fills.begin(), fills.end());
  EXPECT_EQ(fills.size(), 100U);
  EXPECT_EQ(std::unique(fills.begin(), fills.end()), fills.end());
  for (int c = 0; c < 100; ++c) {
    EXPECT_THAT(svg, HasSubstr(fmt::format(">class-{}.<", c)));
  }
  EXPECT_THAT(partition_svg(alike(1, 400)), HasSubstr(">120 of 400 classes named<"));
}

TEST(PartitionText, IsExactlyThisWithoutColour) {
  EXPECT_EQ(partition_text(small(), 57, false, 40),
            "tiny, two shards\n"
            "3 clients, 60 samples (0 to 40 each)\n"
            "1 noisy client, 10 wrong labels (16.67%), 10 distorted images (16.67%)\n"
            "a cat  b dog  c newt\n"
            "\n"
            "client   samples   wrong  distorted  share of each given class\n"
            "     0!       40  25.00%      0.00%  aaaaabbbbbbbbbbccccc\n"
            "     1        20   0.00%     50.00%  bbbbbccccccccccccccc\n"
            "     2         0   0.00%      0.00%  \n"
            "! noisy client\n");
}

TEST(PartitionText, LargestRemaindersFillTheBar) {
  Census picture = small();
  picture.clients.resize(1);
  picture.clients[0] = {.samples = 3, .true_counts = {1, 1, 1}, .given_counts = {1, 1, 1}};
  EXPECT_THAT(partition_text(picture, 48, false, 1), HasSubstr("  aaaabbbbccc\n"));
  EXPECT_THAT(partition_text(picture, 0, false, 1), HasSubstr("  aaaabbbccc\n"))
      << "never less than ten cells";
  EXPECT_THAT(partition_text(picture, 10'000, false, 1),
              HasSubstr("  " + std::string(34, 'a') + std::string(33, 'b') + std::string(33, 'c')));
}

TEST(PartitionText, ColoursReplaceTheLettersAndNoisyClientsAreRed) {
  const std::string text = partition_text(small(), 57, true, 40);
  EXPECT_THAT(text, HasSubstr("\x1b[31m     0!       40  25.00%      0.00%\x1b[0m  "
                              "\x1b[48;5;67m     \x1b[0m\x1b[48;5;208m          \x1b[0m"
                              "\x1b[48;5;167m     \x1b[0m\n"));
  EXPECT_THAT(text, HasSubstr("\n     1        20   0.00%     50.00%  \x1b[48;5;208m"));
  EXPECT_THAT(text, HasSubstr("\x1b[48;5;67m  \x1b[0m cat  \x1b[48;5;208m  \x1b[0m dog"));
}

TEST(PartitionText, SaysHowManyClientsAreLeftOut) {
  const std::string text = partition_text(small(), 57, false, 1);
  EXPECT_THAT(text,
              ::testing::EndsWith("\n... and 2 more clients (--all shows them)\n! noisy client\n"));
  EXPECT_THAT(text, Not(HasSubstr("\n     1 ")));
  EXPECT_THAT(partition_text(small(), 57, false, 2),
              ::testing::EndsWith("\n... and 1 more client (--all shows them)\n! noisy client\n"));
  EXPECT_THAT(partition_text(small(), 57, false, 3), Not(HasSubstr("more")));
}

TEST(PartitionText, TheLegendWrapsAndStopsAtFortyClasses) {
  EXPECT_THAT(partition_text(alike(1, 4), 25, false, 1),
              HasSubstr("\na class-0.  b class-1.\nc class-2.  d class-3.\n\n"));
  const std::string many = partition_text(alike(1, 100), 120, false, 1);
  EXPECT_THAT(many, HasSubstr("N class-39.  ... and 60 more classes\n"));
  EXPECT_THAT(many, Not(HasSubstr("class-40.")));
}

TEST(PartitionText, ControlCharactersOfNamesDoNotReachTheTerminal) {
  Census picture = small();
  picture.title = "x\x1b]0;owned\x07";
  picture.class_names[0] = "a\nb";
  const std::string text = partition_text(picture, 57, false, 40);
  EXPECT_THAT(text, HasSubstr("x?]0;owned?\n"));
  EXPECT_THAT(text, HasSubstr("a a?b  b dog"));
}

TEST(PartitionPicture, ContradictionsAreRefused) {
  const auto broken = [](const std::function<void(ClientCensus&)>& change) {
    Census picture = small();
    change(picture.clients[1]);
    std::string text = error_text([&] { partition_text(picture, 80, false, 40); });
    EXPECT_EQ(error_text([&] { partition_svg(picture); }), text);
    return text;
  };
  EXPECT_EQ(broken([](ClientCensus& client) { client.given_counts.pop_back(); }),
            "client 1 of a partition picture counts 2 classes, expected 3");
  EXPECT_EQ(broken([](ClientCensus& client) { client.true_counts[2] = 14; }),
            "the classes of client 1 of a partition picture do not add up to its 20 samples");
  EXPECT_EQ(broken([](ClientCensus& client) {
              client.true_counts = {-5, 10, 15};
            }),
            "the classes of client 1 of a partition picture do not add up to its 20 samples");
  EXPECT_EQ(broken([](ClientCensus& client) { client.wrong_share = 1.5; }),
            "client 1 of a partition picture has a share of 1.5, expected 0..1");
  EXPECT_EQ(broken([](ClientCensus& client) {
              client.distorted_share = std::numeric_limits<double>::quiet_NaN();
            }),
            "client 1 of a partition picture has a share of nan, expected 0..1");
}

TEST(PartitionPicture, WhatIsNotKnownIsNotCounted) {
  Census picture = small();
  for (ClientCensus& client : picture.clients) {
    client.true_counts = client.given_counts;
    client.wrong_share = client.distorted_share = 0.0;
    client.noisy = false;
  }
  picture.truth_known = false;
  const std::string text = partition_text(picture, 80, false, 10);
  EXPECT_THAT(text,
              HasSubstr("\nwhich labels are wrong and which clients are noisy is not known\n"));
  EXPECT_THAT(text, Not(HasSubstr("0.00%")));
  EXPECT_THAT(text, HasSubstr("     0        40       -          -  "));
  const std::string svg = partition_svg(picture);
  EXPECT_THAT(svg, HasSubstr("; which labels are wrong and which clients are noisy is not known<"));
  EXPECT_THAT(svg, HasSubstr("by given label"));
  EXPECT_THAT(svg, Not(HasSubstr("by true label")));
  EXPECT_THAT(svg, Not(HasSubstr("Noise level")));
  EXPECT_THAT(svg, Not(HasSubstr("% wrong labels")));
}

TEST(PartitionPicture, InjectedNoiseOnUncheckedLabelsIsSaidToBeThat) {
  Census picture = small();
  picture.only_injected = true;
  EXPECT_THAT(partition_text(picture, 80, false, 10),
              HasSubstr("\ninjected: 1 noisy client, 10 wrong labels (16.67%), 10 distorted images "
                        "(16.67%); what was wrong before is not known\n"));
  EXPECT_THAT(partition_svg(picture), HasSubstr("by label before the noise"));
}

}  // namespace winnow::partition_picture_test
