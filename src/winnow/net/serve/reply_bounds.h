// How large a reply can be, by its exchange alone.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "winnow/federation/exchange.h"
#include "winnow/net/serve/wire_form.h"

namespace winnow::net {

// What a head and the list of its models may have in one call: a message of 2 MiB has room for
// some more than that, verdicts above all.
inline constexpr std::int64_t kMostHead = (std::int64_t{2} << 20) - (std::int64_t{128} << 10);

// The longest head that the fields can have, of a client with so many samples.
std::int64_t longest_head(const std::vector<FieldRule>& fields, std::int64_t samples);
// The most models that they can refer to.
std::int64_t most_models(const std::vector<FieldRule>& fields, std::int64_t samples);
// What the larger of task and reply can need of a call that carries no values of models. Beyond
// kMostHead it need not be exact.
std::int64_t longest_call(const Exchange& exchange, std::int64_t samples);
// Refuses, with Error(kind experiment), exchanges whose calls are too long whoever takes part.
void check_calls(const std::vector<Exchange>& exchanges);
// Whether the method relies on models in these fields being finite.
bool wants_finite_models(const std::vector<FieldRule>& fields);

// Of everything that an opening announces: the same bytes have the same digest.
std::string digest_of(const v1::Opening& opening);

}  // namespace winnow::net
