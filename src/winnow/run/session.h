// A run in memory: world, engine, method and global model. Files are the runner's business.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "winnow/engine/engine.h"
#include "winnow/engine/examiner.h"
#include "winnow/engine/hostile_fleet.h"
#include "winnow/experiment/experiment.h"
#include "winnow/experiment/world.h"
#include "winnow/federation/absence.h"
#include "winnow/method/method.h"
#include "winnow/model/script_export.h"
#include "winnow/model/weight_file.h"
#include "winnow/run/checkpoint.h"
#include "winnow/run/engines.h"
#include "winnow/run/metrics.h"
#include "winnow/run/runtime.h"

namespace winnow {

class Prototype;

// Belongs to one thread at a time; on a GPU to the thread that made it, whose work goes to a stream
// of its own (go_first).
class Session {
 public:
  // Loads the data, draws partition and noise, builds the lanes. `stop`, when set, makes play()
  // throw Interrupted at the next training step, or sooner where the server computes for long.
  Session(const Experiment& experiment, const Registry& registry, const Runtime& runtime,
          const std::atomic<bool>* stop);
  // The same with a world and an engine that are there already, whatever the experiment says of
  // data and noise.
  Session(const Experiment& experiment, Hosted hosted, const std::atomic<bool>* stop);
  ~Session();

  std::int64_t rounds() const { return rounds_; }
  std::int64_t rounds_done() const { return std::ssize(history_); }

  // Plays the next round and evaluates when due. If it throws, the session is as it was before.
  struct Played {
    RoundRecord record;
    Json notes;    // what the method had to say
    Json quality;  // its claims measured against the truth
    // How right labels are, as judge_labels() has it, with the `name` under which the method keeps
    // them and the `round`; null where it does not.
    Json labels = nullptr;
  };
  Played play();

  // The same before the first round.
  Json first_labels() const;

  // Measures the clients' last models on the test set; from then on they are among the scores of
  // findings(): `local_accuracy`, and `local_accuracy_own` weighted by the true classes that the
  // client holds. Does nothing unless the experiment asks for it.
  void measure_local_models();

  // The run as of the last finished round. What the clients of other processes remember is not in
  // it: they write it into the folder by themselves, as save_parts() says.
  Checkpoint checkpoint() const;
  // As Engine::check_directory().
  void check_directory(const std::filesystem::path& run) { engine_->check_directory(run); }
  [[nodiscard]] std::vector<MemoryPart> save_parts(const std::filesystem::path& folder);
  // The same without clients and history, and what there is of the clients that changed since the
  // last call, or since the start, for the log of a CheckpointWriter.
  Checkpoint head() const;
  void save_changes(SegmentLog& log);
  // What changed so far is in a file already.
  void forget_changes();
  // Throws Error(kind run) where the checkpoint does not fit the run; the session is then of no
  // more use.
  void restore(Checkpoint checkpoint);

  const Experiment& experiment() const { return experiment_; }
  const World& world() const { return world_; }
  const State& global() const { return global_; }
  // Whether the global model has a form as a TorchScript file; a network that a program brings
  // itself has none. The file is handed out piece by piece.
  bool has_script() const;
  void write_script(const ScriptSink& sink) const;
  // The models that are measured: the global one, or the clients' own by client.
  Measured measured() const { return method_->measured(); }
  // A digest of those models; of the clients' it is the SHA-256 of lines "CLIENT HASH".
  std::string model_hash() const;
  const History& history() const { return history_; }
  const Engine& engine() const { return *engine_; }
  Examiner& examiner() { return *examiner_; }
  // Of model.weights; without a hash where there is no such file.
  const WeightSource& weight_source() const { return weight_source_; }
  Findings findings() const;
  Details details() const { return method_->details(); }
  double seconds() const;
  // What the user should know before the first round, a line each.
  const std::vector<std::string>& notices() const { return notices_; }

 private:
  // Whether the measured models are here.
  bool measures() const;
  // They on the test set.
  Score evaluate();
  // Null where the method does not keep labels after this round, or the truth is not known.
  Json labels_after(std::int64_t round, const Traces& before) const;
  // What a checkpoint's parts have to fit.
  Bounds bounds() const;
  void check_restored() const;
  // Takes down what the method keeps after a round, and of which clients it changed.
  void note_method();

  Experiment experiment_;
  const std::atomic<bool>* stop_;
  Hosted hosted_;
  // Of what hosts it:
  const Setting& setting_;
  const World& world_;
  const Prototype& prototype_;
  Examiner* examiner_;
  Engine* engine_;
  Method* method_;
  std::unique_ptr<HostileFleet> hostile_;  // with its attackers; null where there are none
  std::unique_ptr<AbsentFleet> fleet_;     // the engine as the method sees it
  std::int64_t rounds_ = 0;
  std::map<std::string, std::map<std::int64_t, double>> local_scores_;
  State global_;
  History history_;
  Archive kept_;                           // what the method keeps as of the last finished round
  bool knows_kept_ = false;                // false before the first
  std::set<std::int64_t> server_changes_;  // clients of which it changed since the last save
  std::chrono::steady_clock::time_point started_;
  double seconds_before_ = 0.0;  // of earlier processes of the same run
  WeightSource weight_source_;
  std::vector<std::string> notices_;
};

}  // namespace winnow
