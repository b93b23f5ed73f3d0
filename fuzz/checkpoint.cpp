// A checkpoint, from its bytes to the next round of the run that is restored from it.
//
// The input is a byte that chooses the method and a JSON text that says how the file differs from
// one that the method wrote, so that inputs stay small and hashes right:
//   {"json": MERGE PATCH of what the file says of the run,
//    "tensors": {NAME: null (left out)
//                    | {"dtype": "I64", "shape": [3], "values": [1, 2]} (repeated as needed)
//                    | {"at": [0, 5], "values": [7]} (written over the right ones)}}
// What the segments hold of clients is `clients` of the JSON and tensors `client/ID/NAME`;
// `history` is what the log of the run would say. With a first byte from 128 on the rest is the
// head as it is; from 64 on it is the records of a segment, with right hashes: a byte for the
// client, two for the length, and the bytes of each.
#include "winnow/run/checkpoint.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <memory>
#include <optional>

#include "../tests/run/checkpoint_pieces.h"
#include "json_mutator.h"
#include "small_experiment.h"
#include "target.h"
#include "winnow/model/safetensors.h"
#include "winnow/run/session.h"

using namespace winnow;

namespace {

constexpr const char* kText = "winnow_checkpoint";
constexpr std::uint8_t kRecords = 64;
constexpr const char* kName = "checkpoint/round-000000002.safetensors";

struct Choice {
  const char* method;
  const char* settings;
};

// Every method that keeps something between rounds, with phases short enough to be reached.
constexpr std::array<Choice, 16> kMethods{
    {{"fedavg", ""},
     {"scaffold", ""},
     {"feddyn", ""},
     {"fedadam", ""},
     {"moon", ""},
     {"fedcorr",
      "iterations = 2\nfinetune_rounds = 2\nusual_rounds = 2\nlid_neighbours = 5\ntheta = 0.1\n"},
     {"fedrn", "warmup = 1\nneighbours = 2\n"},
     {"clipfl", "pre_rounds = 1\nkeep = 3\nprune = 0.4\n"},
     {"fedns", "first_round_fraction = 0.4\n"},
     {"fedncl", "penalty_rounds = 3\ncandidate_share = 0.0\nconfidence = 0.1\n"},
     {"rofl", "pseudo_round = 2\nforget_rounds = 2\n"},
     {"coteaching", "ramp = 2\n"},
     {"joint_optimisation", "warmup = 1\nhistory = 2\n"},
     {"selfie", "warmup = 1\nhistory = 2\n"},
     {"dividemix", "warmup = 1\nramp = 1\n"},
     {"clc", "holdout_rounds = 3\ncorrection_rounds = 2\ntau = 0.0\n"}}};

const Registry& registry() {
  static const Registry made = fuzz::registry_with_small_net();
  return made;
}

// A run after two rounds and the file it saved.
class Subject {
 public:
  explicit Subject(const Choice& choice)
      : session_(fuzz::small_experiment(
                     fuzz::small_experiment_text(choice.method, choice.settings, 4, "small"),
                     registry()),
                 registry(), {1, "cpu"}, nullptr) {
    session_.play();
    session_.play();
    hash_ = session_.experiment().hash();
    right_ = session_.checkpoint();
    save_checkpoint(folder(), right_);
    file_ = take_apart(folder());
    json_ = Json::parse(file_.metadata.at(kText));
    json_["history"] = right_.history;
  }

  const Json& json() const { return json_; }
  const TensorFile& file() const { return file_; }

  std::filesystem::path folder() const { return scratch_.path() / "checkpoint"; }

  // Reads the bytes as the head.
  void read_head(std::string_view bytes) {
    scratch_.put(kName, bytes);
    read(right_.history);
  }

  // Reads a segment of these records beside the right head.
  void read_records(const std::vector<RawRecord>& records) {
    put_together(folder(), file_);
    put_records(folder(), records);
    read(right_.history);
  }

  // Reads the folder as `winnow resume` does and plays a round.
  void read(const Json& history) {
    if (used_) {
      session_.restore(right_);  // whatever became of it
      used_ = false;
    }
    fuzz::only_errors([&] {
      auto checkpoint = load_checkpoint(folder(), hash_, session_.global().layout);
      checkpoint->history = history;
      used_ = true;
      session_.restore(std::move(*checkpoint));
      if (session_.rounds_done() < session_.rounds()) {
        session_.play();
      }
    });
  }

 private:
  fuzz::Scratch scratch_;
  Session session_;
  std::string hash_;  // of the experiment
  Checkpoint right_;
  bool used_ = false;  // a checkpoint was taken since it was right
  TensorFile file_;
  Json json_;
};

Subject& subject(std::uint8_t choice) {
  static std::map<std::size_t, std::unique_ptr<Subject>> subjects;
  const std::size_t place = choice % 128 % kMethods.size();
  std::unique_ptr<Subject>& found = subjects[place];
  if (!found) {
    found = std::make_unique<Subject>(kMethods.at(place));
  }
  return *found;
}

double number_of(const Json& json) {
  return json.is_number() ? json.get<double>() : std::nan("");
}

// Copies through a tensor, which casts what does not fit instead of refusing it.
void set_value(at::Tensor& tensor, std::int64_t place, const Json& value) {
  at::Tensor slot = tensor.view(-1)[place];
  if (tensor.is_floating_point()) {
    slot.copy_(at::scalar_tensor(number_of(value), at::kDouble));
  } else if (value.is_number_integer()) {
    slot.copy_(at::scalar_tensor(value.get<std::int64_t>(), at::kLong));
  }
}

// Nothing for what describes no tensor.
std::optional<at::Tensor> tensor_of(const Json& json) {
  static const std::map<std::string, at::ScalarType> kTypes{
      {"F64", at::kDouble}, {"I64", at::kLong},      {"F32", at::kFloat}, {"I32", at::kInt},
      {"F16", at::kHalf},   {"BF16", at::kBFloat16}, {"U8", at::kByte}};
  const Json dtype = json.value("dtype", Json());
  const Json shape = json.value("shape", Json());
  const Json values = json.value("values", Json());
  if (!dtype.is_string() || !shape.is_array() || shape.size() > 8 || !values.is_array() ||
      !kTypes.contains(dtype.get<std::string>())) {
    return std::nullopt;
  }
  std::vector<std::int64_t> extents;
  double elements = 1;
  for (const Json& extent : shape) {
    const double wanted = number_of(extent);
    extents.push_back(wanted >= 0 && wanted < 1e5 ? static_cast<std::int64_t>(wanted) : 1);
    elements *= static_cast<double>(extents.back());
  }
  if (elements > 1e5) {
    return std::nullopt;
  }
  at::Tensor tensor = at::zeros(extents, kTypes.at(dtype.get<std::string>()));
  for (std::int64_t i = 0; i < tensor.numel() && i < 1000 && !values.empty(); ++i) {
    set_value(tensor, i, values[static_cast<std::size_t>(i) % values.size()]);
  }
  return tensor;
}

// The right tensor with some values written over.
std::optional<at::Tensor> changed(const at::Tensor& right, const Json& json) {
  const Json places = json.value("at", Json());
  const Json values = json.value("values", Json());
  if (!places.is_array() || !values.is_array() || values.empty() || right.numel() == 0) {
    return std::nullopt;
  }
  at::Tensor tensor = right.clone();
  for (std::size_t i = 0; i < places.size() && i < 1000; ++i) {
    if (places[i].is_number_unsigned()) {
      const auto place =
          places[i].get<std::uint64_t>() % static_cast<std::uint64_t>(tensor.numel());
      set_value(tensor, static_cast<std::int64_t>(place), values[i % values.size()]);
    }
  }
  return tensor;
}

void change_tensors(const Json& changes, TensorFile& file) {
  if (!changes.is_object()) {
    return;
  }
  for (const auto& [name, change] : changes.items()) {
    const auto found = file.tensors.find(name);
    if (change.is_null()) {
      file.tensors.erase(name);
    } else if (change.is_object()) {
      const auto tensor = found != file.tensors.end() && change.contains("at")
                              ? changed(found->second, change)
                              : tensor_of(change);
      if (tensor) {
        file.tensors[name] = *tensor;
      }
    }
  }
}

// Writes the checkpoint that the patch describes, with right hashes, and has it read; nothing when
// it describes none.
void read_patched(Subject& subject, std::string_view text) {
  const Json patch = fuzz::flat_json(text);
  if (!patch.is_object()) {
    return;
  }
  TensorFile file = subject.file();
  Json json = subject.json();
  if (patch.contains("json")) {
    json.merge_patch(patch.at("json"));
  }
  change_tensors(patch.value("tensors", Json()), file);
  const Json history = json.is_object() ? json.value("history", Json()) : Json();
  if (json.is_object()) {
    json.erase("history");
  }
  file.metadata[kText] = fuzz::json_text(json);
  try {
    put_together(subject.folder(), file);
  } catch (const Error&) {
    return;  // a name that no file can hold
  }
  subject.read(history);
}

std::vector<RawRecord> records_of(std::string_view bytes) {
  std::vector<RawRecord> records;
  while (bytes.size() >= 3) {
    const auto byte = [&](std::size_t place) { return static_cast<std::uint8_t>(bytes[place]); };
    const std::size_t length = byte(1) + std::size_t{256} * byte(2);
    records.push_back({static_cast<std::int8_t>(byte(0)), std::string(bytes.substr(3, length))});
    bytes.remove_prefix(std::min(bytes.size(), 3 + length));
  }
  return records;
}

// A patch that changes one place of what the file says.
Json graft(const Json& right, fuzz::Draw& draw) {
  if (right.is_object() && !right.empty()) {
    const auto place =
        std::next(right.begin(), static_cast<std::ptrdiff_t>(fuzz::draw_below(draw, right.size())));
    return Json::object({{place.key(), graft(place.value(), draw)}});
  }
  Json changed = right;
  fuzz::mutate_json(changed, draw);
  return changed;
}

Json graft_tensor(const TensorFile& file, fuzz::Draw& draw) {
  const auto place =
      std::next(file.tensors.begin(),
                static_cast<std::ptrdiff_t>(fuzz::draw_below(draw, file.tensors.size())));
  const at::Tensor& tensor = place->second;
  Json change{{"dtype", dtype_name(tensor.scalar_type())},
              {"shape", tensor.sizes().vec()},
              {"values", Json::array({fuzz::odd_value(draw)})}};
  if (fuzz::draw_below(draw, 2) == 0) {
    change = Json{{"at", Json::array({draw()})}, {"values", Json::array({fuzz::odd_value(draw)})}};
  } else {
    fuzz::mutate_json(change, draw);
  }
  return Json::object({{place->first, change}});
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Input input(data, size);
  const std::uint8_t choice = input.byte();
  Subject& chosen = subject(choice);
  if (choice >= 128) {
    chosen.read_head(input.rest());
  } else if (choice >= kRecords) {
    chosen.read_records(records_of(input.rest()));
  } else {
    read_patched(chosen, input.rest());
  }
  return 0;
}

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size,
                                               std::size_t max_size, unsigned seed) {
  fuzz::Draw draw(seed);
  fuzz::Input input(data, size);
  auto choice = input.byte();
  Json patch = fuzz::flat_json(input.rest());
  if (choice >= kRecords || fuzz::draw_below(draw, 16) == 0) {
    return LLVMFuzzerMutate(data, size, max_size);
  }
  if (!patch.is_object() || input.rest().size() > max_size / 2) {
    patch = Json::object();
  }
  const Subject& chosen = subject(choice);
  switch (fuzz::draw_below(draw, 5)) {
    case 0:
      choice = static_cast<std::uint8_t>(fuzz::draw_below(draw, kMethods.size()));
      break;
    case 1:
      patch.merge_patch(Json{{"json", graft(chosen.json(), draw)}});
      break;
    case 2:
      patch.merge_patch(Json{{"tensors", graft_tensor(chosen.file(), draw)}});
      break;
    default:
      fuzz::mutate_json(patch, draw);
  }
  return fuzz::hand_back(static_cast<char>(choice) + fuzz::json_text(patch), data, size, max_size);
}
