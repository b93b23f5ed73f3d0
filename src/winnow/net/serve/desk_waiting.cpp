// What members get: the news that they wait for, their tasks, and the models that these refer to.
#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>

#include "winnow/base/error.h"
#include "winnow/net/serve/desk_parts.h"

namespace winnow::net {
namespace {

constexpr std::int64_t kLongestPoll = 25'000;  // milliseconds
// Rows that a member knows of are forgotten in batches: each time costs a write to the disk.
constexpr std::int64_t kForgottenAtOnce = 16;
constexpr std::size_t kMostSettled = 10'000;  // told in one assignment

std::string piece_of(const at::Tensor& bytes, std::uint64_t number) {
  const auto size = static_cast<std::uint64_t>(bytes.nbytes());
  const std::uint64_t begin = number * kPieceBytes;
  const auto* data = static_cast<const char*>(bytes.data_ptr());
  return {data + begin,
          static_cast<std::size_t>(std::min<std::uint64_t>(kPieceBytes, size - begin))};
}

}  // namespace

bool Desk::has_something(const Member& member, const Poll& poll) const {
  if (finished_ || shut_) {
    return true;
  }
  if (poll.working_on != 0) {
    const auto order = orders_.find(static_cast<std::int64_t>(poll.working_on));
    if (order == orders_.end() || order->second->row.client != member.row.client ||
        order->second->row.verdict != OrderVerdict::open) {
      return true;  // what became of it
    }
  }
  const auto own = orders_of_.find(member.row.client);
  return own != orders_of_.end() && std::ranges::any_of(own->second, [this](std::int64_t id) {
           const Live& order = *orders_.at(id);
           return order.row.verdict == OrderVerdict::open && order.task.has_value();
         });
}

v1::Assignment Desk::assignment_for(const Member& member, const Poll& poll) const {
  v1::Assignment assignment;
  assignment.set_committed_round(static_cast<std::uint32_t>(committed_));
  assignment.set_attempt(static_cast<std::uint32_t>(attempt_));
  const auto tell = [&](std::uint64_t order, OrderVerdict verdict) {
    v1::Settled& settled = *assignment.add_settled();
    settled.set_order(order);
    settled.set_verdict(static_cast<v1::Verdict>(verdict));
  };
  bool knows_work = poll.working_on == 0;
  const Live* open = nullptr;
  if (const auto own = orders_of_.find(member.row.client); own != orders_of_.end()) {
    for (const std::int64_t id : own->second) {
      const Live& order = *orders_.at(id);
      const bool works = static_cast<std::uint64_t>(id) == poll.working_on;
      knows_work = knows_work || works;
      if (order.row.verdict == OrderVerdict::open) {
        open = order.task ? &order : open;
      } else if ((works || poll.settled_up_to <= static_cast<std::uint64_t>(order.row.horizon)) &&
                 static_cast<std::size_t>(assignment.settled_size()) < kMostSettled) {
        tell(static_cast<std::uint64_t>(id), order.row.verdict);
      }
    }
  }
  if (!knows_work) {
    tell(poll.working_on, OrderVerdict::absent);
  }
  if (finished_) {
    assignment.mutable_finished()->set_model_hash(*finished_);
  } else if (open != nullptr && !shut_) {
    *assignment.mutable_task() = *open->task;
    const std::int64_t left = std::max<std::int64_t>(0, deadline_ - clock_.now());
    assignment.mutable_task()->set_seconds(static_cast<std::uint32_t>(left / 1000));
  } else {
    assignment.mutable_idle();
  }
  return assignment;
}

void Desk::answer_poll(Member& member) {
  if (!member.poll) {
    return;
  }
  const Poll poll = std::move(*member.poll);
  member.poll.reset();
  v1::Assignment assignment = assignment_for(member, poll);
  if (assignment.has_task()) {
    Live& order = *orders_.at(static_cast<std::int64_t>(assignment.task().order().number()));
    order.handed_out = order.handed_out < 0 ? clock_.now() : order.handed_out;
    metrics_.add("winnow_bytes_total", label("direction", "down"),
                 static_cast<double>(assignment.task().head().size()));
  }
  // One that is at work may not look at the answer: it is told again when it has done it.
  if (assignment.has_finished() && poll.working_on == 0 &&
      member.row.status == MemberStatus::present) {
    member.row.status = MemberStatus::done;
    try {
      journal_.put(member.row);
    } catch (const Error& error) {
      broken(error);
    }
  }
  ready_.emplace_back(poll.answer, std::move(assignment));
}

void Desk::refuse_poll(Member& member, const Refused& refused) {
  if (!member.poll) {
    return;
  }
  v1::Assignment assignment;
  set_refusal(*assignment.mutable_refusal(), refused.reason, refused.detail, refused.try_again);
  ready_.emplace_back(std::move(member.poll->answer), std::move(assignment));
  member.poll.reset();
}

void Desk::acknowledge(const Member& member, std::uint64_t settled_up_to) {
  const auto own = orders_of_.find(member.row.client);
  if (own == orders_of_.end()) {
    return;
  }
  const auto is_known = [&](std::int64_t id) {
    const OrderRow& row = orders_.at(id)->row;
    return row.settled && static_cast<std::uint64_t>(row.horizon) < settled_up_to;
  };
  if (std::ranges::count_if(own->second, is_known) < kForgottenAtOnce) {
    return;
  }
  journal_.acknowledge(member.row.client,
                       static_cast<std::int64_t>(std::min<std::uint64_t>(
                           settled_up_to, static_cast<std::uint64_t>(*own->second.rbegin()) + 1)));
  std::erase_if(own->second, [&](std::int64_t id) {
    const bool known = is_known(id);
    if (known) {
      orders_.erase(id);
    }
    return known;
  });
}

void Desk::next(const Identity& who, const v1::Report& report, Answer answer) {
  Visit visit(*this);
  Member* member = nullptr;
  const auto refuse = [&](const Refused& refused) {
    note(member, who, refused, 0);
    v1::Assignment assignment;
    set_refusal(*assignment.mutable_refusal(), refused.reason, refused.detail, refused.try_again);
    ready_.emplace_back(answer, std::move(assignment));
  };
  try {
    member = &admit(who);
    check_process(*member, report.process());
    expire();
    acknowledge(*member, report.settled_up_to());
    answer_poll(*member);  // an earlier one, whose caller has given up
    member->poll = Poll{answer, clock_.now(), report.working_on(), report.settled_up_to()};
    if (has_something(*member, *member->poll)) {
      answer_poll(*member);
    }
  } catch (const Refused& refused) {
    refuse(refused);
  } catch (const Error& error) {
    refuse(broken(error));
  }
}

void Desk::tick() {
  Visit visit(*this);
  try {
    expire();
  } catch (const Error& error) {
    broken(error);
  }
  for (auto& [name, member] : members_) {
    if (member->poll && clock_.now() - member->poll->since >= kLongestPoll) {
      answer_poll(*member);
    }
  }
}

void Desk::shut() {
  Visit visit(*this);
  shut_ = true;
  for (auto& [name, member] : members_) {
    answer_poll(*member);
  }
}

void Desk::finish(const std::string& model_hash) {
  Visit visit(*this);
  finished_ = model_hash;
  for (auto& [name, member] : members_) {
    answer_poll(*member);
  }
}

v1::Piece Desk::fetch(const Identity& who, const v1::PieceRequest& request) {
  Visit visit(*this);
  v1::Piece piece;
  Member* member = nullptr;
  const auto refuse = [&](const Refused& refused) {
    set_refusal(*piece.mutable_refusal(), refused.reason, refused.detail, refused.try_again);
    note(member, who, refused, 0);
  };
  try {
    member = &admit(who);
    if (member->gone()) {
      throw Refused{v1::NOT_ENROLLED, fmt::format("{} has left", member->row.name)};
    }
    at::Tensor bytes;
    if (setup_.public_images.defined() && request.digest() == raw_of(setup_.public_digest)) {
      bytes = setup_.public_images;
    } else {
      // Only what a task of the member's own refers to.
      const auto own = orders_of_.find(member->row.client);
      const bool asked =
          own != orders_of_.end() && std::ranges::any_of(own->second, [&](std::int64_t id) {
            const auto& task = orders_.at(id)->task;
            return task && std::ranges::any_of(task->models(), [&](const v1::Model& model) {
                     return model.digest() == request.digest();
                   });
          });
      const auto shown = shown_.find(hexadecimal_of(request.digest().substr(0, kDigestBytes)));
      if (!asked || shown == shown_.end()) {
        throw Refused{v1::NOT_NOW, "no task of it refers to such a model at present", true};
      }
      bytes = shown->second.flat;
    }
    const std::uint64_t pieces =
        std::max<std::uint64_t>(1, (bytes.nbytes() + kPieceBytes - 1) / kPieceBytes);
    if (request.number() >= pieces) {
      throw Refused{v1::WRONG_LENGTH,
                    fmt::format("piece {}: there are {}", request.number(), pieces)};
    }
    piece.set_data(piece_of(bytes, request.number()));
    metrics_.add("winnow_bytes_total", label("direction", "down"),
                 static_cast<double>(piece.data().size()));
  } catch (const Refused& refused) {
    refuse(refused);
  } catch (const Error& error) {
    refuse(broken(error));
  }
  return piece;
}

}  // namespace winnow::net
