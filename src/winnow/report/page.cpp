#include "winnow/report/page.h"

#include "winnow/base/error.h"

namespace winnow {
namespace {

// Where the page's template wants its data (web/page.html).
constexpr std::string_view kPlace = "\"WINNOW-DATA\"";

// JSON in which no tag can begin: '<' occurs only inside strings, where this means the same.
std::string script_json(const Json& data) {
  std::string text;
  for (const char c : data.dump(-1, ' ', false, Json::error_handler_t::replace)) {
    if (c == '<') {
      text += "\\u003c";
    } else {
      text += c;
    }
  }
  return text;
}

std::string render(std::string_view page, const Json& data) {
  const std::size_t at = page.find(kPlace);
  if (at == std::string_view::npos) {
    throw Error(ErrorKind::internal, "the page has no place for its data");
  }
  std::string text(page.substr(0, at));
  text += script_json(data);
  text += page.substr(at + kPlace.size());
  return text;
}

}  // namespace

std::string render_page(const Json& data) {
  return render(page_template(), data);
}

std::string render_audit_page(const Json& data) {
  return render(audit_page_template(), data);
}

}  // namespace winnow
