// What the clients of methods with an objective of their own share.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "winnow/federation/client.h"
#include "winnow/method/method.h"

namespace winnow {

// The round's steps as the options have them, taken by these models.
Stepping stepping(const TrainOptions& options, std::int64_t round,
                  std::vector<std::size_t> models = {0});

// Names the random streams of the client's participation.
TrainKey train_key(const ClientContext& context, std::int64_t round);

// A lane's buffer that begins with these rows, which may come from any device. What follows them
// is of no meaning.
at::Tensor fill(Lane& lane, const std::string& name, const at::Tensor& rows);

// Takes every step of the plan, waits for the device, and counts the steps of every model.
void take_steps(const Plan& plan, const Objective& objective, const Stepping& how,
                ClientContext& context);

// A copy of the lane's model as it is now, complete on the device: ready to be sent.
State finished_model(const Lane& lane, std::size_t number = 0);

// ClientContext::train() with another objective: all epochs at once on all local samples. A client
// without samples returns the model as it is.
State train_by(const Objective& objective, const State& start, std::int64_t round,
               ClientContext& context);

// The plan without some of its batches, and without their entries. No mixup.
Plan without(const Plan& plan, const std::vector<bool>& dropped);

// The reply of a client that trained on all its samples, as FedAvg's is.
Message train_done(State model, const ClientContext& context);

// Refuses a warm-up that the run does not outlast: labels would be trusted to the end.
void check_warmup(std::int64_t warmup, const Setting& setting);

// A memory's tensor of that name, or `otherwise` where there is none.
at::Tensor recall(const ClientMemory& memory, const std::string& name, const at::Tensor& otherwise);
// The first rows of a lane's buffer as a tensor of their own on the CPU, to be remembered.
at::Tensor first_rows(const at::Tensor& buffer, std::int64_t count);

}  // namespace winnow
