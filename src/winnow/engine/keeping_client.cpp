#include "winnow/engine/keeping_client.h"

#include <ATen/ATen.h>

#include "winnow/federation/aggregation.h"

namespace winnow {

Message KeepingClient::handle(const Message& task, ClientContext& context) const {
  Message reply = side_->handle(task, context);
  if (reply.has("model")) {
    const auto& model = reply.get<State>("model");
    if (all_finite(model)) {
      // A copy: a lane may use the reply's memory again.
      context.last_model() = model.flat.to(at::kCPU, /*non_blocking=*/false, /*copy=*/true);
    }
  }
  return reply;
}

}  // namespace winnow
