// Saved state: named tensors and values. What a method's server side and a client's memory put into
// a checkpoint. Tensors are held by reference, so they must not be changed in place after saving.
// What the server keeps of each client is put as a column, which costs nothing until it is written,
// and then only the entries that have changed.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <type_traits>
#include <vector>

#include "winnow/base/checked_json.h"
#include "winnow/base/json.h"
#include "winnow/federation/by_client.h"
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

// An entry for each of some clients, as a file is to have them.
class ClientColumn {
 public:
  using Tell = std::function<void(std::int64_t client)>;

  virtual ~ClientColumn() = default;
  // Calls `tell` with the clients whose entries differ from those of an older copy; with all where
  // that is null or of another kind.
  virtual void each_change(const ClientColumn* older, const Tell& tell) const = 0;
  virtual bool has(std::int64_t client) const = 0;
  // Of a client that it has: the one that is not null, or the one that is defined.
  virtual Json value(std::int64_t client) const = 0;
  virtual at::Tensor tensor(std::int64_t client) const = 0;
};

template <typename T>
class ColumnOf : public ClientColumn {
 public:
  explicit ColumnOf(ByClient<T> entries) : entries_(std::move(entries)) {}
  const ByClient<T>& entries() const { return entries_; }
  bool has(std::int64_t client) const override { return entries_.contains(client); }
  void each_change(const ClientColumn* older, const Tell& tell) const override;

 private:
  ByClient<T> entries_;
};

// What is read may come from a forged file: the functions here check it against what the caller
// expects and against the bounds, and throw Error(kind run) that names the entry.
struct Archive {
  std::map<std::string, at::Tensor> tensors;
  Json values = Json::object();
  Bounds bounds = {};
  // By a name, which may be a path: "a/b". In an archive out of a file there are none: what was a
  // number or a list of the column "a/b" is in values["a"]["b"] by client, and what was a tensor is
  // called "a/b/CLIENT".
  std::map<std::string, std::shared_ptr<const ClientColumn>> columns = {};

  bool empty() const { return tensors.empty() && values.empty() && columns.empty(); }
  // Keeps an entry for each of some clients; `write` makes the Json or the tensor of a file of one.
  template <typename T, typename Write>
  void put_column(const std::string& name, const ByClient<T>& entries, const Write& write);
  template <typename T>
  void put_column(const std::string& name, const ByClient<T>& entries) {
    put_column(name, entries, [](const T& value) { return Json(value); });
  }
  // Columns NAME/0, NAME/1, ... of numbers that were taken at several times, and back.
  void put_series(const std::string& name, const std::vector<ByClient<double>>& times);
  std::vector<ByClient<double>> series(const std::string& name) const;
  // What put_column() kept in this process; null in an archive out of a file.
  template <typename T>
  const ByClient<T>* column(const std::string& name) const;
  // Puts an entry of a column where an archive out of a file has it; the client must be new there.
  void take_entry(const std::string& column, std::int64_t client, Json value);
  void take_entry(const std::string& column, std::int64_t client, const at::Tensor& tensor);
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
void ColumnOf<T>::each_change(const ClientColumn* older, const Tell& tell) const {
  const auto same = [](const T& one, const T& other) {
    if constexpr (std::is_same_v<T, at::Tensor>) {
      return one.is_same(other);
    } else {
      return one == other;
    }
  };
  const auto* before = dynamic_cast<const ColumnOf<T>*>(older);
  entries_.each_change(before == nullptr ? ByClient<T>() : before->entries_, same, tell);
}

template <typename T, typename Write>
inline constexpr bool kWritesTensor =
    std::is_same_v<std::decay_t<std::invoke_result_t<Write, const T&>>, at::Tensor>;

template <typename T, typename Write>
void Archive::put_column(const std::string& name, const ByClient<T>& entries, const Write& write) {
  class Written final : public ColumnOf<T> {
   public:
    Written(const ByClient<T>& values, Write how) : ColumnOf<T>(values), write_(std::move(how)) {}
    Json value(std::int64_t client) const override {
      if constexpr (kWritesTensor<T, Write>) {
        return nullptr;
      } else {
        return write_(this->entries().at(client));
      }
    }
    at::Tensor tensor(std::int64_t client) const override {
      if constexpr (kWritesTensor<T, Write>) {
        return write_(this->entries().at(client));
      } else {
        return {};
      }
    }

   private:
    Write write_;
  };
  columns[name] = std::make_shared<Written>(entries, write);
}

template <typename T>
const ByClient<T>* Archive::column(const std::string& name) const {
  const auto found = columns.find(name);
  if (found == columns.end()) {
    return nullptr;
  }
  const auto* kept = dynamic_cast<const ColumnOf<T>*>(found->second.get());
  return kept == nullptr ? nullptr : &kept->entries();
}

// Tells of every client whose entry in any column of `now` is not what it was `before`.
void each_changed_client(const Archive& before, const Archive& now, const ClientColumn::Tell& tell);

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
