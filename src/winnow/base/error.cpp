#include "winnow/base/error.h"

namespace winnow {

int exit_code(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::usage:
      return 2;
    case ErrorKind::experiment:
      return 3;
    case ErrorKind::data:
      return 4;
    case ErrorKind::run:
      return 5;
    case ErrorKind::peer:
      return 6;
    case ErrorKind::internal:
      break;
  }
  return 70;
}

}  // namespace winnow
