// What a member keeps on its disk: a state.json as it may be found after a crash, a restore or an
// edit. The files that it may name are there and whole; a hash "=" in it stands for theirs.
#include <ATen/ATen.h>
#include <fmt/format.h>

#include <tuple>

#include "json_mutator.h"
#include "target.h"
#include "winnow/base/sha256.h"
#include "winnow/federation/codec.h"
#include "winnow/net/join/keep.h"
#include "winnow/run/checkpoint.h"

using namespace winnow;

namespace {

constexpr int kFiles = 4;  // orders 0 to 3 have them

struct KeptFiles {
  std::string parcel =
      bytes_of(Parcel{"head", {{std::string(64, 'a'), std::string(64, 'b'), std::string(8, 'v')}}});
  std::string memory;

  KeptFiles() {
    ClientMemory some;
    some.own.tensors["control"] = at::full({3}, 2.0, at::kFloat);
    some.own.values["times"] = 2;
    some.trace.labels = Labels{1, 0, 2};
    memory = encode_memories({{0, some}});
  }
};

void put_hashes(Json& state, const KeptFiles& files) {
  const auto fill = [](Json& owner, const char* key, const std::string& bytes) {
    if (owner.is_object() && owner.contains(key) && owner[key] == "=") {
      owner[key] = sha256_hex(bytes);
    }
  };
  const auto fill_memory = [&](Json& owner) {
    if (owner.is_object() && owner.contains("memory")) {
      fill(owner["memory"], "sha256", files.memory);
    }
  };
  fill_memory(state);
  if (state.is_object() && state.contains("links") && state["links"].is_array()) {
    for (Json& link : state["links"]) {
      fill_memory(link);
      fill(link, "outbox", files.parcel);
    }
  }
}

void use(const std::filesystem::path& folder) {
  member::Keep keep(folder);
  std::ignore = keep.memory();
  const std::uint64_t newest = keep.newest();
  const std::int64_t committed = keep.committed_round();
  if (const auto order = keep.undecided()) {
    keep.settle(*order, member::Fate::accepted);
    fuzz::require(keep.undecided() != order, "an order that is decided is so");
  }
  keep.learn(committed, 1, {});
  if (newest < 1'000'000) {
    const member::OrderName order{newest + 1, 1, 1, 0, std::string(16, 'n')};
    keep.add(order, {Parcel{"head", {}}, 1, {}, ""}, {});
    fuzz::require(member::Keep(folder).answered(order), "what was added is found again");
  }
  keep.learn(committed + 1, 1, {{keep.newest(), member::Fate::refused}});
  fuzz::require(member::Keep(folder).committed_round() == committed + 1,
                "rounds that are done stay");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const fuzz::Scratch scratch;
  static const KeptFiles files;
  const std::string text(reinterpret_cast<const char*>(data), size);
  std::string state = text;
  if (Json tree = fuzz::flat_json(text); !tree.is_discarded()) {
    put_hashes(tree, files);
    state = fuzz::json_text(tree);
  }
  std::filesystem::create_directories(scratch.path() / "outbox");
  for (int order = 0; order < kFiles; ++order) {
    scratch.put(fmt::format("memory-{}.safetensors", order), files.memory);
    scratch.put(fmt::format("outbox/{}.parcel", order), files.parcel);
  }
  scratch.put("state.json", state);
  return fuzz::only_errors([&] { use(scratch.path()); });
}

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size,
                                               std::size_t max_size, unsigned seed) {
  return fuzz::mutate_json_input(data, size, max_size, seed, 4);
}
