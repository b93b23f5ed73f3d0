// Checkpoints that were damaged, and forged ones whose hashes were made anew: a run goes on from
// them or is refused in one line. Nothing else may come of them, whatever they hold.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "run/checkpoint_pieces.h"
#include "run/method_schedules.h"
#include "run/small_run.h"
#include "winnow/base/random.h"
#include "winnow/judge/judge.h"
#include "winnow/model/safetensors.h"
#include "winnow/run/checkpoint.h"
#include "winnow/run/summary.h"

namespace winnow::forged_checkpoint_test {

using ::testing::HasSubstr;

namespace fs = std::filesystem;

constexpr const char* kMetadata = "winnow_checkpoint";

Experiment tiny(const std::string& method, const std::vector<std::string>& more) {
  const std::vector<std::string> sets{"federation.clients=5",
                                      "federation.fraction=0.6",
                                      "data.samples=100",
                                      "data.test_samples=20",
                                      "eval_every=9",
                                      "validation.source=\"split\"",
                                      "method.name=\"" + method + "\""};
  Json tree = small_tree(sets);
  set_short_schedule(tree, method);
  for (const std::string& text : more) {
    const Override change = parse_override(text);
    set_by_path(tree, change.key, parse_toml_value(change.value));
  }
  return parse_experiment(tree, methods());
}

// A run that was stopped half way, and its checkpoint to tamper with.
class Victim {
 public:
  explicit Victim(const std::string& method, const std::vector<std::string>& more = {})
      : experiment_(tiny(method, more)), session_(experiment_, methods(), on_cpu(), nullptr) {
    // Past a warm-up of two rounds.
    while (session_.rounds_done() < std::max<std::int64_t>(3, session_.rounds() / 2)) {
      session_.play();
    }
    const Checkpoint saved = session_.checkpoint();
    history_ = saved.history;
    save_checkpoint(folder_.path(), saved);
    path_ = head_in(folder_.path());
    good_ = take_apart(folder_.path());
    for (const auto& entry : fs::directory_iterator(folder_.path())) {
      files_[entry.path()] = read_file(entry.path());
    }
  }

  // The head, and a segment where clients have anything.
  const std::map<fs::path, std::string>& files() const { return files_; }
  const TensorFile& good() const { return good_; }
  // With the history, which a run has from its log.
  Json metadata() const {
    Json json = Json::parse(good_.metadata.at(kMetadata));
    json["history"] = history_;
    return json;
  }
  const fs::path& head() const { return path_; }

  void forge(const TensorFile& file) const { put_together(folder_.path(), file); }
  void forge(Json metadata) {
    TensorFile file = good_;
    forged_history_ = metadata.value("history", Json::array());
    metadata.erase("history");
    file.metadata[kMetadata] = metadata.dump();
    forge(file);
  }

  // Continues from the file, and does with it all that a run does.
  void go_on() {
    Checkpoint loaded =
        *load_checkpoint(folder_.path(), experiment_.hash(), session_.global().layout);
    loaded.history = std::exchange(forged_history_, std::nullopt).value_or(history_);
    session_.restore(std::move(loaded));
    if (session_.rounds_done() < session_.rounds()) {
      session_.play();
    }
    make_summary(session_);
    judge_clients(session_.world(), session_.findings(), session_.details(),
                  session_.engine().traces());
  }
  std::string fate() {
    return error_text([this] { go_on(); });
  }

  // Goes on, or is refused as a damaged run directory is. Returns whether it was refused.
  bool refuses(const std::string& change) {
    try {
      go_on();
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::run) << change << ": " << error.what();
      EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos) << change;
      return true;
    } catch (const std::exception& error) {
      ADD_FAILURE() << change << ": " << error.what();
    }
    return false;
  }

 private:
  TestFolder folder_;
  Experiment experiment_;
  Session session_;
  fs::path path_;
  std::map<fs::path, std::string> files_;
  TensorFile good_;
  Json history_;
  std::optional<Json> forged_history_;
};

// Sets a path of the metadata, made as Json::flatten() makes them, to what cannot be right.
const std::vector<Json>& wrong_values() {
  static const std::vector<Json> values{
      -1,      999999999, std::numeric_limits<std::int64_t>::max(),
      nullptr, "x",       Json::array({1, "a", Json::object()}),
      1e300,   true,      std::numeric_limits<std::int64_t>::min(),
      0.5,     -1e300,    Json{{"a", 1}}};
  return values;
}

struct Forged {
  std::string name;
  std::vector<std::string> more = {};
};

class ForgedCheckpoint : public ::testing::TestWithParam<Forged> {};

TEST_P(ForgedCheckpoint, DamageIsNoticed) {
  Victim victim(GetParam().name, GetParam().more);
  EXPECT_EQ(victim.fate(), "no error");
  Stream stream(1, "damage");
  for (const auto& [path, good] : victim.files()) {
    for (int i = 0; i < 12; ++i) {
      std::string bytes = good;
      const auto place = static_cast<std::size_t>(stream.below(bytes.size()));
      bytes[place] = static_cast<char>(bytes[place] ^ (1 << (i % 8)));
      write_file_whole(path, bytes);
      EXPECT_TRUE(victim.refuses("bit " + std::to_string(place) + " of " + path.string()));
    }
    for (const std::size_t keep :
         {std::size_t{0}, std::size_t{9}, good.size() / 2, good.size() - 1}) {
      write_file_whole(path, good.substr(0, keep));
      EXPECT_TRUE(victim.refuses("cut to " + std::to_string(keep)));
    }
    write_file_whole(path, good + "x");
    EXPECT_EQ(victim.refuses("one byte more"), path == victim.head())
        << "of a segment only the bytes count that the head names";
    write_file_whole(path, good);
  }
}

TEST_P(ForgedCheckpoint, ForgedValuesDoNoHarm) {
  Victim victim(GetParam().name, GetParam().more);
  const Json good = victim.metadata();
  const Json flat = good.flatten();
  int refused = 0;
  std::size_t number = 0;
  // Histories and clients repeat themselves: a sample of the paths will do.
  const std::size_t step = std::max<std::size_t>(1, flat.size() / 16);
  for (const auto& [path, value] : flat.items()) {
    if (++number % step != 0) {
      continue;
    }
    Json changed = good;
    const Json& wrong = wrong_values()[(number / step) % wrong_values().size()];
    changed[Json::json_pointer(path)] = wrong;
    victim.forge(changed);
    refused += victim.refuses(path + " = " + wrong.dump()) ? 1 : 0;
  }
  for (const auto& [key, value] : good.items()) {
    Json changed = good;
    changed.erase(key);
    victim.forge(changed);
    // Where nobody remembers anything, nothing is missing without the clients.
    EXPECT_TRUE(victim.refuses("without " + key) || key == "clients");
    // Clients that there are not, wherever there are any.
    if (value.is_object() && key != "traffic") {
      for (const auto& [name, inner] : value.items()) {
        changed = good;
        if (inner.is_object() && !inner.empty()) {
          changed[key][name]["999999999"] = inner.begin().value();
        } else {
          changed[key]["-3"] = inner;
        }
        victim.forge(changed);
        victim.refuses("a stranger in " + key + "." + name);
      }
    }
  }
  EXPECT_GT(refused, 5);
}

TEST_P(ForgedCheckpoint, ForgedTensorsDoNoHarm) {
  Victim victim(GetParam().name, GetParam().more);
  const TensorFile& good = victim.good();
  const std::string last = good.tensors.rbegin()->first;
  std::set<std::string> kinds;  // one client's memory is as good as another's
  for (const auto& [name, tensor] : good.tensors) {
    const std::vector<std::string> parts = split(name, '/');
    const bool is_of_client = parts.back().find_first_not_of("0123456789") == std::string::npos;
    const std::string kind = parts[0] == "client" ? name.substr(name.find('/', 7))
                             : is_of_client       ? name.substr(0, name.rfind('/'))
                                                  : name;
    if (!kinds.insert(kind).second) {
      continue;
    }
    const auto with = [&, name = name](const at::Tensor& other, const char* change, bool wrong) {
      TensorFile file = good;
      file.tensors[name] = other;
      victim.forge(file);
      EXPECT_TRUE(victim.refuses(name + " " + change) || !wrong) << name << " " << change;
    };
    with(tensor.flatten().narrow(0, 0, std::max<std::int64_t>(0, tensor.numel() - 1)), "cut", true);
    with(tensor.to(tensor.is_floating_point() ? at::kLong : at::kFloat), "of another type", true);
    with(tensor.unsqueeze(0), "of another rank", true);
    with(at::full_like(tensor, 1000000000), "all 1e9", !tensor.is_floating_point());
    with(at::full_like(tensor, -7), "all -7", !tensor.is_floating_point());
    if (tensor.is_floating_point()) {
      with(at::full_like(tensor, std::numeric_limits<double>::quiet_NaN()), "of NaN",
           name != "global");  // which RHFL has no use for
    }
    with(good.tensors.at(last), "swapped", false);
    TensorFile file = good;
    file.tensors.erase(name);
    victim.forge(file);
    victim.refuses("without " + name);
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, ForgedCheckpoint,
    ::testing::Values(Forged{"fedavg"}, Forged{"scaffold"}, Forged{"fedcorr"}, Forged{"fedncl"},
                      Forged{"fedrn"}, Forged{"fedns", {"method.base=\"scaffold\""}},
                      Forged{"clipfl", {"method.base=\"moon\""}}, Forged{"selfie"},
                      Forged{"dividemix"}, Forged{"power_of_choice"}, Forged{"feddyn"},
                      Forged{"fednova", {"method.server_momentum=0.5"}}, Forged{"fedadam"},
                      Forged{"fedavgm", {"method.momentum=0.5"}}, Forged{"joint_optimisation"},
                      Forged{"rhfl"}, Forged{"rofl"}, Forged{"focus"}, Forged{"clc"},
                      Forged{"feddiv"}, Forged{"fednoro"}, Forged{"fedelc"}, Forged{"elr"},
                      Forged{"fedgr"}, Forged{"fedefc"}, Forged{"winnow"}),
    [](const auto& info) { return info.param.name; });

// What an attacker would try first, with the words that answer it.
TEST(ForgedCheckpointText, NamesTheClientAndTheValue) {
  Victim victim("joint_optimisation");
  std::string id;
  for (const auto& [name, tensor] : victim.good().tensors) {
    if (name.starts_with("client/") && name.ends_with("/labels")) {
      id = split(name, '/')[1];
    }
  }
  ASSERT_FALSE(id.empty()) << "nobody has corrected labels";
  const std::string client = "client " + id + ": ";
  const auto with_labels = [&](const std::function<at::Tensor(at::Tensor)>& change) {
    TensorFile file = victim.good();
    file.tensors["client/" + id + "/labels"] =
        change(file.tensors.at("client/" + id + "/labels").clone());
    victim.forge(file);
    return victim.fate();
  };
  EXPECT_EQ(with_labels([](at::Tensor labels) { return labels.fill_(1000000000); }),
            client + "it has the label 1000000000, expected 0 to 3");
  EXPECT_EQ(with_labels([](at::Tensor labels) { return labels.fill_(-1); }),
            client + "it has the label -1, expected 0 to 3");
  EXPECT_THAT(with_labels([](const at::Tensor& labels) { return labels.narrow(0, 0, 2); }),
              HasSubstr(client + "it has 2 labels, expected one for each of "));
  Json stranger = victim.metadata();
  stranger["clients"]["999999999"] = {{"own", Json::object()}, {"base", Json::object()}};
  victim.forge(stranger);
  EXPECT_EQ(victim.fate(), "client 999999999: it is not one of the 5 clients");
  Json ring = victim.metadata();
  ring["clients"][id]["own"]["joint.recorded"] = -5;
  victim.forge(ring);
  EXPECT_EQ(victim.fate(),
            client + "joint.recorded = -5: expected a whole number from 0 to 9007199254740992");
}

TEST(ForgedCheckpointText, NamesTheSelectionAndTheTensor) {
  Victim victim("selfie");
  TensorFile file = victim.good();
  const auto selected = std::ranges::find_if(
      file.tensors, [](const auto& entry) { return entry.first.ends_with("/selected"); });
  ASSERT_NE(selected, file.tensors.end());
  const std::string client = split(selected->first, '/')[1];
  selected->second = selected->second.clone().fill_(-1);
  victim.forge(file);
  EXPECT_THAT(victim.fate(),
              HasSubstr("tensor 'client/" + client + "/selected' holds -1, expected 0 to 1"));
  file = victim.good();
  file.tensors["client/" + client + "/selected"] = at::ones({3}, at::kLong);
  victim.forge(file);
  EXPECT_THAT(victim.fate(),
              HasSubstr("client " + client + ": it has 3 marks of selected samples"));
  file = victim.good();
  at::Tensor& history = file.tensors.at("client/" + client + "/own/selfie.history");
  history = at::full_like(history, 4);
  victim.forge(file);
  EXPECT_EQ(victim.fate(),
            "client " + client + ": tensor 'selfie.history' holds 4, expected 0 to 3");
}

TEST(ForgedCheckpointText, NamesTheHistoryThatDoesNotFit) {
  Victim victim("fedavg");
  const Json good = victim.metadata();
  const auto fate_with = [&](const std::function<void(Json&)>& change) {
    Json json = good;
    change(json);
    victim.forge(json);
    return victim.fate();
  };
  EXPECT_EQ(fate_with([](Json& json) { json["rounds_done"] = 2; }),
            "rounds_done = 2: there are 3 rounds in the history, and 4 in the experiment");
  EXPECT_EQ(fate_with([](Json& json) {
              for (int round = 4; round <= 9; ++round) {
                json["history"].push_back(json["history"].back());
                json["history"].back()["round"] = round;
              }
              json["rounds_done"] = 9;
            }),
            "rounds_done = 9: there are 9 rounds in the history, and 4 in the experiment");
  EXPECT_EQ(fate_with([](Json& json) { json["history"][1]["round"] = 1; }),
            "history[1].round = 1: expected a whole number from 2 to 2");
  EXPECT_EQ(fate_with([](Json& json) { json["history"][1]["bytes_up"] = 0; }).substr(0, 29),
            "history[1].bytes_up = 0: expe");
  EXPECT_EQ(fate_with([](Json& json) { json["history"][0]["accuracy"] = 1.5; }),
            "history[0].accuracy = 1.5: expected 0 to 1");
  EXPECT_EQ(fate_with([](Json& json) { json["traffic"]["client_steps"] = 1; }),
            "traffic is not what it was after the last round of the history");
  EXPECT_EQ(fate_with([](Json& json) { json["traffic"]["forward_passes"] = 1; }),
            "traffic is not what it was after the last round of the history");
  EXPECT_EQ(fate_with([](Json& json) { json["history"][1]["backward_passes"] = 0; }).substr(0, 36),
            "history[1].backward_passes = 0: expe");
  EXPECT_EQ(fate_with([](Json& json) { json["history"][2]["hash"] = "another"; }),
            "the model is not the one of round 3");
}

TEST(ForgedCheckpointText, EndlessNestingIsRefused) {
  Victim victim("scaffold");
  const std::string good = load_tensors(victim.head()).metadata.at(kMetadata);
  for (const std::string open : {"[", "{\"a\":"}) {
    std::string deep = "\"x\":";
    for (int i = 0; i < 200000; ++i) {
      deep += open;
    }
    const std::string key = "\"method\":{";
    TensorFile file = load_tensors(victim.head());
    std::string& forged = file.metadata.at(kMetadata);
    ASSERT_NE(forged.find(key), std::string::npos);
    forged.replace(forged.find(key), key.size(), key + deep);
    seal_checkpoint(file);
    save_tensors(victim.head(), file);
    EXPECT_THAT(victim.fate(), HasSubstr("is nested deeper than 64 levels"));
    // The same in what there is of a client.
    const fs::path folder = victim.head().parent_path();
    SegmentLog log(folder);
    TensorFile record;
    record.metadata[kMetadata] = "{\"clients\":{" + deep;
    log.append(0, encode_tensors(record), true);
    const MemoryPart part = log.settle().at(0);
    Json json = Json::parse(good);
    json["parts"] =
        Json::array({{{"file", part.file}, {"bytes", part.bytes}, {"sha256", part.hash}}});
    file.metadata.at(kMetadata) = json.dump();
    seal_checkpoint(file);
    save_tensors(victim.head(), file);
    EXPECT_THAT(victim.fate(), HasSubstr("is nested deeper than 64 levels"));
  }
}

// A record that says this of a client, and nothing else.
std::string saying(const Json& metadata, const std::map<std::string, at::Tensor>& tensors = {}) {
  return encode_tensors({tensors, {{kMetadata, metadata.dump()}}});
}

std::string number_bytes(std::uint64_t number) {
  return {reinterpret_cast<const char*>(&number), sizeof(number)};
}

TEST(ForgedSegment, LengthsAreNotTrusted) {
  Victim victim("scaffold");
  const fs::path folder = victim.head().parent_path();
  const std::string name = "clients-0-000077.segment";
  const std::string hash(64, 'a');
  for (const std::uint64_t length :
       {std::uint64_t{1}, std::uint64_t{1} << 40, std::uint64_t{1} << 63,
        std::numeric_limits<std::uint64_t>::max(),
        std::numeric_limits<std::uint64_t>::max() - 79}) {
    const std::string bytes = number_bytes(0) + number_bytes(length) + hash;
    write_file_whole(folder / name, bytes);
    name_parts(folder, Json::array({part_json({name, "x", bytes.size()})}));
    EXPECT_THAT(victim.fate(), HasSubstr(name + " ends in the middle of a record")) << length;
  }
  write_file_whole(folder / name, std::string(40, 'x'));
  name_parts(folder, Json::array({part_json({name, "x", 40})}));
  EXPECT_THAT(victim.fate(), HasSubstr(name + " ends in the middle of a record"));
  for (const Json& bytes : {Json(-1), Json(1e300), Json("many"), Json(9007199254740992)}) {
    Json part = part_json({name, "x", 0});
    part["bytes"] = bytes;
    name_parts(folder, Json::array({part}));
    EXPECT_TRUE(victim.refuses("bytes = " + bytes.dump()));
  }
  fs::remove(folder / name);
  EXPECT_TRUE(victim.refuses("no segment"));
}

TEST(ForgedSegment, RecordsDoNoHarm) {
  Victim victim("power_of_choice");
  const fs::path folder = victim.head().parent_path();
  const at::Tensor one = at::ones({100});
  const Json nothing = Json::object();
  std::string deep = "a";
  for (int i = 0; i < 200000; ++i) {
    deep += "/a";
  }
  const auto server = [](const std::string& column, const Json& value) {
    return saying({{"server", Json::object({{column, value}})}});
  };
  Json many = nothing;
  for (int i = 0; i < 300; ++i) {
    many[fmt::format("server/0/{}", i)] = "server/0/one";
  }
  const std::vector<std::pair<const char*, RawRecord>> refused{
      {"three hundred names for one tensor",
       {0, saying({{"server", nothing}, {"same", many}}, {{"server/0/one", one}})}},
      {"no bytes", {0, ""}},
      {"no safetensors", {0, std::string(200, '\xff')}},
      {"no metadata", {0, encode_tensors({})}},
      {"a list", {0, saying(Json::array())}},
      {"clients that are a list", {0, saying({{"clients", Json::array()}})}},
      {"a server that is a number", {0, saying({{"server", 3}})}},
      {"the memory of another",
       {0, saying({{"clients", {{"1", {{"own", nothing}, {"base", nothing}}}}}})}},
      {"half a memory", {0, saying({{"clients", {{"0", {{"own", nothing}}}}}})}},
      {"a tensor of nobody", {0, saying(nothing, {{"client/0/model", one}})}},
      {"a tensor of another's", {0, saying({{"server", nothing}}, {{"server/1/x", one}})}},
      {"equal to nothing", {0, saying({{"same", {{"server/0/a", "server/0/b"}}}})}},
      {"equal to itself", {0, saying({{"same", {{"server/0/a", "server/0/a"}}}})}},
      {"named as a number", {0, saying({{"same", {{"server/0/a", 5}}}})}},
      {"a stranger's", {999999999, server("power_of_choice/times_chosen", 1)}},
      {"nobody's", {-1, server("power_of_choice/times_chosen", 1)}},
      {"of the lowest number",
       {std::numeric_limits<std::int64_t>::min(), server("power_of_choice/times_chosen", 1)}},
      {"negative", {0, server("power_of_choice/times_chosen", -1)}},
      {"not a number", {0, server("power_of_choice/losses", "x")}},
      {"endlessly deep", {0, server(deep, 1)}},
  };
  for (const auto& [what, record] : refused) {
    put_records(folder, {record});
    EXPECT_TRUE(victim.refuses(what)) << what;
  }
  for (const std::string column :
       {"", "/", "../../x", "a/", "power_of_choice", "power_of_choice/losses/3",
        "power_of_choice/times_chosen/0/0"}) {
    put_records(folder, {{0, server(column, 1)}, {1, server(column, Json::array())}});
    victim.refuses("column " + column);
  }
}

TEST(ForgedSegment, IsNamedOnceAndByItsOwnName) {
  Victim victim("scaffold");
  const fs::path folder = victim.head().parent_path();
  const Json good = Json::parse(load_tensors(victim.head()).metadata.at(kMetadata)).at("parts");
  ASSERT_EQ(good.size(), 1U);
  Json twice = good;
  twice.push_back(good[0]);
  name_parts(folder, twice);
  EXPECT_THAT(victim.fate(), HasSubstr("it names \"clients-0-000001.segment\" twice"));
  Json part = good[0];
  part["file"] = "../clients-0-000001.segment";
  name_parts(folder, Json::array({part}));
  EXPECT_THAT(victim.fate(), HasSubstr("\"../clients-0-000001.segment\" cannot be a part of it"));
  name_parts(folder, good);
  EXPECT_EQ(victim.fate(), "no error");
}

// A run goes on in the last segment; whoever puts a link in its place gets nothing written.
TEST(ForgedSegment, ALinkIsNotWrittenThrough) {
  const TestFolder folder;
  const std::string outside = (folder / "outside").string();
  write_file_whole(outside, "precious");
  fs::create_directory(folder / "checkpoint");
  fs::create_symlink(outside, folder / "checkpoint/clients-0-000001.segment");
  SegmentLog log(folder / "checkpoint");
  log.adopt({{"clients-0-000001.segment", "", 4}}, {});
  EXPECT_EQ(error_kind([&] { log.append(0, "x", true); }), ErrorKind::run);
  EXPECT_EQ(read_file(outside), "precious");
}

}  // namespace winnow::forged_checkpoint_test
