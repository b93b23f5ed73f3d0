// Which image files belong to a set and what their labels are, in the layouts that image sets come
// in. Nothing is decoded here.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "winnow/data/image_files.h"
#include "winnow/data/list_file.h"

namespace winnow {

struct ImageSplit {
  std::vector<ImageEntry> train;
  std::vector<ImageEntry> test;
  std::vector<std::string> class_names;
  bool test_drawn = false;  // from the same files, as there is no test part of its own
  bool named = false;       // the labels are names, so class_names is not made of numbers
  std::vector<std::string> unused_columns = {};  // of lists that are tables
};

// One folder per class, classes and files in the order of their names. Images lie in the class
// folder itself or in a folder `images` there; other folders of images inside are refused, as what
// looks like a class is then a client or a part of the set.
//   ROOT/train/CLASS/* with ROOT/test/CLASS/* or ROOT/val/CLASS/*
//   ROOT/train/CLASS/* with ROOT/val/val_annotations.txt and ROOT/val/images/* (Tiny-ImageNet)
//   ROOT/CLASS/* or ROOT/train/CLASS/* alone: 80 % train, 20 % test, drawn from `seed`
ImageSplit scan_image_folder(const std::filesystem::path& root, std::uint64_t seed);

// A list file as read_list_file() reads it; '#' starts a comment line, paths are relative to the
// list file. Labels are whole numbers from 0, or names, in one list as in the other: classes are
// then in the order of the names in the training list, byte by byte. With `class_names` the classes
// are these, in this order, and a number counts them from 0. With an empty `test_list` 20 % of the
// list, drawn from `seed`, are the test part.
ImageSplit scan_image_list(const std::filesystem::path& list,
                           const std::filesystem::path& test_list, std::uint64_t seed,
                           const std::vector<std::string>& class_names = {});

// The visible folders of a folder, sorted by name. Throws Error(kind data) for names that are not
// UTF-8.
std::vector<std::string> visible_folders(const std::filesystem::path& folder);

// The images of ROOT/CLASS/*, whose folders are all among the class names, which are sorted.
std::vector<ImageEntry> scan_class_folders(const std::filesystem::path& root,
                                           const std::vector<std::string>& class_names);

// The images of one list, with the classes as scan_image_list() finds them.
struct ListedImages {
  std::vector<ImageEntry> entries;
  std::vector<std::string> class_names;
  bool named = false;
};
ListedImages images_of_list(const ListFile& list, const std::filesystem::path& base,
                            const std::vector<std::string>& class_names);

// Clothing1M as distributed: noisy_train_key_list.txt with noisy_label_kv.txt to train on and
// clean_test_key_list.txt with clean_label_kv.txt to test on, in ROOT or ROOT/annotations. The true
// labels of the training images are not known: the noisy ones stand in for them.
ImageSplit scan_clothing1m(const std::filesystem::path& root);

// mini-WebVision: the first 50 classes of the Google part of WebVision 1.0 with its validation
// images. The true labels of the training images are not known here either.
ImageSplit scan_webvision(const std::filesystem::path& root);

}  // namespace winnow
