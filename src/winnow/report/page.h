// The report page: one HTML file that needs nothing from outside.
#pragma once

#include <string>
#include <string_view>

#include "winnow/base/json.h"

namespace winnow {

// The page of web/dist/report.html with `data` inside it. Nothing in the data can end the script it
// stands in, and what is not UTF-8 is replaced.
std::string render_page(const Json& data);

// The same for the page of an audit, web/audit.html.
std::string render_audit_page(const Json& data);

// The page without data, as it was built; put into the program by CMake (cmake/embed.cmake).
std::string_view page_template();
std::string_view audit_page_template();

}  // namespace winnow
