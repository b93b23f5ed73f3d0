#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/program.h"

namespace winnow::deal_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Deal, WritesTheFilesOfAFederation) {
  const Workshop shop;
  const Ended ended = shop.done({"deal", "e.toml", "--out", "fed", "--authority", "ca"});
  EXPECT_EQ(ended.out,
            "4 members have their data in fed\nserve them with: winnow serve "
            "fed/federation.toml\n");
  EXPECT_THAT(names_in(shop / "fed"), ElementsAre("client-0.npz", "client-1.npz", "client-2.npz",
                                                  "client-3.npz", "federation.toml", "server.npz"));
  const Json tree = read_toml(shop / "fed/federation.toml");
  EXPECT_EQ(tree.at("data").at("name"), "server");
  EXPECT_EQ(tree.at("data").at("augment"), "off");
  EXPECT_FALSE(tree.contains("noise"));
  EXPECT_EQ(tree.at("members").at(3).at("name"), "client-3");
  EXPECT_THAT(tree.at("serve").at("revoked").get<std::string>(), HasSubstr("/ca/revoked.txt"));
}

TEST(Deal, RefusesInOneLineWhatCannotBeServed) {
  const Workshop shop;
  const auto refused = [&](const std::string& set) {
    const Ended ended = shop.call({"deal", "e.toml", "--out", "fed", "--set", set});
    EXPECT_EQ(ended.code, 3) << set;
    EXPECT_FALSE(std::filesystem::exists(shop / "fed")) << set;
    return split(ended.err, '\n').front();
  };
  EXPECT_THAT(refused("method.name=oracle"), HasSubstr("it is told the truth"));
  EXPECT_THAT(refused("federation.dropout=0.5"), HasSubstr("absent by themselves"));
  EXPECT_THAT(refused("federation.centralised=true"), HasSubstr("stay with them"));
  EXPECT_THAT(refused("noise=[{name=\"attack\", clients=[1]}]"),
              HasSubstr("noise.0: an attack is what a client does"));
}

TEST(Deal, ItsFileIsServedAndNotRun) {
  const Workshop shop;
  shop.done({"deal", "e.toml", "--out", "fed"});
  Json tree = read_toml(shop / "fed/federation.toml");
  tree.erase("serve");
  tree.erase("members");
  write_file_whole(shop / "fed/alone.toml", write_toml(tree));
  const Ended ended = shop.call({"run", "fed/alone.toml"});
  EXPECT_EQ(ended.code, 3);
  EXPECT_THAT(ended.err, HasSubstr("the samples are those of the members of a federation\n  serve "
                                   "the file with: winnow serve FILE\n"));
  const Ended again = shop.call({"deal", "e.toml", "--out", "fed"});
  EXPECT_EQ(again.code, 5);
  EXPECT_THAT(again.err, HasSubstr("is there already"));
}

}  // namespace winnow::deal_test
