// The files of a run directory by name; docs/formats.md describes what is in them.
#pragma once

namespace winnow {

inline constexpr const char* kExperimentFile = "experiment.toml";  // with every key, as it was run
inline constexpr const char* kEventsFile = "events.jsonl";         // the log
inline constexpr const char* kMetricsFile = "metrics.csv";         // what was measured, by round
inline constexpr const char* kFindingsFile = "findings.json";      // what the method found
inline constexpr const char* kPartitionFile = "partition.json";    // who holds what
inline constexpr const char* kLedgerFile = "ledger.jsonl";         // every injected corruption
inline constexpr const char* kModelFile = "model.safetensors";     // at the end
inline constexpr const char* kScriptFile = "model.pt";             // the same for PyTorch
inline constexpr const char* kSummaryFile = "summary.json";        // written last
inline constexpr const char* kCheckpointFolder = "checkpoint";

// What the server of a real federation writes besides.
inline constexpr const char* kJournalFile = "journal.sqlite";  // members, orders and verdicts
inline constexpr const char* kJournalLogFile = "journal.sqlite-wal";
inline constexpr const char* kJournalIndexFile = "journal.sqlite-shm";
inline constexpr const char* kNetworkFile = "network.jsonl";  // who came, left and was refused
inline constexpr const char* kMembersFile = "members.json";   // how the members are
inline constexpr const char* kSpoolFolder = "spool";          // models of replies, until they count
inline constexpr const char* kSpoolExtension = ".model";

}  // namespace winnow
