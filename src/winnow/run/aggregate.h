// Model files combined as the server of a method would: one round in which every client has trained
// already and sends its file.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "winnow/experiment/registry.h"
#include "winnow/model/state.h"

namespace winnow {

// The files of a round, numbered as the clients are.
struct ModelFiles {
  std::vector<std::string> files;
  std::vector<std::uint32_t> samples;  // of each client
  std::vector<State> models;
  State start;  // the model that they started from
};

// Reads safetensors files of one model. Without a file to start from, the start is their weighted
// mean. Throws Error(kind data) where a file is damaged or of another model, and when none is
// finite.
ModelFiles read_model_files(const std::vector<std::string>& files,
                            const std::vector<std::uint32_t>& samples, const std::string& start);

// Why the models of a round do not tell what the method makes of them, or nothing.
std::optional<std::string> needs_more_than_models(const MethodInfo& info, const Method& method);
// The methods of which nothing is in the way.
std::vector<std::string> aggregating_names(const Registry& registry);

// A method that combines models, with its parameters.
struct Aggregator {
  std::string name;
  std::unique_ptr<Method> method;
  Json parameters;
};
// Takes from `table` the parameters that the method has, so that one table serves several methods.
// Throws Error(kind experiment) for an unknown method or a bad value, and Error(kind usage), in the
// words of `winnow aggregate`, for a method that needs more than models.
Aggregator make_aggregator(const std::string& name, const Json& table, const Registry& registry);

struct Combined {
  State model;
  // method, parameters, first_value, nearest, farthest, passes where the method counts them, and
  // clients: file, samples, distance, and selected, weight or rejected where the method says so.
  Json facts;
};
// Throws Error(kind experiment) where there are too few files for the method.
Combined combine(const Aggregator& aggregator, const ModelFiles& files);

}  // namespace winnow
