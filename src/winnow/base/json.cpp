#include "winnow/base/json.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <vector>

namespace winnow {
namespace {

std::string shown(const std::string& key) {
  constexpr std::size_t kLongest = 100;
  return Json(key.size() <= kLongest ? key : key.substr(0, kLongest) + "...")
      .dump(-1, ' ', false, Json::error_handler_t::replace);
}

// Builds the tree from the parser's events; false from one of them ends the parsing. The names and
// the signatures are nlohmann's.
class Builder : public nlohmann::json_sax<Json> {
 public:
  bool null() override { return put(nullptr); }
  bool boolean(bool value) override { return put(value); }
  bool number_integer(number_integer_t value) override { return put(value); }
  bool number_unsigned(number_unsigned_t value) override { return put(value); }
  bool number_float(number_float_t value, const string_t& /*text*/) override { return put(value); }
  bool string(string_t& value) override { return put(std::move(value)); }
  bool binary(binary_t& value) override { return put(std::move(value)); }

  bool start_object(std::size_t /*size*/) override { return open(Json::object()); }
  bool start_array(std::size_t /*size*/) override { return open(Json::array()); }
  bool key(string_t& value) override {
    key_ = std::move(value);
    return true;
  }

  bool end_object() override {
    std::vector<const std::string*> keys;
    for (const auto& [key, value] : open_.back()->get_ref<const Json::object_t&>()) {
      keys.push_back(&key);
    }
    std::ranges::sort(keys, {}, [](const std::string* key) -> const std::string& { return *key; });
    const auto same = std::ranges::adjacent_find(
        keys, [](const std::string* a, const std::string* b) { return *a == *b; });
    if (same != keys.end()) {
      return fail(fmt::format("it has the key {} twice", shown(**same)));
    }
    return end_array();
  }
  bool end_array() override {
    open_.pop_back();
    return true;
  }

  bool parse_error(std::size_t /*position*/, const std::string& /*token*/,
                   const Json::exception& error) override {
    // "[json.exception.parse_error.101] parse error at line 1, column 2: ..."
    const std::string text = error.what();
    const std::size_t end = text.find("] ");
    return fail(end == std::string::npos ? text : text.substr(end + 2));
  }

  Json take() { return std::move(root_); }
  const std::string& fault() const { return fault_; }

 private:
  bool fail(std::string fault) {
    if (fault_.empty()) {
      fault_ = std::move(fault);
    }
    return false;
  }

  Json& place(Json value) {
    if (open_.empty()) {
      root_ = std::move(value);
      return root_;
    }
    if (open_.back()->is_object()) {
      return append_member(*open_.back(), std::move(key_), std::move(value));
    }
    open_.back()->push_back(std::move(value));
    return open_.back()->back();
  }

  bool put(Json value) {
    place(std::move(value));
    return true;
  }

  // The addresses of open values hold: nothing is added beside them until they are closed.
  bool open(Json value) {
    if (open_.size() == kDeepestJson) {
      return fail(fmt::format("it is nested deeper than {} levels", kDeepestJson));
    }
    open_.push_back(&place(std::move(value)));
    return true;
  }

  Json root_;
  std::vector<Json*> open_;
  std::string key_;
  std::string fault_;
};

// The tree, or nothing and what is wrong.
std::optional<Json> parse(std::string_view text, std::string& fault) {
  Builder builder;
  if (Json::sax_parse(text.begin(), text.end(), &builder)) {
    return builder.take();
  }
  fault = builder.fault();
  return std::nullopt;
}

}  // namespace

Json parse_json(std::string_view text, const std::string& what, ErrorKind kind,
                const std::string& hint) {
  std::string fault;
  if (std::optional<Json> json = parse(text, fault)) {
    return std::move(*json);
  }
  throw Error(kind, fmt::format("{} is damaged: {}", what, fault), hint);
}

Json parse_json_or_null(std::string_view text) {
  std::string fault;
  return parse(text, fault).value_or(nullptr);
}

Json& append_member(Json& object, std::string key, Json value) {
  auto& members = object.get_ref<Json::object_t&>();
  members.push_back({std::move(key), std::move(value)});
  return members.back().second;
}

bool is_utf8(std::string_view text) {
  try {
    (void)Json(text).dump();
    return true;
  } catch (const Json::type_error&) {
    return false;
  }
}

}  // namespace winnow
