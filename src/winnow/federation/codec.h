// Messages as bytes. A parcel has a head, the fields in their order without names, and the models
// the head refers to, each once and by the digest of its values, so that a model that the other
// side already holds need not travel again. Whatever comes from outside is bounded by the exchange,
// by the receiver's own layouts and by the bytes that are there before anything is allocated.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "winnow/federation/exchange.h"

namespace winnow {

// One model of a parcel.
struct PackedModel {
  std::string digest;       // hash() of the model, hexadecimal
  std::string layout;       // Layout::digest()
  std::string values = {};  // 4 bytes each; empty: the receiver has the model
};

struct Parcel {
  std::string head;
  std::vector<PackedModel> models = {};
};

// What the side that unpacks knows already.
struct Known {
  std::vector<LayoutPtr> layouts = {};  // of the models that it takes
  std::int64_t samples = 0;             // of the client at the other end, or its own
  // Models it holds, by digest; only those can be referred to.
  std::function<std::optional<State>(const std::string& digest)> model = {};
};

// Whether the receiver holds the model with that digest.
using Holds = std::function<bool(const std::string& digest)>;

// What stands for a model's digest; none: hash(). A sender whose models travel apart, to somebody
// who trusts it, may know the digest already or give any other 64 hexadecimal digits.
using DigestOf = std::function<std::string(const State& model)>;

// Throw Error(kind peer) where the message does not fit its exchange.
[[nodiscard]] Parcel pack_task(const Message& task, const std::vector<Exchange>& exchanges,
                               const Holds& holds = {}, const DigestOf& digest_of = {});
[[nodiscard]] Parcel pack_reply(const Message& reply, const std::string& task,
                                const std::vector<Exchange>& exchanges, const Holds& holds = {},
                                const DigestOf& digest_of = {});

// The message again, bit for bit, its models on the CPU. Throw Error(kind peer) that names the
// field where the parcel does not fit: a reply must be of the exchange that `task` begins.
[[nodiscard]] Message unpack_task(const Parcel& parcel, const std::vector<Exchange>& exchanges,
                                  const Known& known);
[[nodiscard]] Message unpack_reply(const Parcel& parcel, const std::string& task,
                                   const std::vector<Exchange>& exchanges, const Known& known);

// A parcel as one string of bytes, and back.
[[nodiscard]] std::string bytes_of(const Parcel& parcel);
[[nodiscard]] Parcel parcel_of(std::string_view bytes);

}  // namespace winnow
