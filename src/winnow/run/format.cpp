#include "winnow/run/format.h"

#include <fmt/format.h>

#include "winnow/base/error.h"
#include "winnow/base/files.h"
#include "winnow/base/text.h"
#include "winnow/run/run_directory.h"

namespace winnow {

void refuse_newer(const std::filesystem::path& path, std::int64_t format, std::int64_t known,
                  const std::string& made_by) {
  if (format > known) {
    throw Error(ErrorKind::run,
                fmt::format("{} was made by a newer Winnow: format {}, this program reads up to {}",
                            path.string(), format, known),
                made_by.empty() ? "use the version that made it"
                                : fmt::format("use version {}, which made it", made_by));
  }
}

void check_format(const Json& holder, const std::filesystem::path& path) {
  const auto found = holder.find("format");
  if (found == holder.end()) {
    return;
  }
  if (!found->is_number_unsigned() || *found < 1) {
    throw Error(ErrorKind::run,
                fmt::format("{} is damaged: format is not a whole number from 1", path.string()));
  }
  const auto version = holder.find("version");
  const bool told = version != holder.end() && version->is_string();
  refuse_newer(path, found->get<std::int64_t>(), kRunFormat,
               told ? printable(version->get<std::string>()) : "");
}

Json first_event(const std::filesystem::path& directory) {
  const std::filesystem::path path = directory / kEventsFile;
  if (!std::filesystem::exists(path)) {
    return Json::object();
  }
  Json first = parse_json_or_null(read_first_line(path));
  if (!first.is_object()) {
    return Json::object();
  }
  check_format(first, path);
  return first;
}

}  // namespace winnow
