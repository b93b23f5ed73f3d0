// winnow._core: the library as the Python package winnow uses it. The functions here take trees,
// paths and lists; what users see is in python/winnow.
#include <ATen/ATen.h>
#include <fmt/format.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <deque>
#include <filesystem>
#include <optional>

#include "array_source.h"
#include "calling_thread.h"
#include "convert.h"
#include "python_method.h"
#include "winnow/audit/audit.h"
#include "winnow/audit/output.h"
#include "winnow/base/arithmetic.h"
#include "winnow/base/build_info.h"
#include "winnow/base/error.h"
#include "winnow/base/files.h"
#include "winnow/engine/fingerprint.h"
#include "winnow/experiment/changed_settings.h"
#include "winnow/experiment/description.h"
#include "winnow/experiment/toml.h"
#include "winnow/federation/aggregation.h"
#include "winnow/report/page.h"
#include "winnow/report/table.h"
#include "winnow/run/directory_lock.h"
#include "winnow/run/runner.h"
#include "winnow/sweep/collect_results.h"
#include "winnow/sweep/execution.h"
#include "winnow/sweep/report_data.h"

namespace winnow::python {
namespace {

namespace fs = std::filesystem;

const char* kind_name(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::usage:
      return "usage";
    case ErrorKind::experiment:
      return "experiment";
    case ErrorKind::data:
      return "data";
    case ErrorKind::run:
      return "run";
    case ErrorKind::peer:
      return "peer";
    default:
      return "internal";
  }
}

void translate_error(std::exception_ptr pointer) {
  try {
    std::rethrow_exception(pointer);
  } catch (const Error& error) {
    const py::object type = py::module_::import("winnow._errors").attr("Error");
    const py::object made = type(error.what(), kind_name(error.kind()), error.hint());
    PyErr_SetObject(type.ptr(), made.ptr());
  } catch (const Interrupted&) {
    PyErr_SetNone(PyExc_KeyboardInterrupt);
  }
}

// One call from Python: the thread it came on, and everything that has a name in it.
class Call {
 public:
  Call(const py::list& methods, std::shared_ptr<const Arrays> arrays) {
    for (const py::handle method : methods) {
      rules_.emplace_back(py::reinterpret_borrow<py::object>(method));
      registry_.methods.add(python_method(rules_.back(), caller_));
    }
    registry_.data_sets.add(python_data(std::move(arrays)));
  }

  CallingThread& caller() { return caller_; }
  const Registry& registry() const { return registry_; }
  const std::atomic<bool>* stop() const { return &caller_.stop(); }

 private:
  CallingThread caller_;
  std::deque<Rule> rules_;
  Registry registry_;
};

Runtime runtime_of(const py::dict& options) {
  Runtime runtime;
  runtime.lanes = options["lanes"].cast<std::int64_t>();
  runtime.device = options["device"].cast<std::string>();
  runtime.precision = options["precision"].cast<std::string>();
  runtime.trust_model = options["trust_model"].cast<bool>();
  return runtime;
}

// Tells a Python function, as dicts.
class Teller {
 public:
  Teller(py::object function, CallingThread& caller)
      : function_(std::move(function)), caller_(caller) {}

  void tell(const Json& event) const {
    if (!function_.is_none()) {
      caller_.call([&] { function_(to_python(event)); });
    }
  }

 private:
  py::object function_;
  CallingThread& caller_;
};

class RunTeller final : public RunObserver {
 public:
  explicit RunTeller(const Teller& teller) : teller_(teller) {}

  void started(const Session& session) override {
    Json notices = Json::array();
    for (const std::string& notice : session.notices()) {
      notices.push_back(notice);
    }
    teller_.tell({{"event", "started"},
                  {"name", session.experiment().name},
                  {"method", session.experiment().method},
                  {"data", session.world().data.name},
                  {"clients", session.engine().size()},
                  {"rounds", session.rounds()},
                  {"rounds_done", session.rounds_done()},
                  {"lanes", session.engine().workforce().lanes},
                  {"device", session.engine().workforce().device.str()},
                  {"notices", notices}});
  }
  void played(const Session& session, const Session::Played& played) override {
    const auto& accuracy = played.record.accuracy;
    teller_.tell({{"event", "round"},
                  {"round", session.rounds_done()},
                  {"rounds", session.rounds()},
                  {"accuracy", accuracy ? Json(*accuracy) : Json(nullptr)}});
  }
  void stopped() override { teller_.tell({{"event", "stopped"}}); }

 private:
  const Teller& teller_;
};

class SweepTeller final : public SweepObserver {
 public:
  explicit SweepTeller(const Teller& teller) : teller_(teller) {}

  void progress(const SweepProgress& progress, bool last) override {
    teller_.tell({{"event", last ? "stopped" : "run"},
                  {"runs", progress.chosen},
                  {"done", progress.skipped + progress.finished},
                  {"failed", progress.failed}});
  }

 private:
  const Teller& teller_;
};

// The tree, and the file it was read from for messages.
Experiment experiment_of(const Json& tree, const std::string& source, const Registry& registry) {
  try {
    return parse_experiment(tree, registry);
  } catch (const Error& error) {
    if (source.empty()) {
      throw;
    }
    throw Error(error.kind(), fmt::format("{}: {}", source, error.what()), error.hint());
  }
}

Json tree_of(const py::dict& tree) {
  Json json = to_json(tree, "");
  anchor_paths(json, fs::current_path());
  return json;
}

py::object run(const py::dict& tree, const std::string& source, const std::string& out, bool force,
               const py::list& methods, std::shared_ptr<Arrays> arrays, const py::dict& options,
               py::object progress) {
  Call call(methods, std::move(arrays));
  const Teller teller(std::move(progress), call.caller());
  RunTeller observer(teller);
  const Runtime runtime = runtime_of(options);
  const Json settings = tree_of(tree);
  RunOutcome outcome;
  call.caller().run([&] {
    const Experiment experiment = experiment_of(settings, source, call.registry());
    outcome = start_run(experiment, call.registry(), runtime, out, call.stop(), observer,
                        force ? IfExists::replace : IfExists::refuse);
  });
  return to_python(outcome.summary);
}

py::object resume(const std::string& directory, const py::list& methods,
                  std::shared_ptr<Arrays> arrays, const py::dict& options, py::object progress) {
  Call call(methods, std::move(arrays));
  const Teller teller(std::move(progress), call.caller());
  RunTeller observer(teller);
  const Runtime runtime = runtime_of(options);
  RunOutcome outcome;
  call.caller().run(
      [&] { outcome = resume_run(directory, call.registry(), runtime, call.stop(), observer); });
  return to_python(outcome.summary);
}

// The runs of a sweep one after the other in this process: another one would not have what Python
// has added.
py::object sweep(const py::dict& tree, const std::string& folder, const std::string& name,
                 const std::string& out, bool force, bool smoke, const py::list& methods,
                 std::shared_ptr<Arrays> arrays, const py::dict& options, py::object progress) {
  Call call(methods, std::move(arrays));
  const Teller teller(std::move(progress), call.caller());
  SweepTeller observer(teller);
  const ExecutionOptions execution_options{.runtime = runtime_of(options)};
  const Json settings = to_json(tree, "");
  Json outcome;
  call.caller().run([&] {
    const Sweep sweep =
        make_sweep(settings, folder, name, call.registry(), smoke ? Scale::smoke : Scale::full);
    const fs::path directory = out.empty() ? fs::path("runs") / sweep.name : fs::path(out);
    const std::vector<PlannedRun> plan = plan_sweep(sweep, directory, {}, call.registry());
    if (!force) {
      refuse_foreign(plan, directory);
    }
    refuse_links(directory, {"experiments", "logs"});
    std::error_code failed;  // the lock says why
    fs::create_directories(directory, failed);
    const DirectoryLock lock(directory,
                             fmt::format("another sweep is running in {}", directory.string()));
    write_sweep_index(directory, sweep);
    SweepExecution execution(plan, directory, execution_options, observer);
    execution.execute_here(call.registry(), *call.stop());
    Json failures = Json::array();
    for (const SweepExecution::Failure& failure : execution.failures()) {
      failures.push_back({{"run", failure.run}, {"words", failure.words}});
    }
    outcome = {{"directory", directory.string()}, {"failures", failures}, {"runs", Json::array()}};
    for (const SweepRun& run : sweep.runs) {
      outcome["runs"].push_back(
          {{"id", run.id}, {"row", run.row}, {"column", run.column}, {"seed", run.seed}});
    }
  });
  return to_python(outcome);
}

py::object audit(const py::dict& tree, const py::dict& judging, std::int64_t pictures,
                 const py::list& methods, std::shared_ptr<Arrays> arrays, const py::dict& options,
                 py::object progress) {
  Call call(methods, std::move(arrays));
  const Teller teller(std::move(progress), call.caller());
  const Runtime runtime = runtime_of(options);
  Json settings = tree_of(tree);
  add_audit_defaults(settings);
  AuditOptions wanted;
  wanted.judge.folds = judging["folds"].cast<std::int64_t>();
  wanted.judge.repetitions = judging["repeat"].cast<std::int64_t>();
  const auto plant = judging["plant"].cast<std::optional<double>>();
  Json found;
  call.caller().run([&] {
    const Experiment experiment = parse_experiment(settings, call.registry());
    const World world = make_world(experiment, call.registry());
    wanted.plant = plant.value_or(world.truth_known ? 0.0 : wanted.plant);
    const Audit audit = audit_world(
        experiment, world, wanted, call.registry(), runtime, call.stop(),
        [&](std::int64_t done, std::int64_t of, double agreement) {
          teller.tell(
              {{"event", "round"}, {"round", done}, {"rounds", of}, {"accuracy", agreement}});
        });
    teller.tell({{"event", "stopped"}});
    found = {{"json", audit_json(audit, world, experiment, wanted)},
             {"audit.csv", clients_csv(audit, world)},
             {"samples.csv", samples_csv(audit, world)},
             {"relabel.csv", relabel_csv(audit, world)},
             {"audit.html", pictures < 0 ? std::string()
                                         : render_audit_page(audit_page_data(
                                               audit, world, experiment, pictures))}};
  });
  return to_python(found);
}

std::string table(const std::vector<std::string>& directories,
                  const std::vector<std::string>& metrics, const py::list& methods) {
  const Call call(methods, nullptr);
  return render_table(collect_results(directories, metrics, call.registry()),
                      {.metrics = metrics, .format = "csv"});
}

std::string report(const std::vector<std::string>& directories, const py::list& methods) {
  const Call call(methods, nullptr);
  Json data = ReportReader(directories, call.registry()).read();
  add_changed_settings(data, call.registry());
  return render_page(data);
}

py::object describe_named(const std::string& name, const py::list& methods) {
  const Call call(methods, nullptr);
  py::list list;
  for (const Json& json : describe(name, call.registry())) {
    list.append(to_python(json));
  }
  return list;
}

py::object list_methods(const py::list& methods) {
  const Call call(methods, nullptr);
  Json list = Json::array();
  for (const MethodInfo& info : call.registry().methods) {
    list.push_back({{"name", info.name}, {"group", info.group}, {"summary", info.summary}});
  }
  return to_python(list);
}

// Models by name and their weights, folded in the order of the list.
py::dict mean(const std::shared_ptr<Layout>& layout, const py::list& models,
              const std::vector<double>& weights) {
  WeightedMean mean;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const double weight = weights[i];
    if (!(weight >= 0.0 && weight <= std::numeric_limits<double>::max())) {
      throw Error(ErrorKind::usage, fmt::format("mean: a weight is {}", weight),
                  "expected weights that are finite and not negative");
    }
    const py::object model = models[i];
    const py::dict tensors = model.cast<py::dict>();
    const at::Device device =
        tensors.empty() ? at::Device(at::kCPU) : unwrap((*tensors.begin()).second).device();
    mean.add(to_state(layout, tensors, device, "mean"), weight);
  }
  return named_tensors(mean.finish());
}

std::shared_ptr<Arrays> make_arrays(py::handle images, py::handle labels,
                                    std::vector<std::string> clients, py::handle test_images,
                                    py::handle test_labels) {
  const auto samples = [](py::handle x, py::handle y) {
    const at::Tensor given = unwrap(y).to(at::kLong).contiguous();
    const auto* first = given.data_ptr<std::int64_t>();
    return Samples{unwrap(x), Labels(first, first + given.numel())};
  };
  auto arrays = std::make_shared<Arrays>();
  arrays->train = samples(images, labels);
  arrays->clients = std::move(clients);
  if (!test_images.is_none()) {
    arrays->test = samples(test_images, test_labels);
  }
  arrays->digest = digest_of(*arrays);
  return arrays;
}

}  // namespace

PYBIND11_MODULE(_core, module) {
  module.doc() = "What the package winnow is made of; use the package.";
  module.attr("__version__") = build_info::kVersion;
  py::register_exception_translator(&translate_error);

  py::class_<Layout, std::shared_ptr<Layout>>(
      module, "Layout", "The names, shapes and order of the tensors of a model.")
      .def("names", [](const Layout& layout) {
        std::vector<std::string> names;
        std::ranges::transform(layout.slots(), std::back_inserter(names), &Slot::name);
        return names;
      });
  py::class_<Arrays, std::shared_ptr<Arrays>>(module, "Arrays", "A data set in memory.")
      .def(py::init(&make_arrays), py::arg("images"), py::arg("labels"), py::arg("clients"),
           py::arg("test_images"), py::arg("test_labels"))
      .def_readonly("digest", &Arrays::digest)
      .def_property_readonly("images",
                             [](const Arrays& arrays) { return wrap(arrays.train.images); })
      .def("number_of_clients", &number_of_clients);

  module.def("read_tree",
             [](const std::string& file) { return to_python(load_experiment_tree(file, {})); });
  module.def("set_by_path", [](const py::dict& tree, const std::string& key, py::handle value) {
    Json json = to_json(tree, "");
    set_by_path(json, key, to_json(value, key));
    return to_python(json);
  });
  module.def("run", &run);
  module.def("resume", &resume);
  module.def("sweep", &sweep);
  module.def("audit", &audit);
  module.def("audit_settings",
             [](const py::dict& data) { return to_python(audit_settings(to_json(data, "data"))); });
  module.def("table", &table);
  module.def("table_metrics", &table_metrics);
  module.def("report", &report);
  module.def("describe", &describe_named);
  module.def("methods", &list_methods);
  module.def("mean", &mean);
  module.def("arithmetic", &current_arithmetic);
}

}  // namespace winnow::python
