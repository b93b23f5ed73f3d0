// winnow._arithmetic: which settings fix the kernels of a CPU. Apart from the rest, since it has to
// be asked before LibTorch is loaded.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "winnow/base/arithmetic.h"
#include "winnow/base/error.h"

PYBIND11_MODULE(_arithmetic, module) {
  module.doc() = "Which environment variables fix the kernels of the CPU.";
  module.def(
      "environment", [] { return winnow::arithmetic_environment(winnow::default_arithmetic()); },
      "The variables of the arithmetic that WINNOW_ARITHMETIC names, or of the best this CPU has, "
      "as (name, value); an empty value stands for a variable that is not set.");
  module.def("current", &winnow::current_arithmetic,
             "The name of the arithmetic that the environment fixes, or 'unnamed'.");
  module.attr("blas") = WINNOW_BLAS;
}
