#include "winnow/base/catalog.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "testing/support.h"

namespace winnow::catalog_of_names_test {

using ::testing::ElementsAre;

struct Fruit {
  std::string name;
  std::string summary;
};

Catalog<Fruit> fruits() {
  Catalog<Fruit> all("fruit", "winnow list fruits", {"any"});
  all.add({"apple", "red"});
  all.add({"pear", "green"});
  return all;
}

TEST(Catalog, KeepsTheOrderOfItsEntries) {
  const Catalog<Fruit> all = fruits();
  EXPECT_THAT(all.names(), ElementsAre("apple", "pear"));
  EXPECT_THAT(all.known(), ElementsAre("any", "apple", "pear"));
  EXPECT_EQ(all.size(), 2U);
  EXPECT_EQ(all.begin()->summary, "red");
}

TEST(Catalog, FindsAnEntryOrSaysWhatWasMeant) {
  const Catalog<Fruit> all = fruits();
  EXPECT_EQ(all.find("pear").summary, "green");
  EXPECT_EQ(all.look_up("plum"), nullptr);
  EXPECT_EQ(error_text([&] { all.find("aple"); }), "unknown fruit 'aple' | did you mean 'apple'?");
  EXPECT_EQ(error_kind([&] { all.find("aple"); }), ErrorKind::experiment);
}

TEST(Catalog, RefusesANameThatIsTakenOrEmpty) {
  Catalog<Fruit> all = fruits();
  EXPECT_EQ(error_text([&] { all.add({"pear", "brown"}); }), "there are two fruits named 'pear'");
  EXPECT_EQ(error_text([&] { all.add({"any", "of them"}); }), "there are two fruits named 'any'");
  EXPECT_EQ(error_text([&] { all.add({"", "nothing"}); }), "there is a fruit without a name");
  EXPECT_EQ(error_kind([&] { all.add({"pear", "brown"}); }), ErrorKind::internal);
  EXPECT_EQ(all.size(), 2U);
}

TEST(Catalog, EntriesStayWhereTheyAreWhileOthersAreAdded) {
  Catalog<Fruit> all = fruits();
  const Fruit* apple = all.look_up("apple");
  for (int i = 0; i < 100; ++i) {
    all.add({"fruit " + std::to_string(i), ""});
  }
  EXPECT_EQ(all.look_up("apple"), apple);
  EXPECT_EQ(fruits().size(), 2U) << "a copy grows by itself";
}

}  // namespace winnow::catalog_of_names_test
