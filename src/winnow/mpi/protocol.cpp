#include "winnow/mpi/protocol.h"

#include <fmt/format.h>

#include <algorithm>
#include <new>
#include <optional>

#include "winnow/base/error.h"

namespace winnow {
namespace {

std::string failed(ErrorKind kind, const std::string& text, const std::string& hint) {
  return ByteWriter().put(Outcome::failed).put(kind).text(text).text(hint).take();
}

template <typename T>
void put_optional(ByteWriter& bytes, const std::optional<std::vector<T>>& values) {
  bytes.put(static_cast<std::uint8_t>(values ? 1 : 0));
  if (values) {
    bytes.list(Labels(values->begin(), values->end()));
  }
}

template <typename T>
std::optional<std::vector<T>> get_optional(ByteReader& bytes) {
  if (bytes.get<std::uint8_t>() == 0) {
    return std::nullopt;
  }
  const Labels values = bytes.list<std::int64_t>();
  return std::vector<T>(values.begin(), values.end());
}

}  // namespace

std::string failure_answer() {
  try {
    throw;
  } catch (const Interrupted&) {
    return ByteWriter().put(Outcome::interrupted).take();
  } catch (const Error& error) {
    return failed(error.kind(), error.what(), error.hint());
  } catch (const std::bad_alloc&) {
    return failed(ErrorKind::run, "out of memory", "use fewer --lanes or more nodes");
  } catch (const std::exception& error) {
    const std::string text = error.what();
    return failed(ErrorKind::internal, "internal error: " + text.substr(0, text.find('\n')),
                  "this is a bug; please report it with the command you gave");
  }
}

void check_answer(ByteReader& answer, const std::string& rank) {
  switch (answer.get<Outcome>()) {
    case Outcome::done:
      return;
    case Outcome::interrupted:
      throw Interrupted();
    case Outcome::failed:
      break;
  }
  const auto kind = answer.get<ErrorKind>();
  const std::string text = answer.text();
  throw Error(kind, fmt::format("{}: {}", rank, text), answer.text());
}

void put(ByteWriter& bytes, const std::optional<SumForm>& form) {
  bytes.put(form.has_value()).put(form.value_or(SumForm::floating));
}

std::optional<SumForm> get_form(ByteReader& bytes) {
  const auto kept = bytes.get<bool>();
  const auto form = bytes.get<SumForm>();
  return kept ? std::optional(form) : std::nullopt;
}

void put(ByteWriter& bytes, const Score& score) {
  bytes.put(score.correct).put(score.count).put(score.loss_sum).put(score.among_five);
  bytes.list(score.classes);
}

Score get_score(ByteReader& bytes) {
  Score score;
  score.correct = bytes.get<std::int64_t>();
  score.count = bytes.get<std::int64_t>();
  score.loss_sum = bytes.get<double>();
  score.among_five = bytes.get<std::int64_t>();
  score.classes = bytes.list<ClassCount>();
  return score;
}

void put(ByteWriter& bytes, const Trace& trace) {
  put_optional(bytes, trace.labels);
  put_optional(bytes, trace.last_labels);
  put_optional(bytes, trace.selected);
  put_optional(bytes, trace.suspected);
}

Trace get_trace(ByteReader& bytes) {
  Trace trace;
  trace.labels = get_optional<std::int64_t>(bytes);
  trace.last_labels = get_optional<std::int64_t>(bytes);
  trace.selected = get_optional<bool>(bytes);
  trace.suspected = get_optional<bool>(bytes);
  return trace;
}

// A binomial tree: place p hears from p without its lowest bit.
TreePlace place_in_tree(const std::vector<int>& receivers, int rank) {
  const auto rank_at = [&](std::size_t place) { return place == 0 ? 0 : receivers[place - 1]; };
  const std::size_t size = receivers.size() + 1;
  const auto found = std::ranges::find(receivers, rank);
  const std::size_t own = rank == 0 ? 0 : static_cast<std::size_t>(found - receivers.begin()) + 1;
  TreePlace place;
  place.parent = own == 0 ? 0 : rank_at(own & (own - 1));
  for (std::size_t bit = 1; own + bit < size && (own & bit) == 0; bit <<= 1U) {
    place.children.insert(place.children.begin(), rank_at(own + bit));  // the farthest first
  }
  return place;
}

}  // namespace winnow
