// Headers that nearly every file pays for; compiled once. Files still include what they use.
#pragma once

// First, because clang in C++20 mode cannot read LibTorch 1.13 when List.h comes before it.
#include <ATen/core/ivalue.h>

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>
