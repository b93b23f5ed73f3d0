#include "winnow/method/base_choice.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "testing/support.h"
#include "winnow/base/text.h"

namespace winnow::base_choice_test {

using ::testing::IsSupersetOf;
using ::testing::StartsWith;

// The `base` of a wrapper, read from a table of an experiment.
struct Wrapper {
  explicit Wrapper(std::vector<std::string> allowed = {}) : base(std::move(allowed)) {
    params.add("base", base, "what is wrapped");
  }
  BaseChoice base;
  Params params;
};

TEST(BaseChoice, IsFedAvgUnlessSaidOtherwise) {
  const Wrapper wrapper;
  EXPECT_EQ(wrapper.base.name(), "fedavg");
  EXPECT_EQ(wrapper.params.values(),
            (Json{{"base", {{"name", "fedavg"}, {"weighting", "samples"}}}}));
  EXPECT_EQ(wrapper.params.all().front().default_value(), "fedavg");
  EXPECT_EQ(wrapper.params.all().front().type(), "name or table");
}

TEST(BaseChoice, ReadsANameOrATableWithParameters) {
  Wrapper wrapper;
  wrapper.params.read(Json{{"base", "fedprox"}}, "method");
  EXPECT_EQ(wrapper.base.value(),
            (Json{{"name", "fedprox"}, {"mu", 0.01}, {"weighting", "samples"}}));
  wrapper.params.read(Json{{"base", {{"name", "fedprox"}, {"mu", 0.5}}}}, "method");
  EXPECT_EQ(wrapper.base.value(),
            (Json{{"name", "fedprox"}, {"mu", 0.5}, {"weighting", "samples"}}));
  Wrapper again;
  again.params.read(wrapper.params.values(), "method");
  EXPECT_EQ(again.params.values(), wrapper.params.values()) << "what is written reads back";
}

TEST(BaseChoice, OffersEveryMethodThatCanBeWrapped) {
  const std::vector<std::string> names = Wrapper().base.names();
  EXPECT_THAT(names, IsSupersetOf({"fedavg", "fedprox", "fednova", "scaffold", "median", "krum",
                                   "power_of_choice", "mixup"}));
  for (const MethodInfo& info : builtin_methods()) {
    const std::unique_ptr<Method> method = info.make();
    const bool can_be =
        dynamic_cast<const BaseMethod*>(method.get()) != nullptr && info.truth == Truth::none;
    EXPECT_EQ(std::ranges::count(names, info.name), can_be ? 1 : 0) << info.name;
  }
}

TEST(BaseChoice, NamesWhatIsWrong) {
  Wrapper wrapper({"fedavg", "fedprox"});
  const auto read = [&](const Json& value) {
    return error_text([&] { wrapper.params.read(Json{{"base", value}}, "method"); });
  };
  EXPECT_EQ(
      read("fedproxy"),
      "method.base = \"fedproxy\": expected one of fedavg, fedprox | did you mean 'fedprox'?");
  EXPECT_EQ(read(3),
            "method.base = 3: expected a name or a table with a name | for example base = "
            "\"fedprox\" or { name = \"fedprox\", mu = 0.1 }");
  EXPECT_EQ(read(Json{{"mu", 3}}),
            "method.base = {\"mu\":3}: expected a name or a table with a name | for example base = "
            "\"fedprox\" or { name = \"fedprox\", mu = 0.1 }");
  EXPECT_EQ(read(Json{{"name", "fedprox"}, {"nu", 3}}),
            "unknown key 'method.base.nu' | did you mean 'mu'?");
  EXPECT_EQ(wrapper.base.name(), "fedavg") << "a refused choice changes nothing";
}

TEST(BaseChoice, SaysWhyAMethodCannotBeWrapped) {
  Wrapper wrapper;
  const auto read = [&](const Json& value) {
    return error_text([&] { wrapper.params.read(Json{{"base", value}}, "method"); });
  };
  const std::string expected = "; expected one of " + join(wrapper.base.names(), ", ");
  EXPECT_THAT(expected, StartsWith("; expected one of fedavg, fedprox, "));
  for (const std::string method : {"fedcorr", "fedrn", "clipfl", "fedns", "fedncl", "dividemix"}) {
    EXPECT_EQ(read(method), fmt::format("method.base = \"{}\": it cannot be wrapped | a wrapper "
                                        "acts between a base's training and its aggregation{}",
                                        method, expected));
  }
  for (const std::string method : {"oracle", "fedns_oracle_flags"}) {
    EXPECT_EQ(read(Json{{"name", method}}),
              fmt::format("method.base = \"{}\": it cannot be wrapped | a base may not use ground "
                          "truth{}",
                          method, expected));
  }
  EXPECT_EQ(error_kind([&] {
              wrapper.params.read(Json{{"base", "focus"}}, "method");
            }),
            ErrorKind::experiment);
}

}  // namespace winnow::base_choice_test
