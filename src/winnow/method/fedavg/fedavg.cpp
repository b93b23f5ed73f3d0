#include "winnow/method/fedavg/fedavg.h"

namespace winnow {

MethodInfo fedavg_info() {
  return {"fedavg", "base", "average of the clients' models, weighted by their samples",
          [] { return std::make_unique<FedAvg>(); }};
}

}  // namespace winnow
