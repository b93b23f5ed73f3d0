#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "testing/support.h"
#include "winnow/method/fedavg/fedavg.h"
#include "winnow/method/method.h"

namespace winnow::registry_test {

TEST(Registry, FindsABuiltinMethodByName) {
  const Registry registry = builtin_methods();
  for (const MethodInfo& info : registry.all()) {
    EXPECT_EQ(registry.find(info.name).name, info.name);
    EXPECT_NE(info.make(), nullptr);
    EXPECT_FALSE(info.summary.empty());
    EXPECT_FALSE(info.group.empty());
    EXPECT_NE(info.make()->client_side(), nullptr);
    EXPECT_FALSE(info.make()->schemas().empty());
  }
  EXPECT_EQ(registry.find("fedavg").group, "base");
}

TEST(Registry, SuggestsTheNameThatWasMeant) {
  const Registry registry = builtin_methods();
  EXPECT_EQ(error_text([&] { registry.find("fedpros"); }),
            "unknown method 'fedpros' | did you mean 'fedprox'?");
  EXPECT_THAT(error_text([&] { registry.find("gradient descent"); }),
              testing::StartsWith("unknown method 'gradient descent' | known: fedcorr, fedrn"));
  EXPECT_EQ(error_kind([&] { registry.find(""); }), ErrorKind::experiment);
}

TEST(Registry, RefusesASecondMethodOfTheSameName) {
  Registry registry = builtin_methods();
  const std::size_t before = registry.all().size();
  EXPECT_EQ(error_text([&] { registry.add(fedavg_info()); }),
            "there are two methods named 'fedavg'");
  EXPECT_EQ(error_kind([&] { registry.add(fedavg_info()); }), ErrorKind::internal);
  EXPECT_EQ(registry.all().size(), before);
}

TEST(Registry, TakesAMethodOfOnesOwn) {
  Registry registry = builtin_methods();
  MethodInfo info = fedavg_info();
  info.name = "mine";
  registry.add(info);
  EXPECT_EQ(registry.find("mine").name, "mine");
}

}  // namespace winnow::registry_test
