#include <arpa/inet.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "cli/program.h"

namespace winnow::report_test {

using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(Report, WritesOnePage) {
  const Workshop shop;
  shop.done({"run", "e.toml", "-q"});
  const Ended ended = shop.done({"report", "runs/small", "-o", "page.html"});
  EXPECT_EQ(ended.out, "");
  EXPECT_THAT(ended.err, StartsWith("page.html ("));
  EXPECT_THAT(ended.err, HasSubstr(" kB) shows 1 run\n"));
  const std::string page = read_file(shop / "page.html");
  EXPECT_THAT(page, StartsWith("<!doctype html>"));
  EXPECT_THAT(page, HasSubstr("\"row\":\"fedavg\""));
}

TEST(Report, JsonIsTheDataOfThePage) {
  const Workshop shop;
  shop.done({"run", "e.toml", "-q"});
  const Json data = shop.done({"report", "runs/small", "--json"}).json();
  EXPECT_EQ(data.at("runs").at(0).at("history").at("round").size(), 4U);
  EXPECT_FALSE(std::filesystem::exists(shop / "report.html"));
}

TEST(Report, WritesEveryPictureAsAFile) {
  const Workshop shop;
  shop.done({"run", "e.toml", "-q", "--set", "method.name=fedns"});
  const Ended ended =
      shop.done({"report", "runs/small", "-o", "page.html", "--svg", "pictures", "--images"});
  EXPECT_THAT(ended.err, StartsWith("pictures: pictures and curves.csv, "));
  EXPECT_THAT(read_file(shop / "pictures/accuracy-rounds.svg"), StartsWith("<svg "));
  EXPECT_THAT(read_file(shop / "pictures/curves.csv"), HasSubstr("\nfedns,small,1,4,"));
  const std::string run = "pictures/run-fedns-small-s1/";
  EXPECT_THAT(read_file(shop / (run + "score-gradient_norm.svg")), HasSubstr("truly noisy"));
  EXPECT_THAT(read_file(shop / (run + "images.svg")), HasSubstr("data:image/png;base64,"));
  EXPECT_THAT(read_file(shop / "page.html"), HasSubstr("\"png\":\"iVBORw0KGgo"));
  write_file_whole(shop / "taken", "");
  EXPECT_THAT(shop.call({"report", "runs/small", "--svg", "taken"}).err,
              HasSubstr("winnow: cannot create taken"));
}

TEST(Report, WhatCannotBeShownIsAnErrorAndLeavesNothingBehind) {
  const Workshop shop;
  const Ended ended = shop.call({"report", "nowhere"});
  EXPECT_EQ(ended.code, 5);
  EXPECT_THAT(ended.err, HasSubstr("nowhere does not exist"));
  EXPECT_THAT(names_in(shop / "."), ::testing::ElementsAre("e.toml"));
  shop.done({"run", "e.toml", "-q"});
  EXPECT_EQ(shop.call({"report", "runs/small", "-o", "no/such/place.html"}).code, 5);
}

// What a browser would get.
std::string get(int port, const std::string& path, const std::string& more = "") {
  const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in where{};
  where.sin_family = AF_INET;
  where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  where.sin_port = htons(static_cast<std::uint16_t>(port));
  if (::connect(socket, reinterpret_cast<const sockaddr*>(&where), sizeof where) != 0) {
    ::close(socket);
    return "no connection";
  }
  const std::string request =
      fmt::format("GET {} HTTP/1.1\r\nHost: localhost:{}\r\n{}\r\n", path, port, more);
  ::send(socket, request.data(), request.size(), MSG_NOSIGNAL);
  std::string text;
  char buffer[4096];
  for (ssize_t size = 0; (size = ::recv(socket, buffer, sizeof buffer, 0)) > 0;) {
    text.append(buffer, static_cast<std::size_t>(size));
  }
  ::close(socket);
  return text;
}

std::string header(const std::string& answer, const std::string& name) {
  const std::size_t from = answer.find(name + ": ") + name.size() + 2;
  return answer.substr(from, answer.find("\r\n", from) - from);
}

// `winnow watch` of the small run on a port of its own.
class Served {
 public:
  explicit Served(const Workshop& shop)
      : address_(shop / "address"), process_({"watch", "runs/small", "--port", "0"}, place(shop)) {
    const std::string start = "http://127.0.0.1:";
    EXPECT_TRUE(wait_until([&] { return read_file(address_).ends_with("\n"); }));
    const std::string line = read_file(address_);
    EXPECT_THAT(line, StartsWith(start));
    port_ = std::stoi(line.substr(start.size()));
  }
  int port() const { return port_; }
  void send(int signal) const { process_.send(signal); }
  Ended wait() { return process_.wait(); }

 private:
  Place place(const Workshop& shop) const {
    Place place = shop.place();
    place.output = address_.string();
    write_file_whole(address_, "");
    return place;
  }

  std::filesystem::path address_;
  Process process_;
  int port_ = 0;
};

TEST(Watch, SurvivesDamagedFilesAndNamesThem) {
  const Workshop shop;
  shop.done({"run", "e.toml", "-q"});
  Served watch(shop);
  for (const char* name : {"summary.json", "findings.json", "partition.json"}) {
    const std::filesystem::path file = shop / ("runs/small/" + std::string(name));
    const std::string kept = read_file(file);
    write_file_whole(file, R"({"a":)" + std::string(200'000, '['));
    for (const char* page : {"/", "/data.json"}) {
      const std::string answer = get(watch.port(), page);
      EXPECT_THAT(answer, StartsWith("HTTP/1.1 500 "));
      EXPECT_THAT(answer, HasSubstr(std::string("runs/small/") + name +
                                    " is damaged: it is nested deeper than 64 levels"));
    }
    std::filesystem::remove(file);
    ASSERT_EQ(::mkfifo(file.c_str(), 0600), 0);
    EXPECT_THAT(get(watch.port(), "/"), HasSubstr("it is not a regular file"));
    std::filesystem::remove(file);
    write_file_whole(file, kept);
    EXPECT_THAT(get(watch.port(), "/"), StartsWith("HTTP/1.1 200 OK"));
  }
  watch.send(SIGTERM);
  EXPECT_EQ(watch.wait().code, 0);
}

TEST(Watch, ServesThePageAndItsNewsUntilItIsStopped) {
  const Workshop shop;
  shop.done({"run", "e.toml", "-q"});
  Served watch(shop);
  const int port = watch.port();

  EXPECT_THAT(get(port, "/"), HasSubstr("\"live\":\""));
  const std::string data = get(port, "/data.json");
  EXPECT_THAT(data, StartsWith("HTTP/1.1 200 OK\r\nContent-Type: application/json"));
  const std::string known = fmt::format("If-None-Match: {}\r\n", header(data, "ETag"));
  EXPECT_THAT(get(port, "/data.json", known), StartsWith("HTTP/1.1 304 "));
  std::filesystem::remove(shop / "runs/small/summary.json");
  const std::string news = get(port, "/data.json", known);
  EXPECT_THAT(news, StartsWith("HTTP/1.1 200 OK\r\n"));
  EXPECT_THAT(news, HasSubstr("\"status\":\"stopped\""));
  EXPECT_THAT(get(port, "/experiment.toml"), StartsWith("HTTP/1.1 404 "));

  watch.send(SIGINT);
  EXPECT_EQ(watch.wait().code, 0);
}

TEST(Watch, SaysAtOnceWhatItCannotShow) {
  const Workshop shop;
  const Ended ended = shop.call({"watch", "nowhere", "--port", "0"});
  EXPECT_EQ(ended.code, 5);
  EXPECT_THAT(ended.err, HasSubstr("nowhere does not exist"));
}

}  // namespace winnow::report_test
