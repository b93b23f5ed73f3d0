// How large a reply can be, by its exchange alone.
#pragma once

#include <cstdint>
#include <string>

#include "winnow/federation/exchange.h"
#include "winnow/net/serve/wire_form.h"

namespace winnow::net {

// The longest head that the fields can have, of a client with so many samples.
std::int64_t longest_head(const std::vector<FieldRule>& fields, std::int64_t samples);
// The most models that they can refer to.
std::int64_t most_models(const std::vector<FieldRule>& fields, std::int64_t samples);
// Whether the method relies on models in these fields being finite.
bool wants_finite_models(const std::vector<FieldRule>& fields);

// Of everything that an opening announces: the same bytes have the same digest.
std::string digest_of(const v1::Opening& opening);

}  // namespace winnow::net
