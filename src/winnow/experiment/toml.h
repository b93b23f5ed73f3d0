// TOML to and from the JSON tree that an experiment is parsed from.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "winnow/base/json.h"

namespace winnow {

// A key has at most this many parts, and values are nested at most this deeply.
inline constexpr int kDeepestToml = 32;
// Of a file, in bytes.
inline constexpr std::uintmax_t kLargestToml = 1 << 20;

// Throws Error(kind experiment) "NAME:LINE:COLUMN: what is wrong".
Json parse_toml(std::string_view text, const std::string& name);

// The tree of a file; throws Error(kind experiment) also when it cannot be read.
Json read_toml(const std::filesystem::path& file);

// The value of `--set key=value`: TOML where it parses as such, otherwise a plain text, so that
// method.name=fedprox needs no quotes.
Json parse_toml_value(std::string_view text);

// Plain values first, then tables in the order they have in the tree.
std::string write_toml(const Json& tree);

// Sets `tree["a"]["b"]` for "a.b"; a number addresses a place of a list: "noise.0.rho". A quoted or
// missing table on the way is made. Throws Error(kind usage) "PATH: why" when the way leads through
// a value.
void set_by_path(Json& tree, std::string_view path, Json value);

}  // namespace winnow
