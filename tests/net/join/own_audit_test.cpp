#include "winnow/net/join/own_audit.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <set>

#include "net/join/dealt.h"
#include "winnow/data/npz.h"
#include "winnow/data/npz_writer.h"
#include "winnow/engine/crew.h"
#include "winnow/method/audit/audit/rows.h"

namespace winnow::member::own_audit_test {

using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr std::int64_t kMembers = 4;

// Classes and samples have names that are found wherever they turn up.
const std::vector<std::string> kClassNames{"quagga", "okapi", "axolotl"};

std::string sample_name(std::int64_t client, std::int64_t sample) {
  return "scan-of-patient-" + std::to_string(1000 * client + sample) + ".png";
}

// A dealt audit, its members' files written again with names, and all replies as they leave.
class OwnAudit : public ::testing::Test {
 protected:
  OwnAudit()
      : dealing_(experiment_with("audit", {"federation.clients=4", "federation.fraction=1.0",
                                           "data.samples=240", "data.classes=3",
                                           "data.difficulty=0.1", "rounds=2", "train.epochs=4"}),
                 folder_.path()) {
    dealing_.charter.data["class_names"] = kClassNames;
    for (std::int64_t client = 0; client < kMembers; ++client) {
      const std::filesystem::path& file = dealing_.files[static_cast<std::size_t>(client)];
      const NpzFile dealt(file);
      const at::Tensor images = read_array_images(dealt.array("images"), {});
      Labels labels = read_array_labels(dealt.array("labels"), images.size(0), 3);
      // Members have different numbers of samples.
      const std::int64_t kept = images.size(0) - 5 * client;
      labels.resize(static_cast<std::size_t>(kept));
      std::vector<std::string> names;
      for (std::int64_t i = 0; i < kept; ++i) {
        names.push_back(sample_name(client, i));
      }
      NpzWriter writer;
      writer.add("images", images.narrow(0, 0, kept).contiguous());
      writer.add("labels", labels);
      writer.add("names", names);
      std::filesystem::remove(file);
      writer.write(file);
      sites_.push_back(dealing_.site(client));
    }
    SiteEngine engine(sites_, *dealing_.place);
    engine.watch = [this](std::int64_t client, const std::string& task, const std::string& bytes) {
      replies_.push_back({client, task, bytes});
    };
    play(engine);
    memories_ = engine.memories();
  }

  // The method's server side, with nothing but bytes between it and the members.
  void play(SiteEngine& engine) {
    const std::unique_ptr<Method> method = dealing_.registry.methods.find("audit").make();
    Params params;
    method->declare(params);
    params.read(Json{{"folds", 2}, {"least", 2}}, "method");
    const Crew& crew = dealing_.place->crew();
    const Setting setting{.seed = dealing_.served.seed,
                          .rounds = 2,
                          .clients = kMembers,
                          .fraction = 1.0,
                          .classes = 3,
                          .layout = crew.layout(),
                          .train = dealing_.served.train};
    State global = crew.prototype().initial_state(1);
    for (std::int64_t round = 0; round < method->rounds(setting); ++round) {
      notes_ = Json::object();
      Server server{
          setting, engine,
          global,  notes_,
          {},      [&](std::uint64_t seed) { return crew.prototype().initial_state(seed); }};
      method->play(round, server);
      engine.commit();
    }
    findings_ = method->findings();
  }

  AuditedMember member(std::int64_t client) const {
    const auto at = static_cast<std::size_t>(client);
    return {"hospital-" + std::to_string(client), client, sites_[at]->world(), memories_.at(client),
            read_member_names(dealing_.files[at], dealing_.charter)};
  }
  audit::Kept kept(std::int64_t client) const {
    return audit::read_kept(memories_.at(client).own,
                            sites_[static_cast<std::size_t>(client)]->samples(client), 3);
  }

  struct Seen {
    std::int64_t client;
    std::string task;
    std::string bytes;
  };
  TestFolder folder_;
  Dealing dealing_;
  std::vector<std::shared_ptr<Site>> sites_;
  std::vector<Seen> replies_;
  std::map<std::int64_t, ClientMemory> memories_;
  Findings findings_;
  Json notes_;
};

template <typename T>
std::string bytes_of_value(T value) {
  std::string bytes(sizeof value, '\0');
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}

TEST_F(OwnAudit, NoNameNoLabelAndNoScoreOfASampleLeavesItsOwner) {
  std::set<std::string> answered;
  std::map<std::string, std::set<std::size_t>> sizes;
  for (const Seen& reply : replies_) {
    answered.insert(reply.task);
    sizes[reply.task].insert(reply.bytes.size());
    EXPECT_EQ(reply.bytes.find("patient"), std::string::npos) << reply.task;
    for (const std::string& name : kClassNames) {
      EXPECT_EQ(reply.bytes.find(name), std::string::npos) << reply.task;
    }
  }
  EXPECT_EQ(answered, (std::set<std::string>{"train", "sums", "counts", "close"}));
  for (const char* task : {"sums", "counts", "close"}) {
    EXPECT_EQ(sizes[task].size(), 1U) << task << ": as long for few samples as for many";
  }
  std::size_t looked_for = 0;
  for (std::int64_t client = 0; client < kMembers; ++client) {
    const audit::Kept own = kept(client);
    ASSERT_FALSE(own.found.empty());
    for (const SampleFinding& sample : own.found) {
      for (const double score : {sample.label_score, sample.outlier_score, sample.input_noise_score,
                                 sample.blurry_score}) {
        if (score == 0.0 || score == 1.0) {
          continue;  // found in any list of counts
        }
        ++looked_for;
        for (const Seen& reply : replies_) {
          if (reply.task != "train") {
            EXPECT_EQ(reply.bytes.find(bytes_of_value(score)), std::string::npos) << reply.task;
            EXPECT_EQ(reply.bytes.find(bytes_of_value(static_cast<float>(score))),
                      std::string::npos)
                << reply.task;
          }
        }
      }
    }
  }
  EXPECT_GT(looked_for, 400U);
}

// What is declared says the same: nothing of a reply is as long as the client has samples.
TEST_F(OwnAudit, NoDeclaredFieldHasAValueForEverySample) {
  for (const Exchange& exchange : dealing_.place->exchanges()) {
    for (const FieldRule& rule : exchange.answers) {
      EXPECT_NE(rule.length.most, Length::kSamples) << exchange.reply << "." << rule.name;
      EXPECT_EQ(rule.length.least, rule.length.most) << exchange.reply << "." << rule.name;
    }
  }
}

TEST_F(OwnAudit, TheOwnersPageHasItsSuspectsAndNobodyElses) {
  const std::filesystem::path folder = folder_ / "state" / "audit";
  const std::string line = write_own_audit(folder, dealing_.charter, member(1));
  EXPECT_THAT(line, HasSubstr("labels to look at: " + (folder / "audit.html").string()));
  const std::string csv = read_file(folder / "samples.csv");
  EXPECT_THAT(csv, StartsWith("sample,name,client,judged,given_label,predicted_label,"
                              "is_label_issue,label_score,"));
  EXPECT_THAT(csv, HasSubstr("0,scan-of-patient-1000.png,hospital-1,"));
  EXPECT_THAT(csv, HasSubstr("quagga"));
  EXPECT_EQ(csv.find("patient-2000"), std::string::npos);
  EXPECT_EQ(std::ranges::count(csv, '\n'), sites_[1]->samples(1) + 1);
  const std::string page = read_file(folder / "audit.html");
  EXPECT_THAT(page, HasSubstr("hospital-1"));
  const Json json = Json::parse(read_file(folder / "audit.json"));
  const auto found = findings_.scores.at("label_issues").at(1);
  EXPECT_EQ(json["clients"][0]["label_issues"], static_cast<std::int64_t>(found));
  EXPECT_EQ(json["clients"][0]["noise_rate"], findings_.noise_levels.at(1));
  EXPECT_EQ(json["clients"][0]["verdict"], notes_["verdicts"]["1"]["verdict"]);
  EXPECT_EQ(json["folds"], 2);
  EXPECT_EQ(json["confident_noise_rate"], findings_.noise_levels.at(1));
  EXPECT_EQ(json["clients"][0]["confident_noise_rate"], findings_.noise_levels.at(1));
  // What the member cannot know is left open, and what it can is there.
  EXPECT_TRUE(json["thresholds"].is_null());
  for (const char* name : {"missing_classes", "duplicates_across", "kinds", "features"}) {
    EXPECT_TRUE(json["clients"][0][name].is_null()) << name;
  }
  EXPECT_EQ(json["clients"][0]["rare_classes"], Json::array());
  for (const char* name : {"\"missing_classes\":null", "\"duplicates_across\":null"}) {
    EXPECT_THAT(page, HasSubstr(name));
  }
}

TEST_F(OwnAudit, AMemberThatWasNotJudgedIsToldSo) {
  const std::filesystem::path folder = folder_ / "audit";
  AuditedMember absent = member(2);
  const ClientMemory nothing;
  const AuditedMember alone{absent.name, absent.client, absent.world, nothing, absent.names};
  EXPECT_EQ(write_own_audit(folder, dealing_.charter, alone),
            "the audit ended without this member: it was absent, or has too few samples");
  EXPECT_FALSE(std::filesystem::exists(folder));
  absent.names.pop_back();
  EXPECT_THAT(error_text([&] { write_own_audit(folder, dealing_.charter, absent); }),
              HasSubstr(fmt::format("hospital-2: {} names of samples, but {} samples were judged",
                                    absent.names.size(), absent.names.size() + 1)));
}

}  // namespace winnow::member::own_audit_test
