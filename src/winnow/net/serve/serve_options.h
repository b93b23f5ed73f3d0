// The serve file: an experiment with a table [serve] and the members, or with enrol = "open".
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "winnow/base/params.h"
#include "winnow/experiment/experiment.h"

namespace winnow::net {

// How to serve; none of it decides what is computed, but for who is absent when.
struct ServeOptions {
  std::string host = "0.0.0.0";
  std::int64_t port = 8790;
  std::string certificate;
  std::string key;
  std::string authority;
  std::string revoked;
  double deadline = 600.0;
  double quorum = 0.5;
  std::int64_t start_with = 0;  // 0: all
  double patience = 75.0;
  double retry = 10.0;
  bool strict = false;
  double norm_band = 0.0;
  std::int64_t samples_at_most = 10'000'000;
  std::int64_t metrics_port = 0;  // 0: none
  std::string enrol = "members";
  bool secure_sums = false;

  bool open() const { return enrol == "open"; }
};

Params declare(ServeOptions& options);

// Refuses, with Error(kind experiment), an experiment whose sums these options do not allow: too
// many samples for a fixed-point sum, or secure sums without what they need.
void check_sums(const ServeOptions& options, const Experiment& experiment);

struct ServeFile {
  ServeOptions options;
  std::vector<std::string> members;  // by client; empty where anybody with a certificate may come
  Json tree;                         // the rest: the experiment
};

// Takes apart what load_experiment_tree() has read. Relative paths of [serve] are looked for from
// the current folder, then from `folder`. Throws Error(kind experiment) that names the key.
ServeFile read_serve_tree(Json tree, const std::filesystem::path& folder);

// Reads a file; errors name it.
ServeFile load_serve_file(const std::filesystem::path& file,
                          const std::vector<Override>& overrides);

}  // namespace winnow::net
