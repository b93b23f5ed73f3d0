// Labels that somebody has looked at again: the relabel.csv of an audit, read back.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

#include "winnow/data/data_set.h"
#include "winnow/data/partition.h"
#include "winnow/noise/label/label_noise.h"

namespace winnow {

// The first line of such a file. `name` says which sample, in data without names by its number;
// `accept` is "yes", "no" or empty, which is no. Labels are names of classes.
inline constexpr const char* kRelabelHeader =
    "name,client,given_label,suggested_label,label_score,accept";

// The new label of each accepted sample of the training part. Rows about samples that were drawn
// for the test part are left alone: a test set is not repaired by a model's opinion. Rows that are
// not accepted are checked, too. Throws Error(kind data) naming the line: a sample that is not
// there, an unknown class, a sample named twice, anything but yes and no.
std::map<std::int64_t, std::int64_t> read_relabel(const std::filesystem::path& file,
                                                  const DataSet& data);

// Changes what the clients see.
void apply_relabel(const std::map<std::int64_t, std::int64_t>& labels, const Assignment& assign,
                   GivenLabels& given);

}  // namespace winnow
