// The service: a desk on the network, behind mutual TLS.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "winnow/net/pki/credentials.h"
#include "winnow/net/serve/desk.h"

namespace winnow::net {

// Serves from its making until it goes. Nobody gets in without a certificate of the federation's
// authority; who it is is taken from that, in every call.
class Service {
 public:
  // `desk` must outlive it; port 0 takes any free one. Throws Error(kind run) where it cannot
  // listen there.
  Service(Desk& desk, const std::string& host, std::uint16_t port, const Credentials& credentials);
  // Answers what waits and ends the rest within two seconds.
  ~Service();
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;

  std::uint16_t port() const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace winnow::net
