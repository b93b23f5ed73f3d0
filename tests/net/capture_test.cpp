// What members say to their server, before TLS hides it: no file name, no label list, no image.
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <future>
#include <memory>
#include <mutex>
#include <set>
#include <unordered_map>

#include "net/open_federation.h"
#include "winnow/data/npz.h"
#include "winnow/net/join/channel.h"
#include "winnow/net/join/hex.h"
#include "winnow/train/feed.h"

namespace winnow::net::capture_test {

using ::testing::IsEmpty;

template <typename T>
std::string bytes_of_values(const std::vector<T>& values) {
  std::string bytes(values.size() * sizeof(T), '\0');
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

// Texts of 8 bytes or more, each of a kind, that are looked for all at once.
class Needles {
 public:
  void add(const std::string& kind, const std::string& text) {
    const std::size_t offset = telling_place(text);
    by_word_[word_at(text, offset)].push_back({all_.size(), offset});
    all_.push_back({kind, text});
  }
  std::size_t size() const { return all_.size(); }
  const std::string& kind(std::size_t needle) const { return all_[needle].first; }
  const std::string& text(std::size_t needle) const { return all_[needle].second; }

  // Those that are in the hay.
  std::set<std::size_t> found_in(const std::string& hay) const {
    std::set<std::size_t> found;
    for (std::size_t place = 0; place + kWord <= hay.size(); ++place) {
      const auto here = by_word_.find(word_at(hay, place));
      if (here == by_word_.end()) {
        continue;
      }
      for (const Place& each : here->second) {
        const std::string& text = all_[each.needle].second;
        if (place >= each.offset && hay.compare(place - each.offset, text.size(), text) == 0) {
          found.insert(each.needle);
        }
      }
    }
    return found;
  }
  std::set<std::string> kinds_in(const std::string& hay) const {
    std::set<std::string> kinds;
    for (const std::size_t needle : found_in(hay)) {
      kinds.insert(kind(needle));
    }
    return kinds;
  }

 private:
  static constexpr std::size_t kWord = 8;
  struct Place {
    std::size_t needle = 0;
    std::size_t offset = 0;
  };

  static std::uint64_t word_at(const std::string& text, std::size_t place) {
    std::uint64_t word = 0;
    std::memcpy(&word, text.data() + place, kWord);
    return word;
  }
  // Where eight bytes differ most, so that few other texts have them too.
  static std::size_t telling_place(const std::string& text) {
    EXPECT_GE(text.size(), kWord) << text;
    std::size_t best = 0;
    std::size_t most = 0;
    for (std::size_t place = 0; place + kWord <= text.size(); place += 4) {
      const std::set<char> here(text.begin() + static_cast<std::ptrdiff_t>(place),
                                text.begin() + static_cast<std::ptrdiff_t>(place + kWord));
      if (here.size() > most) {
        most = here.size();
        best = place;
      }
    }
    return best;
  }

  std::vector<std::pair<std::string, std::string>> all_;
  std::unordered_map<std::uint64_t, std::vector<Place>> by_word_;
};

std::string image_name(std::int64_t client, std::int64_t sample) {
  return "mrs-okapi-" + std::to_string(client) + "-" + std::to_string(sample) + "-1961-04-12.png";
}

// A member's samples as files of its own: images whose names tell whose they are, and a list.
std::filesystem::path write_as_files(const std::filesystem::path& folder, std::int64_t client,
                                     const Samples& samples) {
  std::filesystem::create_directories(folder / "clinic-north");
  std::string list = "path,label\n";
  const std::int64_t side = samples.images.size(2);
  for (std::int64_t i = 0; i < samples.size(); ++i) {
    const at::Tensor image = samples.images[i].contiguous();
    const std::span<const std::uint8_t> pixels(image.data_ptr<std::uint8_t>(),
                                               static_cast<std::size_t>(image.numel()));
    const std::string name = "clinic-north/" + image_name(client, i);
    write_file_whole(folder / name, encode_png(pixels, side, side, 1));
    list += name + "," + std::to_string(samples.labels[static_cast<std::size_t>(i)]) + "\n";
  }
  write_file_whole(folder / "patients-of-2026.csv", list);
  return folder / "patients-of-2026.csv";
}

void add_names(Needles& needles, std::int64_t client, std::int64_t samples) {
  for (std::int64_t i = 0; i < samples; ++i) {
    needles.add("file name", image_name(client, i));
  }
  for (const char* part : {"mrs-okapi", "clinic-north", "patients-of-2026"}) {
    needles.add("part of a file name", part);
  }
}

// The whole list, and every sixteen labels of it that stand next to each other, unless they are
// nearly all the same: such bytes are anywhere.
void add_labels(Needles& needles, const Labels& labels) {
  constexpr std::size_t kTelling = 16;
  const auto add = [&](const Labels& part, const std::string& what) {
    needles.add(what + " as u8",
                bytes_of_values(std::vector<std::uint8_t>(part.begin(), part.end())));
    needles.add(what + " as i32",
                bytes_of_values(std::vector<std::int32_t>(part.begin(), part.end())));
    needles.add(what + " as i64",
                bytes_of_values(std::vector<std::int64_t>(part.begin(), part.end())));
    needles.add(what + " as f32", bytes_of_values(std::vector<float>(part.begin(), part.end())));
  };
  add(labels, "labels");
  for (std::size_t first = 0; first + kTelling <= labels.size(); ++first) {
    const auto begin = labels.begin() + static_cast<std::ptrdiff_t>(first);
    const Labels part(begin, begin + kTelling);
    if (std::set<std::int64_t>(part.begin(), part.end()).size() > 2) {
      add(part, "some labels");
    }
  }
}

at::Tensor normalised(const at::Tensor& images, const Normalisation& normalisation) {
  const Feed feed(images, normalisation, 0, at::kCPU);
  at::Tensor buffer;
  return feed.batch(at::arange(images.size(0)), {}, buffer).clone();
}

// Every row of pixels that are not nearly all the same, in four forms.
void add_rows(Needles& needles, const at::Tensor& images, const Normalisation& normalisation) {
  const at::Tensor as_floats = images.to(at::kFloat);
  const std::array<std::pair<const char*, at::Tensor>, 4> forms{
      {{"row of an image as bytes", images},
       {"row of an image as floats", as_floats},
       {"row of an image from 0 to 1", as_floats.div(255.0F)},
       {"row of a normalised image", normalised(images, normalisation)}}};
  const std::int64_t width = images.size(3);
  const at::Tensor rows = images.reshape({-1, width});
  for (std::int64_t row = 0; row < rows.size(0); ++row) {
    const auto* pixels = rows[row].data_ptr<std::uint8_t>();
    if (std::set<std::uint8_t>(pixels, pixels + width).size() < 8) {
      continue;
    }
    for (const auto& [what, form] : forms) {
      const at::Tensor own = form.reshape({-1, width})[row].contiguous();
      needles.add(what, std::string(static_cast<const char*>(own.data_ptr()), own.nbytes()));
    }
  }
}

// Every message of every member, and by member the pieces of its models as one text.
struct Heard {
  std::mutex mutex;
  std::map<std::string, std::vector<std::string>> messages;  // by kind
  std::map<std::string, std::string> pieces;                 // by member

  void note(const std::string& kind, std::string bytes) {
    const std::lock_guard lock(mutex);
    messages[kind].push_back(std::move(bytes));
  }
};

// A member's line to its server that somebody listens to.
class OpenLine final : public member::Channel {
 public:
  OpenLine(std::unique_ptr<member::Channel> line, std::string name, Heard& heard)
      : line_(std::move(line)), name_(std::move(name)), heard_(heard) {}

  v1::Welcome join(const v1::Hello& hello) override {
    heard_.note("hello", hello.SerializeAsString());
    return line_->join(hello);
  }
  v1::Piece fetch(const v1::PieceRequest& request) override {
    heard_.note("request", request.SerializeAsString());
    return line_->fetch(request);
  }
  v1::Receipt open(const v1::Opening& opening) override {
    heard_.note("opening", opening.SerializeAsString());
    return line_->open(opening);
  }
  v1::Receipt put(const v1::Portion& portion) override {
    heard_.note("portion", portion.SerializeAsString());
    {
      const std::lock_guard lock(heard_.mutex);
      heard_.pieces[name_] += portion.data();
    }
    return line_->put(portion);
  }
  v1::Receipt seal(const v1::Sealing& sealing) override {
    heard_.note("sealing", sealing.SerializeAsString());
    return line_->seal(sealing);
  }
  v1::Receipt leave(const v1::Farewell& farewell) override {
    heard_.note("farewell", farewell.SerializeAsString());
    return line_->leave(farewell);
  }
  void next(const v1::Report& report, Done done) override {
    heard_.note("report", report.SerializeAsString());
    line_->next(report, std::move(done));
  }
  void cancel() override { line_->cancel(); }

 private:
  std::unique_ptr<member::Channel> line_;
  std::string name_;
  Heard& heard_;
};

Samples dealt_to(const OpenFederation& open, std::int64_t client) {
  const NpzFile file(open.folder / ("dealt/" + member_name(client) + ".npz"));
  Samples samples;
  samples.images = read_array_images(file.array("images"), {});
  samples.labels = read_array_labels(file.array("labels"), samples.images.size(0), 4);
  return samples;
}

Normalisation normalisation_of(const OpenFederation& open) {
  return {open.tree.at("data").at("mean").get<std::vector<double>>(),
          open.tree.at("data").at("std").get<std::vector<double>>()};
}

// A federation over TLS whose members bring their images as files, with everything that they say
// and everything that they should not.
struct Capture {
  explicit Capture(OpenFederation& open) {
    std::promise<std::uint16_t> listening;
    open.call.listening = [&](std::uint16_t port, std::uint16_t) { listening.set_value(port); };
    std::future<RunOutcome> served =
        std::async(std::launch::async, [&open] { return open.serve_it(); });
    const Stopper stopper{open.stop};
    auto port = listening.get_future();
    if (port.wait_for(std::chrono::seconds(60)) != std::future_status::ready) {
      ADD_FAILURE() << "the server does not listen";
      return;
    }
    std::vector<member::Recruit> recruits;
    for (std::int64_t client = 0; client < 4; ++client) {
      const Samples samples = dealt_to(open, client);
      add_names(secrets, client, samples.size());
      add_labels(secrets, samples.labels);
      add_rows(secrets, samples.images, normalisation_of(open));
      recruits.push_back(open.recruit(client));
      recruits.back().data =
          write_as_files(open.folder / ("own/" + std::to_string(client)), client, samples);
    }
    member::PartOptions options;
    options.server = {kHost, port.get()};
    options.runtime = on_cpu(2);
    options.agree = charter = open.said_after("charter ");
    options.wrap = [this](std::unique_ptr<member::Channel> line, const std::string& name) {
      return std::make_unique<OpenLine>(std::move(line), name, heard);
    };
    taken_part = member::take_part(recruits, open.registry, options);
    model_hash = served.get().summary.at("model_hash");
  }

  // The kinds of secrets that were said, with the kind of message where it is known.
  std::set<std::string> told() const {
    std::set<std::string> all;
    for (const auto& [kind, messages] : heard.messages) {
      for (const std::string& message : messages) {
        for (const std::string& secret : secrets.kinds_in(message)) {
          all.insert(secret + " in a " + kind);
        }
      }
    }
    for (const auto& [name, pieces] : heard.pieces) {
      all.merge(secrets.kinds_in(pieces));
    }
    return all;
  }

  Needles secrets;
  Heard heard;
  std::string charter;
  std::string model_hash;
  member::Outcome taken_part;
};

// That the capture is one of a whole federation, whose members trained on these very files, and
// that the search is able to find each of the secrets: in other bytes, one after the other.
void expect_complete(const Capture& capture, const OpenFederation& open) {
  EXPECT_EQ(capture.taken_part.finished, 4U);
  EXPECT_EQ(capture.model_hash, undisturbed_hashes(open.experiment).back());
  for (const char* kind : {"hello", "report", "opening", "portion", "sealing"}) {
    EXPECT_GE(capture.heard.messages.at(kind).size(), 4U) << kind;
  }
  EXPECT_GE(capture.heard.messages.at("request").size(), 1U);
  EXPECT_GE(capture.heard.messages.at("sealing").size(),
            static_cast<std::size_t>(capture.taken_part.answered));
  Needles spoken;  // what is said on purpose is found
  spoken.add("charter", member::bytes_of_hex(capture.charter));
  EXPECT_EQ(spoken.kinds_in(capture.heard.messages.at("hello").back()).size(), 1U);

  EXPECT_GT(capture.secrets.size(), 10'000U);
  std::string hay;
  std::set<std::string> kinds;
  for (std::size_t needle = 0; needle < capture.secrets.size(); ++needle) {
    hay += static_cast<char>(needle);
    hay += capture.secrets.text(needle);
    kinds.insert(capture.secrets.kind(needle));
  }
  EXPECT_EQ(capture.secrets.found_in(hay).size(), capture.secrets.size());
  EXPECT_EQ(kinds.size(), 14U) << "names in two forms, labels in eight, rows in four";
}

TEST(Capture, NothingOfFedRNsMembersButWhatTheirCharterNames) {
  OpenFederation open({"method.name=\"fedrn\"", "method.warmup=1", "rounds=3"});
  const Capture capture(open);
  expect_complete(capture, open);
  EXPECT_THAT(capture.told(), IsEmpty());
}

TEST(Capture, NothingOfFedCorrsMembersButWhatTheirCharterNames) {
  OpenFederation open({"method.name=\"fedcorr\"", "method.iterations=2", "method.finetune_rounds=1",
                       "method.usual_rounds=1", "method.lid_neighbours=5"});
  const Capture capture(open);
  expect_complete(capture, open);
  EXPECT_THAT(capture.told(), IsEmpty());
}

// FedAvg whose clients hide things in their models.
class Leaking final : public FedAvg {
 public:
  using Hide = std::function<void(std::int64_t client, const State& model)>;
  explicit Leaking(Hide hide) : hide_(std::move(hide)) {}

  std::unique_ptr<ClientSide> client_side() const override {
    return std::make_unique<ScriptedClient>(
        [hide = hide_](const Message& task, ClientContext& context) {
          const auto round = static_cast<std::int64_t>(task.get<std::uint32_t>("round"));
          TrainOutcome outcome = context.train(task.get<State>("model"), round, {});
          hide(context.id(), outcome.state);
          return Message("train_done")
              .set("model", std::move(outcome.state))
              .set("samples", static_cast<std::uint32_t>(context.size()));
        });
  }

 private:
  Hide hide_;
};

TEST(Capture, FindsLabelsAndImagesThatAMemberHidesInItsModel) {
  std::vector<at::Tensor> hidden;  // by client, filled before anybody trains
  Registry registry = methods();
  registry.methods.add({"leaking", "test", "", [&hidden] {
                          return std::make_unique<Leaking>(
                              [&hidden](std::int64_t client, const State& model) {
                                if (client == 2) {
                                  const at::Tensor& what = hidden.at(2);
                                  model.flat.narrow(0, 100, what.numel()).copy_(what);
                                }
                              });
                        }});
  OpenFederation open({"method.name=\"leaking\"", "rounds=1"}, registry);
  for (std::int64_t client = 0; client < 4; ++client) {
    const Samples samples = dealt_to(open, client);
    const at::Tensor image = normalised(samples.images, normalisation_of(open))[7].flatten();
    const std::vector<float> labels(samples.labels.begin(), samples.labels.end());
    hidden.push_back(at::cat({image, at::tensor(labels)}));
  }
  const Capture capture(open);
  EXPECT_EQ(capture.taken_part.finished, 4U);
  EXPECT_EQ(capture.told(), (std::set<std::string>{
                                "labels as f32", "labels as f32 in a portion", "some labels as f32",
                                "some labels as f32 in a portion", "row of a normalised image",
                                "row of a normalised image in a portion"}));
}

}  // namespace winnow::net::capture_test
