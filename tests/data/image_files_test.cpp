#include "winnow/data/image_files.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "data/data_testing.h"
#include "winnow/data/image_layouts.h"

namespace winnow::image_files_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::string_view kRed("\xff\x00\x10", 3);

// "name label" of each entry.
std::vector<std::string> brief(const std::vector<ImageEntry>& entries) {
  std::vector<std::string> texts;
  for (const ImageEntry& entry : entries) {
    texts.push_back(entry.file.filename().string() + " " + std::to_string(entry.label));
  }
  return texts;
}

TEST(ImageNames, GoByExtensionInAnyCase) {
  EXPECT_TRUE(is_image_name("a.png"));
  EXPECT_TRUE(is_image_name("b/n01.JPEG"));
  EXPECT_TRUE(is_image_name("c.Jpg"));
  EXPECT_FALSE(is_image_name("boxes.txt"));
  EXPECT_FALSE(is_image_name("png"));
}

TEST(ImageFolder, TrainAndTestFoldersGiveSortedClassesAndFiles) {
  const TempFolder folder("images_split");
  for (const char* name : {"train/dog/2.png", "train/dog/1.PNG", "train/cat/9.jpg",
                           "train/cat/notes.txt", "train/.cache/x.png", "test/dog/5.jpeg"}) {
    folder.write(name, "");
  }
  const ImageSplit split = scan_image_folder(folder.path(), 1);
  EXPECT_THAT(split.class_names, ElementsAre("cat", "dog"));
  EXPECT_THAT(brief(split.train), ElementsAre("9.jpg 0", "1.PNG 1", "2.png 1"));
  EXPECT_THAT(brief(split.test), ElementsAre("5.jpeg 1"));
}

TEST(ImageFolder, AFlatFolderIsSplitByTheSeed) {
  const TempFolder folder("images_flat");
  for (int i = 0; i < 20; ++i) {
    folder.write("a/" + std::to_string(10 + i) + ".png", "");
    folder.write("b/" + std::to_string(50 + i) + ".png", "");
  }
  const ImageSplit one = scan_image_folder(folder.path(), 1);
  EXPECT_EQ(one.train.size(), 32U);
  EXPECT_EQ(one.test.size(), 8U);
  EXPECT_TRUE(one.test_drawn);
  EXPECT_EQ(one.train, scan_image_folder(folder.path(), 1).train);
  EXPECT_NE(one.train, scan_image_folder(folder.path(), 2).train);
  EXPECT_TRUE(std::ranges::is_sorted(brief(one.train)));
}

TEST(ImageFolder, ReadsTheTinyImageNetLayout) {
  const TempFolder folder("images_tiny");
  folder.write("train/n01/images/n01_0.JPEG", "");
  folder.write("train/n01/n01_boxes.txt", "");
  folder.write("train/n02/images/n02_0.JPEG", "");
  folder.write("test/images/test_0.JPEG", "");
  folder.write("val/val_annotations.txt",
               "val_0.JPEG\tn02\t0\t0\t1\t1\nval_1.JPEG\tn01\t0\t0\t1\t1\n");
  const ImageSplit split = scan_image_folder(folder.path(), 1);
  EXPECT_THAT(brief(split.train), ElementsAre("n01_0.JPEG 0", "n02_0.JPEG 1"));
  EXPECT_THAT(brief(split.test), ElementsAre("val_0.JPEG 1", "val_1.JPEG 0"));
  EXPECT_EQ(split.test[0].file, folder.path() / "val" / "images" / "val_0.JPEG");
  folder.write("val/val_annotations.txt", "val_0.JPEG\tn03\n");
  EXPECT_THAT(error_text([&] { scan_image_folder(folder.path(), 1); }),
              HasSubstr("val_annotations.txt line 1: class 'n03' is not among the training "));
}

TEST(ImageFolder, AFolderPerClientIsRefused) {
  const TempFolder folder("images_clients");
  for (const char* client : {"hospital_a", "hospital_b"}) {
    for (const char* name : {"train/circle/1.png", "train/square/2.png", "test/circle/3.png"}) {
      folder.write(std::string(client) + "/" + name, "");
    }
  }
  EXPECT_EQ(
      error_text([&] { scan_image_folder(folder.path(), 1); }),
      (folder.path() / "hospital_a").string() +
          ": not a class folder, it holds no images but folders with images (test, train) | "
          "expected CLASS/*.png, or train/CLASS/*.png with test/CLASS/*.png; for a folder per "
          "client, CLIENT/CLASS/*.png, set data.name = \"clients\"");
  EXPECT_EQ(scan_image_folder(folder.path() / "hospital_a", 1).train.size(), 2U);
}

TEST(ImageFolder, ClassFoldersHoldImagesAndNoFoldersOfThem) {
  const auto scan = [](const std::string& name, const std::vector<std::string>& files) {
    const TempFolder folder("images_nested_" + name);
    for (const std::string& file : files) {
      folder.write(file, "");
    }
    return error_text([&] { scan_image_folder(folder.path(), 1); });
  };
  EXPECT_THAT(scan("train", {"train/site1/cat/1.png", "train/site1/dog/2.png"}),
              HasSubstr("train/site1: not a class folder, it holds no images but folders with "
                        "images (cat, dog)"));
  EXPECT_THAT(scan("mixed", {"cat/1.png", "cat/more/2.png", "dog/3.png"}),
              HasSubstr("cat: not a class folder, it holds images and also folders with images "
                        "(more)"));
  EXPECT_THAT(scan("test", {"train/cat/1.png", "test/cat/old/2.png"}),
              HasSubstr("test/cat: not a class folder"));
  EXPECT_THAT(scan("below_images", {"train/cat/images/old/1.png"}),
              HasSubstr("cat/images: not a class folder"));
  EXPECT_THAT(scan("many", {"x/a/1.png", "x/b/1.png", "x/c/1.png", "x/d/1.png"}),
              HasSubstr("(a, b, c, ...)"));
}

TEST(ImageFolder, FoldersWithoutImagesAndHiddenOnesInAClassDoNotMatter) {
  const TempFolder folder("images_beside");
  folder.write("train/cat/1.png", "");
  folder.write("train/cat/notes/readme.txt", "");
  folder.write("train/cat/.thumbnails/1.png", "");
  folder.write("test/cat/2.png", "");
  const ImageSplit split = scan_image_folder(folder.path(), 1);
  EXPECT_THAT(brief(split.train), ElementsAre("1.png 0"));
  EXPECT_FALSE(split.test_drawn);
}

TEST(ImageFolder, WrongFoldersAreExplained) {
  const TempFolder folder("images_wrong");
  const auto scan = [&] { return error_text([&] { scan_image_folder(folder.path(), 1); }); };
  EXPECT_THAT(scan(), HasSubstr("no class folders | expected CLASS/*.png"));
  folder.write("a/readme.txt", "");
  EXPECT_THAT(scan(), HasSubstr("a: no PNG or JPEG image in this class folder"));
  folder.write("a/1.png", "");
  EXPECT_THAT(scan(), HasSubstr("1 images are too few to split"));
  folder.write("train/a/1.png", "");
  folder.write("test/b/1.png", "");
  EXPECT_THAT(scan(), HasSubstr("test: class 'b' is not among the training classes"));
}

TEST(ImageList, ReadsBothFormsRelativeToTheList) {
  const TempFolder folder("images_list");
  const auto list = folder.write("lists/train.txt",
                                 "# comment\nx/a.png 0\n\n../my file.png,2\n/abs/b.png, 1\r\n");
  const auto test = folder.write("test.csv", "c.png\t4\n");
  const ImageSplit split = scan_image_list(list, test, 1);
  EXPECT_EQ(split.train[0].file, folder.path() / "lists" / "x/a.png");
  EXPECT_EQ(split.train[2].file, "/abs/b.png");
  EXPECT_THAT(brief(split.train), ElementsAre("a.png 0", "my file.png 2", "b.png 1"));
  EXPECT_THAT(brief(split.test), ElementsAre("c.png 4"));
  EXPECT_THAT(split.class_names, ElementsAre("0", "1", "2", "3", "4"));
}

TEST(ImageList, WithoutATestListItIsSplit) {
  const TempFolder folder("images_list_split");
  const auto list = folder.write("l.txt", "a 0\nb 1\nc 0\nd 1\ne 0\n");
  const ImageSplit split = scan_image_list(list, "", 3);
  EXPECT_EQ(split.train.size(), 4U);
  EXPECT_EQ(split.test.size(), 1U);
}

TEST(ImageList, WrongLinesAreNamed) {
  const TempFolder folder("images_list_wrong");
  const auto scan = [&](const std::string& content) {
    const auto list = folder.write("l.txt", content);
    return error_text([&] { scan_image_list(list, list, 1); });
  };
  EXPECT_THAT(scan("a.png 1\nb.png\n"),
              HasSubstr("l.txt line 2: 'b.png': expected 'path label' or 'path,label'"));
  EXPECT_THAT(scan("a.png 1.5\n"),
              HasSubstr("line 1: label 1.5 is not a whole number | classes are whole numbers"));
  EXPECT_THAT(scan("a.png +1\n"), HasSubstr("line 1: label +1 is not a whole number"));
  EXPECT_THAT(scan("a.png 99999999999999999999\n"),
              HasSubstr("label 99999999999999999999 is outside 0..9999"));
  EXPECT_THAT(scan(",3\n"), HasSubstr("line 1: ',3': expected"));
  EXPECT_THAT(scan("a.png -2\n"), HasSubstr("line 1: label -2 is outside 0..9999"));
  EXPECT_THAT(scan("a.png 100000000\n"), HasSubstr("label 100000000 is outside"));
  EXPECT_THAT(scan("# nothing\n"), HasSubstr("l.txt: lists no image"));
}

TEST(ImageList, NamedClassesAreSortedByName) {
  const TempFolder folder("images_list_names");
  const auto list = folder.write("train.txt",
                                 "a.png zebra\nmy b.png,polar bear\nd,e.jpg Cat\nf.PNG\t zebra\n"
                                 "no-extension cat\n");
  const auto test = folder.write("test.txt", "t.png , cat\n");
  const ImageSplit split = scan_image_list(list, test, 1);
  EXPECT_THAT(split.class_names, ElementsAre("Cat", "cat", "polar bear", "zebra"));
  EXPECT_THAT(brief(split.train),
              ElementsAre("a.png 3", "my b.png 2", "d,e.jpg 0", "f.PNG 3", "no-extension 1"));
  EXPECT_THAT(brief(split.test), ElementsAre("t.png 1"));
  EXPECT_TRUE(split.named);
}

TEST(ImageList, TheOrderOfClassesCanBeGiven) {
  const TempFolder folder("images_list_order");
  const auto list = folder.write("train.txt", "a.png cat\nb.png 2\nc.png 10\n");
  const ImageSplit split = scan_image_list(list, list, 1, {"dog", "cat", "bird", "10"});
  EXPECT_THAT(brief(split.train), ElementsAre("a.png 1", "b.png 2", "c.png 3"));
  EXPECT_THAT(split.class_names, ElementsAre("dog", "cat", "bird", "10"));
  EXPECT_THAT(error_text([&] {
                scan_image_list(list, list, 1, {"cats", "10"});
              }),
              HasSubstr("train.txt line 1: class 'cat' is not among data.class_names | did you "
                        "mean 'cats'?"));
  EXPECT_THAT(error_text([&] {
                scan_image_list(list, list, 1, {"cat", "10"});
              }),
              HasSubstr("train.txt line 2: label 2 is outside 0..1"));
}

TEST(ImageList, WrongNamesAreNamed) {
  const TempFolder folder("images_list_wrong_names");
  const auto scan = [&](const std::string& train, const std::string& test) {
    const auto list = folder.write("l.txt", train);
    const auto other = folder.write("t.txt", test);
    return error_text([&] { scan_image_list(list, other, 1); });
  };
  EXPECT_THAT(scan("a.png 0\nb.png cat\n", "c.png 0\n"),
              HasSubstr("l.txt line 2: label 'cat' is a name, but that of line 1 is the number 0 | "
                        "use names or numbers throughout, or give data.class_names"));
  EXPECT_THAT(scan("a.png cat\n", "c.png dog\n"),
              HasSubstr("t.txt line 1: class 'dog' is not among the training classes"));
  EXPECT_THAT(scan("a.png 0\n", "c.png dog\n"),
              HasSubstr("t.txt line 1: label 'dog' is not a number"));
  EXPECT_THAT(scan("a.png caf\xe9\n", "c.png cat\n"),
              HasSubstr("l.txt line 1: the name of this class is not UTF-8"));
  EXPECT_THAT(scan("a.png " + std::string(256, 'x') + "\n", "c.png cat\n"),
              HasSubstr("l.txt line 1: a class name of 256 bytes, expected at most 255"));
  std::string many;
  for (int i = 0; i <= 10'000; ++i) {
    many += "a.png c" + std::to_string(i) + "\n";
  }
  EXPECT_THAT(scan(many, "a.png c0\n"),
              HasSubstr("l.txt: the labels name 10001 classes, expected at most 10000"));
}

TEST(ImageList, ATableHasItsColumnsInAnyOrder) {
  const TempFolder folder("images_table");
  const auto list = folder.write("train.csv",
                                 "\xef\xbb\xbflabel,site,path,age\r\n"
                                 "cat,A,x/a.png,3\r\n# comment\n"
                                 "\"dog, big\",B,\"my \"\"b\"\".png\",4\r\n");
  const auto test = folder.write("test.csv", "path,label,checked by,site\nc.png , cat,me,A\n");
  const ImageSplit split = scan_image_list(list, test, 1);
  EXPECT_EQ(split.train[0].file, folder.path() / "x/a.png");
  EXPECT_THAT(brief(split.train), ElementsAre("a.png 0", "my \"b\".png 1"));
  EXPECT_THAT(brief(split.test), ElementsAre("c.png 0"));
  EXPECT_THAT(split.class_names, ElementsAre("cat", "dog, big"));
  EXPECT_THAT(split.unused_columns, ElementsAre("site", "age", "checked by"));

  const auto numbers = folder.write("numbers.txt", "label,path\n4,a.png\n0,label\n");
  const ImageSplit counted = scan_image_list(numbers, numbers, 1);
  EXPECT_THAT(brief(counted.train), ElementsAre("a.png 4", "label 0"));
  EXPECT_EQ(counted.class_names.size(), 5U);
  EXPECT_FALSE(counted.named);
}

TEST(ImageList, WrongTablesAreNamed) {
  const TempFolder folder("images_table_wrong");
  const auto scan = [&](const std::string& content) {
    const auto list = folder.write("l.csv", content);
    return error_text([&] { scan_image_list(list, list, 1); });
  };
  EXPECT_THAT(scan("file,label\na.png,cat\n"),
              HasSubstr("l.csv line 1: no column 'path'; the columns are file, label | a list with "
                        "a header has the columns path and label, once each"));
  EXPECT_THAT(scan("path,class\na.png,cat\n"), HasSubstr("line 1: no column 'label'"));
  EXPECT_THAT(scan("path,label,path\na.png,cat,b.png\n"),
              HasSubstr("line 1: more than one column 'path'"));
  EXPECT_THAT(scan("path,label,x\na.png,cat\n"),
              HasSubstr("l.csv line 2: 2 fields, but the first line names 3 columns"));
  EXPECT_THAT(scan("path,label\na,b.png,cat\n"),
              HasSubstr("line 2: 3 fields, but the first line names 2 columns | a field with a "
                        "comma in it is written in quotes"));
  EXPECT_THAT(scan("path,label\n\"a.png,cat\n"),
              HasSubstr("l.csv line 2: a quote is not closed | a quoted field ends on its line"));
  EXPECT_THAT(scan("path,label\na.png,\n"), HasSubstr("line 2: the column 'label' is empty"));
  EXPECT_THAT(scan("path,label\n,cat\n"), HasSubstr("line 2: the column 'path' is empty"));
  EXPECT_THAT(scan("path,label\na.png,2.0\n"), HasSubstr("label 2.0 is not a whole number"));
  EXPECT_THAT(scan("path,label\n"), HasSubstr("l.csv: lists no image"));
}

TEST(ImageLists, Clothing1MJoinsKeysWithLabels) {
  const TempFolder folder("images_clothing");
  folder.write("noisy_label_kv.txt", "images/0/a.jpg 5\nimages/1/b.jpg 13\nimages/2/c.jpg 0\n");
  folder.write("noisy_train_key_list.txt", "images/1/b.jpg\nimages/0/a.jpg\n");
  folder.write("clean_label_kv.txt", "images/2/c.jpg 3\n");
  folder.write("clean_test_key_list.txt", "images/2/c.jpg\n");
  const ImageSplit split = scan_clothing1m(folder.path());
  EXPECT_THAT(brief(split.train), ElementsAre("b.jpg 13", "a.jpg 5"));
  EXPECT_THAT(brief(split.test), ElementsAre("c.jpg 3"));
  folder.write("clean_test_key_list.txt", "images/7/z.jpg\n");
  EXPECT_THAT(error_text([&] { scan_clothing1m(folder.path()); }),
              HasSubstr("clean_test_key_list.txt line 1: 'images/7/z.jpg' has no label in "));
  folder.write("noisy_label_kv.txt", "images/1/b.jpg shirt\nimages/0/a.jpg 1\n");
  EXPECT_THAT(error_text([&] { scan_clothing1m(folder.path()); }),
              HasSubstr("noisy_label_kv.txt line 1: label 'shirt' is not a number"));
  folder.write("noisy_label_kv.txt", "images/1/b.jpg 14\nimages/0/a.jpg 1\n");
  EXPECT_THAT(error_text([&] { scan_clothing1m(folder.path()); }),
              HasSubstr("noisy_label_kv.txt: label 14 is outside 0..13"));
}

TEST(ImageLists, WebVisionKeepsTheFirstFiftyClasses) {
  const TempFolder folder("images_webvision");
  folder.write("info/train_filelist_google.txt", "google/q1/a.jpg 0\ngoogle/q2/b.jpg 50\n");
  folder.write("info/val_filelist.txt", "val1.jpg 49\nval2.jpg 999\n");
  const ImageSplit split = scan_webvision(folder.path());
  EXPECT_THAT(brief(split.train), ElementsAre("a.jpg 0"));
  EXPECT_THAT(brief(split.test), ElementsAre("val1.jpg 49"));
  EXPECT_EQ(split.test[0].file, folder.path() / "val_images_256" / "val1.jpg");
  EXPECT_EQ(split.class_names.size(), 50U);
}

TEST(Decode, GivesRgbPlanesOfTheAskedSize) {
  if (!can_decode_images()) {
    GTEST_SKIP() << "built without OpenCV";
  }
  const TempFolder folder("images_decode");
  const std::vector<ImageEntry> entries{{folder.write("a.png", png(5, 9, kRed)), 3},
                                        {folder.write("b.png", png(8, 8, "\x40")), 1},
                                        {folder.write("c.JPG", jpeg()), 2}};
  const Samples samples = decode_images(entries, 8);
  EXPECT_THAT(samples.labels, ElementsAre(3, 1, 2));
  EXPECT_EQ(samples.images.sizes(), (std::vector<std::int64_t>{3, 3, 8, 8}));
  const auto value = [&](int image, int channel) {
    return samples.images[image][channel][7][0].item<int>();
  };
  EXPECT_EQ(value(0, 0), 255);
  EXPECT_EQ(value(0, 1), 0);
  EXPECT_EQ(value(0, 2), 16);
  for (int channel = 0; channel < 3; ++channel) {
    EXPECT_EQ(value(1, channel), 0x40);
  }
  EXPECT_NEAR(value(2, 0), 200, 6);
  EXPECT_NEAR(value(2, 1), 60, 6);
  EXPECT_NEAR(value(2, 2), 30, 6);
}

TEST(Decode, TheFirstUnreadableFileIsNamed) {
  if (!can_decode_images()) {
    GTEST_SKIP() << "built without OpenCV";
  }
  const TempFolder folder("images_unreadable");
  const auto good = folder.write("good.png", png(4, 4, kRed));
  const auto bad = folder.write("bad.png", "not a png");
  const auto decode = [](const std::vector<ImageEntry>& entries) {
    return error_text([&] { decode_images(entries, 4); });
  };
  EXPECT_THAT(decode({{good, 0}, {bad, 0}, {folder.path() / "none.png", 0}}),
              HasSubstr("cannot read image " + bad.string() + ": not a readable image"));
  EXPECT_THAT(decode({{folder.path() / "none.png", 0}}), HasSubstr("none.png: no such file"));
}

TEST(Decode, WhatAnImageClaimsIsCheckedBeforeItIsDecoded) {
  if (!can_decode_images()) {
    GTEST_SKIP() << "built without OpenCV";
  }
  const TempFolder folder("images_claims");
  const auto fault = [&](const std::string& bytes) {
    const ImageEntry entry{folder.write("x.png", bytes), 0};
    return error_text([&] { decode_images(std::span(&entry, 1), 4); });
  };
  std::string bomb = png(2, 2, kRed);
  bomb.replace(16, 8, big(20'000, 4) + big(20'000, 4));
  EXPECT_THAT(fault(bomb), HasSubstr("x.png: 20000x20000 are more than 100000000 pixels"));
  EXPECT_THAT(fault("GIF89a and more"), HasSubstr("x.png: not a readable image"));
  const ImageEntry pipe{folder.path() / "pipe.png", 0};
  ASSERT_EQ(::mkfifo(pipe.file.c_str(), 0600), 0);
  EXPECT_THAT(error_text([&] { decode_images(std::span(&pipe, 1), 4); }),
              HasSubstr("pipe.png: it is not a regular file"));
}

TEST(ImageFolder, LinksThatLeadNowhereAndNamesThatAreNoTextAreDataErrors) {
  const TempFolder folder("images_links");
  folder.write("a/1.png", "");
  std::filesystem::create_symlink("loop.png", folder.path() / "a/loop.png");
  EXPECT_THAT(error_text([&] { scan_image_folder(folder.path(), 1); }),
              HasSubstr("Too many levels of symbolic links"));
  std::filesystem::remove(folder.path() / "a/loop.png");
  folder.write("caf\xe9/1.png", "");
  EXPECT_THAT(error_text([&] { scan_image_folder(folder.path(), 1); }),
              HasSubstr("the name of this class folder is not UTF-8 | rename the folder"));
}

TEST(Decode, TooLargeASetIsRefusedBeforeItIsRead) {
  if (!can_decode_images()) {
    GTEST_SKIP() << "built without OpenCV";
  }
  const std::vector<ImageEntry> entries(1'000'000);
  EXPECT_THAT(error_text([&] { decode_images(entries, 4096); }),
              HasSubstr("1000000 images of 4096x4096 need 50.3 TB, this machine has"));
}

TEST(Decode, ABuildWithoutOpenCvSaysWhatToInstall) {
  if (can_decode_images()) {
    GTEST_SKIP() << "built with OpenCV";
  }
  EXPECT_THAT(error_text([] { decode_images({}, 8); }),
              HasSubstr("this build cannot read image files: it was made without OpenCV | install "
                        "libopencv-core-dev"));
}

}  // namespace winnow::image_files_test
