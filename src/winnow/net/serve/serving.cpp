#include "winnow/net/serve/serving.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <malloc.h>
#include <sys/resource.h>

#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <tuple>
#include <utility>

#include "winnow/base/error.h"
#include "winnow/base/files.h"
#include "winnow/engine/crew.h"
#include "winnow/engine/local_examiner.h"
#include "winnow/experiment/server_world.h"
#include "winnow/net/mask/terms.h"
#include "winnow/net/pki/credentials.h"
#include "winnow/net/pki/revocations.h"
#include "winnow/net/serve/desk.h"
#include "winnow/net/serve/members_file.h"
#include "winnow/net/serve/net_engine.h"
#include "winnow/net/serve/network_log.h"
#include "winnow/net/serve/reply_bounds.h"
#include "winnow/net/serve/service.h"
#include "winnow/report/page_server.h"
#include "winnow/run/charter.h"
#include "winnow/run/directory_lock.h"
#include "winnow/run/run_directory.h"

namespace winnow::net {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::milliseconds kTick{100};

// A connection for every member, and files for replies that come in.
void raise_limit_of_files() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) == 0) {
    limit.rlim_cur = limit.rlim_max;
    ::setrlimit(RLIMIT_NOFILE, &limit);
  }
}

// What no member would accept is better said here.
void check_charter(const Charter& charter) {
  try {
    std::ignore = read_charter(charter.text());
  } catch (const Error& error) {
    throw Error(ErrorKind::experiment, fmt::format("members would refuse {}", error.what()),
                error.hint());
  }
}

// A thread that is told to stop and waited for when it goes.
class Helper {
 public:
  explicit Helper(const std::function<void(const std::atomic<bool>& stop)>& work)
      : thread_([this, work] { work(stop_); }) {}
  ~Helper() {
    stop_ = true;
    thread_.join();
  }
  Helper(const Helper&) = delete;
  Helper& operator=(const Helper&) = delete;

 private:
  std::atomic<bool> stop_ = false;
  std::thread thread_;
};

// Everything that a server has; also the observer of its run, by which it learns when there is a
// directory to write into.
class Serving final : public RunObserver {
 public:
  Serving(const ServeFile& file, const ServeCall& call)
      : file_(file),
        call_(call),
        credentials_(
            read_credentials(file.options.certificate, file.options.key, file.options.authority)),
        federation_(read_certificate(credentials_.authority).federation),
        revocations_(file.options.revoked) {
    declare_server_metrics(metrics_);
    metrics_.set("winnow_certificate_expiry_seconds", label("name", "server"),
                 static_cast<double>(read_certificate(credentials_.certificate).expires));
  }

  RunOutcome play(const Registry& registry) {
    Runtime runtime = call_.runtime;
    runtime.engines = local_engines();
    runtime.engines.add(
        {"net", "members of a federation, over a network", nullptr,
         [this](const Experiment& experiment, const Registry& known, const Runtime& how,
                const std::atomic<bool>* stop) { return host(experiment, known, how, stop); }});
    runtime.engine = "net";
    const Experiment experiment = parse_experiment(file_.tree, registry);
    check_servable(experiment, registry);
    check_sums(file_.options, experiment);
    resumes_ = !call_.replace && fs::exists(call_.directory / kExperimentFile);
    RunOutcome outcome;
    if (resumes_) {
      check_same(experiment, registry);
      outcome = resume_run(call_.directory, registry, runtime, call_.stop, *this);
      if (desk_ == nullptr) {
        tell_the_rest(experiment, registry, runtime, outcome);
        return outcome;
      }
    } else {
      outcome = start_run(experiment, registry, runtime, call_.directory, call_.stop, *this,
                          call_.replace ? IfExists::replace : IfExists::refuse);
    }
    if (desk_ != nullptr && !outcome.interrupted) {
      say_goodbye(outcome);
    }
    return outcome;
  }

  void started(const Session& session) override {
    if (desk_ == nullptr) {
      open(session.experiment());
    }
    log_->write("info", resumes_ ? "restart" : "start",
                {{"rounds_done", session.rounds_done()}, {"charter", charter_.hash()}});
    metrics_.set("winnow_round", "", static_cast<double>(session.rounds_done()));
    members_->write(session.rounds_done());
    start_service();
    serve_metrics();
    say(fmt::format("charter {}", charter_.hash()));
    if (file_.options.revoked.empty()) {
      const char* line = "serve.revoked is not set: revoked certificates are still accepted";
      log_->write("warning", "revocations", {{"detail", line}});
      say(line);
    }
    const std::int64_t joined = desk_->joined();
    const std::int64_t least = start_with();
    if (joined < least && session.rounds_done() == 0 && !journal_->round(0)) {
      say(fmt::format("waiting for {} of {} members", least - joined, least));
    }
    if (call_.listening) {
      call_.listening(service_->port(), pages_ == nullptr ? std::uint16_t{0} : pages_->port());
    }
    before_ = std::chrono::steady_clock::now();
    if (call_.observer != nullptr) {
      call_.observer->started(session);
    }
  }

  void played(const Session& session, const Session::Played& played) override {
    const auto now = std::chrono::steady_clock::now();
    metrics_.observe("winnow_round_seconds", "",
                     std::chrono::duration<double>(now - before_).count());
    before_ = now;
    members_->write(session.rounds_done());
    ::malloc_trim(0);  // what calls have left free between what stays
    if (call_.observer != nullptr) {
      call_.observer->played(session, played);
    }
  }

  void stopped() override {
    if (call_.observer != nullptr) {
      call_.observer->stopped();
    }
  }

 private:
  void say(const std::string& line) const {
    if (call_.say) {
      call_.say(line);
    }
  }

  // The run was over already, but perhaps not everybody has heard. Its result stands in any case.
  void tell_the_rest(const Experiment& experiment, const Registry& registry, const Runtime& runtime,
                     const RunOutcome& outcome) {
    if (!fs::exists(call_.directory / kJournalFile)) {
      return;
    }
    try {
      const DirectoryLock lock(call_.directory, fmt::format("another process is running in {}",
                                                            call_.directory.string()));
      const Hosted hosted = host(experiment, registry, runtime, call_.stop);
      if (!desk_->all_told()) {
        start_service();
        say_goodbye(outcome);
        service_.reset();
      }
    } catch (const Error& error) {
      say(fmt::format("members cannot be told that the federation is over: {}", error.what()));
    }
  }

  void start_service() {
    service_ = std::make_unique<Service>(
        *desk_, file_.options.host, static_cast<std::uint16_t>(file_.options.port), credentials_);
    ticker_ = std::make_unique<Helper>([this](const std::atomic<bool>& stop) {
      while (!stop) {
        desk_->tick();
        members_->look();
        std::this_thread::sleep_for(kTick);
      }
    });
    say(fmt::format("serving on {}:{}", file_.options.host, service_->port()));
  }

  std::int64_t start_with() const {
    const std::int64_t all = charter_.members;
    return file_.options.start_with == 0 ? all : std::min(file_.options.start_with, all);
  }

  // The file decides nothing that the run has decided already.
  void check_same(const Experiment& experiment, const Registry& registry) const {
    const Experiment begun = read_run_experiment(call_.directory, registry);
    if (begun.hash() != experiment.hash()) {
      throw Error(ErrorKind::run,
                  fmt::format("{} holds a run of another experiment", call_.directory.string()),
                  "serve the file that it was begun with, or choose another --out");
    }
  }

  Hosted host(const Experiment& experiment, const Registry& registry, const Runtime& runtime,
              const std::atomic<bool>* stop) {
    Hosted hosted;
    hosted.place = std::make_unique<Workplace>(experiment, server_world(experiment, registry),
                                               registry, runtime, stop);
    const Workplace& place = *hosted.place;
    exchanges_ = place.exchanges();
    if (file_.options.secure_sums) {
      exchanges_ = mask::masked_exchanges(exchanges_, place.setting().clients);
      charter_ = make_masked_charter(federation_, experiment, place, exchanges_);
    } else {
      charter_ = make_charter(federation_, experiment, place);
    }
    check_calls(exchanges_);
    check_charter(charter_);
    setup_ = make_setup(place);
    NetEngineOptions options{file_.options.quorum, file_.options.retry, start_with()};
    if (charter_.masked) {
      options.masks = mask::MaskTerms{federation_, charter_.hash(), credentials_.authority};
    }
    auto engine = std::make_unique<NetEngine>(place, std::move(options), clock_, stop);
    engine_ = engine.get();
    if (resumes_) {
      open(experiment);
    }
    hosted.engine = std::move(engine);
    hosted.examiner = &hosted.place->examiner();
    return hosted;
  }

  DeskSetup make_setup(const Workplace& place) {
    const ServeOptions& options = file_.options;
    DeskSetup setup;
    setup.federation = federation_;
    setup.charter = charter_.text();
    setup.charter_hash = charter_.hash();
    setup.numerics = charter_.numerics;
    setup.open = options.open();
    setup.deadline = options.deadline;
    setup.patience = options.patience;
    setup.strict = options.strict;
    setup.norm_band = options.norm_band;
    setup.samples_at_most = options.samples_at_most;
    setup.exchanges = exchanges_;
    for (std::int64_t client = 0; client < place.setting().clients; ++client) {
      setup.layouts.push_back(place.crew().layout_of(client));
    }
    if (place.world().public_images.defined()) {
      setup.public_images = place.world().public_images.to(at::kCPU).contiguous();
      setup.public_digest = charter_.public_digest;
    }
    setup.revoked = [this](const std::string& fingerprint) { return is_revoked(fingerprint); };
    setup.log = [this](const std::string& level, const std::string& event, const Json& fields) {
      report(level, event, fields);
    };
    setup.fail = call_.fail;
    return setup;
  }

  void report(const std::string& level, const std::string& event, const Json& fields) {
    log_->write(level, event, fields);
    if (event == "join") {
      say(fmt::format(
          "{} has joined: client {}, {} samples", fields.at("member").get<std::string>(),
          fields.at("client").get<std::int64_t>(), fields.at("samples").get<std::int64_t>()));
    } else if (level != "info") {
      say(fmt::format("{}: {}", event,
                      fields.dump(-1, ' ', false, Json::error_handler_t::replace)));
    }
  }

  // While the list cannot be read what was revoked stays so, but nothing is added: that is said.
  // The desk asks with its lock, so one call at a time.
  bool is_revoked(const std::string& fingerprint) {
    const bool revoked = revocations_.contains(fingerprint);
    if (std::string problem = revocations_.problem(); problem != problem_) {
      problem_ = std::move(problem);
      report(problem_.empty() ? "info" : "error", "revocations",
             {{"detail", problem_.empty() ? "the list can be read again" : problem_}});
    }
    return revoked;
  }

  void open(const Experiment& experiment) {
    const fs::path& directory = call_.directory;
    log_ = std::make_unique<NetworkLog>(directory / kNetworkFile, clock_);
    journal_ =
        std::make_unique<Journal>(directory / kJournalFile,
                                  JournalOwner{federation_, experiment.hash(), charter_.hash(),
                                               charter_.text(), charter_.layout},
                                  file_.members);
    journal_->observe(
        [this](double seconds) { metrics_.observe("winnow_journal_sync_seconds", "", seconds); });
    spool_ = std::make_unique<Spool>(directory / kSpoolFolder);
    desk_ = std::make_unique<Desk>(setup_, *journal_, *spool_, clock_, metrics_);
    members_ = std::make_unique<MembersFile>(directory / kMembersFile, *desk_, clock_);
    engine_->attach(*desk_, *journal_);
  }

  std::string metrics_text() {
    metrics_.clear("winnow_members");
    for (const char* status :
         {"enrolled", "present", "working", "away", "left", "revoked", "done"}) {
      metrics_.set("winnow_members", label("status", status), 0.0);
    }
    for (const MemberView& view : desk_->members()) {
      metrics_.add("winnow_members", label("status", view.status));
      if (view.expires > 0) {
        metrics_.set("winnow_certificate_expiry_seconds", label("name", view.row.name),
                     static_cast<double>(view.expires));
      }
    }
    metrics_.set("winnow_spool_bytes", "", static_cast<double>(spool_->bytes()));
    return metrics_.text();
  }

  void serve_metrics() {
    if (file_.options.metrics_port == 0) {
      return;
    }
    pages_ = std::make_unique<PageServer>(
        static_cast<std::uint16_t>(file_.options.metrics_port),
        [this](const std::string& path, const std::string&) -> PageAnswer {
          return path == "/metrics" ? PageAnswer{"text/plain; version=0.0.4", metrics_text(), ""}
                                    : PageAnswer{};
        });
    page_thread_ =
        std::make_unique<Helper>([this](const std::atomic<bool>& stop) { pages_->serve(stop); });
    say(fmt::format("metrics on http://127.0.0.1:{}/metrics", pages_->port()));
  }

  void say_goodbye(const RunOutcome& outcome) {
    desk_->settle(outcome.rounds_done);
    members_->write(outcome.rounds_done);
    desk_->finish(outcome.summary.at("model_hash").get<std::string>());
    if (!desk_->all_told()) {
      say(fmt::format(
          "waiting up to {:.0f} seconds for members to hear that the federation is over",
          call_.farewell));
    }
    const auto until =
        std::chrono::steady_clock::now() + std::chrono::duration<double>(call_.farewell);
    while (!desk_->all_told() && std::chrono::steady_clock::now() < until &&
           (call_.stop == nullptr || !*call_.stop)) {
      std::this_thread::sleep_for(kTick);
    }
    members_->write(outcome.rounds_done);
    log_->write("info", "finished", {{"rounds", outcome.rounds_done}});
  }

  const ServeFile& file_;
  const ServeCall& call_;
  SystemClock clock_;
  Metrics metrics_;
  Credentials credentials_;
  std::string federation_;
  Revocations revocations_;
  std::string problem_;  // of the list of revocations, as it was said last
  bool resumes_ = false;
  Charter charter_;
  std::vector<Exchange> exchanges_;  // the method's, or those under masks
  DeskSetup setup_;
  NetEngine* engine_ = nullptr;  // the session's
  std::unique_ptr<NetworkLog> log_;
  std::unique_ptr<Journal> journal_;
  std::unique_ptr<Spool> spool_;
  std::unique_ptr<Desk> desk_;
  std::unique_ptr<MembersFile> members_;
  std::chrono::steady_clock::time_point before_;
  // What uses the desk goes before it.
  std::unique_ptr<PageServer> pages_;
  std::unique_ptr<Helper> page_thread_;
  std::unique_ptr<Helper> ticker_;
  std::unique_ptr<Service> service_;
};

}  // namespace

RunOutcome serve(const ServeFile& file, const Registry& registry, const ServeCall& call) {
  raise_limit_of_files();
  Serving serving(file, call);
  return serving.play(registry);
}

}  // namespace winnow::net
