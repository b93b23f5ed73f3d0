#include "winnow/net/join/own_audit.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "winnow/audit/output.h"
#include "winnow/base/error.h"
#include "winnow/base/files.h"
#include "winnow/base/text.h"
#include "winnow/method/audit/audit/own_samples.h"
#include "winnow/method/audit/audit/rows.h"
#include "winnow/report/page.h"

namespace winnow::member {
namespace {

constexpr std::int64_t kPictures = 1000;

// The member alone, as a data set of one client.
World own_world(const AuditedMember& member) {
  const ClientData& own = member.world.clients[static_cast<std::size_t>(member.client)];
  at::Tensor index = at::empty({std::ssize(own.samples)}, at::kLong);
  std::ranges::copy(own.samples, index.data_ptr<std::int64_t>());
  DataSet data;
  data.name = member.name;
  data.classes = member.world.data.classes;
  data.class_names = member.world.data.class_names;
  data.train = {member.world.data.train.images.index_select(0, index), own.given};
  data.names = member.names;
  data.client_names = {member.name};
  ClientData client{{}, own.given};
  for (std::int64_t i = 0; i < std::ssize(own.samples); ++i) {
    client.samples.push_back(i);
  }
  const std::int64_t samples = std::ssize(own.samples);
  World world{std::move(data), {std::move(client)}, Ledger(0, samples, 1), {}};
  world.truth_known = false;
  return world;
}

Audit own_audit(const World& world, audit::Kept kept, const audit::Outcome& outcome) {
  Audit audit;
  audit.of_member = true;
  audit.held = samples_of(world.clients);
  ClientFinding client;
  for (const SampleFinding& sample : kept.found) {
    ++client.samples;
    client.judged += sample.judged ? 1 : 0;
    client.label_issues += sample.is_label_issue ? 1 : 0;
    client.input_issues += sample.is_input_noise_issue ? 1 : 0;
    client.duplicates_inside += sample.is_near_duplicate_issue ? 1 : 0;
  }
  const std::vector<std::int64_t> held =
      audit::count_labels(world.clients.front().given, world.data.classes);
  for (std::size_t c = 0; c < held.size(); ++c) {
    if (held[c] > 0 && held[c] < kRareClass) {
      client.rare_classes.push_back(static_cast<std::int64_t>(c));
    }
  }
  client.noise_rate = outcome.noise_rate;
  client.confident_rate = outcome.noise_rate;  // a federation has no other
  client.interval = outcome.interval;
  client.too_few = client.judged < kFewSamples;
  client.kind.kind = outcome.kind;
  client.kind.rate = outcome.excess_rate;
  client.probabilities = outcome.probabilities;
  client.verdict = likeliest_verdict(client.probabilities);
  audit.findings.noise_rate = client.noise_rate;
  audit.findings.confident_rate = client.confident_rate;
  audit.findings.interval = client.interval;
  audit.findings.judged = client.judged;
  audit.findings.not_judged = client.samples - client.judged;
  audit.findings.clients.push_back(std::move(client));
  audit.findings.samples = std::move(kept.found);
  return audit;
}

}  // namespace

bool is_audit(const Charter& charter) {
  return charter.experiment.at("method").value("name", "") == "audit";
}

std::string write_own_audit(const std::filesystem::path& folder, const Charter& charter,
                            const AuditedMember& member) {
  const World world = own_world(member);
  const std::int64_t samples = world.data.train.size();
  if (!member.names.empty() && std::ssize(member.names) != samples) {
    throw Error(ErrorKind::data,
                fmt::format("{}: {} names of samples, but {} samples were judged", member.name,
                            member.names.size(), samples),
                "the data was changed while the federation was at work");
  }
  audit::Kept kept = audit::read_kept(member.memory.own, samples, world.data.classes);
  if (kept.found.empty() || !kept.outcome) {
    return "the audit ended without this member: it was absent, or has too few samples";
  }
  const audit::Outcome outcome = *kept.outcome;
  const Audit audit = own_audit(world, std::move(kept), outcome);
  const Json& method = charter.experiment.at("method");
  Experiment experiment;
  experiment.method = "audit";
  experiment.seed = charter.experiment.value("seed", std::uint64_t{0});
  AuditOptions options;
  options.judge.folds = method.value("folds", options.judge.folds);
  std::error_code failed;
  std::filesystem::create_directories(folder, failed);
  if (failed) {
    throw Error(ErrorKind::run,
                fmt::format("cannot create {}: {}", folder.string(), failed.message()));
  }
  write_file_whole(folder / "samples.csv", samples_csv(audit, world));
  write_file_whole(folder / "relabel.csv", relabel_csv(audit, world));
  write_file_whole(folder / "audit.html",
                   render_audit_page(audit_page_data(audit, world, experiment, kPictures)));
  write_file_whole(folder / "audit.json",
                   audit_json(audit, world, experiment, options)
                           .dump(1, ' ', false, Json::error_handler_t::replace) +
                       "\n");
  const ClientFinding& client = audit.findings.clients.front();
  return fmt::format("{} ({}), {} of {} labels to look at: {}", verdict_name(client.verdict),
                     percent_text(client.probability()), client.label_issues, samples,
                     (folder / "audit.html").string());
}

}  // namespace winnow::member
