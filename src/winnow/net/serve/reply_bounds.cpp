#include "winnow/net/serve/reply_bounds.h"

#include <fmt/format.h>

#include <algorithm>

#include "winnow/base/error.h"
#include "winnow/base/sha256.h"

namespace winnow::net {
namespace {

constexpr std::int64_t kStartBytes = 6;      // of a head: magic, direction, exchange
constexpr std::int64_t kMostPlaces = 65535;  // that a parcel can have
constexpr std::int64_t kModelBytes = 84;     // two digests, a length and what names them

std::int64_t most_values(const Length& length, std::int64_t samples) {
  return length.most == Length::kSamples ? samples : length.most;
}

std::int64_t list_bytes(const FieldRule& field, std::int64_t samples, std::int64_t each) {
  const std::int64_t most = std::min(most_values(field.length, samples), kMostHead);
  return 4 + most * each;
}

std::int64_t head_bytes(const FieldRule& field, std::int64_t samples) {
  switch (field.type) {
    case FieldType::u8:
      return 1;
    case FieldType::u32:
      return 4;
    case FieldType::u64:
    case FieldType::f64:
      return 8;
    case FieldType::f64s:
      return list_bytes(field, samples, 8);
    case FieldType::f32s:
      return list_bytes(field, samples, 4);
    case FieldType::state:
      return 2;
    case FieldType::states:
      break;
  }
  return list_bytes(field, samples, 2);
}

std::int64_t sum_of_fields(const std::vector<FieldRule>& fields, std::int64_t samples) {
  std::int64_t bytes = kStartBytes;
  for (const FieldRule& field : fields) {
    bytes += head_bytes(field, samples);
  }
  return bytes;
}

}  // namespace

std::int64_t longest_head(const std::vector<FieldRule>& fields, std::int64_t samples) {
  return std::min(sum_of_fields(fields, samples), kMostHead);
}

std::int64_t longest_call(const Exchange& exchange, std::int64_t samples) {
  std::int64_t most = 0;
  for (const std::vector<FieldRule>* fields : {&exchange.asks, &exchange.answers}) {
    most = std::max(most,
                    sum_of_fields(*fields, samples) + kModelBytes * most_models(*fields, samples));
  }
  return most;
}

std::int64_t most_models(const std::vector<FieldRule>& fields, std::int64_t samples) {
  std::int64_t models = 0;
  for (const FieldRule& field : fields) {
    if (field.type == FieldType::state) {
      ++models;
    } else if (field.type == FieldType::states) {
      models += std::min(most_values(field.length, samples), kMostPlaces);
    }
  }
  return std::min(models, kMostPlaces);
}

void check_calls(const std::vector<Exchange>& exchanges) {
  for (const Exchange& exchange : exchanges) {
    if (longest_call(exchange, 1) > kMostHead) {
      throw Error(
          ErrorKind::experiment,
          fmt::format("the exchange '{}' of the method can be longer than the {} bytes that "
                      "a call has room for",
                      exchange.task, kMostHead),
          "its lists or its models are too many: a smaller public batch, or fewer classes");
    }
  }
}

bool wants_finite_models(const std::vector<FieldRule>& fields) {
  return std::ranges::any_of(fields, [](const FieldRule& field) {
    return field.finite && (field.type == FieldType::state || field.type == FieldType::states);
  });
}

std::string digest_of(const v1::Opening& opening) {
  Sha256 hash;
  hash.update(fmt::format("{} {} {} {} {}\n", opening.head().size(), opening.models_size(),
                          opening.steps(), opening.forward(), opening.backward()));
  hash.update(opening.head());
  for (const v1::Model& model : opening.models()) {
    hash.update(model.digest());
    hash.update(model.layout());
    hash.update(fmt::format("{}\n", model.bytes()));
  }
  hash.update(opening.own_model());
  return hash.hex();
}

}  // namespace winnow::net
