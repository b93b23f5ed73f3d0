// The facts of the catalog: one entry per data set.
#include "winnow/data/catalog.h"
#include "winnow/data/idx.h"

namespace winnow {
namespace {

// spec: label-noise 0.5. CIFAR-10 is fed with ImageNet's constants in FedCorr and FedRN.
Normalisation imagenet_constants() {
  return {{0.485, 0.456, 0.406}, {0.229, 0.224, 0.225}};
}
Normalisation cifar100_constants() {
  return {{0.507, 0.487, 0.441}, {0.267, 0.256, 0.276}};
}
// spec: input-noise 1.7. FedNS feeds PathMNIST and EuroSAT with CIFAR-10's own constants.
Normalisation cifar10_constants() {
  return {{0.4914, 0.4822, 0.4465}, {0.2023, 0.1994, 0.2010}};
}
Normalisation tiny_imagenet_constants() {
  return {{0.4802, 0.4481, 0.3975}, {0.2770, 0.2691, 0.2821}};
}

DataSetInfo mnist() {
  return {.name = "mnist",
          .summary = "handwritten digits, 60,000 + 10,000 grey 28x28, 10 classes",
          .how_to_get =
              "put the four files train-images-idx3-ubyte.gz ... into data/mnist, or set data.path "
              "to their folder",
          .layout = DataLayout::idx,
          .usual = {"mnist", "MNIST/raw"},
          .markers = idx_image_names("train"),
          .normalisation = {{0.1307}, {0.3081}},
          .classes = 10,
          .class_names = {"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"}};
}

DataSetInfo fashion_mnist() {
  return {.name = "fashion-mnist",
          .summary = "articles of clothing, 60,000 + 10,000 grey 28x28, 10 classes",
          .how_to_get =
              "on Debian: apt install dataset-fashion-mnist; elsewhere put the four files "
              "train-images-idx3-ubyte.gz ... into data/fashion-mnist",
          .layout = DataLayout::idx,
          .usual = {"fashion-mnist", "FashionMNIST/raw"},
          .markers = idx_image_names("train"),
          .system = {"/usr/share/datasets/fashion-mnist"},
          .normalisation = {{0.2860}, {0.3530}},
          .classes = 10,
          .class_names = {"T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt",
                          "Sneaker", "Bag", "Ankle boot"}};
}

DataSetInfo cifar10() {
  return {.name = "cifar10",
          .summary = "photographs, 50,000 + 10,000 colour 32x32, 10 classes",
          .how_to_get =
              "unpack cifar-10-binary.tar.gz from "
              "https://www.cs.toronto.edu/~kriz/cifar.html into data/",
          .layout = DataLayout::cifar10,
          .usual = {"cifar-10-batches-bin"},
          .markers = {"data_batch_1.bin"},
          .normalisation = imagenet_constants(),
          .augment = true,
          .classes = 10};
}

DataSetInfo cifar100() {
  return {.name = "cifar100",
          .summary = "photographs, 50,000 + 10,000 colour 32x32, 100 classes (fine labels)",
          .how_to_get =
              "unpack cifar-100-binary.tar.gz from "
              "https://www.cs.toronto.edu/~kriz/cifar.html into data/",
          .layout = DataLayout::cifar100,
          .usual = {"cifar-100-binary"},
          .markers = {"train.bin"},
          .normalisation = cifar100_constants(),
          .augment = true,
          .classes = 100};
}

DataSetInfo pathmnist() {
  return {.name = "pathmnist",
          .summary = "tissue slides (MedMNIST), 89,996 + 7,180 colour 28x28, 9 classes",
          .how_to_get = "put pathmnist.npz from https://medmnist.com into data/",
          .layout = DataLayout::npz,
          .usual = {"pathmnist.npz", "medmnist/pathmnist.npz"},
          .normalisation = cifar10_constants(),
          .augment = true,
          .classes = 9,
          .class_names = {"adipose", "background", "debris", "lymphocytes", "mucus",
                          "smooth muscle", "normal colon mucosa", "cancer-associated stroma",
                          "colorectal adenocarcinoma epithelium"}};
}

DataSetInfo medmnist() {
  return {.name = "medmnist",
          .summary = "any MedMNIST file with one label per image; its validation part is not used",
          .how_to_get = "set data.path to an .npz file from https://medmnist.com",
          .layout = DataLayout::npz};
}

DataSetInfo eurosat() {
  return {
      .name = "eurosat",
      .summary = "satellite images, 27,000 colour 64x64, 10 classes; 80/20 split from data.seed",
      .how_to_get = "unpack EuroSAT_RGB.zip from https://github.com/phelber/EuroSAT into data/",
      .layout = DataLayout::image_folder,
      .usual = {"EuroSAT_RGB", "eurosat", "2750"},
      .normalisation = cifar10_constants(),
      .augment = true,
      .image_size = 64};
}

DataSetInfo tiny_imagenet() {
  return {.name = "tiny-imagenet",
          .summary = "photographs, 100,000 + 10,000 colour 64x64, 200 classes",
          .how_to_get = "unpack tiny-imagenet-200.zip from http://cs231n.stanford.edu into data/",
          .layout = DataLayout::image_folder,
          .usual = {"tiny-imagenet-200", "tiny-imagenet"},
          .markers = {"train"},
          .normalisation = tiny_imagenet_constants(),
          .augment = true,
          .image_size = 64};
}

DataSetInfo clothing1m() {
  return {
      .name = "clothing1m",
      .summary = "clothing from web shops, a million noisy labels, 14 classes; labels as given",
      .how_to_get =
          "ask its authors (https://github.com/Cysu/noisy_label) and unpack it into "
          "data/clothing1m, or set data.path and data.list_test to list files",
      .layout = DataLayout::clothing1m,
      .usual = {"clothing1m", "Clothing1M"},
      .markers = {"noisy_label_kv.txt", "annotations/noisy_label_kv.txt"},
      .normalisation = imagenet_constants(),
      .augment = true,
      .image_size = 224,
      .class_names = {"T-shirt", "Shirt", "Knitwear", "Chiffon", "Sweater", "Hoodie", "Windbreaker",
                      "Jacket", "Down coat", "Suit", "Shawl", "Dress", "Vest", "Underwear"},
      .unchecked = true};
}

DataSetInfo webvision() {
  return {.name = "webvision",
          .summary = "mini-WebVision: the first 50 classes of the Google part; labels as given",
          .how_to_get =
              "unpack WebVision 1.0 (https://data.vision.ee.ethz.ch/cvl/webvision) into "
              "data/webvision, or set data.path and data.list_test to list files",
          .layout = DataLayout::webvision,
          .usual = {"webvision"},
          .markers = {"info/train_filelist_google.txt"},
          .normalisation = imagenet_constants(),
          .augment = true,
          .image_size = 224,
          .unchecked = true};
}

DataSetInfo image_folder() {
  return {.name = "image-folder",
          .summary = "your own PNG and JPEG images, one folder per class",
          .how_to_get =
              "set data.path to the folder: train/CLASS/* and test/CLASS/*, or CLASS/*, which is "
              "split 80/20",
          .layout = DataLayout::image_folder,
          .image_size = 64,
          .unchecked = true};
}

DataSetInfo image_list() {
  return {.name = "image-list",
          .summary =
              "your own images, named in a text file with lines 'path label', or in a CSV "
              "file with a header",
          .how_to_get =
              "set data.path to the list and data.list_test to the test list (without one, the "
              "list is split 80/20)",
          .layout = DataLayout::image_list,
          .image_size = 64,
          .unchecked = true};
}

DataSetInfo npz() {
  return {.name = "npz",
          .summary = "your own arrays, saved with numpy.savez, savez_compressed or save",
          .how_to_get =
              "set data.path to the .npz file, or to a folder of .npy files; it holds train_images "
              "and test_images, uint8 or floats, [n, height, width] or with 1 or 3 channels after "
              "or before height and width, and train_labels and test_labels, whole numbers from 0",
          .layout = DataLayout::npz,
          .markers = {"train_images.npy"},
          .unchecked = true};
}

DataSetInfo clients() {
  return {.name = "clients",
          .summary = "your own images, already split among clients",
          .how_to_get =
              "set data.path to a folder CLIENT/CLASS/*, a CSV list with the columns path, label "
              "and client, or an .npz file with images, labels and clients (and names)",
          .layout = DataLayout::clients,
          .image_size = 64,
          .unchecked = true};
}

DataSetInfo server() {
  return {
      .name = "server",
      .summary =
          "the samples on which the server of a real federation measures models; for winnow serve",
      .how_to_get =
          "'winnow deal' makes one from an experiment; or set data.path to an .npz file that holds "
          "test_images and test_labels and, if needed, validation_images, validation_labels, "
          "public_images and class_names",
      .layout = DataLayout::server,
      .unchecked = true};
}

DataSetInfo synthetic() {
  return {.name = "synthetic",
          .summary = "generated patterns of any size and difficulty, no files",
          .how_to_get = "nothing to get: it is generated from data.seed",
          .layout = DataLayout::synthetic};
}

}  // namespace

const DataSets& builtin_data_sets() {
  static const DataSets all = [] {
    DataSets list("data set", "winnow list datasets");
    for (const auto info :
         {mnist, fashion_mnist, cifar10, cifar100, pathmnist, medmnist, eurosat, tiny_imagenet,
          clothing1m, webvision, image_folder, image_list, npz, clients, server, synthetic}) {
      list.add(info());
    }
    return list;
  }();
  return all;
}

}  // namespace winnow
