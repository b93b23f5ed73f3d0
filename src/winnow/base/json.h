// JSON that may come from anybody: parsed within limits, with errors that name the file.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "winnow/base/error.h"

namespace winnow {

using Json = nlohmann::ordered_json;

// Copying, comparing and printing a tree recurse into it, so no tree is deeper than this.
inline constexpr int kDeepestJson = 64;

// Objects keep their order. The time is nearly linear in the length of the text. Throws Error
// "WHAT is damaged: why" for what is not JSON, is nested deeper than kDeepestJson or has a key
// twice in one object.
Json parse_json(std::string_view text, const std::string& what, ErrorKind kind = ErrorKind::run,
                const std::string& hint = "");

// As parse_json(); null for what it would refuse.
Json parse_json_or_null(std::string_view text);

// Appends to an object without looking for the key, which must be new: a search of all keys for
// every key would make large objects quadratic. Returns the place of the value.
Json& append_member(Json& object, std::string key, Json value);

// Whether Json can hold the text: it is UTF-8.
bool is_utf8(std::string_view text);

}  // namespace winnow
