// What a method claims and what its clients did, measured against the truth that only the run
// knows. Where the truth is unknown only the claims themselves remain.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "winnow/experiment/world.h"
#include "winnow/federation/memory.h"
#include "winnow/judge/quality.h"
#include "winnow/method/method.h"

namespace winnow {

// Share of every client's samples that carry a wrong given label or a distorted image.
std::vector<double> noise_shares(const World& world);

// Whatever applies of `detection`, `noise_level_error` and `relabel` (spec: partitions M).
// Clients are noisy or not by the ledger; the noise level is that of the labels in use now. Only
// `truth_unknown` where it is.
Json judge(const World& world, const Findings& findings, const Traces& traces);

// For every score of the findings its values by client, its Pearson correlation with the clients'
// noise shares and the area under its ROC as a detector of noisy clients, where defined.
Json judge_scores(const World& world, const Findings& findings);

// What is known of every client, for the pictures of a report. Whatever applies of `flagged`
// (clients), `noise_levels` (by client: estimated, and real as in judge()), `scores` as
// judge_scores() has them, `series` (by name a list of such scores), `likeness` (of, known,
// clients, values: a row by client, rounded to four places), and `confusion`: before, and after
// where labels were corrected, with [true][label] counts over all clients.
Json judge_clients(const World& world, const Findings& findings, const Details& details,
                   const Traces& traces);

// How right labels are at one time: `levels`, by client the share of wrong labels among those in
// use; `splits`, by client that told its samples apart, [found, false alarms, missed, left alone]
// counted against the labels that were in use `before`; `confusions`, [true][label] of the first
// five clients that hold samples, unless there are more than a hundred classes. The truth must be
// known.
Json judge_labels(const World& world, const Traces& before, const Traces& now);

// Label precision and recall of what `clients` chose to train on, the mean over those that chose.
std::optional<Selection> judge_selection(const World& world, const Traces& traces,
                                         const std::vector<std::int64_t>& clients);

}  // namespace winnow
