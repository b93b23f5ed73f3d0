// What a member brings: its own samples, in the shape that the charter asks for.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "winnow/data/data_set.h"
#include "winnow/run/charter.h"

namespace winnow::member {

// Reads all samples of one of three forms; every one of them is trained on.
// - a folder with a folder of images for each class, classes and files in the order of their names;
// - a list file, as list_file.h has it, with the names of classes or their numbers;
// - an .npz file with `images` and `labels`, and `class_names` if they are to be compared.
// Classes are the charter's by name; who has none of some class is welcome. Image files are brought
// to the charter's size and channels as other readers do it, arrays must have them. Throws
// Error(kind data).
Samples read_member_data(const std::filesystem::path& path, const Charter& charter);

// What the samples are called, in the same order: files by their path in the folder or in the list,
// arrays by `names` where the file has them; empty where they are numbers only. No image is read.
std::vector<std::string> read_member_names(const std::filesystem::path& path,
                                           const Charter& charter);

}  // namespace winnow::member
