#include "winnow/report/figures.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "testing/errors.h"
#include "winnow/report/figures_parts.h"
#include "winnow/report/svg_canvas.h"

namespace winnow::figures_test {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

Json by_client(std::initializer_list<double> values) {
  Json json = Json::object();
  for (const double value : values) {
    json[std::to_string(json.size())] = value;
  }
  return json;
}

// Four clients of two classes, the first two of them noisy, with everything that is ever drawn.
Json full_report() {
  Json clients = Json::array();
  for (int id = 0; id < 4; ++id) {
    clients.push_back({{"client", id},
                       {"samples", 10},
                       {"true_classes", {5, 5}},
                       {"given_classes", {6, 4}},
                       {"wrong_share", id < 2 ? 0.4 : 0.0},
                       {"distorted_share", 0.0},
                       {"noisy", id < 2}});
  }
  const Json square{{4, 1}, {2, 3}};
  const Json lid{
      {"by_client", by_client({5, 6, 1, 2})},
      {"mixture", {{"means", {1.5, 5.5}}, {"variances", {1, 1}}, {"weights", {0.5, 0.5}}}}};
  const Json time{{"name", "start"},
                  {"round", 0},
                  {"levels", by_client({0.4, 0.4, 0, 0})},
                  {"splits", Json::object()},
                  {"confusions", {{"0", square}, {"1", square}}}};
  Json later = time;
  later["name"] = "stage 1";
  later["splits"] = {{"0", {3, 1, 1, 5}}, {"1", {4, 0, 0, 6}}};
  const Json image{{"client", 0}, {"noisy", true}, {"png", "iVBORw0KGgo="}};
  Json run{{"id", "runs/a"},
           {"row", "fedcorr"},
           {"column", "IID"},
           {"seed", "1"},
           {"status", "finished"},
           {"partition", 0},
           {"uses_ground_truth", false},
           {"history",
            {{"round", {1, 2, 3}},
             {"accuracy", {0.2, nullptr, 0.6}},
             {"participations", {5, 10, 15}},
             {"bytes", {10, 20, 30}},
             {"seconds", {0.5, 1.0, 1.5}},
             {"loss", {2.25, nullptr, 1.5}},
             {"train_loss", {2.0, 1.75, 1.25}},
             {"label_precision", {0.7, 0.8, 0.9}},
             {"label_recall", {0.7, 0.8, 0.9}}}},
           {"findings",
            {{"flagged", {0, 1}},
             {"noise_levels", {{"0", {{"estimated", 0.3}, {"real", 0.1}}}}},
             {"scores", {{"lid", lid}}},
             {"series", {{"lid", {lid, lid}}}},
             {"likeness",
              {{"of", "logits"},
               {"known", 2},
               {"clients", {0, 3}},
               {"values", {{1.0, 0.5}, {0.5, 1.0}}}}},
             {"confusion", {{"before", square}, {"after", square}}}}},
           {"labels", {time, later}},
           {"norms", {{"thinned", false}, {"by_client", {{"0", {1.0, 2.0}}, {"3", {4.0, 5.0}}}}}},
           {"images", {{"flagged", {image}}, {"others", {image}}}}};
  return {
      {"runs", {run}},
      {"partitions", {{{"data", "synthetic"}, {"class_names", {"a", "b"}}, {"clients", clients}}}}};
}

std::vector<std::string> names(const std::vector<ReportFile>& files) {
  std::vector<std::string> all;
  for (const ReportFile& file : files) {
    all.push_back(file.name);
  }
  return all;
}

std::string content(const std::vector<ReportFile>& files, const std::string& name) {
  const auto found = std::ranges::find(files, name, &ReportFile::name);
  return found == files.end() ? "there is no " + name : found->content;
}

TEST(Figures, ARunHasAPictureForEverythingThatItHasDataFor) {
  EXPECT_THAT(
      names(report_files(full_report())),
      ElementsAre("accuracy-rounds.svg", "accuracy-rounds.csv", "accuracy-participations.svg",
                  "accuracy-participations.csv", "train-loss-rounds.svg", "train-loss-rounds.csv",
                  "train-loss-participations.svg", "train-loss-participations.csv",
                  "loss-rounds.svg", "loss-rounds.csv", "loss-participations.svg",
                  "loss-participations.csv", "label-precision.svg", "label-precision.csv",
                  "label-recall.svg", "label-recall.csv", "curves.csv",
                  "run-fedcorr-IID-s1/partition.svg", "run-fedcorr-IID-s1/noise.svg",
                  "run-fedcorr-IID-s1/score-lid.svg", "run-fedcorr-IID-s1/series-lid.svg",
                  "run-fedcorr-IID-s1/likeness.svg", "run-fedcorr-IID-s1/confusion.svg",
                  "run-fedcorr-IID-s1/stages.svg", "run-fedcorr-IID-s1/found.svg",
                  "run-fedcorr-IID-s1/confusion-clients.svg", "run-fedcorr-IID-s1/density.svg",
                  "run-fedcorr-IID-s1/images.svg"));
  Json little = full_report();
  for (const char* key : {"findings", "labels", "norms", "images", "partition"}) {
    little["runs"][0].erase(key);
  }
  for (const char* key : {"label_precision", "label_recall", "loss", "train_loss"}) {
    little["runs"][0]["history"].erase(key);
  }
  EXPECT_THAT(
      names(report_files(little)),
      ElementsAre("accuracy-rounds.svg", "accuracy-rounds.csv", "accuracy-participations.svg",
                  "accuracy-participations.csv", "curves.csv"));
  Json nameless = full_report();
  nameless["runs"][0]["column"] = "";
  EXPECT_THAT(names(report_files(nameless)), Contains("run-fedcorr-s1/noise.svg"));
}

TEST(Figures, EveryPictureStandsAlone) {
  for (const ReportFile& file : report_files(full_report())) {
    if (!file.name.ends_with(".svg")) {
      continue;
    }
    EXPECT_THAT(file.content, StartsWith("<svg xmlns=\"http://www.w3.org/2000/svg\"")) << file.name;
    EXPECT_THAT(file.content, HasSubstr("<title>")) << file.name;
    EXPECT_TRUE(file.content.ends_with("</svg>\n")) << file.name;
    EXPECT_THAT(file.content, Not(HasSubstr("nan"))) << file.name;
    EXPECT_THAT(file.content, Not(HasSubstr("inf"))) << file.name;
    for (const char* outside : {"<script", "<style", "url(", "href=\"http"}) {
      EXPECT_THAT(file.content, Not(HasSubstr(outside))) << file.name;
    }
  }
}

TEST(Figures, CurvesAreMeansOverSeeds) {
  Json report = full_report();
  Json second = report["runs"][0];
  second["seed"] = "2";
  second["history"]["accuracy"] = {0.4, 0.5, 1.0};
  report["runs"].push_back(second);
  const std::string csv = content(report_files(report), "curves.csv");
  EXPECT_THAT(csv, StartsWith("method,setting,seed,round,participations,bytes,seconds,accuracy,"
                              "loss,train_loss,label_precision,label_recall\n"
                              "fedcorr,IID,1,1,5,10,0.5,0.2,2.25,2,0.7,"));
  EXPECT_THAT(csv, HasSubstr("fedcorr,IID,1,2,10,20,1,,,1.75,0.8,0.8\n")) << "not evaluated";
  // Means 0.3, 0.5 (one run) and 0.8 over rounds 1 to 3; bands from 0.3 -+ 0.141 to 0.8 -+ 0.283.
  const std::string svg = content(report_files(report), "accuracy-rounds.svg");
  EXPECT_THAT(svg, HasSubstr("fill-opacity=\"0.15\""));
  EXPECT_THAT(svg, HasSubstr(">fedcorr</text>"));
  EXPECT_THAT(svg, HasSubstr("M70.0 "));
  EXPECT_THAT(svg, HasSubstr("L690.0 "));
  // Round 2 counts on the round axis alone.
  const auto points = [](const std::string& text) {
    const std::size_t end = text.rfind("stroke-width=\"2\"");
    const std::size_t start = text.rfind("<path d=\"", end);
    return std::ranges::count(text.substr(start, end - start), 'L');
  };
  EXPECT_EQ(points(svg), 2);
  EXPECT_EQ(points(content(report_files(report), "accuracy-participations.svg")), 1);
}

TEST(Figures, EveryPictureOfCurvesHasItsPointsBesideIt) {
  Json report = full_report();
  Json second = report["runs"][0];
  second["seed"] = "2";
  second["history"]["accuracy"] = {0.4, 0.5, 0.6};
  second["history"]["train_loss"] = {2.0, 2.25, 1.25};
  report["runs"].push_back(second);
  report["runs"][0]["row"] = report["runs"][1]["row"] = "a, b";
  const std::vector<ReportFile> files = report_files(report);
  EXPECT_EQ(content(files, "train-loss-participations.csv"),
            "method,participations,train_loss,deviation,runs\n"
            "\"a, b\",5,2,0,2\n"
            "\"a, b\",10,2,0.3535533905932738,2\n"
            "\"a, b\",15,1.25,0,2\n");
  EXPECT_THAT(content(files, "accuracy-rounds.csv"), HasSubstr("\"a, b\",2,0.5,,1\n"))
      << "one run was evaluated";
}

// The value of an attribute of the outermost element.
double size_of(const std::string& svg, const std::string& name) {
  const std::string opening = fmt::format(" {}=\"", name);
  return std::stod(svg.substr(svg.find(opening) + opening.size()));
}

TEST(Figures, LossesAreDrawnAsTheyAreAndNamesHaveTheirRoom) {
  Json report = full_report();
  const std::string plain = content(report_files(report), "loss-rounds.svg");
  EXPECT_THAT(plain, HasSubstr(">test loss</text>"));
  EXPECT_THAT(plain, HasSubstr(">1.6</text>")) << "no percent";
  report["runs"][0]["row"] = std::string(60, 'm');
  const std::string named = content(report_files(report), "loss-rounds.svg");
  EXPECT_GT(size_of(named, "width"), size_of(plain, "width") + 200.0);
  Json many = full_report();
  for (int method = 0; method < 40; ++method) {
    Json run = many["runs"][0];
    run["row"] = fmt::format("method {}", method);
    many["runs"].push_back(run);
  }
  const std::string crowded = content(report_files(many), "loss-rounds.svg");
  EXPECT_THAT(crowded, Not(HasSubstr("y=\"-"))) << "no name is above the picture";
  EXPECT_GT(size_of(crowded, "height"), 40 * 15.0);
}

TEST(Figures, SettingsHaveFoldersAndNamesOfAnyKindBecomePlain) {
  Json report = full_report();
  Json second = report["runs"][0];
  second["row"] = "../../etc <b>&";
  second["column"] = "IID ";
  second["findings"]["scores"] = {{"a/b", second["findings"]["scores"]["lid"]},
                                  {"a b", second["findings"]["scores"]["lid"]}};
  report["runs"].push_back(second);
  const std::vector<ReportFile> files = report_files(report);
  const std::vector<std::string> all = names(files);
  EXPECT_THAT(all, Contains("setting-IID/accuracy-rounds.svg"));
  EXPECT_THAT(all, Contains("setting-IID-2/accuracy-rounds.svg"));
  EXPECT_THAT(all, Contains("run-etc-b-IID-s1/score-a-b.svg"));
  EXPECT_THAT(all, Contains("run-etc-b-IID-s1/score-a-b-2.svg"));
  for (const std::string& name : all) {
    EXPECT_THAT(name, Not(HasSubstr("..")));
    EXPECT_THAT(name, Not(StartsWith("/")));
  }
  const std::string svg = content(files, "setting-IID-2/accuracy-rounds.svg");
  EXPECT_THAT(svg, HasSubstr("../../etc &lt;b&gt;&amp;</text>"));
}

TEST(Figures, ValuesThatNoReportHoldsAreNamed) {
  const auto told = [](const char* pointer, const Json& value) {
    Json report = full_report();
    report[Json::json_pointer(std::string("/runs/0") + pointer)] = value;
    return error_text([&] { report_files(report); });
  };
  EXPECT_EQ(told("/findings/scores/lid/by_client/0", "x"),
            "runs/a: runs[0].findings.scores.lid.by_client.0 = \"x\": expected a finite number");
  EXPECT_EQ(told("/findings/confusion/before/1", Json({1})),
            "runs/a: runs[0].findings.confusion.before[1]: expected 2 numbers");
  EXPECT_EQ(told("/partition", 1),
            "runs/a: runs[0].partition = 1: expected a whole number from 0 to 0");
  EXPECT_EQ(told("/norms/by_client", Json({{"-1", {1.0}}})),
            "runs/a: runs[0].norms.by_client.-1: expected the number of a client");
  EXPECT_EQ(told("/findings/scores/lid/by_client/0", 1e308), "no error");
  EXPECT_EQ(told("/labels/0/levels", Json::object()), "no error");
  Json report = full_report();
  report["partitions"][0]["clients"][0]["samples"] = 11;
  const std::string text = error_text([&] { report_files(report); });
  EXPECT_THAT(text, StartsWith("runs/a: the classes of client 0"));
  try {
    report_files(report);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::run) << "a file's fault, not ours";
  }
}

TEST(Figures, WithoutTruthNothingIsCalledNoisy) {
  Json report = full_report();
  for (Json& client : report["partitions"][0]["clients"]) {
    for (const char* key : {"wrong_share", "distorted_share", "noisy"}) {
      client[key] = nullptr;
    }
  }
  report["runs"][0].erase("labels");
  report["runs"][0]["images"]["flagged"][0]["noisy"] = nullptr;
  const std::vector<ReportFile> files = report_files(report);
  EXPECT_THAT(names(files), Not(Contains("run-fedcorr-IID-s1/noise.svg")));
  EXPECT_THAT(content(files, "run-fedcorr-IID-s1/score-lid.svg"), Not(HasSubstr("truly noisy")));
}

TEST(Figures, ImagesThatAreNotBase64AreNotDrawn) {
  Json report = full_report();
  report["runs"][0]["images"]["flagged"][0]["png"] = "\"/><script>";
  const std::string svg = content(report_files(report), "run-fedcorr-IID-s1/images.svg");
  EXPECT_THAT(svg, Not(HasSubstr("script")));
  EXPECT_THAT(svg, HasSubstr("base64,iVBORw0KGgo="));
}

TEST(Figures, ADensityEnclosesAnAreaOfOne) {
  const figures::Points points = figures::density_of({1.0, 1.5, 2.0, 4.0}, -10.0, 15.0, 500);
  double area = 0.0;
  for (const auto& [x, y] : points) {
    area += y * 25.0 / 499.0;
  }
  EXPECT_NEAR(area, 1.0, 1e-3);
  EXPECT_EQ(figures::density_of({3.0}, 2.0, 4.0, 3).size(), 3U);
}

TEST(Figures, TicksAreRoundNumbers) {
  EXPECT_THAT(round_ticks(0.0, 1.0, 5), ElementsAre(0.0, 0.2, 0.4, 0.6000000000000001, 0.8, 1.0));
  EXPECT_THAT(round_ticks(-3.0, 12.0, 5), ElementsAre(0.0, 5.0, 10.0));
  EXPECT_THAT(round_ticks(7.0, 7.0, 5), ElementsAre(7.0));
  EXPECT_LE(round_ticks(1e300, std::nextafter(1e300, 2e300), 5).size(), 6U);
}

}  // namespace winnow::figures_test
