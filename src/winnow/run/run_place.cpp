#include "winnow/run/run_place.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <system_error>

#include "winnow/base/error.h"
#include "winnow/base/files.h"
#include "winnow/experiment/toml.h"
#include "winnow/run/directory_lock.h"
#include "winnow/run/run_directory.h"
#include "winnow/run/runner.h"
#include "winnow/run/segment_log.h"
#include "winnow/run/tensorboard.h"

namespace winnow {
namespace {

namespace fs = std::filesystem;

constexpr std::array<std::string_view, 16> kRunFiles{
    kExperimentFile, kEventsFile,       kTensorBoardFile, kMetricsFile, kFindingsFile, kLedgerFile,
    kPartitionFile,  kModelFile,        kScriptFile,      kSummaryFile, "lock",        kJournalFile,
    kJournalLogFile, kJournalIndexFile, kNetworkFile,     kMembersFile};

// "DIR/" as "DIR": with the slash a symbolic link would be followed.
fs::path without_slash(const fs::path& directory) {
  return directory.has_filename() ? directory : directory.parent_path();
}

// Whether a run writes an entry of its directory: a file, the folder of checkpoints, or that of the
// replies of a real federation.
bool is_of_run(const fs::directory_entry& entry) {
  const std::string name = entry.path().filename().string();
  if (!fs::is_directory(entry.symlink_status())) {
    return std::ranges::count(kRunFiles, name) > 0 || is_leftover(entry.path());
  }
  const bool is_checkpoint = name == kCheckpointFolder;
  const std::string_view extension = is_checkpoint ? ".safetensors" : kSpoolExtension;
  return (is_checkpoint || name == kSpoolFolder) &&
         std::ranges::all_of(fs::directory_iterator(entry.path()), [&](const auto& file) {
           return fs::is_regular_file(file.symlink_status()) &&
                  (file.path().extension() == extension || is_leftover(file.path()) ||
                   (is_checkpoint && is_segment(file.path())));
         });
}

}  // namespace

std::string at_work_in(const fs::path& directory) {
  return fmt::format("another process is running in {}", directory.string());
}

void refuse_links_of_run(const fs::path& directory) {
  refuse_links(directory,
               {kEventsFile, kTensorBoardFile, kCheckpointFolder, kMetricsFile, kFindingsFile,
                kLedgerFile, kPartitionFile, kModelFile, kScriptFile, kSummaryFile, kJournalFile,
                kJournalLogFile, kJournalIndexFile, kNetworkFile, kMembersFile, kSpoolFolder});
}

void refuse_existing(const fs::path& directory) {
  if (!fs::exists(directory / kExperimentFile)) {
    throw Error(ErrorKind::run,
                fmt::format("{} exists already and is not a run directory", directory.string()),
                "choose another --out");
  }
  if (fs::exists(directory / kSummaryFile)) {
    throw Error(ErrorKind::run, fmt::format("{} holds a finished run", directory.string()),
                "replace it with --force, or choose another --out");
  }
  throw Error(ErrorKind::run,
              fmt::format("{} holds a run that is not finished", directory.string()),
              fmt::format("continue it with 'winnow resume {}', replace it with --force, or choose "
                          "another --out",
                          directory.string()));
}

void check_removable(const fs::path& directory) {
  constexpr const char* kHint = "nothing was removed; choose another --out";
  if (fs::is_symlink(without_slash(directory)) || !fs::is_directory(directory) ||
      !fs::is_regular_file(fs::symlink_status(directory / kExperimentFile))) {
    throw Error(ErrorKind::run, fmt::format("{} is not a run directory", directory.string()),
                kHint);
  }
  for (const auto& entry : fs::directory_iterator(directory)) {
    if (!is_of_run(entry)) {
      throw Error(ErrorKind::run,
                  fmt::format("{} holds '{}', which no run writes", directory.string(),
                              entry.path().filename().string()),
                  kHint);
    }
  }
}

void create_run_directory(const fs::path& directory, const Experiment& experiment) {
  fs::path target = fs::absolute(directory).lexically_normal();
  if (!target.has_filename()) {
    target = target.parent_path();  // it was given as "DIR/"
  }
  const fs::path temporary =
      temporary_beside(target.parent_path() / fmt::format(".{}", target.filename().string()));
  std::error_code failed;
  fs::create_directories(target.parent_path(), failed);
  // It must be new: somebody else's could hold links.
  if (failed || !fs::create_directory(temporary, failed)) {
    throw Error(ErrorKind::run,
                fmt::format("cannot create {}: {}", directory.string(), failed.message()),
                "choose a place you may write to with --out");
  }
  try {
    write_file_whole(temporary / kExperimentFile, write_toml(experiment.resolved()));
    fs::rename(temporary, target);
  } catch (const fs::filesystem_error& error) {
    remove_tree(temporary, failed);
    if (fs::exists(target, failed)) {
      refuse_existing(directory);
    }
    throw Error(ErrorKind::run,
                fmt::format("cannot create {}: {}", directory.string(), error.code().message()));
  } catch (...) {
    remove_tree(temporary, failed);
    throw;
  }
}

void remove_run(const fs::path& directory) {
  check_removable(directory);
  const DirectoryLock lock(directory, at_work_in(directory));
  std::error_code failed;
  remove_tree(without_slash(directory), failed);
  if (failed) {
    throw Error(ErrorKind::run,
                fmt::format("cannot remove {}: {}", directory.string(), failed.message()));
  }
}

void slim_run(const fs::path& directory) {
  refuse_links_of_run(directory);
  const DirectoryLock lock(directory, at_work_in(directory));
  if (read_summary(directory).is_null()) {
    throw Error(ErrorKind::run, fmt::format("{} is not finished", directory.string()));
  }
  for (const char* name :
       {kCheckpointFolder, kModelFile, kScriptFile, kLedgerFile, kTensorBoardFile}) {
    std::error_code failed;
    remove_tree(directory / name, failed);
    if (failed) {
      throw Error(ErrorKind::run, fmt::format("cannot remove {}: {}", (directory / name).string(),
                                              failed.message()));
    }
  }
}

bool is_running(const fs::path& directory) {
  return DirectoryLock::is_held(directory);
}

}  // namespace winnow
