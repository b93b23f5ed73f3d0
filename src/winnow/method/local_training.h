// What the clients of methods with an objective of their own share.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "winnow/federation/client.h"
#include "winnow/method/method.h"

namespace winnow {

// A trainer's buffer that begins with these rows, which may come from any device. What follows them
// is of no meaning.
at::Tensor fill(Trainer& trainer, const std::string& name, const at::Tensor& rows);

// The plan without some of its batches, and without their entries. No mixup.
[[nodiscard]] Plan without(const Plan& plan, const std::vector<bool>& dropped);

// The reply of a client that trained on all its samples, as FedAvg's is.
[[nodiscard]] Message train_done(State model, const ClientContext& context);

// Refuses a warm-up that the run does not outlast: labels would be trusted to the end.
void check_warmup(std::int64_t warmup, const Setting& setting);

// Classes of which all pairs are compared: memory grows with their square, time may with the cube.
inline constexpr std::int64_t kMostPairedClasses = 1000;

// Refuses more of them for a method that keeps numbers of all pairs.
void check_pairs(const std::string& method, const Setting& setting);

// The first rows of a trainer's buffer as a tensor of their own on the CPU, to be remembered.
[[nodiscard]] at::Tensor first_rows(const at::Tensor& buffer, std::int64_t count);

}  // namespace winnow
