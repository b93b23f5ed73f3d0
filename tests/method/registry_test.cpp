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

TEST(Registry, ItsWrappersCanWrapAMethodOfOnesOwn) {
  Registry registry = builtin_methods();
  MethodInfo info = fedavg_info();
  info.name = "mine";
  registry.add(info);
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
    EXPECT_EQ(error_kind([&] { base(builtin_methods().make(wrapper), "mine"); }),
              ErrorKind::experiment)
        << "the program has to know it";
  }
}

}  // namespace winnow::registry_test
