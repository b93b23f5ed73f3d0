// Data that is already split: who holds a sample comes with it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "winnow/data/data_set.h"
#include "winnow/data/npz.h"

namespace winnow {

struct ClientSetOptions {
  // What the test part is made of: "own" (test_path, or the archive's test_images and test_labels),
  // "share" (of each client), "clients" (that are held out), "none" (the test part is a copy of the
  // first sample: for who needs none), or "auto": own where there is such a part, else share.
  std::string test_from = "auto";
  double test_share = 0.2;               // of each client's samples, or of the clients
  std::filesystem::path test_path = {};  // CLASS/* or a list of images
  std::vector<std::string> class_names = {};
  std::int64_t image_size = 64;
  ArrayOptions arrays = {};
  std::uint64_t seed = 1;
};

// Whose each sample is, and what the clients are called.
struct Held {
  std::vector<std::int64_t> owners;
  std::vector<std::string> clients;
};

// By the names of the samples' clients: these come in the order of their names, numbers in theirs.
// Throws Error(kind data), which `where` begins, for a name that cannot be shown.
Held held_by(const std::vector<std::string>& names, const std::string& where);

// Which samples to test on: floor(share * count) of each client, of which at least one stays. Drawn
// from `seed`.
std::vector<bool> share_to_test(const Held& held, double share, std::uint64_t seed);

// Reads one of three forms:
// - a folder: ROOT/CLIENT/CLASS/*, clients, classes and files in the order of their names;
//   ROOT/CLASS/* is one client;
// - a list with a header: the columns path, label and client (list_file.h), clients in the order of
//   their names;
// - an .npz archive: images, labels, clients (whole numbers or texts) and, if there are, names, all
//   of one length; images and labels as read_npz_set() takes them.
// Fills train, test, owners, client_names, names, classes and class_names, and test_drawn where the
// test part was drawn from the same samples. Every client keeps at least one sample.
// Throws Error(kind data) for what fits none of this.
DataSet read_client_set(const std::filesystem::path& place, const ClientSetOptions& options);

// How many clients that set has, without decoding an image.
std::int64_t count_clients_of(const std::filesystem::path& place, const ClientSetOptions& options);

}  // namespace winnow
