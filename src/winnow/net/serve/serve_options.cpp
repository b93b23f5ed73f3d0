#include "winnow/net/serve/serve_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "winnow/base/error.h"
#include "winnow/federation/fixed_sum.h"
#include "winnow/federation/selection.h"
#include "winnow/net/mask/terms.h"
#include "winnow/net/pki/identity.h"

namespace winnow::net {
namespace {

constexpr std::int64_t kMostMembers = 100'000;

void anchor(std::string& path, const std::filesystem::path& folder) {
  if (path.empty() || std::filesystem::path(path).is_absolute()) {
    return;
  }
  path = std::filesystem::exists(path) ? std::filesystem::absolute(path).string()
                                       : (folder / path).lexically_normal().string();
}

std::vector<std::string> read_members(const Json& tree) {
  std::vector<std::string> names;
  const auto found = tree.find("members");
  if (found == tree.end()) {
    return names;
  }
  if (!found->is_array()) {
    throw Error(ErrorKind::experiment, "members: expected a list of tables",
                "write [[members]], with two brackets on each side");
  }
  for (std::size_t place = 0; place < found->size(); ++place) {
    const std::string where = fmt::format("members.{}", place);
    std::string name;
    Params params;
    params.add("name", name, "the name in the member's certificate");
    params.read((*found)[place], where);
    if (!is_member_name(name)) {
      throw Error(
          ErrorKind::experiment,
          fmt::format("{}.name = \"{}\": expected letters, digits, '-', '_' and '.'", where, name),
          "it is the name that 'winnow pki' was given for the member");
    }
    if (std::ranges::count(names, name) > 0) {
      throw Error(
          ErrorKind::experiment,
          fmt::format("{}.name = \"{}\": another member already has this name", where, name));
    }
    names.push_back(std::move(name));
  }
  return names;
}

// How many clients there are is said by the members, or else by federation.clients.
void settle_clients(Json& tree, const std::vector<std::string>& members) {
  Json& federation = tree["federation"];
  if (federation.is_null()) {
    federation = Json::object();
  }
  if (!federation.is_object()) {
    return;  // reported when the experiment is read
  }
  const std::int64_t count = std::ssize(members);
  const auto clients = federation.find("clients");
  if (members.empty()) {
    if (clients == federation.end()) {
      throw Error(ErrorKind::experiment,
                  "serve.enrol = \"open\" needs federation.clients: how many may enrol");
    }
  } else if (clients == federation.end()) {
    federation["clients"] = count;
  } else if (*clients != Json(count)) {
    throw Error(
        ErrorKind::experiment,
        fmt::format("federation.clients = {}: there are {} [[members]]", clients->dump(), count),
        "leave federation.clients out");
  }
}

}  // namespace

Params declare(ServeOptions& options) {
  Params params;
  params.add("host", options.host, "address that the server listens on");
  params.add("port", options.port, "port that the server listens on; 0: any free one")
      .range(0, 65535);
  params.add("certificate", options.certificate, "file with the server's certificate");
  params.add("key", options.key, "file with the server's private key");
  params.add("authority", options.authority, "file with the authority's certificate");
  params.add("revoked", options.revoked,
             "file in which the authority lists revoked certificates (revoked.txt)");
  params.add("deadline", options.deadline, "seconds that a member has to answer a task").above(0);
  params
      .add("quorum", options.quorum,
           "share of a round's members that must answer, or the round is repeated")
      .range(0, 1);
  params
      .add("start_with", options.start_with,
           "number of members that must have joined before the first round; 0: all")
      .at_least(0);
  params
      .add("patience", options.patience, "seconds of silence after which a member is shown as away")
      .above(0);
  params
      .add("retry", options.retry,
           "seconds to wait before a round that missed the quorum is repeated")
      .at_least(0);
  params.add("strict", options.strict, "refuse replies with values that are not finite");
  params
      .add("norm_band", options.norm_band,
           "refuse a model that is more than this many times as far from the one sent as the "
           "median of earlier rounds; 0: refuse none")
      .at_least(0);
  params
      .add("samples_at_most", options.samples_at_most,
           "largest number of samples that a member may report")
      .at_least(1);
  params
      .add("metrics_port", options.metrics_port,
           "port on 127.0.0.1 for /metrics in Prometheus format; 0: none")
      .range(0, 65535);
  params
      .add("enrol", options.enrol,
           "who may take part: those listed under [[members]] (members), or anyone with a "
           "certificate, first come, first served (open)")
      .choices({"members", "open"});
  params.add("secure_sums", options.secure_sums,
             "members mask their models, and the masks cancel only in the sum, so that the server "
             "sees no individual model; needs federation.sums = \"fixed\"");
  return params;
}

void check_sums(const ServeOptions& options, const Experiment& experiment) {
  const std::int64_t clients = experiment.federation.clients;
  if (experiment.federation.sums == SumForm::fixed &&
      options.samples_at_most > kMostWeight / clients) {
    throw Error(ErrorKind::experiment,
                fmt::format("serve.samples_at_most = {}: fixed sums of {} members take at most {}",
                            options.samples_at_most, clients, kMostWeight / clients),
                "lower it, or set federation.sums = \"float\"");
  }
  if (!options.secure_sums) {
    return;
  }
  if (experiment.federation.sums != SumForm::fixed) {
    throw Error(ErrorKind::experiment,
                "serve.secure_sums = true: it needs federation.sums = \"fixed\"",
                "masks cancel in sums of whole numbers only; the key also works in a simulation");
  }
  if (options.strict || options.norm_band > 0.0) {
    throw Error(ErrorKind::experiment,
                fmt::format("serve.{}: with secure_sums the server sees no individual model",
                            options.strict ? "strict = true" : "norm_band"),
                "remove one of the two; members refuse values that do not fit by themselves");
  }
  const std::int64_t chosen = participants(experiment.federation.fraction, clients);
  if (chosen < mask::kFewestMasked || chosen > mask::kMostMasked) {
    throw Error(ErrorKind::experiment,
                fmt::format("serve.secure_sums = true: a round has {} members, expected {} to {}",
                            chosen, mask::kFewestMasked, mask::kMostMasked),
                "a sum of fewer hides too little; change federation.fraction");
  }
}

ServeFile read_serve_tree(Json tree, const std::filesystem::path& folder) {
  ServeFile file;
  const auto serve = tree.find("serve");
  if (serve == tree.end()) {
    throw Error(ErrorKind::experiment, "there is no table [serve]",
                "'winnow deal' writes a file to start from; a simulated experiment needs 'winnow "
                "run' instead");
  }
  declare(file.options).read(*serve, "serve");
  file.members = read_members(tree);
  tree.erase("serve");
  tree.erase("members");
  ServeOptions& options = file.options;
  if (options.open() && !file.members.empty()) {
    throw Error(ErrorKind::experiment,
                "serve.enrol = \"open\": [[members]] already say who may take part",
                "remove one of the two");
  }
  if (!options.open() && file.members.empty()) {
    throw Error(ErrorKind::experiment, "there are no [[members]]",
                "name them, or set serve.enrol = \"open\" and federation.clients");
  }
  if (std::ssize(file.members) > kMostMembers) {
    throw Error(ErrorKind::experiment, fmt::format("{} [[members]]: expected at most {}",
                                                   file.members.size(), kMostMembers));
  }
  for (const auto& [key, value] : {std::pair{"certificate", &options.certificate},
                                   {"key", &options.key},
                                   {"authority", &options.authority}}) {
    if (value->empty()) {
      throw Error(ErrorKind::experiment, fmt::format("serve.{}: expected a file", key),
                  "make it with 'winnow pki'");
    }
  }
  for (std::string* path :
       {&options.certificate, &options.key, &options.authority, &options.revoked}) {
    anchor(*path, folder);
  }
  settle_clients(tree, file.members);
  // A round that is told to members as done must be on the disk.
  tree["checkpoint_every"] = 1;
  file.tree = std::move(tree);
  return file;
}

ServeFile load_serve_file(const std::filesystem::path& file,
                          const std::vector<Override>& overrides) {
  Json tree = load_experiment_tree(file, overrides);
  try {
    return read_serve_tree(std::move(tree), std::filesystem::absolute(file).parent_path());
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::experiment) {
      throw;
    }
    throw Error(error.kind(), fmt::format("{}: {}", file.string(), error.what()), error.hint());
  }
}

}  // namespace winnow::net
