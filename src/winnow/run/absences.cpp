#include "winnow/run/absences.h"

#include <fmt/format.h>

#include <filesystem>

#include "winnow/base/checked_json.h"
#include "winnow/base/error.h"
#include "winnow/base/files.h"
#include "winnow/base/json.h"

namespace winnow {

Absences read_absences(const std::string& file, std::int64_t clients) {
  if (!std::filesystem::is_regular_file(file)) {
    throw Error(ErrorKind::data, fmt::format("federation.absences = \"{}\": no such file", file),
                "give the events.jsonl of a run directory");
  }
  Absences all;
  std::int64_t number = 0;
  read_lines(file, [&](std::string_view line) {
    ++number;
    const std::string where = fmt::format("{} line {}", file, number);
    const Json event = parse_json(line, where, ErrorKind::run, "give the events of a whole run");
    if (!event.is_object() || event.value("event", Json()) != "round" ||
        !event.contains("absent")) {
      return;
    }
    try {
      const std::int64_t round =
          CheckedJson(event, "event").at("round").whole(1, CheckedJson::kMost);
      all.merge(absences_of_round(event.at("absent"), round - 1, clients));
    } catch (const Error& error) {
      throw Error(ErrorKind::run, fmt::format("{}: {}", where, error.what()),
                  "give the events of a run with as many clients");
    }
  });
  return all;
}

}  // namespace winnow
