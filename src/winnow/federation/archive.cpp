#include "winnow/federation/archive.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>

#include "winnow/base/error.h"
#include "winnow/base/text.h"
#include "winnow/model/safetensors.h"

namespace winnow {
namespace {

// What this process saved is not looked at: to take back a round must not read every model that a
// ModelStore has put on the disk.
at::Tensor as_saved(const Archive& archive, const std::string& name) {
  const auto found = archive.tensors.find(name);
  return found == archive.tensors.end() ? at::Tensor() : found->second;
}

}  // namespace

std::int64_t Bounds::last_client() const {
  return samples.empty() ? std::numeric_limits<std::int64_t>::max() : std::ssize(samples) - 1;
}

void Archive::put(const std::string& name, const at::Tensor& tensor) {
  if (tensor.defined()) {
    tensors[name] = tensor;
  }
}

void Archive::put_clients(const std::string& name, const std::set<std::int64_t>& clients) {
  if (!clients.empty()) {
    values[name] = clients;
  }
}

at::Tensor Archive::tensor(const std::string& name, at::ScalarType type,
                           at::IntArrayRef shape) const {
  const auto found = tensors.find(name);
  if (found == tensors.end()) {
    return {};
  }
  const at::Tensor& tensor = found->second;
  if (tensor.scalar_type() != type || tensor.sizes() != shape) {
    throw Error(ErrorKind::run, fmt::format("tensor '{}' is {} {}, expected {} {}", name,
                                            at::toString(tensor.scalar_type()),
                                            tensor.sizes().vec(), at::toString(type), shape.vec()));
  }
  if (tensor.is_floating_point() && !tensor.isfinite().all().item<bool>()) {
    throw Error(ErrorKind::run, fmt::format("tensor '{}' holds values that are not finite", name));
  }
  return tensor;
}

at::Tensor Archive::parameters(const std::string& name, at::ScalarType type) const {
  return bounds.layout ? tensor(name, type, {bounds.layout->parameters()}) : as_saved(*this, name);
}

at::Tensor Archive::model(const std::string& name) const {
  return bounds.layout ? tensor(name, at::kFloat, {bounds.layout->total()}) : as_saved(*this, name);
}

void Archive::put_series(const std::string& name, const std::vector<ByClient<double>>& times) {
  values[name + "_taken"] = times.size();
  for (std::size_t i = 0; i < times.size(); ++i) {
    put_column(fmt::format("{}/{}", name, i), times[i]);
  }
}

std::vector<ByClient<double>> Archive::series(const std::string& name) const {
  std::vector<ByClient<double>> times;
  const auto saved = find(name);
  if (saved && saved->json().is_array()) {  // as older versions have it
    for (const CheckedJson& numbers : saved->elements()) {
      times.emplace_back(read_numbers(numbers, bounds));
    }
    return times;
  }
  // A time at which nobody had a number left nothing; a forged count cannot ask for many of these.
  constexpr std::int64_t kMost = 1'000'000;
  const auto taken = find(name + "_taken");
  const std::int64_t count = taken ? taken->whole(0, kMost) : 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const auto* kept = column<double>(fmt::format("{}/{}", name, i));
    times.push_back(kept != nullptr
                        ? *kept
                        : ByClient<double>(read_numbers(
                              saved ? saved->find(std::to_string(i)) : std::nullopt, bounds)));
  }
  return times;
}

void Archive::take_entry(const std::string& column, std::int64_t client, Json value) {
  constexpr std::size_t kDeepest = 8;
  const std::vector<std::string> parts = split(column, '/');
  if (parts.size() > kDeepest) {
    throw Error(ErrorKind::run, fmt::format("{}: expected a path of at most {} names",
                                            quoted_name(column), kDeepest));
  }
  Json* place = &values;
  for (const std::string& part : parts) {
    place = &(*place)[part];
    if (place->is_null()) {
      *place = Json::object();
    }
    if (!place->is_object()) {
      throw Error(ErrorKind::run, fmt::format("{}: expected a table", quoted_name(column)));
    }
  }
  append_member(*place, std::to_string(client), std::move(value));
}

void Archive::take_entry(const std::string& column, std::int64_t client, const at::Tensor& tensor) {
  tensors[fmt::format("{}/{}", column, client)] = tensor;
}

std::optional<CheckedJson> Archive::find(const std::string& name) const {
  return CheckedJson(values, "").find(name);
}

std::int64_t Archive::count(const std::string& name, std::int64_t otherwise) const {
  const auto saved = find(name);
  return saved ? saved->count() : otherwise;
}

bool Archive::truth(const std::string& name, bool otherwise) const {
  const auto saved = find(name);
  return saved ? saved->truth() : otherwise;
}

std::map<std::int64_t, double> Archive::numbers(const std::string& name, double low,
                                                double high) const {
  return read_numbers(find(name), bounds, low, high);
}

std::map<std::int64_t, std::optional<double>> Archive::known_numbers(
    const std::string& name) const {
  return read_known_numbers(find(name), bounds);
}

std::set<std::int64_t> Archive::clients(const std::string& name) const {
  return read_clients(find(name), bounds);
}

std::int64_t saved_client(const std::string& digits, const std::string& name,
                          const Bounds& bounds) {
  std::int64_t client = -1;
  std::from_chars(digits.data(), digits.data() + digits.size(), client);
  // Written back it must be the same: no sign, no space, no leading zero.
  const bool is_client =
      client >= 0 && client <= bounds.last_client() && std::to_string(client) == digits;
  if (!is_client ||
      (!bounds.samples.empty() && bounds.samples[static_cast<std::size_t>(client)] == 0)) {
    throw Error(ErrorKind::run,
                fmt::format("{}: expected the number of a client that holds samples", name));
  }
  return client;
}

std::map<std::int64_t, double> read_numbers(const std::optional<CheckedJson>& saved,
                                            const Bounds& bounds, double low, double high) {
  return read_by_client(saved, bounds,
                        [&](const CheckedJson& value) { return value.number(low, high); });
}

std::map<std::int64_t, std::optional<double>> read_known_numbers(
    const std::optional<CheckedJson>& saved, const Bounds& bounds) {
  return read_by_client(saved, bounds, [](const CheckedJson& value) {
    return value.is_null() ? std::nullopt : std::optional(value.number());
  });
}

std::set<std::int64_t> read_clients(const std::optional<CheckedJson>& saved, const Bounds& bounds) {
  std::set<std::int64_t> clients;
  if (saved) {
    for (const CheckedJson& client : saved->elements()) {
      clients.insert(client.whole(0, bounds.last_client()));
    }
  }
  return clients;
}

void each_changed_client(const Archive& before, const Archive& now,
                         const ClientColumn::Tell& tell) {
  for (const auto& [name, column] : now.columns) {
    const auto older = before.columns.find(name);
    column->each_change(older == before.columns.end() ? nullptr : older->second.get(), tell);
  }
  for (const auto& [name, column] : before.columns) {
    if (!now.columns.contains(name)) {
      column->each_change(nullptr, tell);
    }
  }
}

void require_range(const at::Tensor& tensor, const std::string& name, std::int64_t low,
                   std::int64_t high) {
  if (!tensor.defined() || tensor.numel() == 0) {
    return;
  }
  const at::Tensor wrong = tensor.lt(low).logical_or(tensor.gt(high));
  if (wrong.any().item<bool>()) {
    throw Error(ErrorKind::run,
                fmt::format("tensor '{}' holds {}, expected {} to {}", name,
                            tensor.masked_select(wrong)[0].item<std::int64_t>(), low, high));
  }
}

}  // namespace winnow
