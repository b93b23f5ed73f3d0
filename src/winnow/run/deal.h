// Deals a simulated federation out as the files of a real one: what its members would have, and
// what its server would.
#pragma once

#include <filesystem>
#include <string>

#include "winnow/experiment/experiment.h"
#include "winnow/experiment/registry.h"

namespace winnow {

struct Dealt {
  std::int64_t members = 0;
  std::filesystem::path file;  // to serve
};

// What member k is called; its data is NAME.npz.
std::string member_name(std::int64_t client);

// Writes into the folder
//   client-K.npz      `images` and `labels` of client K, with their noise, in its own order
//   server.npz        the test, validation and public images
//   federation.toml   the experiment as a file for `winnow serve`, whose certificates are those
//   that
//                     `winnow pki issue` puts into the folder pki beside it; where the folder of
//                     the authority is given, with its list of the revoked ones
// so that serving it to these members ends in the model of the simulation. Throws Error(kind
// experiment) in one line for what cannot be served, and Error(kind run) where there is such a file
// already.
Dealt deal_out(const Experiment& experiment, const Registry& registry,
               const std::filesystem::path& folder, const std::filesystem::path& authority = {});

}  // namespace winnow
