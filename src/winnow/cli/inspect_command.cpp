// `winnow inspect`: partition and noise before any training.
#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>

#include "winnow/base/error.h"
#include "winnow/base/files.h"
#include "winnow/cli/command.h"
#include "winnow/cli/console.h"
#include "winnow/data/catalog.h"
#include "winnow/judge/census.h"
#include "winnow/noise/image/distortion.h"
#include "winnow/report/contact_sheet.h"
#include "winnow/report/partition_picture.h"
#include "winnow/run/notices.h"

namespace winnow {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kClientsShown = 40;
constexpr std::int64_t kSheetImages = 8;

struct SheetEntry {
  const DistortionInfo* distortion = nullptr;
  int severity = 0;
};

// The distortions of the experiment, or all of them at low, medium and high severity.
std::vector<SheetEntry> sheet_entries(const Experiment& experiment, const Distortions& known) {
  std::vector<SheetEntry> entries;
  for (const Noise& block : experiment.noise) {
    if (const auto* input = std::get_if<InputNoise>(&block)) {
      for (const DistortionInfo& info : input->drawn()) {
        entries.push_back({&info, parse_severity(input->options().severity)});
      }
    }
  }
  if (!entries.empty()) {
    return entries;
  }
  for (const DistortionInfo& info : known) {
    for (const int severity : {1, 3, 5}) {
      if (info.uses_severity || severity == 5) {
        entries.push_back({&info, severity});
      }
    }
  }
  return entries;
}

// One row per distortion and severity over the first images of the undistorted set.
std::string distortion_sheet(const Experiment& experiment, const Registry& registry) {
  const DataSet data = load(experiment.data, registry.data_sets);
  const std::int64_t count = std::min(kSheetImages, data.train.size());
  const at::Tensor originals = data.train.images.narrow(0, 0, count);
  const auto row = [&](const std::string& label, const at::Tensor& images) {
    ContactRow made{label, {}};
    for (std::int64_t i = 0; i < count; ++i) {
      made.images.push_back(images[i]);
    }
    return made;
  };
  std::vector<ContactRow> rows{row("original", originals)};
  for (const SheetEntry& entry : sheet_entries(experiment, registry.distortions)) {
    at::Tensor images = originals.clone();
    std::vector<DistortionJob> jobs;
    for (std::int64_t i = 0; i < count; ++i) {
      jobs.push_back({i, entry.distortion, entry.severity});
    }
    distort_images(images, jobs, experiment.seed, 1);
    const std::string& name = entry.distortion->name;
    rows.push_back(
        row(entry.distortion->uses_severity ? fmt::format("{} {}", name, entry.severity) : name,
            images));
  }
  return contact_sheet_png(rows, data.name);
}

void write_pictures(const fs::path& folder, const Experiment& experiment, const Registry& registry,
                    const Census& picture) {
  std::error_code failed;
  fs::create_directories(folder, failed);
  if (failed) {
    throw Error(ErrorKind::run,
                fmt::format("cannot create {}: {}", folder.string(), failed.message()));
  }
  write_file_whole(folder / "partition.svg", partition_svg(picture));
  write_file_whole(folder / "distortions.png", distortion_sheet(experiment, registry));
  tell(fmt::format("pictures: {} and {}\n", (folder / "partition.svg").string(),
                   (folder / "distortions.png").string()));
}

}  // namespace

void add_inspect_command(CLI::App& app, Program& program) {
  struct Flags {
    std::string file;
    std::string out;
    bool json = false;
    bool all = false;
    OverrideFlags overrides;
  };
  auto flags = std::make_shared<Flags>();
  CLI::App* command = app.add_subcommand(
      "inspect", "show which samples clients get and what noise they have, without training");
  command->add_option("FILE", flags->file, "experiment file (TOML)")->required();
  command
      ->add_option("-o,--out", flags->out, "folder for pictures: partition.svg and distortions.png")
      ->type_name("DIR");
  command->add_flag("--all", flags->all, "show all clients, not only the first 40");
  command->add_flag("--json", flags->json, "print as JSON");
  flags->overrides.add_to(*command);
  command->footer(
      "Example:  winnow inspect experiments/synthetic.toml --set noise.0.rho=0.4 --out pictures");
  command->callback([flags, &program] {
    const Experiment experiment =
        load_experiment(flags->file, flags->overrides.overrides(), program.registry);
    const World world = make_world(experiment, program.registry);
    const Census picture = count_clients(experiment, world);
    if (flags->json) {
      fmt::print("{}\n", census_json(world, picture).dump());
    } else {
      fmt::print("{}", partition_text(picture, terminal_width(), use_colour(),
                                      flags->all ? picture.clients.size() : kClientsShown));
    }
    std::vector<std::string> notices = data_notices(experiment, world);
    notices.push_back(rounds_notice(experiment, program.registry));
    const std::vector<std::string> of_training = train_notices(experiment);
    notices.insert(notices.end(), of_training.begin(), of_training.end());
    for (const std::string& notice : notices) {
      tell(notice.empty() ? "" : notice + "\n");
    }
    if (!flags->out.empty()) {
      write_pictures(flags->out, experiment, program.registry, picture);
    }
  });
}

}  // namespace winnow
