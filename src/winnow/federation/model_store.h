// The server's last copy of each client's model, in bounded memory.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "winnow/federation/archive.h"
#include "winnow/federation/spill.h"
#include "winnow/model/state.h"

namespace winnow {

using ModelStoreOptions = SpillOptions;

// One model per client. While the models take at most `limit` bytes they are kept as they came,
// shared and not copied. A model beyond that is on the disk (Spill). A stored tensor is never
// changed: what get() and save() hand out stays as it is whatever is put later. Not thread-safe.
class ModelStore {
 public:
  explicit ModelStore(ModelStoreOptions options = {}) : spill_(std::move(options)) {}

  // Replaces the client's model. One that is spilled lies on the CPU, wherever it came from. Throws
  // Error(kind run) and leaves the store as it was when the file cannot be made or the disk is
  // full.
  void put(std::int64_t client, const State& state);
  // The client's model, whose layout the caller knows. Throws Error(kind internal) when there is
  // none or it does not have the layout's size.
  State get(std::int64_t client, const LayoutPtr& layout) const;
  bool has(std::int64_t client) const { return models_.contains(client); }
  std::vector<std::int64_t> clients() const;  // ascending
  std::int64_t bytes_in_memory() const { return in_memory_; }

  // As a column of that name.
  void save(Archive& archive, const std::string& name) const;
  // Replaces everything by what save() put there. Models that are spilled already stay so: taking
  // back a round never needs the disk.
  void load(const Archive& archive, const std::string& name);

 private:
  void put_flat(std::int64_t client, const at::Tensor& flat);

  Spill spill_;
  ByClient<at::Tensor> models_;  // flat
  std::int64_t in_memory_ = 0;
};

}  // namespace winnow
