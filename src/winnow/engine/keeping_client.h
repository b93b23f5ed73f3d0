// Keeps the last model that every client has sent.
#pragma once

#include <memory>
#include <utility>

#include "winnow/federation/client.h"

namespace winnow {

// Under this name a client's memory holds the last finite model it has sent, flat, on the host.
inline constexpr const char* kLastModel = "last_model";

// Answers as another client side does and remembers the reply's "model", if it has one.
class KeepingClient final : public ClientSide {
 public:
  explicit KeepingClient(std::unique_ptr<ClientSide> side) : side_(std::move(side)) {}

  Message handle(const Message& task, ClientContext& context) const override;
  void check_memory(ClientContext& context) const override;

 private:
  std::unique_ptr<ClientSide> side_;
};

}  // namespace winnow
