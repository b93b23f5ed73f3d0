// A method whose rule is a Python function.
#pragma once

#include <pybind11/pybind11.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "calling_thread.h"
#include "winnow/method/method.h"

namespace winnow::python {

// What the Python class winnow.Method says of itself. Made and destroyed with the GIL.
struct Rule {
  explicit Rule(pybind11::object method);

  pybind11::object method;  // its play() and choose() are called
  std::string name;
  std::string summary;
  bool selects = false;
  std::vector<std::pair<std::string, Json>> parameters;  // with their defaults
};

// The entry of a catalog: FedAvg whose selection, if the rule has one, and next model are made by
// Python, on the calling thread. `rule` must outlive the methods that are made of it.
MethodInfo python_method(const Rule& rule, CallingThread& caller);

}  // namespace winnow::python
