// Saved state: named tensors and values. What a method's server side and a client's memory put into
// a checkpoint. Tensors are held by reference, so they must not be changed in place after saving.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <type_traits>
#include <vector>

#include "winnow/base/checked_json.h"
#include "winnow/base/json.h"
#include "winnow/model/state.h"

namespace winnow {

// What saved state has to fit. An archive that this process filled needs no bounds; one out of a
// file is given those of the run.
struct Bounds {
  std::vector<std::int64_t> samples = {};  // of every client; empty: any clients
  std::int64_t classes = 0;                // 0: any number
  std::int64_t features = 0;               // what the head of the model takes; 0: any number
  LayoutPtr layout = nullptr;              // of the model that is trained; null: any

  // The highest id.
  std::int64_t last_client() const;
};

// What is read may come from a forged file: the functions here check it against what the caller
// expects and against the bounds, and throw Error(kind run) that names the entry.
struct Archive {
  std::map<std::string, at::Tensor> tensors;
  Json values = Json::object();
  Bounds bounds = {};

  bool empty() const { return tensors.empty() && values.empty(); }
  // Keeps a tensor under that name; an undefined one is left out.
  void put(const std::string& name, const at::Tensor& tensor);
  // Keeps a value for each of some clients.
  template <typename T>
  void put_by_client(const std::string& name, const std::map<std::int64_t, T>& by_client);
  // Keeps a list of clients; where there are none it is left out.
  void put_clients(const std::string& name, const std::set<std::int64_t>& clients);
  // The tensor of that name, or an undefined one. Its values must be finite.
  at::Tensor tensor(const std::string& name, at::ScalarType type, at::IntArrayRef shape) const;
  // The same with a value for each of the model's parameters, or for all of its state in float32.
  at::Tensor parameters(const std::string& name, at::ScalarType type) const;
  at::Tensor model(const std::string& name) const;
  // The value of that name.
  std::optional<CheckedJson> find(const std::string& name) const;
  // The number of that name, at least 0, or the truth value; `otherwise` where there is none.
  std::int64_t count(const std::string& name, std::int64_t otherwise = 0) const;
  bool truth(const std::string& name, bool otherwise) const;
  // What put_by_client() kept, each value as `read` takes it; empty where there is nothing.
  template <typename Read>
  auto by_client(const std::string& name, const Read& read) const;
  std::map<std::int64_t, double> numbers(const std::string& name,
                                         double low = std::numeric_limits<double>::lowest(),
                                         double high = std::numeric_limits<double>::max()) const;
  // The same, with null for a number that is not known.
  std::map<std::int64_t, std::optional<double>> known_numbers(const std::string& name) const;
  // A list of clients, kept by put_clients() or as a value; empty where there is nothing.
  std::set<std::int64_t> clients(const std::string& name) const;
};

// A client's id as it was saved in decimal digits; `name` says in messages where. It must be one
// that holds samples: a method deals with no other.
std::int64_t saved_client(const std::string& digits, const std::string& name, const Bounds& bounds);

// {"3": value, ...}
template <typename T>
Json save_by_client(const std::map<std::int64_t, T>& values) {
  Json saved = Json::object();
  auto& members = saved.get_ref<Json::object_t&>();  // added without a search for the key
  for (const auto& [client, value] : values) {
    if constexpr (std::is_same_v<T, std::optional<double>>) {
      members.emplace_back(std::to_string(client), value ? Json(*value) : Json(nullptr));
    } else {
      members.emplace_back(std::to_string(client), Json(value));
    }
  }
  return saved;
}

// What save_by_client() made, each value as `read` takes it; empty where there is nothing.
template <typename Read>
auto read_by_client(const std::optional<CheckedJson>& saved, const Bounds& bounds,
                    const Read& read) {
  std::map<std::int64_t, decltype(read(*saved))> values;
  if (saved) {
    for (const auto& [client, value] : saved->members()) {
      values.insert_or_assign(saved_client(client, value.name(), bounds), read(value));
    }
  }
  return values;
}
std::map<std::int64_t, double> read_numbers(const std::optional<CheckedJson>& saved,
                                            const Bounds& bounds,
                                            double low = std::numeric_limits<double>::lowest(),
                                            double high = std::numeric_limits<double>::max());
// The same, with null for a number that is not known.
std::map<std::int64_t, std::optional<double>> read_known_numbers(
    const std::optional<CheckedJson>& saved, const Bounds& bounds);

template <typename T>
void Archive::put_by_client(const std::string& name, const std::map<std::int64_t, T>& by_client) {
  values[name] = save_by_client(by_client);
}

template <typename Read>
auto Archive::by_client(const std::string& name, const Read& read) const {
  return read_by_client(find(name), bounds, read);
}

// A list of clients; empty where there is nothing.
std::set<std::int64_t> read_clients(const std::optional<CheckedJson>& saved, const Bounds& bounds);

// Refuses whole numbers outside of a range, both ends included.
void require_range(const at::Tensor& tensor, const std::string& name, std::int64_t low,
                   std::int64_t high);

}  // namespace winnow
