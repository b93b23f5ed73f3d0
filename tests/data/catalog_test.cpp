#include "winnow/data/catalog.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "data/data_testing.h"
#include "winnow/data/image_files.h"
#include "winnow/data/locate.h"

namespace winnow::catalog_test {

using ::testing::Contains;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Sets WINNOW_DATA for one test.
class DataFolder {
 public:
  explicit DataFolder(const std::filesystem::path& path) {
    ::setenv("WINNOW_DATA", path.c_str(), 1);
  }
  ~DataFolder() { ::unsetenv("WINNOW_DATA"); }
  DataFolder(const DataFolder&) = delete;
  DataFolder& operator=(const DataFolder&) = delete;
};

void write_mnist(const TempFolder& folder, const std::string& where) {
  folder.write(where + "train-images-idx3-ubyte", idx_images(4));
  folder.write(where + "train-labels-idx1-ubyte", idx_labels("\x01\x02\x03\x04"));
  folder.write(where + "t10k-images-idx3-ubyte.gz", deflated(idx_images(2), 31));
  folder.write(where + "t10k-labels-idx1-ubyte.gz", deflated(idx_labels("\x05\x06"), 31));
}

TEST(Catalog, KnowsEverySetOnceWithAWayToGetIt) {
  std::vector<std::string> names;
  for (const DataSetInfo& info : builtin_data_sets()) {
    EXPECT_FALSE(info.summary.empty()) << info.name;
    EXPECT_FALSE(info.how_to_get.empty()) << info.name;
    EXPECT_THAT(names, Each(testing::Ne(info.name)));
    names.push_back(info.name);
  }
  for (const char* name : {"mnist", "fashion-mnist", "cifar10", "cifar100", "pathmnist", "medmnist",
                           "npz", "image-folder", "image-list", "eurosat", "tiny-imagenet",
                           "clothing1m", "webvision", "synthetic"}) {
    EXPECT_THAT(names, Contains(name));
  }
}

TEST(Catalog, HoldsThePublishedConstants) {
  EXPECT_THAT(builtin_data_sets().find("cifar10").normalisation.mean,
              ElementsAre(0.485, 0.456, 0.406));
  EXPECT_THAT(builtin_data_sets().find("cifar10").normalisation.std,
              ElementsAre(0.229, 0.224, 0.225));
  EXPECT_TRUE(builtin_data_sets().find("cifar10").augment);
  EXPECT_THAT(builtin_data_sets().find("cifar100").normalisation.mean,
              ElementsAre(0.507, 0.487, 0.441));
  EXPECT_THAT(builtin_data_sets().find("cifar100").normalisation.std,
              ElementsAre(0.267, 0.256, 0.276));
  EXPECT_TRUE(builtin_data_sets().find("cifar100").augment);
  EXPECT_THAT(builtin_data_sets().find("fashion-mnist").normalisation.mean, ElementsAre(0.2860));
  EXPECT_THAT(builtin_data_sets().find("fashion-mnist").normalisation.std, ElementsAre(0.3530));
  EXPECT_FALSE(builtin_data_sets().find("fashion-mnist").augment);
  EXPECT_THAT(builtin_data_sets().find("mnist").normalisation.mean, ElementsAre(0.1307));
  EXPECT_THAT(builtin_data_sets().find("mnist").normalisation.std, ElementsAre(0.3081));
  EXPECT_THAT(builtin_data_sets().find("clothing1m").normalisation.mean,
              ElementsAre(0.485, 0.456, 0.406));
  EXPECT_EQ(builtin_data_sets().find("clothing1m").image_size, 224);
  EXPECT_THAT(builtin_data_sets().find("eurosat").normalisation.std,
              ElementsAre(0.2023, 0.1994, 0.2010));
  EXPECT_THAT(builtin_data_sets().find("pathmnist").normalisation.mean,
              ElementsAre(0.4914, 0.4822, 0.4465));
  EXPECT_THAT(builtin_data_sets().find("image-folder").normalisation.mean, ElementsAre(0.5));
}

TEST(Catalog, AnUnknownNameGetsASuggestion) {
  DataOptions options;
  options.name = "fashion_mnist";
  EXPECT_THAT(error_text([&] { load(options, builtin_data_sets()); }),
              HasSubstr("unknown data set 'fashion_mnist' | did you mean 'fashion-mnist'?"));
}

TEST(Catalog, AMissingSetSaysWhereItWasLookedForAndHowToGetIt) {
  const TempFolder folder("catalog_missing");
  const DataFolder data(folder.path());
  DataOptions options;
  options.name = "cifar10";
  const DataPlace place = locate(builtin_data_sets().find("cifar10"), options);
  EXPECT_FALSE(place.there);
  EXPECT_EQ(place.looked.front(), folder.path() / "cifar-10-batches-bin");
  EXPECT_THAT(place.looked, Contains(std::filesystem::path("data") / "cifar-10-batches-bin"));
  options.path = (folder.path() / "nowhere").string();
  const std::string text = error_text([&] { load(options, builtin_data_sets()); });
  EXPECT_THAT(text, HasSubstr("data set 'cifar10' not found: looked for data_batch_1.bin in " +
                              options.path));
  EXPECT_THAT(text, HasSubstr("| unpack cifar-10-binary.tar.gz"));
  options = {};
  options.name = "image-folder";
  EXPECT_THAT(error_text([&] { load(options, builtin_data_sets()); }),
              HasSubstr("data set 'image-folder' needs data.path | set data.path to the folder"));
}

TEST(Catalog, FindsASetBelowTheDataFolderOrAtThePath) {
  const TempFolder folder("catalog_find");
  write_mnist(folder, "mnist/");
  const DataFolder data(folder.path());
  DataOptions options;
  options.name = "mnist";
  EXPECT_EQ(locate(builtin_data_sets().find("mnist"), options).found, folder.path() / "mnist");
  const DataSet set = load(options, builtin_data_sets());
  EXPECT_EQ(set.name, "mnist");
  EXPECT_THAT(set.train.labels, ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(set.test.labels, ElementsAre(5, 6));
  EXPECT_EQ(set.class_names[7], "7");
  EXPECT_THAT(set.normalisation.mean, ElementsAre(0.1307));
  for (const auto& path : {folder.path(), folder.path() / "mnist"}) {
    options.path = path.string();
    EXPECT_EQ(load(options, builtin_data_sets()).train.size(), 4) << path;
  }
}

TEST(Catalog, LimitsTakeTheFirstSamplesAndGivenLabelsFollow) {
  const TempFolder folder("catalog_limits");
  write_mnist(folder, "");
  DataOptions options;
  options.name = "mnist";
  options.path = folder.path().string();
  options.train_limit = 2;
  options.test_limit = 1;
  options.given_labels = folder.write("human.txt", "9\n8\n7\n6\n").string();
  const DataSet set = load(options, builtin_data_sets());
  EXPECT_THAT(set.train.labels, ElementsAre(1, 2));
  EXPECT_THAT(set.test.labels, ElementsAre(5));
  EXPECT_THAT(set.given, ElementsAre(9, 8));
  EXPECT_EQ(set.train.images.size(0), 2);
  options.given_labels = folder.write("short.txt", "9\n8\n").string();
  EXPECT_THAT(error_text([&] { load(options, builtin_data_sets()); }),
              HasSubstr("short.txt has 2 labels, the training set has 4"));
}

TEST(Catalog, MeanStdAndAugmentCanBeOverridden) {
  DataOptions options;
  Params params = declare(options);
  params.read(Json::parse(R"({"name": "synthetic", "samples": 20, "test_samples": 10,
                              "channels": 3, "size": 8, "mean": [0.1, 0.2, 0.3], "std": [0.4],
                              "augment": "on"})"),
              "data");
  const DataSet set = load(options, builtin_data_sets());
  EXPECT_THAT(set.normalisation.mean, ElementsAre(0.1, 0.2, 0.3));
  EXPECT_THAT(set.normalisation.std, ElementsAre(0.4, 0.4, 0.4));
  EXPECT_TRUE(set.augment);
  EXPECT_EQ(set.classes, 10);
  options.mean = {0.1, 0.2};
  EXPECT_THAT(error_text([&] { load(options, builtin_data_sets()); }),
              HasSubstr("data.mean: 2 values, but the images have 3 channels"));
}

TEST(Catalog, ACropLiesInsideTheImages) {
  DataOptions options;
  options.name = "synthetic";
  options.samples = 20;
  options.test_samples = 10;
  options.size = 16;
  EXPECT_EQ(load(options, builtin_data_sets()).seen_height(), 16);
  options.crop = 12;
  const DataSet set = load(options, builtin_data_sets());
  EXPECT_EQ(set.height(), 16);
  EXPECT_EQ(set.seen_height(), 12);
  EXPECT_EQ(set.seen_width(), 12);
  for (const std::int64_t crop : {11, 18}) {
    options.crop = crop;
    EXPECT_EQ(error_text([&] { load(options, builtin_data_sets()); }),
              fmt::format("data.crop = {}: expected a square inside the images, which are 16x16, "
                          "smaller by an even number up to 254 | data.image_size says what image "
                          "files are resized to",
                          crop));
  }
}

TEST(Catalog, WrongOptionsAreRefusedByName) {
  DataOptions options;
  Params params = declare(options);
  const auto read = [&](const char* text) {
    return error_text([&] { params.read(Json::parse(text), "data"); });
  };
  EXPECT_THAT(read(R"({"augment": "yes"})"), HasSubstr("expected one of auto, on, off"));
  EXPECT_THAT(read(R"({"std": [0]})"), HasSubstr("data.std"));
  EXPECT_THAT(read(R"({"difficulty": 2})"), HasSubstr("data.difficulty"));
  EXPECT_THAT(read(R"({"given_label": "x"})"), HasSubstr("did you mean 'given_labels'?"));
}

TEST(Catalog, ASyntheticSetIsAlwaysThere) {
  const DataPlace place = locate(builtin_data_sets().find("synthetic"), {});
  EXPECT_TRUE(place.there);
  EXPECT_TRUE(place.looked.empty());
}

TEST(Catalog, ImageFoldersAndListsLoad) {
  if (!can_decode_images()) {
    GTEST_SKIP() << "built without OpenCV";
  }
  const TempFolder folder("catalog_images");
  std::string list;
  for (int i = 0; i < 5; ++i) {
    for (const int label : {0, 1}) {
      const std::string name = fmt::format("set/c{}/{}.png", label, i);
      folder.write(name, png(6, 6, std::string(3, static_cast<char>(10 * label + i))));
      list += fmt::format("{} {}\n", name, label);
    }
  }
  DataOptions options;
  options.name = "image-folder";
  options.path = (folder.path() / "set").string();
  options.train_limit = 3;
  const DataSet set = load(options, builtin_data_sets());
  EXPECT_EQ(set.train.size(), 3);
  EXPECT_EQ(set.test.size(), 2);
  EXPECT_EQ(set.height(), 64);
  EXPECT_THAT(set.class_names, ElementsAre("c0", "c1"));
  EXPECT_THAT(set.normalisation.mean, ElementsAre(0.5, 0.5, 0.5));

  DataOptions listed;
  listed.name = "image-list";
  listed.path = folder.write("train.txt", list).string();
  listed.list_test = listed.path;
  listed.image_size = 6;
  const DataSet from_list = load(listed, builtin_data_sets());
  EXPECT_EQ(from_list.train.size(), 10);
  EXPECT_EQ(from_list.train.images[3][0][0][0].item<int>(), 11);
  listed.name = "clothing1m";
  EXPECT_EQ(load(listed, builtin_data_sets()).train.size(), 10);
}

TEST(Catalog, ClassNamesOrderListsAndNameTheNumbersOfArrays) {
  const TempFolder folder("catalog_class_names");
  folder.write("arrays/train_images.npy", npy("|u1", "(2, 1, 2)", "abcd"));
  folder.write("arrays/train_labels.npy", npy("|u1", "(2,)", std::string("\1\0", 2)));
  folder.write("arrays/test_images.npy", npy("|u1", "(1, 1, 2)", "ef"));
  folder.write("arrays/test_labels.npy", npy("|u1", "(1,)", "\x01"));
  DataOptions options;
  options.name = "npz";
  options.path = (folder.path() / "arrays").string();
  EXPECT_THAT(load(options, builtin_data_sets()).class_names, ElementsAre("0", "1"));
  options.class_names = {"sick", "healthy", "unsure"};
  const DataSet named = load(options, builtin_data_sets());
  EXPECT_EQ(named.classes, 3);
  EXPECT_EQ(named.class_names, options.class_names);
  options.class_names = {"sick"};
  EXPECT_THAT(error_text([&] { load(options, builtin_data_sets()); }),
              HasSubstr("train_labels: label 1 of sample 0 is outside 0..0"));
  options.class_names = {"sick", "sick"};
  EXPECT_THAT(error_text([&] { load(options, builtin_data_sets()); }),
              HasSubstr("data.class_names: 'sick' is there more than once | expected the name of "
                        "every class once, in order"));
  options.class_names = {"sick", ""};
  EXPECT_THAT(error_text([&] { load(options, builtin_data_sets()); }),
              HasSubstr("data.class_names: '' is no name"));
  options.path = (folder.path() / "nothing").string();
  EXPECT_THAT(error_text([&] { load(options, builtin_data_sets()); }),
              HasSubstr("data set 'npz' not found: looked for " + options.path));
}

TEST(Catalog, AListOfASetWithNamesOfItsOwnKeepsItsNames) {
  if (!can_decode_images()) {
    GTEST_SKIP() << "built without OpenCV";
  }
  const TempFolder folder("catalog_own_names");
  std::string list = "path,label,site\n";
  for (int i = 0; i < 14; ++i) {
    folder.write(fmt::format("{}.png", i), png(4, 4, "\x40"));
    list += fmt::format("{}.png,class {:02},north\n", i, i);
  }
  DataOptions options;
  options.name = "clothing1m";
  options.path = folder.write("train.csv", list).string();
  options.list_test = options.path;
  options.image_size = 4;
  const DataSet set = load(options, builtin_data_sets());
  EXPECT_EQ(set.class_names[0], "class 00");
  EXPECT_THAT(set.unused_columns, ElementsAre("site"));
}

TEST(Catalog, OptionsThatNothingReadsAreRefused) {
  const auto refused = [](void (*change)(DataOptions&)) {
    DataOptions options;
    options.name = "synthetic";
    change(options);
    return error_text([&] { load(options, builtin_data_sets()); });
  };
  EXPECT_EQ(refused([](DataOptions& options) {
              options.class_names = {"a", "b"};
            }),
            "data.class_names: data set 'synthetic' does not use it | it is for image lists and "
            "arrays of your own; remove it");
  EXPECT_EQ(refused([](DataOptions& options) { options.layout = "nchw"; }),
            "data.layout: data set 'synthetic' does not use it | it is for arrays; remove it");
  EXPECT_EQ(refused([](DataOptions& options) { options.float_range = "0..1"; }),
            "data.float_range: data set 'synthetic' does not use it | it is for arrays; remove it");
}

TEST(Catalog, ReadsTheInstalledFashionMnist) {
  DataOptions options;
  options.path = "/usr/share/datasets/fashion-mnist";
  if (!std::filesystem::exists(options.path)) {
    GTEST_SKIP() << "Fashion-MNIST is not installed";
  }
  const DataSet set = load(options, builtin_data_sets());
  EXPECT_EQ(set.train.images.sizes(), (std::vector<std::int64_t>{60000, 1, 28, 28}));
  EXPECT_EQ(set.test.size(), 10000);
  for (std::int64_t label = 0; label < 10; ++label) {
    EXPECT_EQ(std::ranges::count(set.train.labels, label), 6000) << label;
  }
  const at::Tensor values = set.train.images.to(at::kFloat).div(255.0);
  EXPECT_NEAR(values.mean().item<double>(), 0.2860, 1e-4);
  EXPECT_NEAR(values.std().item<double>(), 0.3530, 1e-4);
  EXPECT_EQ(set.class_names[9], "Ankle boot");
}

}  // namespace winnow::catalog_test
