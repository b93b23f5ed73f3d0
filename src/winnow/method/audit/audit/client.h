// The owner's part of an audit as a method.
#pragma once

#include <cstdint>

#include "winnow/federation/client.h"
#include "winnow/method/audit/audit/own_samples.h"

namespace winnow::audit {

struct Options {
  std::int64_t folds = 5;
  double label_smoothing = 0.1;
  std::int64_t least = 5;
};

// Trains for the folds that do not judge it, and answers with sums about its samples when it is
// judged. Remembers tensors["p"] and ["distance"], what the model says of every sample, between the
// first letter and the second, and from then on tensors["findings"], a row for each; once the audit
// is closed also values["outcome"], what it was told of itself, and the trace's `suspected`. Of all
// that nothing but sums leaves the client.
class Client final : public ClientSide {
 public:
  explicit Client(Options options) : options_(options) {}

  Message handle(const Message& task, ClientContext& context) const override;
  void check_memory(ClientContext& context) const override;

 private:
  Message train(const Message& task, ClientContext& context) const;
  Message sums(const Message& task, ClientContext& context) const;
  Message counts(const Message& task, ClientContext& context) const;
  static Message close(const Message& task, ClientContext& context);

  Options options_;
};

}  // namespace winnow::audit
