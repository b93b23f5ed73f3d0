// Looks at messages of methods in tests.
#pragma once

#include "testing/errors.h"
#include "winnow/base/error.h"
#include "winnow/federation/exchange.h"

namespace winnow {

// Throws Error(kind peer) unless some exchange has a task or a reply of that kind with exactly the
// message's fields.
inline void check(const Message& message, const std::vector<Exchange>& exchanges) {
  for (const Exchange& exchange : exchanges) {
    if (exchange.task == message.kind()) {
      check_task(message, exchanges);
      return;
    }
    if (exchange.reply == message.kind()) {
      check_reply(message, Message(exchange.task), exchanges);
      return;
    }
  }
  throw Error(ErrorKind::peer, "unknown message kind '" + message.kind() + "'");
}

}  // namespace winnow
