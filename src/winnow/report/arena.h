// The arena: which method wins where. A table of methods against settings becomes ranks, what each
// method loses at worst against a plain one, and what it costs.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "winnow/report/table.h"

namespace winnow {

// The [arena] table of a sweep file.
struct ArenaRule {
  std::string metric = "last10";     // one of arena_metrics(): what ranks are made of
  std::string reference = "fedavg";  // the row that others are compared with
};

// best, last, last10, top5: accuracies in percent, of which the largest is the best.
const std::vector<std::string>& arena_metrics();

// Something that leaves a client beside its trained model and its number of samples.
struct Revealed {
  std::string field;
  std::string tells;
};
// By row. A row that is not there: not known.
using RevealedByRow = std::map<std::string, std::vector<Revealed>>;

struct ArenaCell {
  std::size_t runs = 0;             // finished runs that have the metric; 0: the cell is missing
  double mean = 0.0;                // over them, in percent
  std::optional<double> rank = {};  // in its setting; none: a bound, or missing
  std::optional<double> difference = {};  // to the reference, in points
};

struct ArenaRow {
  std::string name;
  bool uses_truth = false;            // a bound: listed apart, not ranked
  std::vector<ArenaCell> cells = {};  // by setting
  std::optional<double> rank = {};    // mean over its settings
  std::size_t wins = 0;               // settings in which no ranked method is better
  std::size_t settings = 0;           // in which it has a result
  std::size_t runs = 0;
  std::optional<double> worst = {};  // least difference to the reference, in points
  std::string worst_setting = {};
  std::optional<double> bytes = {};    // up and down, mean of its runs
  std::optional<double> seconds = {};  // wall time, mean of its runs
  std::optional<std::vector<Revealed>> reveals = {};
};

struct Arena {
  ArenaRule rule;
  std::vector<std::string> settings = {};
  std::vector<ArenaRow> rows = {};          // ranked ones, the best first; then bounds
  std::vector<std::string> not_begun = {};  // methods without any result
  std::size_t cells = 0;                    // of the whole grid, those of not_begun too
  std::size_t missing = 0;                  // without a result
};

// The rules:
// - A cell is the mean of a metric over the finished runs of its row and column.
// - In every setting the methods that have a result there are ranked, the largest accuracy first.
//   Cells whose means are equal when printed with two decimals are tied, and all of them get the
//   mean of the places they take: 80.00, 79.50, 79.50 and 70.00 have the ranks 1, 2.5, 2.5 and 4.
// - The rank of a method is the mean of its ranks; a setting in which it has no result does not
//   count. The best method of a setting, and every one tied with it, has a win.
// - A difference is taken over the seeds that both the method and the reference have, so that both
//   saw the same clients and the same noise.
// - What uses ground truth is neither ranked nor in the way of others; its differences are shown.
// Throws Error(kind run) where nothing is called as the reference, or a summary holds something
// other than a number.
Arena make_arena(const std::vector<RunResult>& results, const ArenaRule& rule,
                 const RevealedByRow& reveals);

// Everything, for the page and for programs. Numbers have at most six decimals.
Json arena_json(const Arena& arena);

// text, markdown, csv, json.
const std::vector<std::string>& arena_formats();

struct ArenaLook {
  std::string format = "text";
  bool by_setting = false;  // the difference in every setting, instead of the summary
};
// As text that ends in a line feed. Throws Error(kind usage) for an unknown format.
std::string render_arena(const Arena& arena, const ArenaLook& look);

// The differences as a picture: methods against settings, from what arena_json() gives, which may
// have been in a file. Throws Error(kind run) where it is not that.
std::string arena_svg(const Json& arena);

}  // namespace winnow
