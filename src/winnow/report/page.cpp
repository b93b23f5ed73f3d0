#include "winnow/report/page.h"

#include <algorithm>
#include <utility>

#include "winnow/base/error.h"

namespace winnow {
namespace {

// Where the page's template wants its data (web/page.html).
constexpr std::string_view kPlace = "\"WINNOW-DATA\"";
// Where that of an audit wants the samples that are not seen at first.
constexpr std::string_view kRestPlace = "<!-- WINNOW-REST -->";
constexpr std::size_t kSeenAtFirst = 600;
constexpr std::size_t kRestAtOnce = 5000;

// JSON in which no tag can begin: '<' occurs only inside strings, where this means the same.
std::string script_json(const Json& data) {
  const std::string text = data.dump(-1, ' ', false, Json::error_handler_t::replace);
  std::string safe;
  std::size_t begin = 0;
  for (std::size_t at = text.find('<'); at != std::string::npos; at = text.find('<', begin)) {
    safe.append(text, begin, at - begin).append("\\u003c");
    begin = at + 1;
  }
  safe.append(text, begin);
  return safe;
}

std::string put(std::string_view page, std::string_view place, std::string_view content) {
  const std::size_t at = page.find(place);
  if (at == std::string_view::npos) {
    throw Error(ErrorKind::internal, "the page has no place for its data");
  }
  std::string text;
  text.reserve(page.size() + content.size());
  text += page.substr(0, at);
  text += content;
  text += page.substr(at + place.size());
  return text;
}

std::string render(std::string_view page, const Json& data) {
  return put(page, kPlace, script_json(data));
}

}  // namespace

std::string render_page(const Json& data) {
  return render(page_template(), data);
}

// A browser draws the first samples while it reads the others, which come in scripts of their own.
std::string render_audit_page(const Json& data) {
  const Json empty = Json::array();
  const auto found = data.find("shown");
  const Json& shown = found == data.end() ? empty : *found;
  Json first = Json::object();
  for (const auto& [key, value] : data.items()) {
    if (key != "shown") {
      first[key] = value;
    }
  }
  first["shown"] = Json::array();
  first["held"] = shown.size();
  std::string rest;
  for (std::size_t i = 0; i < shown.size();) {
    const std::size_t end = std::min(shown.size(), i + (i == 0 ? kSeenAtFirst : kRestAtOnce));
    Json part = Json::array();
    for (; i < end; ++i) {
      part.push_back(shown[i]);
    }
    if (end <= kSeenAtFirst) {
      first["shown"] = std::move(part);
    } else {
      rest +=
          "<script type=\"application/json\" class=\"rest\">" + script_json(part) + "</script>\n";
    }
  }
  return put(render(audit_page_template(), first), kRestPlace, rest);
}

}  // namespace winnow
