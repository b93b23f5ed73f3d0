#include "winnow/experiment/registry.h"

namespace winnow {

std::unique_ptr<Method> Registry::make(const std::string& method) const {
  std::unique_ptr<Method> made = methods.find(method).make();
  made->know({methods, networks});
  return made;
}

}  // namespace winnow
