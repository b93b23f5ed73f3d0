#include "array_source.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <utility>

#include "winnow/base/error.h"
#include "winnow/base/sha256.h"
#include "winnow/data/client_sets.h"

namespace winnow::python {
namespace {

constexpr std::uint64_t kDrawSeed = 1;  // as data.seed is where nobody sets it

std::string digest_of(const Samples& samples) {
  const auto images = std::as_bytes(std::span(samples.images.data_ptr<std::uint8_t>(),
                                              static_cast<std::size_t>(samples.images.numel())));
  return fmt::format("{} {} {}", fmt::join(samples.images.sizes(), "x"), sha256_in_pieces(images),
                     sha256_in_pieces(std::as_bytes(std::span(samples.labels))));
}

Samples chosen_of(const Samples& all, const std::vector<std::int64_t>& which) {
  at::Tensor index = at::empty({std::ssize(which)}, at::kLong);
  std::ranges::copy(which, index.data_ptr<std::int64_t>());
  Samples part{all.images.index_select(0, index), {}};
  for (const std::int64_t sample : which) {
    part.labels.push_back(all.labels[static_cast<std::size_t>(sample)]);
  }
  return part;
}

std::int64_t classes_of(const Arrays& arrays) {
  std::int64_t last = 1;
  for (const Samples* part : {&arrays.train, arrays.test ? &*arrays.test : &arrays.train}) {
    for (const std::int64_t label : part->labels) {
      last = std::max(last, label);
    }
  }
  return last + 1;
}

class ArraySource final : public DataSource {
 public:
  explicit ArraySource(std::shared_ptr<const Arrays> arrays) : arrays_(std::move(arrays)) {}

  void declare(Params& params) override {
    params.add("digest", digest_, "SHA-256 of the images, labels and clients");
    params
        .add("held_out", held_out_,
             "share of each client's samples to test on, where no test samples were given")
        .range(0, 0.9);
  }

  DataSet load(const std::filesystem::path& /*place*/) const override {
    if (arrays_ == nullptr) {
      throw Error(ErrorKind::data, "the data of this run came out of a Python program",
                  "give it again: winnow.resume(path, data=(x, y), test=(x, y))");
    }
    if (!digest_.empty() && digest_ != arrays_->digest) {
      throw Error(ErrorKind::data, "the data is not what the run was started with",
                  "give the arrays that winnow.run() was given");
    }
    DataSet set;
    set.classes = classes_of(*arrays_);
    // One client holds all where nobody says who does, so that the draw is the same.
    const std::vector<std::string> nobody(arrays_->train.labels.size(), "0");
    Held held = held_by(arrays_->clients.empty() ? nobody : arrays_->clients, "clients");
    std::vector<std::int64_t> train;
    std::vector<std::int64_t> test;
    const std::vector<bool> tests = arrays_->test || held_out_ == 0.0
                                        ? std::vector<bool>(held.owners.size(), false)
                                        : share_to_test(held, held_out_, kDrawSeed);
    for (std::size_t i = 0; i < tests.size(); ++i) {
      (tests[i] ? test : train).push_back(static_cast<std::int64_t>(i));
      set.names.push_back(std::to_string(i));
    }
    take(train, test, set);
    if (!arrays_->clients.empty()) {
      for (const std::int64_t sample : train) {
        set.owners.push_back(held.owners[static_cast<std::size_t>(sample)]);
      }
      set.client_names = std::move(held.clients);
    }
    return set;
  }

 private:
  // The training images become the run's own: noise changes them.
  void take(const std::vector<std::int64_t>& train, const std::vector<std::int64_t>& test,
            DataSet& set) const {
    if (!test.empty()) {
      const std::vector<std::string> names = std::move(set.names);
      set.names.clear();
      for (const std::int64_t sample : train) {
        set.names.push_back(names[static_cast<std::size_t>(sample)]);
      }
      for (const std::int64_t sample : test) {
        set.test_names.push_back(names[static_cast<std::size_t>(sample)]);
      }
      set.train = chosen_of(arrays_->train, train);
      set.test = chosen_of(arrays_->train, test);
      set.test_drawn = true;
      return;
    }
    set.train = {arrays_->train.images.clone(), arrays_->train.labels};
    // For who needs no test part: a copy of the first sample.
    set.test = arrays_->test ? *arrays_->test : chosen_of(arrays_->train, {0});
  }

  std::shared_ptr<const Arrays> arrays_;
  std::string digest_;
  double held_out_ = 0.0;
};

}  // namespace

std::string digest_of(const Arrays& arrays) {
  Sha256 digest;
  digest.update(digest_of(arrays.train));
  for (const std::string& client : arrays.clients) {
    digest.update(client + "\n");
  }
  if (arrays.test) {
    digest.update(digest_of(*arrays.test));
  }
  return digest.hex();
}

std::int64_t number_of_clients(const Arrays& arrays) {
  return std::ssize(held_by(arrays.clients, "clients").clients);
}

DataSetInfo python_data(std::shared_ptr<const Arrays> arrays) {
  return {.name = kPythonData,
          .summary = "images and labels that a Python program has in memory",
          .how_to_get = "pass them to winnow.run(): data=(x, y)",
          .layout = DataLayout::own,
          .unchecked = true,
          .make = [arrays = std::move(arrays)] { return std::make_unique<ArraySource>(arrays); }};
}

}  // namespace winnow::python
