// What an audit leaves behind: tables, JSON and the data of its page.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "winnow/audit/audit.h"
#include "winnow/base/json.h"

namespace winnow {

// A name for a client: what the data calls it, or its number.
std::string client_name(const World& world, std::int64_t client);

std::string clients_csv(const Audit& audit, const World& world);  // audit.csv
std::string samples_csv(const Audit& audit, const World& world);  // spec: audit 7
// The label issues, from the worst on, nothing accepted yet; experiment/relabel.h reads it.
std::string relabel_csv(const Audit& audit, const World& world);
// What the findings were made of, sample by sample, in the order of samples.csv: `p` and the number
// of the `model` of each repetition, `sample`, `client`, `given`, `judged`, `image_stats`, and
// `label` and `distorted` where the truth is known.
void write_judgement(const Audit& audit, const World& world, const std::filesystem::path& path);
Json audit_json(const Audit& audit, const World& world, const Experiment& experiment,
                const AuditOptions& options);

// What the page shows: everything of audit_json() that it needs, and of the worst samples with an
// issue as many as `pictures`, with their images. render_audit_page() makes the page of it.
Json audit_page_data(const Audit& audit, const World& world, const Experiment& experiment,
                     std::int64_t pictures);

}  // namespace winnow
