// A safetensors file, by itself and as the initial weights of a model.
#include "winnow/model/safetensors.h"

#include <ATen/ATen.h>

#include <cstring>

#include "json_mutator.h"
#include "target.h"
#include "winnow/model/weight_file.h"

using namespace winnow;

namespace {

constexpr std::size_t kLengthBytes = 8;

// A model of four tensors, so that a file for it is small.
State small_state() {
  std::vector<Slot> slots{{"conv.weight", {2, 1, 2, 2}, SlotKind::parameter, 0, 0},
                          {"fc.weight", {3, 2}, SlotKind::parameter, 0, 0},
                          {"fc.bias", {3}, SlotKind::parameter, 0, 0},
                          {"norm.running_mean", {2}, SlotKind::buffer, 0, 0},
                          {"norm.count", {}, SlotKind::counter, 0, 0}};
  auto layout = std::make_shared<const Layout>(std::move(slots));
  return {layout, at::zeros({layout->total()})};
}

std::uint64_t bytes_of(const Json& entry) {
  const Json dtype = entry.value("dtype", Json("U8"));
  std::uint64_t bytes = 1;
  for (const char* name : {"F64", "I64"}) {
    bytes = dtype == name ? 8 : bytes;
  }
  for (const char* name : {"F32", "I32"}) {
    bytes = dtype == name ? 4 : bytes;
  }
  for (const char* name : {"F16", "BF16"}) {
    bytes = dtype == name ? 2 : bytes;
  }
  for (const Json& extent : entry.value("shape", Json::array())) {
    bytes *= extent.is_number_unsigned() ? extent.get<std::uint64_t>() : 1;
  }
  return bytes;
}

// Gives every tensor the bytes that its shape takes, one after the other. False where they are too
// many.
bool lay_out(Json& header, std::string& tensors, std::size_t longest) {
  std::uint64_t total = 0;
  for (auto& [name, entry] : header.items()) {
    if (name == "__metadata__" || !entry.is_object()) {
      continue;
    }
    const std::uint64_t bytes = bytes_of(entry);
    if (bytes > longest || total + bytes > longest) {
      return false;
    }
    entry["data_offsets"] = Json::array({total, total + bytes});
    total += bytes;
  }
  tensors.resize(total, '\1');
  return true;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const fuzz::Scratch scratch;
  static const State fresh = small_state();
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  fuzz::only_errors([&] {
    const TensorFile file = decode_tensors(bytes, "input.safetensors");
    const TensorFile again = decode_tensors(encode_tensors(file), "again.safetensors");
    fuzz::require(again.tensors.size() == file.tensors.size() && again.metadata == file.metadata,
                  "what is written reads back");
  });
  const auto path = scratch.put("input.safetensors", bytes);
  fuzz::only_errors([&] { load_state(path, fresh.layout); });
  return fuzz::only_errors([&] { load_weights(path, fresh, "fc"); });
}

// Changes the header as JSON and keeps its length right; mostly also the places of the tensors.
extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size,
                                               std::size_t max_size, unsigned seed) {
  fuzz::Draw draw(seed);
  std::uint64_t length = 0;
  if (size >= kLengthBytes) {
    std::memcpy(&length, data, kLengthBytes);
  }
  if (size < kLengthBytes || length > size - kLengthBytes || fuzz::draw_below(draw, 6) == 0) {
    return LLVMFuzzerMutate(data, size, max_size);
  }
  fuzz::Input input(data + kLengthBytes, size - kLengthBytes);
  std::string header(input.take(length));
  std::string tensors(input.rest());
  Json tree = fuzz::flat_json(header);
  if (!tree.is_object() || fuzz::draw_below(draw, 4) == 0) {
    fuzz::mutate_text(header, header.size() + 16);
  } else {
    fuzz::mutate_json(tree, draw);
    if (tree.is_object() && fuzz::draw_below(draw, 4) != 0 &&
        !lay_out(tree, tensors, max_size / 2)) {
      return LLVMFuzzerMutate(data, size, max_size);
    }
    header = fuzz::json_text(tree);
  }
  length = header.size();
  std::string made(kLengthBytes, '\0');
  std::memcpy(made.data(), &length, kLengthBytes);
  return fuzz::hand_back(made + header + tensors, data, size, max_size);
}
