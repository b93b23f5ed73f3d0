// `winnow inspect`: partition and noise before any training.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "winnow/cli/command.h"
#include "winnow/cli/console.h"
#include "winnow/run/world.h"

namespace winnow {
namespace {

struct ClientReport {
  std::vector<std::int64_t> given;  // samples per class, as the client sees them
  std::int64_t size = 0;
  std::int64_t wrong = 0;
  bool noisy = false;

  double wrong_share() const {
    return size == 0 ? 0.0 : static_cast<double>(wrong) / static_cast<double>(size);
  }
};

std::vector<ClientReport> report_clients(const World& world) {
  std::vector<ClientReport> reports;
  for (std::size_t id = 0; id < world.clients.size(); ++id) {
    const ClientData& client = world.clients[id];
    ClientReport report;
    report.given.resize(static_cast<std::size_t>(world.data.classes));
    report.size = static_cast<std::int64_t>(client.samples.size());
    for (std::size_t i = 0; i < client.samples.size(); ++i) {
      ++report.given[static_cast<std::size_t>(client.given[i])];
      const auto sample = static_cast<std::size_t>(client.samples[i]);
      report.wrong += client.given[i] != world.data.train.labels[sample] ? 1 : 0;
    }
    report.noisy = world.ledger.is_noisy(static_cast<std::int64_t>(id));
    reports.push_back(std::move(report));
  }
  return reports;
}

Json to_json(const World& world, const std::vector<ClientReport>& reports) {
  Json clients = Json::array();
  for (std::size_t id = 0; id < reports.size(); ++id) {
    clients.push_back({{"client", id},
                       {"samples", reports[id].size},
                       {"classes", reports[id].given},
                       {"wrong", reports[id].wrong},
                       {"noisy", reports[id].noisy}});
  }
  return {{"data", world.data.name},
          {"train", world.data.train.size()},
          {"test", world.data.test.size()},
          {"class_names", world.data.class_names},
          {"ledger_hash", world.ledger.hash()},
          {"clients", clients}};
}

// Shades of one class's share among a client's samples.
std::string shade(double share) {
  constexpr std::string_view kShades = " .:-=+*#%@";
  const auto last = static_cast<double>(kShades.size() - 1);
  const auto level = static_cast<std::size_t>(std::clamp(share * 2.0 * last, 0.0, last));
  return std::string(2, kShades[share > 0.0 ? std::max<std::size_t>(1, level) : 0]);
}

void print_text(const World& world, const std::vector<ClientReport>& reports, std::size_t limit) {
  const bool colour = use_colour();
  std::int64_t used = 0;
  std::int64_t wrong = 0;
  std::int64_t least = reports.front().size;
  std::int64_t most = 0;
  for (const ClientReport& report : reports) {
    used += report.size;
    wrong += report.wrong;
    least = std::min(least, report.size);
    most = std::max(most, report.size);
  }
  fmt::print("{}: {} training and {} test images, {} classes\n", bold(world.data.name, colour),
             world.data.train.size(), world.data.test.size(), world.data.classes);
  fmt::print("{} clients hold {} samples, {} to {} each\n", reports.size(), used, least, most);
  fmt::print("{} noisy clients, {} wrong labels ({:.1f}%)\n\n", world.ledger.noisy_clients().size(),
             wrong, used == 0 ? 0.0 : 100.0 * static_cast<double>(wrong) / static_cast<double>(used));
  fmt::print("client  samples  wrong   share of each given class (darker: more)\n");
  for (std::size_t id = 0; id < std::min(limit, reports.size()); ++id) {
    const ClientReport& report = reports[id];
    std::string picture;
    for (const std::int64_t count : report.given) {
      picture += shade(report.size == 0 ? 0.0
                                        : static_cast<double>(count) / static_cast<double>(report.size));
    }
    const std::string line = fmt::format("{:>6}  {:>7}  {:>5.1f}%  |{}|", id, report.size,
                                         100.0 * report.wrong_share(), picture);
    fmt::print("{}\n", report.noisy ? red(line, colour) : line);
  }
  if (reports.size() > limit) {
    fmt::print("... and {} more (--all shows them)\n", reports.size() - limit);
  }
}

}  // namespace

void add_inspect_command(CLI::App& app, Program& program) {
  struct Flags {
    std::string file;
    bool json = false;
    bool all = false;
    OverrideFlags overrides;
  };
  auto flags = std::make_shared<Flags>();
  CLI::App* command = app.add_subcommand("inspect", "show partition and noise before any training");
  command->add_option("FILE", flags->file, "experiment in TOML")->required();
  command->add_flag("--all", flags->all, "every client, not the first forty");
  command->add_flag("--json", flags->json, "print as JSON");
  flags->overrides.add_to(*command);
  command->footer("Example:  winnow inspect experiments/quickstart.toml --set noise.0.rho=0.4");
  command->callback([flags, &program] {
    constexpr std::size_t kFirst = 40;
    const World world = make_world(
        load_experiment(flags->file, flags->overrides.overrides(), program.registry));
    const std::vector<ClientReport> reports = report_clients(world);
    if (flags->json) {
      fmt::print("{}\n", to_json(world, reports).dump());
    } else {
      print_text(world, reports, flags->all ? reports.size() : kFirst);
    }
  });
}

}  // namespace winnow
