#include "winnow/sweep/find_runs.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <map>
#include <set>
#include <tuple>

#include "winnow/base/checked_json.h"
#include "winnow/base/error.h"
#include "winnow/base/text.h"
#include "winnow/experiment/toml.h"
#include "winnow/run/format.h"
#include "winnow/run/run_directory.h"
#include "winnow/run/runner.h"

namespace winnow {
namespace {

namespace fs = std::filesystem;

// By key, as `--set` spells it.
using Settings = std::map<std::string, std::string>;
const std::string kAbsent = "none";  // the value of a key that is not there
const std::string kVaried = "\n";    // in the place of a value: there are several

struct FoundRun {
  RunPlace place;
  std::size_t source = 0;  // which of the given directories
  bool of_sweep = false;
  std::string name;
  Settings settings;  // without the seed; empty: it is not begun
  Settings runtime;   // empty: it is not finished
};

// Runs of one experiment.
struct RunGroup {
  std::string row;
  std::string column;
  std::vector<const FoundRun*> runs;
  Settings settings;
  Settings runtime;

  const FoundRun& first() const { return *runs.front(); }
};

std::string setting_text(const Json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

void flatten(const Json& value, const std::string& key, Settings& settings) {
  const bool is_list_of_tables =
      value.is_array() &&
      std::ranges::any_of(value, [](const Json& entry) { return entry.is_structured(); });
  if (!value.is_object() && !is_list_of_tables) {
    settings[key] = setting_text(value);
    return;
  }
  for (const auto& [part, entry] : value.items()) {
    flatten(entry, key.empty() ? part : fmt::format("{}.{}", key, part), settings);
  }
}

// With the options that were added after the run was begun.
Json with_defaults(const Json& tree, const Registry& registry) {
  try {
    return parse_experiment(tree, registry).resolved();
  } catch (const Error&) {  // a method or a key that this program does not have
    return tree;
  }
}

// Reads what a run says about itself; the labels of one in a sweep stay as they are.
void read_found(FoundRun& run, const Registry& registry) {
  const fs::path& directory = run.place.directory;
  if (run_status(directory) == RunStatus::missing) {
    return;
  }
  first_event(directory);  // refuses a newer format
  const fs::path path = directory / kExperimentFile;
  Json tree = read_toml(path);
  try {
    if (!run.of_sweep) {
      run.place.row = tree.at("method").at("name").get<std::string>();
      run.place.seed = CheckedJson(tree, path.string()).at("seed").seed();
      run.name = tree.at("name").get<std::string>();
      run.place.column = run.name;
    }
  } catch (const Json::exception& error) {
    throw Error(ErrorKind::run, fmt::format("{} is damaged: {}", path.string(), error.what()));
  }
  tree = with_defaults(tree, registry);
  for (const char* key : {"seed", "name", "checkpoint_every", "local_accuracy"}) {
    tree.erase(key);
  }
  flatten(tree, "", run.settings);
  if (const Json summary = read_summary(directory); !summary.is_null()) {
    const std::string device = summary.value("device", "unknown");
    run.runtime["device"] = device.substr(0, device.find(':'));  // cuda:0 and cuda:1 are alike
    run.runtime["precision"] = summary.value("precision", "unknown");
    if (run.runtime["device"] == "cpu") {
      run.runtime["arithmetic"] = summary.value("arithmetic", "unknown");
    }
  }
}

std::vector<FoundRun> read_runs(const std::vector<std::string>& directories,
                                const Registry& registry) {
  std::vector<FoundRun> runs;
  std::set<fs::path> given;
  for (std::size_t source = 0; source < directories.size(); ++source) {
    const fs::path directory = directories[source];
    if (!given.insert(fs::weakly_canonical(directory / ".")).second) {
      throw Error(ErrorKind::usage, fmt::format("{} is given twice", directory.string()),
                  "give every directory once");
    }
    if (is_sweep(directory)) {
      const SweepIndex index = read_sweep_index(directory);
      for (const RunPlace& place : index.runs) {
        runs.push_back({place, source, true, index.name, {}, {}});
      }
    } else if (run_status(directory) != RunStatus::missing) {
      runs.push_back({RunPlace{.directory = directory}, source, false, "", {}, {}});
    } else if (!fs::exists(directory)) {
      throw Error(ErrorKind::run, fmt::format("{} does not exist", directories[source]),
                  "give a folder made by 'winnow run' or 'winnow sweep'");
    } else {
      throw Error(ErrorKind::run,
                  fmt::format("{} contains neither a run nor a sweep", directories[source]),
                  "give a folder made by 'winnow run' or 'winnow sweep'");
    }
  }
  for (FoundRun& run : runs) {
    read_found(run, registry);
  }
  return runs;
}

bool belongs(const FoundRun& run, const RunGroup& group) {
  const bool same_cell = run.place.row == group.row && run.place.column == group.column;
  if (run.settings.empty()) {
    return same_cell && std::ranges::any_of(group.runs, [&](const FoundRun* other) {
             return other->source == run.source;
           });
  }
  return (same_cell || !run.of_sweep) && run.settings == group.settings &&
         (run.runtime == group.runtime || run.runtime.empty() || group.runtime.empty());
}

// Sweeps first, since their cells take in runs of the same experiment; in each what is known most
// about first, so that the others find it.
std::vector<RunGroup> make_groups(const std::vector<FoundRun>& runs) {
  std::vector<const FoundRun*> order;
  for (const FoundRun& run : runs) {
    order.push_back(&run);
  }
  std::ranges::stable_sort(order, {}, [](const FoundRun* run) {
    return std::tuple(!run->of_sweep, run->settings.empty(), run->runtime.empty());
  });
  std::vector<RunGroup> groups;
  for (const FoundRun* run : order) {
    auto group =
        std::ranges::find_if(groups, [&](const RunGroup& one) { return belongs(*run, one); });
    if (group == groups.end()) {
      groups.push_back({run->place.row, run->place.column, {}, run->settings, run->runtime});
      group = groups.end() - 1;
    }
    group->runs.push_back(run);
    if (group->runtime.empty()) {
      group->runtime = run->runtime;
    }
  }
  return groups;
}

void refuse_repeated_seeds(const std::vector<RunGroup>& groups) {
  for (const RunGroup& group : groups) {
    std::map<std::uint64_t, const FoundRun*> by_seed;
    for (const FoundRun* run : group.runs) {
      const auto [known, is_new] = by_seed.try_emplace(run->place.seed, run);
      if (!is_new) {
        throw Error(ErrorKind::usage,
                    fmt::format("{} and {} are runs of one experiment with the same seed, {}",
                                known->second->place.directory.string(),
                                run->place.directory.string(), run->place.seed),
                    "a mean over seeds must not count one twice: leave one of them out");
      }
    }
  }
}

// Runs given by themselves may be called differently for every seed; and beside named columns the
// only column of a sweep needs a name, too.
void name_columns(std::vector<RunGroup>& groups) {
  for (RunGroup& group : groups) {
    if (!group.first().of_sweep) {
      std::vector<std::string> names;
      for (const FoundRun* run : group.runs) {
        if (std::ranges::count(names, run->name) == 0) {
          names.push_back(run->name);
        }
      }
      group.column = join(names, ", ");
    }
  }
  const bool named =
      std::ranges::any_of(groups, [](const RunGroup& group) { return !group.column.empty(); });
  for (RunGroup& group : groups) {
    if (named && group.column.empty()) {
      group.column = group.first().name;
    }
  }
}

const std::string& setting_in(const Settings& settings, const std::string& key) {
  const auto found = settings.find(key);
  return found == settings.end() ? kAbsent : found->second;
}

// How many of the settings these keys tell apart.
std::size_t told_apart(const std::vector<Settings>& all, const std::vector<std::string>& keys) {
  std::set<std::vector<std::string>> kinds;
  for (const Settings& settings : all) {
    std::vector<std::string> kind;
    for (const std::string& key : keys) {
      kind.push_back(setting_in(settings, key));
    }
    kinds.insert(std::move(kind));
  }
  return kinds.size();
}

std::vector<std::string> differing_keys(const std::vector<Settings>& all) {
  if (all.size() < 2) {
    return {};
  }
  std::set<std::string> known;
  for (const Settings& settings : all) {
    for (const auto& [key, value] : settings) {
      known.insert(key);
    }
  }
  std::vector<std::string> keys;
  std::ranges::copy_if(known, std::back_inserter(keys),
                       [&](const std::string& key) { return told_apart(all, {key}) > 1; });
  return keys;
}

// Whether a key says no more than the name of its table does: another data set has another path.
bool follows_from_name(const std::string& key, const std::vector<std::string>& keys) {
  for (std::size_t dot = key.find('.'); dot != std::string::npos; dot = key.find('.', dot + 1)) {
    const std::string name = key.substr(0, dot) + ".name";
    if (name != key && std::ranges::count(keys, name) > 0) {
      return true;
    }
  }
  return false;
}

// The keys to show, and whether more differ than a label has room for.
struct Telling {
  std::vector<std::string> keys;
  bool more = false;
};

Telling telling_keys(const std::vector<Settings>& all) {
  constexpr std::size_t kRoom = 3;
  const std::vector<std::string> differing = differing_keys(all);
  std::vector<std::string> candidates;
  std::ranges::copy_if(differing, std::back_inserter(candidates),
                       [&](const std::string& key) { return !follows_from_name(key, differing); });
  const std::size_t main = candidates.size();
  for (const std::string& key : differing) {
    if (std::ranges::count(candidates, key) == 0) {
      candidates.push_back(key);
    }
  }
  // Those that are needed first, then the other main ones as far as there is room.
  Telling telling;
  std::vector<std::string> others;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    std::vector<std::string> longer = telling.keys;
    longer.push_back(candidates[i]);
    if (told_apart(all, longer) > told_apart(all, telling.keys)) {
      telling.keys = std::move(longer);
    } else if (i < main) {
      others.push_back(candidates[i]);
    }
  }
  for (const std::string& key : others) {
    if (telling.keys.size() < kRoom) {
      telling.keys.push_back(key);
    } else {
      telling.more = true;
    }
  }
  std::ranges::sort(telling.keys);
  return telling;
}

// "lr" for train.lr, "data" for data.name; the whole key where two would be called the same.
std::string short_key(const std::string& key, const std::vector<std::string>& keys) {
  constexpr std::string_view kName = ".name";
  const auto last = [&](const std::string& one) {
    const std::string table = one.ends_with(kName) ? one.substr(0, one.size() - kName.size()) : one;
    const std::size_t dot = table.rfind('.');
    const bool is_place =
        dot != std::string::npos && std::isdigit(static_cast<unsigned char>(table[dot + 1])) != 0;
    return dot == std::string::npos || is_place ? table : table.substr(dot + 1);
  };
  const std::string text = last(key);
  const auto same =
      std::ranges::count_if(keys, [&](const std::string& other) { return last(other) == text; });
  return same > 1 ? key : text;
}

std::string label_of(const Settings& settings, const Telling& telling) {
  constexpr std::size_t kLongest = 60;
  std::vector<std::string> parts;
  for (const std::string& key : telling.keys) {
    std::string value = setting_in(settings, key);
    if (value.size() > kLongest) {
      value = value.substr(0, kLongest) + "...";
    }
    parts.push_back(fmt::format("{} = {}", short_key(key, telling.keys), value));
  }
  if (telling.more) {
    parts.emplace_back("...");
  }
  return join(parts, ", ");
}

void add_part(std::string& label, const std::string& part) {
  if (!part.empty()) {
    label = label.empty() ? part : fmt::format("{}, {}", label, part);
  }
}

// Whether a key says what is to be learned, and not how.
bool is_problem(const std::string& key) {
  constexpr std::array<std::string_view, 6> kTables{"data.",       "federation.", "noise",
                                                    "validation.", "public.",     "model."};
  return std::ranges::any_of(kTables,
                             [&](std::string_view table) { return key.starts_with(table); });
}

// The problem of each directory. A sweep over a key names its columns or rows by it, so that the
// key needs no second mention.
std::vector<Settings> problems_of(const std::vector<FoundRun>& runs, std::size_t directories) {
  std::vector<std::vector<Settings>> by_source(directories);
  for (const FoundRun& run : runs) {
    if (!run.settings.empty()) {
      by_source[run.source].push_back(run.settings);
    }
  }
  std::vector<Settings> problems(directories);
  for (std::size_t source = 0; source < directories; ++source) {
    if (by_source[source].empty()) {
      continue;
    }
    problems[source] = by_source[source].front();
    for (const std::string& key : differing_keys(by_source[source])) {
      problems[source][key] = kVaried;
    }
    std::erase_if(problems[source], [](const auto& entry) { return !is_problem(entry.first); });
  }
  return problems;
}

// Tells the groups of one column label apart by their problems: what stands in one column is
// compared.
void split_columns(std::vector<RunGroup>& groups, const std::vector<Settings>& problems) {
  std::map<std::string, std::vector<RunGroup*>> by_column;
  for (RunGroup& group : groups) {
    if (!group.settings.empty()) {
      by_column[group.column].push_back(&group);
    }
  }
  for (const auto& [column, members] : by_column) {
    std::vector<Settings> all;
    std::set<std::string> varied;
    for (const RunGroup* group : members) {
      all.push_back(problems[group->first().source]);
      for (const auto& [key, value] : all.back()) {
        if (value == kVaried) {
          varied.insert(key);
        }
      }
    }
    for (Settings& problem : all) {
      std::erase_if(problem, [&](const auto& entry) { return varied.contains(entry.first); });
    }
    const Telling telling = telling_keys(all);
    for (std::size_t i = 0; i < members.size(); ++i) {
      add_part(members[i]->column, label_of(all[i], telling));
    }
  }
}

// Tells groups apart that would share a row and a column.
void split_rows(std::vector<RunGroup>& groups, const std::vector<std::string>& directories) {
  std::map<std::pair<std::string, std::string>, std::vector<RunGroup*>> cells;
  for (RunGroup& group : groups) {
    cells[{group.row, group.column}].push_back(&group);
  }
  for (const auto& [labels, members] : cells) {
    std::vector<Settings> all;
    for (const RunGroup* group : members) {
      if (!group->settings.empty()) {
        all.push_back(group->settings);
        all.back().insert(group->runtime.begin(), group->runtime.end());
      }
    }
    const Telling telling = telling_keys(all);
    std::size_t place = 0;
    for (RunGroup* group : members) {
      if (!group->settings.empty()) {
        add_part(group->row, label_of(all[place++], telling));
      } else if (members.size() > 1) {
        add_part(group->row, directories[group->first().source]);
      }
    }
  }
}

}  // namespace

std::vector<RunPlace> find_runs(const std::vector<std::string>& directories,
                                const Registry& registry) {
  const std::vector<FoundRun> runs = read_runs(directories, registry);
  std::vector<RunGroup> groups = make_groups(runs);
  refuse_repeated_seeds(groups);
  name_columns(groups);
  split_columns(groups, problems_of(runs, directories.size()));
  split_rows(groups, directories);
  std::map<const FoundRun*, const RunGroup*> group_of;
  for (const RunGroup& group : groups) {
    for (const FoundRun* run : group.runs) {
      group_of[run] = &group;
    }
  }
  std::vector<RunPlace> places;
  for (const FoundRun& run : runs) {
    places.push_back(run.place);
    places.back().row = group_of.at(&run)->row;
    places.back().column = group_of.at(&run)->column;
  }
  return places;
}

}  // namespace winnow
