// Values on their way between Python and the library. Everything here needs the GIL.
#pragma once

#include <pybind11/pybind11.h>

#include <string>
#include <vector>

#include "winnow/base/json.h"
#include "winnow/model/state.h"

namespace winnow::python {

namespace py = pybind11;

// None, truth values, numbers, texts, paths, lists and dicts with texts as keys; of NumPy its
// numbers. Throws Error(kind usage) for anything else, named by `where`.
Json to_json(py::handle value, const std::string& where);
py::object to_python(const Json& value);

// A tensor crosses without a copy: both sides have the same memory.
py::object wrap(const at::Tensor& tensor);
bool is_tensor(py::handle value);
at::Tensor unwrap(py::handle tensor);

// The tensors of a model by name, in the order of the layout: views of its buffer.
py::dict named_tensors(const State& model);
// A model of that layout from its tensors by name, in a buffer of its own. `who` begins the message
// of the Error(kind run) where a tensor is missing, of another shape or not finite.
State to_state(const LayoutPtr& layout, py::handle tensors, at::Device device,
               const std::string& who);

}  // namespace winnow::python
