// The binary version of CIFAR-10 and CIFAR-100: records of label bytes and 3x32x32 image bytes.
#pragma once

#include <cstdint>
#include <filesystem>

#include "winnow/data/data_set.h"

namespace winnow {

// One file of records: `label_bytes` bytes of which the last is the label (the fine one in
// CIFAR-100), then 3072 bytes. Throws Error(kind data) naming file and byte.
Samples read_cifar_file(const std::filesystem::path& path, std::int64_t label_bytes,
                        std::int64_t classes);

// data_batch_1..5.bin and test_batch.bin; names from batches.meta.txt where it lies beside them.
// Fills train, test, classes and class_names.
DataSet read_cifar10(const std::filesystem::path& folder);

// train.bin and test.bin with the fine labels; names from fine_label_names.txt, numbers without it.
DataSet read_cifar100(const std::filesystem::path& folder);

}  // namespace winnow
