#include "winnow/net/join/refusal.h"

#include <fmt/format.h>

#include "winnow/base/text.h"

namespace winnow::member {
namespace {

// What a refusal means, where its own sentence may be missing.
std::string meaning_of(v1::Reason reason) {
  switch (reason) {
    case v1::WRONG_PROTOCOL:
      return "it speaks another protocol";
    case v1::WRONG_NUMERICS:
      return "it computes differently";
    case v1::WRONG_CHARTER:
      return "its charter is different";
    case v1::NOT_ENROLLED:
      return "this member is not enrolled";
    case v1::REVOKED:
      return "the certificate of this member is revoked";
    case v1::WRONG_FEDERATION:
      return "the certificate is of another federation";
    case v1::NAME_TAKEN:
      return "another process takes part under this name";
    case v1::LATE:
      return "the reply came too late";
    case v1::NOT_NOW:
      return "not now";
    default:
      return "no reason is given";
  }
}

std::string hint_of(v1::Reason reason) {
  switch (reason) {
    case v1::WRONG_PROTOCOL:
    case v1::WRONG_NUMERICS:
      return "use the version of Winnow that the server has";
    case v1::WRONG_CHARTER:
      return "start again to read and agree to the new one";
    case v1::NOT_ENROLLED:
      return "ask the operator to add it to [[members]]";
    case v1::REVOKED:
    case v1::WRONG_FEDERATION:
      return "ask the operator for another certificate";
    case v1::NAME_TAKEN:
      return "stop the other one first; the one that joined last continues";
    default:
      return "";
  }
}

}  // namespace

void refuse_server(const std::string& why) {
  throw Error(ErrorKind::peer, fmt::format("the server {}", why));
}

std::string words_of(const v1::Refusal& refusal) {
  constexpr std::size_t kLongest = 400;
  return refusal.detail().empty() ? meaning_of(refusal.reason())
                                  : refusal.detail().substr(0, kLongest);
}

void raise_refusal(const v1::Refusal& refusal, const std::string& about) {
  const std::string text = fmt::format("the server {}: {}", about, words_of(refusal));
  if (refusal.try_again()) {
    throw Unreachable(printable(text));
  }
  throw Error(ErrorKind::peer, text, hint_of(refusal.reason()));
}

Error other_charter() {
  return {ErrorKind::peer, "the charter of the server has changed", hint_of(v1::WRONG_CHARTER)};
}

}  // namespace winnow::member
