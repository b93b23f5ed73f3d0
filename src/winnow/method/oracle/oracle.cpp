#include "winnow/method/oracle/oracle.h"

#include "winnow/method/fedprox/fedprox.h"

namespace winnow {
namespace {

// The samples are taken away where the clients are made; what is left is trained by the base.
class Oracle : public FedProx {
 public:
  Oracle() : FedProx(0.0) {}
};

}  // namespace

MethodInfo oracle_info() {
  return {.name = "oracle",
          .group = "oracle",
          .summary =
              "oracle (uses ground truth): FedAvg, or FedProx with mu > 0, on right samples only",
          .make = [] { return std::make_unique<Oracle>(); },
          .truth = Truth::samples};
}

}  // namespace winnow
