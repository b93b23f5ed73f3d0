#include "python_method.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <deque>
#include <variant>

#include "convert.h"
#include "winnow/base/error.h"
#include "winnow/method/base_method.h"

namespace winnow::python {
namespace {

using Value = std::variant<bool, std::int64_t, double, std::string>;

Value value_of(const Json& json) {
  switch (json.type()) {
    case Json::value_t::boolean:
      return json.get<bool>();
    case Json::value_t::number_integer:
    case Json::value_t::number_unsigned:
      return json.get<std::int64_t>();
    case Json::value_t::number_float:
      return json.get<double>();
    default:
      return json.get<std::string>();
  }
}

// What the rule has kept, as a checkpoint stores it: tensors, and values as JSON. It has this form
// between any two rounds, so that a run that goes on and one that is resumed see the same.
py::dict opened(const Archive& kept) {
  py::dict state;
  for (const auto& [name, value] : kept.values.items()) {
    state[py::str(name)] = to_python(value);
  }
  for (const auto& [name, tensor] : kept.tensors) {
    state[py::str(name)] = wrap(tensor.clone());
  }
  return state;
}

Archive closed(py::handle state, const std::string& who) {
  Archive kept;
  for (const auto& [key, value] : py::reinterpret_borrow<py::dict>(state)) {
    if (!py::isinstance<py::str>(key)) {
      throw Error(ErrorKind::run, fmt::format("{}: a key of the state is not a text", who));
    }
    const auto name = key.cast<std::string>();
    if (is_tensor(value)) {
      kept.put(name, unwrap(value).detach().to(at::kCPU, /*non_blocking=*/false, /*copy=*/true));
    } else {
      kept.values[name] = to_json(value, fmt::format("{}: state.{}", who, name));
    }
  }
  return kept;
}

class PythonMethod final : public BaseMethod {
 public:
  PythonMethod(const Rule& rule, CallingThread& caller) : rule_(rule), caller_(caller) {
    for (const auto& [name, value] : rule.parameters) {
      values_.push_back(value_of(value));
    }
  }

  void declare(Params& params) override {
    for (std::size_t i = 0; i < values_.size(); ++i) {
      std::visit(
          [&](auto& value) {
            params.add(rule_.parameters[i].first, value, "parameter of the Python function");
          },
          values_[i]);
    }
  }

  std::vector<std::int64_t> select(Round& round, std::int64_t count) override {
    if (!rule_.selects) {
      return BaseMethod::select(round, count);
    }
    std::vector<std::int64_t> chosen;
    caller_.call([&] {
      chosen = rule_.method.attr("choose")(round.pool.ids(), count, round.number + 1)
                   .cast<std::vector<std::int64_t>>();
    });
    std::ranges::sort(chosen);
    const bool twice = std::ranges::adjacent_find(chosen) != chosen.end();
    if (chosen.empty() || twice || !std::ranges::includes(round.pool, chosen)) {
      throw Error(ErrorKind::run,
                  fmt::format("method {}: select chose {}", rule_.name,
                              chosen.empty() ? "nobody"
                              : twice        ? "a client twice"
                                             : "a client that is not among those it was given"),
                  "expected some of the clients, each once");
    }
    return chosen;
  }

  void begin(Round& /*round*/) override { uploads_.clear(); }

  void add(Round& /*round*/, const Upload& upload) override {
    // The rule may write into what it is given, and a client may have kept the same buffer.
    uploads_.push_back({upload.client, upload.samples, upload.weight(), upload.model().clone()});
  }

  bool can_finish() const override { return !uploads_.empty(); }

  State finish(Round& round) override {
    State next;
    caller_.call([&] { next = play(round); });
    uploads_.clear();
    return next;
  }

  void save(Archive& archive) const override {
    archive.tensors = kept_.tensors;
    archive.values = kept_.values;
  }

  void load(const Archive& archive) override {
    kept_ = {};
    kept_.tensors = archive.tensors;
    kept_.values = archive.values;
  }

 private:
  struct Sent {
    std::int64_t client;
    double samples;
    double weight;
    State model;
  };

  // With the GIL.
  State play(const Round& round) {
    const LayoutPtr layout = round.global.layout;
    py::list uploads;
    for (const Sent& sent : uploads_) {
      uploads.append(
          py::make_tuple(sent.client, sent.samples, sent.weight, named_tensors(sent.model)));
    }
    py::dict parameters;
    for (std::size_t i = 0; i < values_.size(); ++i) {
      parameters[py::str(rule_.parameters[i].first)] =
          std::visit([](const auto& value) -> py::object { return py::cast(value); }, values_[i]);
    }
    const py::dict state = opened(kept_);
    const std::string who = fmt::format("method {}", rule_.name);
    const py::object next = rule_.method.attr("play")(named_tensors(round.global.clone()), uploads,
                                                      std::const_pointer_cast<Layout>(layout),
                                                      round.number + 1, state, parameters);
    State model = to_state(layout, next, round.global.flat.device(), who);
    kept_ = closed(state, who);
    return model;
  }

  const Rule& rule_;
  CallingThread& caller_;
  std::deque<Value> values_;  // of the parameters
  std::vector<Sent> uploads_;
  Archive kept_;
};

}  // namespace

Rule::Rule(py::object its_method)
    : method(std::move(its_method)),
      name(method.attr("name").cast<std::string>()),
      summary(method.attr("summary").cast<std::string>()),
      selects(!method.attr("select").is_none()) {
  for (const auto& [key, value] : method.attr("parameters").cast<py::dict>()) {
    parameters.emplace_back(key.cast<std::string>(), to_json(value, name));
  }
}

MethodInfo python_method(const Rule& rule, CallingThread& caller) {
  return {rule.name, "python", rule.summary,
          [&rule, &caller] { return std::make_unique<PythonMethod>(rule, caller); }};
}

}  // namespace winnow::python
