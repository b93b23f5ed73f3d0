// The one place where what a reply says is judged before it counts. What a method may rely on is
// what its exchanges say; it checks none of it again. That bytes are such a message at all is the
// codec's business, which unpacks nothing else; who may send it, when, and how often is that of
// net/serve, which asks here before it keeps a reply.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "winnow/base/error.h"
#include "winnow/federation/exchange.h"

namespace winnow {

// Why a reply is refused.
enum class Reason {
  wrong_kind,     // another reply than the task asks for
  wrong_fields,   // not the fields of its exchange
  wrong_length,   // a list or a model with too many values or too few
  out_of_range,   // a finite number that cannot be
  wrong_samples,  // a count that the client's samples contradict
  wrong_layout,   // a model of another network
};

std::string name_of(Reason reason);

// What a parcel that does not fit is refused with.
class Misfit : public Error {
 public:
  Misfit(Reason reason, std::string_view message)
      : Error(ErrorKind::peer, message), reason_(reason) {}

  Reason reason() const { return reason_; }

 private:
  Reason reason_;
};

struct Refusal {
  Reason reason = Reason::wrong_kind;
  std::string detail;  // names the field, the value and what was expected
};

// Judges a reply to that task by a client of so many samples; nothing when it counts. Values that
// are not finite pass: a training may diverge, and methods know what to make of that, by usable().
[[nodiscard]] std::optional<Refusal> judge(const Message& reply, const Message& task,
                                           std::int64_t samples,
                                           const std::vector<Exchange>& exchanges);

// Whether all numbers of the reply are inside their range, and finite where they have to be. Fields
// without a rule do not matter.
[[nodiscard]] bool usable(const Message& reply, const std::vector<FieldRule>& rules);
// The same by the exchange that has such a reply.
[[nodiscard]] bool usable(const Message& reply, const std::vector<Exchange>& exchanges);

}  // namespace winnow
