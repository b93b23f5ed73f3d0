// Keeps the last model that every client has sent.
#pragma once

#include <memory>
#include <utility>

#include "winnow/federation/client.h"

namespace winnow {

// Answers as another client side does and remembers the reply's "model", if it has one, as
// the last one sent.
class KeepingClient final : public ClientSide {
 public:
  explicit KeepingClient(std::unique_ptr<ClientSide> side) : side_(std::move(side)) {}

  Message handle(const Message& task, ClientContext& context) const override;
  void check_memory(ClientContext& context) const override { side_->check_memory(context); }

 private:
  std::unique_ptr<ClientSide> side_;
};

}  // namespace winnow
