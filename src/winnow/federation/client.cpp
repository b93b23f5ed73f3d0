#include "winnow/federation/client.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "winnow/base/error.h"
#include "winnow/base/random.h"

namespace winnow {

const Feed& ClientContext::public_feed() const {
  if (public_feed_ == nullptr) {
    throw Error(ErrorKind::internal, "there are no public images");
  }
  return *public_feed_;
}

Jitter ClientContext::draw_view(std::string_view purpose, std::int64_t round) const {
  if (!lane_.augment()) {
    return {};
  }
  return draw_jitter(
      size(), stream_key(seed_, purpose,
                         {static_cast<std::uint64_t>(round), static_cast<std::uint64_t>(id_)}));
}

at::Tensor ClientContext::labels_tensor() const {
  const LocalSet set = local_set();
  at::Tensor labels = at::empty({set.size()}, at::kLong);
  std::ranges::copy(set.labels, labels.data_ptr<std::int64_t>());
  return labels.to(lane_.feed().device());
}

}  // namespace winnow
