#include "winnow/mpi/job.h"

#include <fmt/format.h>

#include <exception>
#include <utility>

#include "winnow/base/arithmetic.h"
#include "winnow/base/build_info.h"
#include "winnow/base/error.h"
#include "winnow/engine/crew.h"
#include "winnow/engine/fingerprint.h"
#include "winnow/mpi/mpi_engine.h"
#include "winnow/mpi/node_world.h"
#include "winnow/mpi/worker.h"
#include "winnow/run/workplace.h"

namespace winnow {
namespace {

// What ranks must have in common.
struct Kind {
  std::string version;
  std::string arithmetic;
  std::string fingerprint;
};

Kind likeness_here() {
  return {build_info::kVersion, current_arithmetic(), fingerprint()};
}

void check_alike(const Kind& first, const Kind& other, const std::string& rank) {
  if (first.version != other.version) {
    throw Error(ErrorKind::run, fmt::format("{} runs Winnow {}, rank 0 runs {}", rank,
                                            other.version, first.version));
  }
  if (first.fingerprint != other.fingerprint || first.arithmetic != other.arithmetic) {
    throw Error(
        ErrorKind::run,
        fmt::format("{} computes otherwise than rank 0: arithmetic {}, fingerprint {}, not {}, {}",
                    rank, other.arithmetic, other.fingerprint, first.arithmetic, first.fingerprint),
        first.arithmetic == other.arithmetic
            ? "the nodes need the same versions of the libraries"
            : "name one that all nodes have with --arithmetic, say avx2");
  }
}

std::string lanes_notice(const std::string& rank, std::int64_t lanes, std::int64_t cores) {
  return fmt::format(
      "{} has {} lanes on {} {}: start with 'mpirun --bind-to none', or with '--map-by "
      "slot:PE={}' or 'srun --cpus-per-task={}'",
      rank, lanes, cores, cores == 1 ? "core" : "cores", lanes, lanes);
}

}  // namespace

Engines Job::engines() {
  Engines engines = local_engines();
  engines.add({"mpi", "clients spread over the ranks of an MPI job",
               [this](const Runtime& runtime, const std::atomic<bool>* stop) {
                 return enter(runtime.patience, stop);
               },
               [this](const Experiment& experiment, const Registry& registry,
                      const Runtime& runtime, const std::atomic<bool>* stop) {
                 return host(experiment, registry, runtime, stop);
               }});
  return engines;
}

std::optional<int> Job::enter(double patience, const std::atomic<bool>* stop) {
  ranks_ = std::make_unique<Ranks>();
  ranks_->be_patient(patience);
  if (!ranks_->leads()) {
    serves_ = true;
    const Kind own = likeness_here();
    ranks_->send(0, Tag::answer,
                 ByteWriter().text(own.version).text(own.arithmetic).text(own.fingerprint).take());
    const int code = Worker(*ranks_, registry_, stop).serve();
    served_ = true;
    return code;
  }
  leader_ = std::make_unique<Leader>(*ranks_);
  greet();
  return std::nullopt;
}

void Job::greet() {
  const Kind own = likeness_here();
  std::exception_ptr first;
  for (const int rank : leader_->others()) {
    const std::string bytes = ranks_->receive(rank, Tag::answer);
    ByteReader reader(bytes);
    Kind other;
    other.version = reader.text();
    other.arithmetic = reader.text();
    other.fingerprint = reader.text();
    try {
      check_alike(own, other, ranks_->name(rank));
    } catch (const Error&) {
      first = first ? first : std::current_exception();
    }
  }
  if (first) {
    std::rethrow_exception(first);
  }
}

Hosted Job::host(const Experiment& experiment, const Registry& registry, const Runtime& runtime,
                 const std::atomic<bool>* stop) {
  if (leader_ == nullptr) {
    throw Error(ErrorKind::internal, "the engine mpi is used before it is entered");
  }
  ranks_->be_patient(runtime.patience);
  leader_->command_all(ByteWriter()
                           .put(Command::open)
                           .put(runtime.lanes)
                           .text(runtime.device)
                           .text(runtime.precision)
                           .put(runtime.client_memory_mb)
                           .put(runtime.patience)
                           .text(experiment.resolved().dump())
                           .take());
  Hosted hosted;
  std::exception_ptr error;
  try {
    World world = world_of_node(*ranks_, [&] { return make_world(experiment, registry); });
    hosted.place = std::make_unique<Workplace>(experiment, std::move(world), registry,
                                               settled(runtime, *ranks_), stop);
  } catch (...) {
    error = std::current_exception();
  }
  std::vector<std::int64_t> lanes{1};
  std::vector<std::int64_t> cores{ranks_->cores()};
  std::string digest;
  if (!error) {
    lanes[0] = hosted.place->crew().lanes();
    digest = digest_of(*hosted.place);
  }
  try {
    leader_->collect(leader_->others(), [&](int rank, ByteReader& answer) {
      lanes.push_back(answer.get<std::int64_t>());
      cores.push_back(answer.get<std::int64_t>());
      if (answer.text() != digest && !error) {
        throw Error(ErrorKind::data,
                    fmt::format("{}: its data are not those of rank 0", ranks_->name(rank)),
                    "all nodes must see the same data files");
      }
    });
  } catch (...) {
    error = error ? error : std::current_exception();
  }
  if (error) {
    leader_->command_all(ByteWriter().put(Command::close).take());
    std::rethrow_exception(error);
  }
  for (std::size_t rank = 0; rank < lanes.size(); ++rank) {
    if (hosted.place->crew().device().is_cpu() && lanes[rank] > cores[rank]) {
      hosted.notices.push_back(
          lanes_notice(ranks_->name(static_cast<int>(rank)), lanes[rank], cores[rank]));
    }
  }
  auto engine =
      std::make_unique<MpiEngine>(*leader_, *hosted.place, std::move(lanes), runtime.fold, stop);
  hosted.examiner = &engine->examiner();
  hosted.engine = std::move(engine);
  return hosted;
}

int Job::finish(int code) {
  if (ranks_ == nullptr) {
    return code;
  }
  if (serves_ && !served_) {
    Ranks::abort(code);  // rank 0 would wait for it
  }
  if (leader_ != nullptr) {
    leader_->command_all(ByteWriter().put(Command::stop).put(code).take());
  }
  leader_.reset();
  ranks_.reset();
  return code;
}

}  // namespace winnow
