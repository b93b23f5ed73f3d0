// A message as bytes: a line with the name of the method, a byte that chooses the exchange and the
// direction, and the parcel.
#include "winnow/federation/codec.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <functional>
#include <map>

#include "target.h"
#include "winnow/experiment/registry.h"

using namespace winnow;

namespace {

struct Exchanges {
  std::map<std::string, std::vector<Exchange>, std::less<>> all;
  Known known;

  Exchanges() {
    const Setting setting{.clients = 4, .classes = 3, .features = 2};
    const Registry registry = builtin_registry();
    for (const MethodInfo& info : registry.methods) {
      all[info.name] = registry.make(info.name)->exchanges(setting);
    }
    known.layouts = {std::make_shared<const Layout>(
        std::vector<Slot>{{"weight", {2, 2}}, {"mean", {1}, SlotKind::buffer}})};
    known.samples = 5;
    const State zeros = State::zeros(known.layouts.front());
    known.model = [zeros, digest = hash(zeros)](const std::string& asked) {
      return asked == digest ? std::optional(zeros) : std::nullopt;
    };
  }
};

// What stands before the parcel.
std::size_t start_of(std::string_view input) {
  const std::size_t line = input.find('\n');
  return line == std::string_view::npos ? input.size() : std::min(line + 2, input.size());
}

const Exchanges& exchanges() {
  static const Exchanges made;
  return made;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return fuzz::only_errors([&] {
    fuzz::Input input(data, size);
    const std::size_t start = start_of(input.rest());
    const auto method = exchanges().all.find(input.take(start < 2 ? start : start - 2));
    if (method == exchanges().all.end()) {
      return;
    }
    input.byte();  // the end of the line
    const std::vector<Exchange>& of = method->second;
    const std::uint8_t choice = input.byte();
    const Parcel parcel = parcel_of(input.rest());
    fuzz::require(bytes_of(parcel) == input.rest(), "a parcel is its bytes again");
    const Known& known = exchanges().known;
    if (choice % 2 == 0) {
      const Message task = unpack_task(parcel, of, known);
      check_task(task, of);
      const Message again = unpack_task(pack_task(task, of), of, known);
      fuzz::require(again.bytes() == task.bytes(), "a task keeps its payload");
    } else {
      const std::string& task = of[choice / 2 % of.size()].task;
      const Message reply = unpack_reply(parcel, task, of, known);
      check_reply(reply, Message(task), of);
      fuzz::require(pack_reply(reply, task, of).head == parcel.head || !parcel.models.empty(),
                    "a reply without models is its bytes again");
    }
  });
}

// Changes the head, or the values of a model together with its digest.
extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size,
                                               std::size_t max_size, unsigned seed) {
  fuzz::Input input(data, size);
  const std::string choice(input.take(start_of(input.rest())));
  try {
    Parcel parcel = parcel_of(input.rest());
    if (seed % 3 == 0) {
      return LLVMFuzzerMutate(data, size, max_size);
    }
    if (seed % 3 == 1 || parcel.models.empty()) {
      fuzz::mutate_text(parcel.head, 200);
    } else {
      PackedModel& model = parcel.models[seed / 3 % parcel.models.size()];
      fuzz::mutate_text(model.values, 40);
      const State layout = State::zeros(exchanges().known.layouts.front());
      if (model.values.size() == static_cast<std::size_t>(layout.bytes())) {
        State state = layout;
        model.values.copy(reinterpret_cast<char*>(state.flat.data_ptr<float>()),
                          model.values.size());
        model.digest = hash(state);
      }
    }
    return fuzz::hand_back(choice + bytes_of(parcel), data, size, max_size);
  } catch (const Error&) {
    return LLVMFuzzerMutate(data, size, max_size);
  }
}
