// What an audit of the federation found among a member's own samples, for its owner alone.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "winnow/experiment/world.h"
#include "winnow/federation/memory.h"
#include "winnow/run/charter.h"

namespace winnow::member {

// Whether members of such a federation find something out about their samples.
bool is_audit(const Charter& charter);

// One of the members that the process hosts, after the last round.
struct AuditedMember {
  std::string name;
  std::int64_t client = 0;
  const World& world;  // of the site
  const ClientMemory& memory;
  std::vector<std::string> names;  // of its samples; empty: they are numbers
};

// Writes samples.csv, relabel.csv, audit.json and the page audit.html into the folder, and returns
// a line for the owner. Where the member was not judged to the end, nothing is written and the line
// says so. Throws Error(kind data) where the names are not as many as the samples.
std::string write_own_audit(const std::filesystem::path& folder, const Charter& charter,
                            const AuditedMember& member);

}  // namespace winnow::member
