#include "winnow/method/base_choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "testing/support.h"

namespace winnow {
namespace {

using ::testing::Contains;
using ::testing::Not;

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
  EXPECT_EQ(wrapper.params.values(), (Json{{"base", {{"name", "fedavg"}}}}));
  EXPECT_EQ(wrapper.params.all().front().default_value(), "fedavg");
  EXPECT_EQ(wrapper.params.all().front().type(), "name or table");
}

TEST(BaseChoice, ReadsANameOrATableWithParameters) {
  Wrapper wrapper;
  wrapper.params.read(Json{{"base", "fedprox"}}, "method");
  EXPECT_EQ(wrapper.base.value(), (Json{{"name", "fedprox"}, {"mu", 0.01}}));
  wrapper.params.read(Json{{"base", {{"name", "fedprox"}, {"mu", 0.5}}}}, "method");
  EXPECT_EQ(wrapper.base.value(), (Json{{"name", "fedprox"}, {"mu", 0.5}}));
  Wrapper again;
  again.params.read(wrapper.params.values(), "method");
  EXPECT_EQ(again.params.values(), wrapper.params.values()) << "what is written reads back";
}

TEST(BaseChoice, OffersEveryMethodThatCanBeWrapped) {
  const Wrapper wrapper;
  EXPECT_THAT(wrapper.base.names(), Contains("fedavg"));
  EXPECT_THAT(wrapper.base.names(), Contains("fedprox"));
  EXPECT_THAT(wrapper.base.names(), Not(Contains("oracle")));
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

}  // namespace
}  // namespace winnow
