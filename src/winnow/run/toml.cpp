#include "winnow/run/toml.h"

#include <fmt/format.h>
// toml++ 3.3 asserts that a time begins with a digit, and then says itself what is wrong where it
// does not: 1979-05-27Tx must not end a build with assertions.
#define TOML_ASSERT(condition) static_assert(true)
#include <toml++/toml.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>

#include "winnow/base/error.h"
#include "winnow/base/files.h"
#include "winnow/base/text.h"

namespace winnow {
namespace {

// What toml++ does with a deep tree recurses, as does what we do with the Json made of it. toml++
// limits the depth of values but not of keys (a.b.c), so both are counted before it starts. It also
// takes some letters outside quotes for impossible, where TOML has none but ASCII. Up to the first
// fault in the text this scan and the parser agree on what is a string and a comment.
class TomlScan {
 public:
  TomlScan(std::string_view text, const std::string& name) : text_(text), name_(name) {}

  void check() {
    if (text_.starts_with("\xEF\xBB\xBF")) {
      at_ = 3;  // a byte order mark
    }
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '"' || c == '\'') {
        skip_string(c);
        continue;
      }
      if (c == '#') {
        at_ = std::min(text_.find('\n', at_), text_.size());
        continue;
      }
      count(c);
      ++at_;
    }
  }

 private:
  void count(char c) {
    if (static_cast<unsigned char>(c) >= 0x80) {
      throw Error(
          ErrorKind::experiment,
          fmt::format("{}:{}: a letter that is not ASCII stands outside quotes", name_, line_),
          "put the text or the key in quotes");
    }
    if (c == '.') {
      // Numbers and times have one, so more than a few are a key's.
      limit(++dots_ + 1, "a key has more than {} parts");
    } else if (c == '[' || c == '{') {
      limit(++open_, "values are nested deeper than {} levels");
    } else if (c == ']' || c == '}') {
      open_ = std::max(0, open_ - 1);
    }
    if (c == '\n') {
      ++line_;
    }
    if (std::string_view("\n=,[]{}").find(c) != std::string_view::npos) {
      dots_ = 0;
    }
  }

  void limit(int count, fmt::format_string<const int&> fault) const {
    if (count > kDeepestToml) {
      throw Error(ErrorKind::experiment,
                  fmt::format("{}:{}: {}", name_, line_, fmt::format(fault, kDeepestToml)));
    }
  }

  void skip_string(char quote) {
    const std::string ends(text_.substr(at_).starts_with(std::string(3, quote)) ? 3 : 1, quote);
    at_ += ends.size();
    while (at_ < text_.size() && !text_.substr(at_).starts_with(ends)) {
      if (text_[at_] == '\n') {
        if (ends.size() == 1) {
          return;  // a fault; the parser will name it
        }
        ++line_;
      }
      at_ += quote == '"' && text_[at_] == '\\' ? 2 : 1;
    }
    at_ = std::min(at_ + ends.size(), text_.size());
    // Three quotes end a text that may itself end in two.
    while (ends.size() == 3 && at_ < text_.size() && text_[at_] == quote) {
      ++at_;
    }
  }

  std::string_view text_;
  const std::string& name_;
  std::size_t at_ = 0;
  int line_ = 1;
  int dots_ = 0;
  int open_ = 0;
};

Json to_json(const toml::node& node, const std::string& name) {
  if (const auto* table = node.as_table()) {
    // toml++ sorts keys; the order of the file is kept by their source positions.
    std::vector<std::pair<std::string, const toml::node*>> entries;
    for (const auto& [key, value] : *table) {
      entries.emplace_back(std::string(key.str()), &value);
    }
    std::ranges::stable_sort(entries, [](const auto& a, const auto& b) {
      return a.second->source().begin < b.second->source().begin;
    });
    Json object = Json::object();
    for (const auto& [key, value] : entries) {
      append_member(object, key, to_json(*value, name));
    }
    return object;
  }
  if (const auto* array = node.as_array()) {
    Json list = Json::array();
    for (const toml::node& element : *array) {
      list.push_back(to_json(element, name));
    }
    return list;
  }
  if (const auto* value = node.as_integer()) {
    return value->get();
  }
  if (const auto* value = node.as_floating_point()) {
    return value->get();
  }
  if (const auto* value = node.as_boolean()) {
    return value->get();
  }
  if (const auto* value = node.as_string()) {
    return value->get();
  }
  const auto& at = node.source().begin;
  throw Error(ErrorKind::experiment,
              fmt::format("{}:{}:{}: dates and times are not used in experiments", name, at.line,
                          at.column));
}

bool is_bare_key(const std::string& key) {
  return !key.empty() && std::ranges::all_of(key, [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '_' || c == '-';
  });
}

// As in JSON, except that TOML does not allow the delete character to stand for itself.
std::string quoted(const std::string& text) {
  std::string result;
  for (const char c : Json(text).dump()) {
    result += c == '\x7f' ? "\\u007f" : std::string(1, c);
  }
  return result;
}

std::string key_text(const std::string& key) {
  return is_bare_key(key) ? key : quoted(key);
}

std::string inline_value(const Json& value) {
  if (value.is_object()) {
    std::vector<std::string> parts;
    for (const auto& [key, element] : value.items()) {
      parts.push_back(fmt::format("{} = {}", key_text(key), inline_value(element)));
    }
    return parts.empty() ? "{}" : fmt::format("{{ {} }}", join(parts, ", "));
  }
  if (value.is_array()) {
    std::vector<std::string> parts;
    for (const Json& element : value) {
      parts.push_back(inline_value(element));
    }
    return fmt::format("[{}]", join(parts, ", "));
  }
  if (value.is_string()) {
    return quoted(value.get<std::string>());
  }
  if (value.is_number_float()) {
    const double number = value.get<double>();
    if (std::isinf(number)) {
      return number > 0 ? "inf" : "-inf";
    }
    const std::string text = fmt::format("{}", number);
    // A whole float must keep its point, or it would be read back as an integer.
    return text.find_first_of(".en") == std::string::npos ? text + ".0" : text;
  }
  return value.dump();
}

bool is_list_of_tables(const Json& value) {
  return value.is_array() && !value.empty() &&
         std::ranges::all_of(value, [](const Json& element) { return element.is_object(); });
}

void write_values(std::string& out, const Json& table) {
  for (const auto& [key, value] : table.items()) {
    out += fmt::format("{} = {}\n", key_text(key), inline_value(value));
  }
}

}  // namespace

Json parse_toml(std::string_view text, const std::string& name) {
  TomlScan(text, name).check();
  try {
    return to_json(toml::parse(text), name);
  } catch (const toml::parse_error& error) {
    throw Error(ErrorKind::experiment,
                fmt::format("{}:{}:{}: {}", name, error.source().begin.line,
                            error.source().begin.column, error.description()));
  }
}

Json read_toml(const std::filesystem::path& file) {
  std::string text;
  try {
    text = read_file(file, kLargestToml);
  } catch (const Error& error) {
    throw Error(ErrorKind::experiment, error.what(), error.hint());
  }
  return parse_toml(text, file.string());
}

Json parse_toml_value(std::string_view text) {
  try {
    return parse_toml("value = " + std::string(text), "--set").at("value");
  } catch (const Error&) {
    return std::string(text);
  }
}

std::string write_toml(const Json& tree) {
  Json plain = Json::object();
  for (const auto& [key, value] : tree.items()) {
    if (!value.is_object() && !is_list_of_tables(value)) {
      plain[key] = value;
    }
  }
  std::string out;
  write_values(out, plain);
  for (const auto& [key, value] : tree.items()) {
    if (value.is_object()) {
      out += fmt::format("\n[{}]\n", key_text(key));
      write_values(out, value);
    } else if (is_list_of_tables(value)) {
      for (const Json& element : value) {
        out += fmt::format("\n[[{}]]\n", key_text(key));
        write_values(out, element);
      }
    }
  }
  return out;
}

void set_by_path(Json& tree, std::string_view path, Json value) {
  const auto fail = [&](const std::string& why) {
    throw Error(ErrorKind::usage, fmt::format("{}: {}", path, why));
  };
  Json* place = &tree;
  const std::vector<std::string> parts = split(path, '.');
  if (parts.size() > kDeepestToml) {
    fail(fmt::format("a key has more than {} parts", kDeepestToml));
  }
  for (const std::string& part : parts) {
    if (part.empty()) {
      fail("a key is empty");
    }
    if (place->is_array()) {
      std::size_t index = 0;
      const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), index);
      if (error != std::errc() || end != part.data() + part.size() || index >= place->size()) {
        fail(fmt::format("'{}' is not a place in a list of {}", part, place->size()));
      }
      place = &(*place)[index];
    } else if (place->is_object() || place->is_null()) {
      place = &(*place)[part];
    } else if (place->is_string() && part == "name") {
      // A text stands for a table with only a name: partition = "shards".
      continue;
    } else {
      fail(fmt::format("the way to '{}' leads through a value", part));
    }
  }
  *place = std::move(value);
}

}  // namespace winnow
