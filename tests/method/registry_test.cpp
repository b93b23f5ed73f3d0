#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "testing/support.h"
#include "winnow/experiment/registry.h"
#include "winnow/method/base/fedavg/fedavg.h"

namespace winnow::registry_test {

TEST(Registry, FindsABuiltinMethodByName) {
  const Registry registry = builtin_registry();
  for (const MethodInfo& info : registry.methods) {
    EXPECT_EQ(registry.methods.find(info.name).name, info.name);
    EXPECT_NE(info.make(), nullptr);
    EXPECT_FALSE(info.summary.empty());
    EXPECT_FALSE(info.group.empty());
    EXPECT_NE(info.make()->client_side(), nullptr);
    EXPECT_FALSE(info.make()->exchanges({}).empty());
  }
  EXPECT_EQ(registry.methods.find("fedavg").group, "base");
}

TEST(Registry, SuggestsTheNameThatWasMeant) {
  const Registry registry = builtin_registry();
  EXPECT_EQ(error_text([&] { registry.methods.find("fedpros"); }),
            "unknown method 'fedpros' | did you mean 'fedprox'?");
  EXPECT_THAT(error_text([&] { registry.methods.find("gradient descent"); }),
              testing::EndsWith(
                  "unknown method 'gradient descent' | 'winnow list methods' shows them all"));
  EXPECT_EQ(error_kind([&] { registry.methods.find(""); }), ErrorKind::experiment);
}

TEST(Registry, RefusesASecondMethodOfTheSameName) {
  Registry registry = builtin_registry();
  const std::size_t before = registry.methods.size();
  EXPECT_EQ(error_text([&] { registry.methods.add(fedavg_info()); }),
            "there are two methods named 'fedavg'");
  EXPECT_EQ(error_kind([&] { registry.methods.add(fedavg_info()); }), ErrorKind::internal);
  EXPECT_EQ(registry.methods.size(), before);
}

TEST(Registry, TakesAMethodOfOnesOwn) {
  Registry registry = builtin_registry();
  MethodInfo info = fedavg_info();
  info.name = "mine";
  registry.methods.add(info);
  EXPECT_EQ(registry.methods.find("mine").name, "mine");
}

TEST(Registry, ItsWrappersCanWrapAMethodOfOnesOwn) {
  Registry registry = builtin_registry();
  MethodInfo info = fedavg_info();
  info.name = "mine";
  registry.methods.add(info);
  for (const char* wrapper : {"clipfl", "fedns", "fedcorr", "oracle", "fedns_oracle_flags"}) {
    const auto base = [&](const std::unique_ptr<Method>& method, const char* name) {
      Params params;
      method->declare(params);
      params.read(Json{{"base", name}}, "method");
      return params.values().at("base");
    };
    EXPECT_EQ(base(registry.make(wrapper), "mine").at("name"), "mine") << wrapper;
    EXPECT_THAT(error_text([&] { base(registry.make(wrapper), "nine"); }),
                testing::EndsWith("did you mean 'mine'?"));
    EXPECT_EQ(error_kind([&] { base(builtin_registry().make(wrapper), "mine"); }),
              ErrorKind::experiment)
        << "the program has to know it";
  }
}

}  // namespace winnow::registry_test
