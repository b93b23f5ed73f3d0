#include "convert.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/python_variable.h>

#include "winnow/base/error.h"
#include "winnow/federation/aggregation.h"

namespace winnow::python {
namespace {

std::string type_name(py::handle value) {
  return py::str(py::type::handle_of(value).attr("__name__"));
}

Json integer(py::handle value, const std::string& where) {
  int overflow = 0;
  const long long number = PyLong_AsLongLongAndOverflow(value.ptr(), &overflow);
  if (overflow == 0) {
    return number;
  }
  const unsigned long long large =
      overflow > 0 ? PyLong_AsUnsignedLongLong(value.ptr()) : static_cast<unsigned long long>(-1);
  if (PyErr_Occurred() != nullptr || overflow < 0) {
    PyErr_Clear();
    throw Error(ErrorKind::usage, fmt::format("{}: a number of more than 64 bits", where));
  }
  return large;
}

Json object(const py::dict& dict, const std::string& where) {
  Json json = Json::object();
  for (const auto& [key, value] : dict) {
    if (!py::isinstance<py::str>(key)) {
      throw Error(ErrorKind::usage,
                  fmt::format("{}: a key is a {}, expected a text", where, type_name(key)));
    }
    const std::string name = py::str(key);
    append_member(json, name, to_json(value, where.empty() ? name : where + "." + name));
  }
  return json;
}

Json array(py::handle list, const std::string& where) {
  Json json = Json::array();
  for (const py::handle value : list) {
    json.push_back(to_json(value, fmt::format("{}.{}", where, json.size())));
  }
  return json;
}

}  // namespace

Json to_json(py::handle value, const std::string& where) {
  if (value.is_none()) {
    return nullptr;
  }
  if (py::isinstance<py::bool_>(value)) {
    return value.cast<bool>();
  }
  if (py::isinstance<py::int_>(value)) {
    return integer(value, where);
  }
  if (py::isinstance<py::float_>(value)) {
    return value.cast<double>();
  }
  if (py::isinstance<py::str>(value)) {
    return value.cast<std::string>();
  }
  if (py::isinstance<py::dict>(value)) {
    return object(py::reinterpret_borrow<py::dict>(value), where);
  }
  if (py::isinstance<py::list>(value) || py::isinstance<py::tuple>(value)) {
    return array(value, where);
  }
  if (py::hasattr(value, "__fspath__")) {
    return value.attr("__fspath__")().cast<std::string>();
  }
  // A number of NumPy, or a tensor that is one.
  if (py::hasattr(value, "item") && py::len_hint(value) == 0) {
    const py::object number = value.attr("item")();
    if (PyNumber_Check(number.ptr()) != 0) {
      return to_json(number, where);
    }
  }
  throw Error(ErrorKind::usage,
              fmt::format("{}: a {} cannot be written down", where, type_name(value)),
              "expected a number, a text, a truth value, a list or a dict of these");
}

py::object to_python(const Json& value) {
  switch (value.type()) {
    case Json::value_t::boolean:
      return py::bool_(value.get<bool>());
    case Json::value_t::number_integer:
      return py::int_(value.get<std::int64_t>());
    case Json::value_t::number_unsigned:
      return py::int_(value.get<std::uint64_t>());
    case Json::value_t::number_float:
      return py::float_(value.get<double>());
    case Json::value_t::string:
      return py::str(value.get_ref<const std::string&>());
    case Json::value_t::array: {
      py::list list;
      for (const Json& entry : value) {
        list.append(to_python(entry));
      }
      return list;
    }
    case Json::value_t::object: {
      py::dict dict;
      for (const auto& [key, entry] : value.items()) {
        dict[py::str(key)] = to_python(entry);
      }
      return dict;
    }
    default:
      return py::none();
  }
}

py::object wrap(const at::Tensor& tensor) {
  PyObject* wrapped = THPVariable_Wrap(tensor);
  if (wrapped == nullptr) {
    throw py::error_already_set();
  }
  return py::reinterpret_steal<py::object>(wrapped);
}

bool is_tensor(py::handle value) {
  return THPVariable_Check(value.ptr());
}

at::Tensor unwrap(py::handle tensor) {
  if (!is_tensor(tensor)) {
    throw py::type_error("expected a torch.Tensor, not a " + type_name(tensor));
  }
  return THPVariable_Unpack(tensor.ptr());
}

py::dict named_tensors(const State& model) {
  py::dict tensors;
  for (const Slot& slot : model.layout->slots()) {
    tensors[py::str(slot.name)] = wrap(model.view(slot));
  }
  return tensors;
}

State to_state(const LayoutPtr& layout, py::handle tensors, at::Device device,
               const std::string& who) {
  const auto refuse = [&](const std::string& what) {
    throw Error(ErrorKind::run, fmt::format("{}: {}", who, what),
                "expected a dict with the names and shapes of the global model");
  };
  if (!py::isinstance<py::dict>(tensors)) {
    refuse(fmt::format("a {} is not a model", type_name(tensors)));
  }
  const auto dict = py::reinterpret_borrow<py::dict>(tensors);
  State state = State::zeros(layout, device);
  for (const Slot& slot : layout->slots()) {
    const py::str name(slot.name);
    if (!dict.contains(name)) {
      refuse(fmt::format("the model has no '{}'", slot.name));
    }
    const py::object value = dict[name];
    if (!is_tensor(value)) {
      refuse(fmt::format("'{}' is a {}, not a tensor", slot.name, type_name(value)));
    }
    const at::Tensor tensor = unwrap(value).detach();
    if (tensor.sizes() != at::IntArrayRef(slot.shape)) {
      refuse(fmt::format("'{}' has the shape ({}), expected ({})", slot.name,
                         fmt::join(tensor.sizes(), ", "), fmt::join(slot.shape, ", ")));
    }
    state.view(slot).copy_(tensor);
  }
  if (dict.size() != layout->slots().size()) {
    for (const auto& [key, value] : dict) {
      if (!py::isinstance<py::str>(key) || layout->find(key.cast<std::string>()) == nullptr) {
        refuse(fmt::format("the model has '{}', which the global one has not",
                           py::str(key).cast<std::string>()));
      }
    }
  }
  state.counters().round_();
  if (!all_finite(state)) {
    refuse("the model has values that are not finite");
  }
  return state;
}

}  // namespace winnow::python
