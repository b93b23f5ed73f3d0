// What the pictures of a report are made of comes out of files of anybody: values, lengths and
// limits are checked before anything is drawn.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "winnow/base/checked_json.h"

namespace winnow {

// All of these throw Error(kind run) that names the entry.

// `series` and `likeness` of findings.json, where they are there: lists of scores with a finite
// number by client; a square of numbers from -1 to 1 with a row for each client named.
void check_findings(const Json& findings);

// An event "labels" (run/judge.h, judge_labels): shares, counts, and squares of one size.
void check_labels(const Json& event);

// What members.json (net/serve/members_file.h) says of the members of a federation, checked:
// `round` and `members`, each with what is known of it and nothing else.
Json checked_members(const Json& file);

// Gradient norms by client, of the last round in which the client sent them. Of more than 100,000
// in all every client keeps as many, evenly chosen from its first to its last.
class NormCollector {
 public:
  // Takes the norms of a round's event, if it has any.
  void add(const Json& event);
  // {thinned, by_client}, or null when there were none.
  Json result() const;

 private:
  std::map<std::int64_t, std::vector<double>> norms_;
};

}  // namespace winnow
