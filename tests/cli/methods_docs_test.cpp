// Every method has a page, all pages have one form, and their examples are accepted.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <set>
#include <string>
#include <vector>

#include "testing/errors.h"
#include "winnow/base/files.h"
#include "winnow/base/text.h"
#include "winnow/experiment/experiment.h"
#include "winnow/experiment/registry.h"
#include "winnow/experiment/toml.h"

namespace winnow::methods_docs_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

namespace fs = std::filesystem;

const fs::path kPages = fs::path(WINNOW_SOURCE_DIR) / "docs/methods";

// The method whose page describes it.
std::string page_of(const std::string& method) {
  return method == "fedns_oracle_flags" ? "fedns" : method;
}

std::string read_page(const std::string& method) {
  return read_file(kPages / (page_of(method) + ".md"));
}

// The titles of the sections, which code cannot be taken for.
std::vector<std::string> sections(const std::string& page) {
  std::vector<std::string> titles;
  bool code = false;
  for (const std::string& line : split(page, '\n')) {
    if (line.starts_with("```")) {
      code = !code;
    } else if (!code && line.starts_with("## ")) {
      titles.push_back(line.substr(3));
    }
  }
  return titles;
}

// The first block of TOML after the title of the section.
std::string example(const std::string& page) {
  const std::string fence = "```toml\n";
  const std::size_t start = page.find(fence, page.find("\n## Example\n"));
  if (start == std::string::npos) {
    return "";
  }
  const std::size_t first = start + fence.size();
  return page.substr(first, page.find("\n```", first) + 1 - first);
}

// What a run of the experiment would tell the method of itself, without reading any data.
Setting setting_of(const Experiment& experiment) {
  Setting setting;
  setting.seed = experiment.seed;
  setting.rounds = experiment.rounds;
  setting.clients = experiment.federation.clients;
  setting.fraction = experiment.federation.fraction;
  setting.classes = 10;
  setting.validation = experiment.validation.source == "none" ? 0 : 1000;
  setting.public_images =
      experiment.public_images.source == "none" ? 0 : experiment.public_images.size;
  return setting;
}

class MethodPage : public ::testing::TestWithParam<std::string> {};

TEST_P(MethodPage, HasTheFormOfAllPages) {
  const std::string page = read_page(GetParam());
  EXPECT_THAT(page, HasSubstr("\n**Idea.** "));
  EXPECT_THAT(page, HasSubstr("\n**When to use it.** "));
  EXPECT_THAT(page, HasSubstr("\n**Absences:** ")) << "what it makes of replies that never come";
  EXPECT_THAT(sections(page), ElementsAre("Example", "Parameters", "Steps", "Messages and cost",
                                          "Variants and deviations", "Results measured here",
                                          "Published figures to compare"));
}

// scripts/docs keeps what stands between the marks equal to what the method declares.
TEST_P(MethodPage, HasTheTableOfItsMessages) {
  EXPECT_THAT(read_page(GetParam()),
              HasSubstr("<!-- exchanges " + page_of(GetParam()) + " -->\n| message |"));
}

TEST_P(MethodPage, SaysWhatTheServerNeedsOfTheModels) {
  EXPECT_THAT(read_page(GetParam()),
              HasSubstr("\n**The server needs** " +
                        builtin_registry().make(GetParam())->server_needs().said() + ".\n"));
}

TEST_P(MethodPage, HasAnExampleThatIsAccepted) {
  const Registry registry = builtin_registry();
  EXPECT_EQ(error_text([&] {
              const Json tree = parse_toml(example(read_page(GetParam())), "example.toml");
              const Experiment experiment = parse_experiment(tree, registry);
              EXPECT_EQ(experiment.method, page_of(GetParam()));
              EXPECT_EQ(experiment.data.name, "fashion-mnist");
              make_method(experiment, registry, setting_of(experiment));
            }),
            "no error");
}

INSTANTIATE_TEST_SUITE_P(All, MethodPage, ::testing::ValuesIn(builtin_methods().names()),
                         [](const auto& info) { return info.param; });

TEST(MethodPages, AreThoseOfTheMethodsThereAre) {
  std::set<std::string> expected;
  for (const std::string& method : builtin_methods().names()) {
    expected.insert(page_of(method) + ".md");
  }
  std::set<std::string> pages;
  for (const auto& entry : fs::directory_iterator(kPages)) {
    pages.insert(entry.path().filename().string());
  }
  EXPECT_EQ(pages, expected);
}

TEST(MethodPages, TheTwinOfFedNSStandsOnItsPage) {
  EXPECT_THAT(read_page("fedns_oracle_flags"), HasSubstr("`fedns_oracle_flags`"));
}

}  // namespace winnow::methods_docs_test
