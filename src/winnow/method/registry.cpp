// The built-in methods.
#include "winnow/method/method.h"

namespace winnow {

#define WINNOW_METHOD(name) MethodInfo name##_info();
#include "winnow/method/methods.def"
#undef WINNOW_METHOD

namespace {

Methods make_methods() {
  Methods methods("method", "winnow list methods");
#define WINNOW_METHOD(name) methods.add(name##_info());
#include "winnow/method/methods.def"
#undef WINNOW_METHOD
  return methods;
}

}  // namespace

std::string ServerNeeds::said() const {
  switch (sees) {
    case ServerSees::sums:
      return "only sums of the models: " + why;
    case ServerSees::sums_in_two_phases:
      return (plays_sums ? "only sums of the models, in two phases: "
                         : "individual models, though sums in two phases would do: ") +
             why;
    default:
      return "individual models: " + why;
  }
}

const Methods& builtin_methods() {
  static const Methods methods = make_methods();
  return methods;
}

}  // namespace winnow
