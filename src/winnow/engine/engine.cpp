#include "winnow/engine/engine.h"

#include <fmt/format.h>

#include <set>

#include "winnow/base/error.h"
#include "winnow/train/gpu/device.h"

namespace winnow {

std::map<std::int64_t, std::string> hashes_of(const ModelsByClient& models) {
  std::map<std::int64_t, std::string> hashes;
  for (const auto& [client, model] : models) {
    hashes[client] = hash(model);
  }
  return hashes;
}

void check_orders(const std::vector<Order>& orders, std::int64_t clients,
                  const std::vector<Exchange>& exchanges) {
  std::set<std::int64_t> asked;
  for (const Order& order : orders) {
    if (order.client < 0 || order.client >= clients) {
      throw Error(ErrorKind::internal, fmt::format("there is no client {}", order.client));
    }
    if (!asked.insert(order.client).second) {
      throw Error(ErrorKind::internal, fmt::format("client {} was given two orders", order.client));
    }
    check_task(order.task, exchanges);
  }
}

void keep_models_until_read(const Message& reply) {
  for (const auto& [name, field] : reply.fields()) {
    if (const State* model = std::get_if<State>(&field)) {
      keep_until_read(model->flat);
    } else if (const auto* models = std::get_if<std::vector<State>>(&field)) {
      for (const State& one : *models) {
        keep_until_read(one.flat);
      }
    }
  }
}

}  // namespace winnow
