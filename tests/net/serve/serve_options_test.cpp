#include "winnow/net/serve/serve_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>

#include "net/serve/desk_harness.h"
#include "winnow/net/serve/network_log.h"

namespace winnow::net {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Json served(const std::vector<std::string>& sets = {}) {
  Json tree = parse_toml(R"(name = "served"
[serve]
certificate = "server.pem"
key = "server.key"
authority = "authority.pem"
[[members]]
name = "ann"
[[members]]
name = "bob"
)",
                         "serve.toml");
  for (const std::string& text : sets) {
    const Override change = parse_override(text);
    set_by_path(tree, change.key, parse_toml_value(change.value));
  }
  return tree;
}

TEST(ServeFile, SplitsIntoExperimentServerAndMembers) {
  const ServeFile file = read_serve_tree(served({"serve.deadline=30"}), "/somewhere");
  EXPECT_THAT(file.members, ElementsAre("ann", "bob"));
  EXPECT_EQ(file.options.deadline, 30.0);
  EXPECT_EQ(file.options.key, "/somewhere/server.key");
  EXPECT_EQ(file.options.revoked, "");
  EXPECT_EQ(file.tree.at("federation").at("clients"), 2);
  EXPECT_EQ(file.tree.at("checkpoint_every"), 1);
  EXPECT_FALSE(file.tree.contains("serve") || file.tree.contains("members"));
}

TEST(ServeFile, NamesTheKeyThatIsWrong) {
  const auto says = [](const Json& tree) {
    return error_text([&] { read_serve_tree(tree, "/"); });
  };
  EXPECT_THAT(says(served({"serve.dedline=3"})),
              "unknown key 'serve.dedline' | did you mean 'deadline'?");
  EXPECT_THAT(says(served({"serve.quorum=1.5"})), HasSubstr("serve.quorum = 1.5"));
  EXPECT_THAT(says(served({"serve.port=70000"})), HasSubstr("serve.port = 70000"));
  EXPECT_THAT(says(served({"serve.key=\"\""})), HasSubstr("serve.key: expected a file"));
  EXPECT_THAT(says(served({"federation.clients=3"})),
              HasSubstr("federation.clients = 3: there are 2 [[members]]"));
  EXPECT_THAT(says(served({"serve.enrol=\"open\""})), HasSubstr("remove one of the two"));
  Json tree = served();
  tree["members"][1]["name"] = "ann";
  EXPECT_THAT(says(tree),
              HasSubstr("members.1.name = \"ann\": another member already has this name"));
  tree["members"][1]["name"] = "a/b";
  EXPECT_THAT(says(tree), HasSubstr("members.1.name = \"a/b\": expected letters"));
  tree["members"] = "ann";
  EXPECT_THAT(says(tree), HasSubstr("write [[members]], with two brackets"));
  tree.erase("members");
  EXPECT_THAT(says(tree), HasSubstr("there are no [[members]]"));
  tree["serve"]["enrol"] = "open";
  EXPECT_THAT(says(tree), HasSubstr("needs federation.clients"));
  tree.erase("serve");
  EXPECT_THAT(says(tree), HasSubstr("there is no table [serve]"));
}

TEST(Metrics, AreInPrometheusTextFormat) {
  Metrics metrics;
  declare_server_metrics(metrics);
  metrics.add("winnow_replies_total", label("verdict", "a \"b\"\\c"), 2);
  metrics.set("winnow_round", "", 7);
  metrics.observe("winnow_round_seconds", "", 3.5);
  metrics.observe("winnow_task_seconds", label("kind", "train"), 0.2);
  const std::string text = metrics.text();
  EXPECT_THAT(text, HasSubstr("winnow_replies_total{verdict=\"a \\\"b\\\"\\\\c\"} 2\n"));
  EXPECT_THAT(text, HasSubstr("winnow_round_seconds_bucket{le=\"5\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("winnow_round_seconds_bucket{le=\"1\"} 0\n"));
  EXPECT_THAT(text, HasSubstr("winnow_round_seconds_count 1\n"));
  EXPECT_THAT(text, HasSubstr("winnow_task_seconds_bucket{kind=\"train\",le=\"+Inf\"} 1\n"));
  const std::regex comment("# (HELP [a-z_]+ .+|TYPE [a-z_]+ (counter|gauge|histogram))");
  const std::regex sample(
      R"re([a-z_]+(\{[a-z_]+="([^"\\]|\\.)*"(,[a-z_]+="([^"\\]|\\.)*")*\})? [-+0-9.e]+)re");
  std::vector<std::string> lines = split(text, '\n');
  EXPECT_EQ(lines.back(), "");
  lines.pop_back();
  for (const std::string& line : lines) {
    EXPECT_TRUE(std::regex_match(line, line[0] == '#' ? comment : sample)) << line;
  }
}

TEST(NetworkLog, HasALineOfJsonForEverything) {
  const TestFolder folder;
  const FakeClock clock;
  {
    NetworkLog log(folder / "network.jsonl", clock);
    log.write("info", "join", {{"member", "ann"}});
  }
  write_file_whole(folder / "network.jsonl", read_file(folder / "network.jsonl") + "{\"half");
  NetworkLog log(folder / "network.jsonl", clock);
  log.write("warning", "refusal", {{"member", "b\xff"}});
  EXPECT_EQ(read_file(folder / "network.jsonl"),
            "{\"time\":\"2023-11-14T22:30:00.000Z\",\"level\":\"info\",\"event\":\"join\","
            "\"member\":\"ann\"}\n"
            "{\"time\":\"2023-11-14T22:30:00.000Z\",\"level\":\"warning\",\"event\":\"refusal\","
            "\"member\":\"b\xEF\xBF\xBD\"}\n");
}

}  // namespace
}  // namespace winnow::net
