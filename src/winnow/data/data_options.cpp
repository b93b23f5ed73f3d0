#include "winnow/data/data_options.h"

#include "winnow/data/data_set.h"

namespace winnow {

Params declare(DataOptions& options) {
  Params params;
  params.add("name", options.name, "name of the data set, one of `winnow list datasets`");
  params.add("path", options.path,
             "folder or file of the data set; empty: look in the usual places");
  params.add("list_test", options.list_test,
             "list of test images, if data.path is a list; empty: the list is split 80/20");
  params.add(
      "class_names", options.class_names,
      "your own lists and arrays: class names in order; empty: the names that a list uses, sorted");
  params
      .add("layout", options.layout,
           "arrays: whether channels come last (nhwc) or first (nchw); auto: decided by the shape")
      .choices({"auto", "nhwc", "nchw"});
  params
      .add("float_range", options.float_range,
           "arrays: value range of images stored as floats; auto: decided by the largest value")
      .choices({"auto", "0..1", "0..255"});
  params.add("given_labels", options.given_labels,
             "file (.npy, .csv or .txt) with the labels that clients see instead of the true ones");
  params.add("relabel", options.relabel,
             "relabel.csv written by `winnow audit`: clients see its new labels in the rows marked "
             "as accepted");
  params
      .add("test_from", options.test_from,
           "clients: where test samples come from: data.test_path or the archive (own), a share of "
           "each client's samples (share), or clients that are held out (clients); auto: own if "
           "there are any, otherwise share")
      .choices({"auto", "own", "share", "clients", "none"});
  params
      .add("test_share", options.test_share,
           "clients: share of each client's samples, or of the clients, that is used for testing")
      .above(0)
      .range(0, 0.9);
  params.add("test_path", options.test_path,
             "clients: folder CLASS/* or list of test images; empty: none");
  params
      .add("image_size", options.image_size,
           "width and height that image files are resized to; 0: the data set's own")
      .range(0, 4096);
  params
      .add("train_limit", options.train_limit,
           "use only the first N training samples, in the data set's order; 0: all")
      .at_least(0);
  params.add("test_limit", options.test_limit, "use only the first N test samples; 0: all")
      .at_least(0);
  params
      .add("mean", options.mean,
           "mean of each channel, for normalisation; empty: the data set's own")
      .range(0, 1)
      .source("spec: label-noise 0.5");
  params
      .add("std", options.std,
           "standard deviation of each channel, for normalisation; empty: the data set's own")
      .above(0)
      .source("spec: label-noise 0.5");
  params
      .add("augment", options.augment,
           "random crops and flips in training; auto: as usual for the data set")
      .choices({"auto", "on", "off"});
  params
      .add("crop", options.crop,
           "side of the random crop, which is taken inside the image; images that are not "
           "augmented are scaled to it; 0: crops are as large as the image and taken from the "
           "image padded by 4 pixels")
      .range(0, 4096)
      .source("FedCorr takes 224 of 256 on Clothing1M");
  params.add("samples", options.samples, "synthetic: number of training samples")
      .range(1, 10'000'000);
  params.add("test_samples", options.test_samples, "synthetic: number of test samples")
      .range(1, 10'000'000);
  params.add("classes", options.classes, "synthetic: number of classes").range(2, kMostClasses);
  params.add("channels", options.channels, "synthetic: number of channels").range(1, 16);
  params.add("size", options.size, "synthetic: height and width of the images").range(4, 512);
  params
      .add("difficulty", options.difficulty,
           "synthetic: how hard the classes are to tell apart, from 0 (trivial) to 1 (hard)")
      .range(0, 1);
  params.add("seed", options.seed,
             "seed of the synthetic data set and of the 80/20 split of image files");
  return params;
}

}  // namespace winnow
