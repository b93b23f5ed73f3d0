#include "winnow/mpi/leader.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <exception>

namespace winnow {

std::vector<int> Leader::others() const {
  std::vector<int> others;
  for (int rank = 1; rank < ranks_.size(); ++rank) {
    others.push_back(rank);
  }
  return others;
}

void Leader::command_all(const std::string& bytes) {
  for (const int rank : others()) {
    ranks_.send(rank, Tag::command, bytes);
  }
}

void Leader::collect(const std::vector<int>& ranks,
                     const std::function<void(int rank, ByteReader& answer)>& take) {
  std::exception_ptr first;
  for (const int rank : ranks) {
    const std::string bytes = ranks_.receive(rank, Tag::answer);
    try {
      ByteReader answer(bytes);
      check_answer(answer, ranks_.name(rank));
      take(rank, answer);
    } catch (...) {
      first = first ? first : std::current_exception();
    }
  }
  if (first) {
    std::rethrow_exception(first);
  }
}

void Leader::ask_all(const std::string& bytes,
                     const std::function<void(int rank, ByteReader& answer)>& take) {
  command_all(bytes);
  collect(others(), take);
}

void Leader::clear_shelves() {
  for (Shelf& shelf : shelves_) {
    shelf.clear();
  }
}

std::string Delivery::add(const State& model) {
  const void* tensor = model.flat.unsafeGetTensorImpl();
  if (const auto found = known_.find(tensor); found != known_.end()) {
    return found->second.second;
  }
  std::string digest = hash(model);
  known_[tensor] = {model, digest};
  if (models_.emplace(digest, model).second) {
    entries_.push_back({digest});
  }
  return digest;
}

void Delivery::need(int rank, const std::string& digest) {
  std::ranges::find(entries_, digest, &Entry::digest)->needed_by.insert(rank);
}

void Delivery::settle() {
  for (int rank = 1; rank < leader_.ranks().size(); ++rank) {
    Shelf& shelf = leader_.shelf(rank);
    for (Entry& entry : entries_) {  // as the rank will do it
      if (entry.needed_by.contains(rank) && !shelf.use(entry.digest)) {
        entry.sent_to.insert(rank);
        shelf.put(entry.digest, models_.at(entry.digest).bytes(), {});
      }
    }
  }
}

void Delivery::write(int rank, ByteWriter& command) const {
  command.put(static_cast<std::uint64_t>(std::ranges::count_if(
      entries_, [rank](const Entry& entry) { return entry.needed_by.contains(rank); })));
  for (const Entry& entry : entries_) {
    if (entry.needed_by.contains(rank)) {
      command.text(entry.digest).text(models_.at(entry.digest).layout->digest());
      command.put(entry.sent_to.contains(rank));
      command.list(std::vector<int>(entry.sent_to.begin(), entry.sent_to.end()));
    }
  }
}

void Delivery::send() const {
  for (const Entry& entry : entries_) {
    if (entry.sent_to.empty()) {
      continue;
    }
    const std::vector<int> receivers(entry.sent_to.begin(), entry.sent_to.end());
    const at::Tensor values = models_.at(entry.digest).flat.to(at::kCPU).contiguous();
    for (const int child : place_in_tree(receivers, 0).children) {
      leader_.ranks().send(child, values);
    }
  }
}

}  // namespace winnow
