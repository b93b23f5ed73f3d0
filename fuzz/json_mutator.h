// Changes a JSON tree at one place, so that it still parses: plain bytes rarely do.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "target.h"
#include "winnow/base/params.h"

namespace winnow::fuzz {

using Draw = std::minstd_rand;

inline std::size_t draw_below(Draw& draw, std::size_t end) {
  return end == 0 ? 0 : draw() % end;
}

// A text whose brackets are too deep to walk it on the stack is left to plain bytes.
inline bool is_flat(std::string_view text) {
  constexpr int kDeepest = 100;
  int depth = 0;
  for (const char c : text) {
    depth += c == '[' || c == '{' ? 1 : 0;
    if (depth > kDeepest) {
      return false;  // counts every bracket that is opened: more than enough for a seed
    }
    depth -= c == ']' || c == '}' ? 1 : 0;
  }
  return true;
}

// The tree of a text; discarded when it is none.
inline Json flat_json(std::string_view text) {
  return is_flat(text) ? Json::parse(text, nullptr, false) : Json(Json::value_t::discarded);
}

inline std::string json_text(const Json& tree) {
  return tree.dump(-1, ' ', false, Json::error_handler_t::replace);
}

inline void collect_nodes(Json& node, std::vector<Json*>& nodes) {
  nodes.push_back(&node);
  if (node.is_structured()) {
    for (Json& child : node) {
      collect_nodes(child, nodes);
    }
  }
}

inline Json odd_value(Draw& draw) {
  switch (draw_below(draw, 20)) {
    case 0:
      return nullptr;
    case 1:
      return true;
    case 2:
      return 0;
    case 3:
      return -1;
    case 4:
      return 1;
    case 5:
      return std::numeric_limits<std::int64_t>::max();
    case 6:
      return std::numeric_limits<std::int64_t>::min();
    case 7:
      return std::numeric_limits<std::uint64_t>::max();
    case 8:
      return std::int64_t{1} << draw_below(draw, 63);
    case 9:
      return 1e308;
    case 10:
      return -1e-308;
    case 11:
      return 0.5;
    case 12:
      return "";
    case 13:
      return "x";
    case 14:
      return std::string(300, 'y');
    case 15:
      return Json::array();
    case 16:
      return Json::object();
    case 17:
      return Json::array({Json::array({1})});
    case 18:
      return Json::object({{"", 1}});
    default:
      return draw_below(draw, 300);
  }
}

inline void mutate_container(Json& node, Draw& draw) {
  const std::size_t place = draw_below(draw, node.size());
  const std::size_t way = draw_below(draw, 3);
  if (node.is_array()) {
    if (way == 0 && !node.empty()) {
      node.erase(place);
    } else if (way == 1 && !node.empty()) {
      node.push_back(Json(node[place]));
    } else {
      node.push_back(odd_value(draw));
    }
    return;
  }
  if (way == 0 && !node.empty()) {
    node.erase(std::next(node.begin(), static_cast<std::ptrdiff_t>(place)));
  } else if (way == 1 && !node.empty()) {
    const Json value = *std::next(node.begin(), static_cast<std::ptrdiff_t>(place));
    node[std::to_string(draw_below(draw, 30))] = value;
  } else {
    node[std::to_string(draw_below(draw, 30))] = odd_value(draw);
  }
}

inline void mutate_scalar(Json& node, Draw& draw) {
  const auto step = static_cast<std::int64_t>(draw_below(draw, 7)) - 3;
  if (node.is_string()) {
    auto text = node.get<std::string>();
    mutate_text(text, text.size() + 8);
    node = text;
  } else if (node.is_number_float()) {
    node = node.get<double>() * static_cast<double>(step);
  } else if (node.is_number()) {
    node = static_cast<std::int64_t>(node.get<std::uint64_t>() + static_cast<std::uint64_t>(step));
  } else {
    node = odd_value(draw);
  }
}

inline void mutate_json(Json& tree, Draw& draw) {
  std::vector<Json*> nodes;
  collect_nodes(tree, nodes);
  Json& node = *nodes[draw_below(draw, nodes.size())];
  switch (draw_below(draw, 4)) {
    case 0:
      node = odd_value(draw);
      break;
    case 1: {
      const Json other = *nodes[draw_below(draw, nodes.size())];
      node = other;
      break;
    }
    default:
      if (node.is_structured()) {
        mutate_container(node, draw);
      } else {
        mutate_scalar(node, draw);
      }
  }
}

// A JSON text, or one line of a text of JSON lines, changed so that it still parses. False when
// there is none in it.
inline bool mutate_json_text(std::string& text, Draw& draw) {
  if (Json tree = flat_json(text); !tree.is_discarded()) {
    mutate_json(tree, draw);
    text = json_text(tree);
    return true;
  }
  const std::size_t lines = static_cast<std::size_t>(std::ranges::count(text, '\n')) + 1;
  std::size_t start = 0;
  for (std::size_t skip = draw_below(draw, lines); skip > 0; --skip) {
    start = text.find('\n', start) + 1;
  }
  const std::size_t end = std::min(text.find('\n', start), text.size());
  Json tree = flat_json(std::string_view(text).substr(start, end - start));
  if (tree.is_discarded()) {
    return false;
  }
  mutate_json(tree, draw);
  text.replace(start, end - start, json_text(tree));
  return true;
}

// LLVMFuzzerCustomMutator of a target that reads such a text; one input of `plain` is changed as
// bytes.
inline std::size_t mutate_json_input(std::uint8_t* data, std::size_t size, std::size_t max_size,
                                     unsigned seed, std::size_t plain) {
  Draw draw(seed);
  std::string text(reinterpret_cast<const char*>(data), size);
  if (draw_below(draw, plain) == 0 || !mutate_json_text(text, draw)) {
    return LLVMFuzzerMutate(data, size, max_size);
  }
  return hand_back(text, data, size, max_size);
}

}  // namespace winnow::fuzz
