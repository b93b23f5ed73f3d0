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

const Methods& builtin_methods() {
  static const Methods methods = make_methods();
  return methods;
}

}  // namespace winnow
