// The [paper] part of a sweep file: figures that a paper prints for cells of the sweep.
//   [paper]  source = "FedRN, Table 2", metric = "best", figures = { "row" = { "column" = number }
//   },
//            deviations = the same shape, for the ± behind a figure
// Where the sweep has no columns a row has a number. [[paper]] holds several, each with a metric of
// its own.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "winnow/report/table.h"

namespace winnow {

// As a list of blocks, each with figures that belong to cells of the sweep, given by row and
// column: a misspelt name would hide a figure. Throws Error(kind experiment) naming the key.
Json check_paper(const Json& part, const std::vector<std::pair<std::string, std::string>>& cells);

// The metrics of checked blocks, in order.
std::vector<std::string> paper_metrics(const Json& blocks);

// The figures of one cell. Throws Json::exception where the blocks are not as checked.
PublishedByMetric published_for(const Json& blocks, const std::string& row,
                                const std::string& column);

}  // namespace winnow
