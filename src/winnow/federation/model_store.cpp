#include "winnow/federation/model_store.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "winnow/base/error.h"

namespace winnow {

void ModelStore::put(std::int64_t client, const State& state) {
  put_flat(client, state.flat);
}

void ModelStore::put_flat(std::int64_t client, const at::Tensor& flat) {
  const auto old = models_.find(client);
  const std::int64_t others =
      in_memory_ - (old == models_.end() ? 0 : Spill::bytes_in_memory(old->second));
  const bool fits = others + Spill::bytes_in_memory(flat) <= spill_.options().limit;
  at::Tensor kept = fits || Spill::is_spilled(flat) ? flat : spill_.copy(flat);
  in_memory_ = others + Spill::bytes_in_memory(kept);
  models_[client] = std::move(kept);
}

State ModelStore::get(std::int64_t client, const LayoutPtr& layout) const {
  const auto found = models_.find(client);
  if (found == models_.end()) {
    throw Error(ErrorKind::internal, fmt::format("no model of client {} is stored", client));
  }
  if (found->second.numel() != layout->total()) {
    throw Error(ErrorKind::internal,
                fmt::format("the stored model of client {} has {} values, expected {}", client,
                            found->second.numel(), layout->total()));
  }
  return {layout, found->second};
}

std::vector<std::int64_t> ModelStore::clients() const {
  std::vector<std::int64_t> clients;
  clients.reserve(models_.size());
  for (const auto& [client, flat] : models_) {
    clients.push_back(client);
  }
  return clients;
}

void ModelStore::save(Archive& archive, const std::string& name) const {
  archive.put_column(name, models_, [](const at::Tensor& flat) { return flat; });
}

void ModelStore::load(const Archive& archive, const std::string& name) {
  models_.clear();
  in_memory_ = 0;
  if (const auto* kept = archive.column<at::Tensor>(name)) {
    for (const auto& [client, flat] : *kept) {
      put_flat(client, flat);
    }
    return;
  }
  const std::string prefix = name + "/";
  for (auto saved = archive.tensors.lower_bound(prefix);
       saved != archive.tensors.end() && saved->first.starts_with(prefix); ++saved) {
    const std::int64_t client =
        saved_client(saved->first.substr(prefix.size()), fmt::format("tensor '{}'", saved->first),
                     archive.bounds);
    put_flat(client, archive.model(saved->first));
  }
}

}  // namespace winnow
