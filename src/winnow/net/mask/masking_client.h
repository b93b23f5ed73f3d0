// The member's side of sums under masks.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "winnow/federation/client.h"
#include "winnow/net/mask/terms.h"

namespace winnow::mask {

// Answers as another client side does, its summed models under masks. What it has to keep from one
// ask of a sum to the next is in the client's memory, and gone when the sum is done. It checks the
// keys of the others, never sends words for fewer members than the threshold, and does every step
// of a session once in the life of the process, whatever the server says became of it: both secrets
// of a member are never opened.
class MaskingClient final : public ClientSide {
 public:
  // `plain`: the exchanges of the method itself. `members`: the credentials of those that this
  // process is, by client.
  MaskingClient(std::unique_ptr<ClientSide> side, std::vector<Exchange> plain, MaskTerms terms,
                std::map<std::int64_t, Credentials> members)
      : side_(std::move(side)),
        plain_(std::move(plain)),
        terms_(std::move(terms)),
        members_(std::move(members)) {}

  // Throws Error(kind peer) where the server does not keep to the protocol.
  Message handle(const Message& task, ClientContext& context) const override;
  void check_memory(ClientContext& context) const override { side_->check_memory(context); }

 private:
  Message tell_keys(const std::string& session, ClientContext& context) const;
  Message share_keys(const std::string& session, const Message& task, ClientContext& context) const;
  Message send_words(const std::string& session, const Exchange& plain, const Message& task,
                     ClientContext& context) const;
  Message open_shares(const std::string& session, const Message& task,
                      ClientContext& context) const;
  // Throws Error(kind peer) where this step was done before.
  void do_once(const std::string& step, const std::string& session, std::int64_t client) const;

  std::unique_ptr<ClientSide> side_;
  std::vector<Exchange> plain_;
  MaskTerms terms_;
  std::map<std::int64_t, Credentials> members_;
  mutable std::mutex mutex_;
  mutable std::set<std::string> done_;
};

}  // namespace winnow::mask
