// Replies on their way in: announced, brought piece by piece, sealed.
#include <fmt/format.h>

#include <algorithm>

#include "winnow/base/error.h"
#include "winnow/federation/aggregation.h"
#include "winnow/net/serve/desk_parts.h"
#include "winnow/net/serve/reply_bounds.h"

namespace winnow::net {

template <typename Body>
v1::Receipt Desk::receipt_for(const Identity& who, const v1::OrderId& id,
                              const std::string& process, const Body& body) {
  Visit visit(*this);
  v1::Receipt receipt;
  Member* member = nullptr;
  const auto refuse = [&](const Refused& refused) {
    receipt.Clear();
    receipt.set_verdict(refused.reason == v1::LATE ? v1::ABSENT
                        : refused.try_again        ? v1::OPEN
                                                   : v1::REFUSED);
    set_refusal(*receipt.mutable_refusal(), refused.reason, refused.detail, refused.try_again);
    note(member, who, refused, id.number());
    const auto order = orders_.find(static_cast<std::int64_t>(id.number()));
    if (member == nullptr || order == orders_.end() ||
        order->second->row.client != member->row.client ||
        order->second->row.verdict != OrderVerdict::open) {
      return;
    }
    order->second->refused_once = order->second->refused_once || refused.reason == v1::CORRUPTED;
    if (refused.decides) {
      decide({order->first}, OrderVerdict::refused, name_of(refused.reason));
    }
  };
  try {
    member = &admit(who);
    check_process(*member, process);
    body(visit, *member, receipt);
  } catch (const Refused& refused) {
    try {
      refuse(refused);
    } catch (const Error& error) {
      broken(error);
    }
  } catch (const Error& error) {
    refuse(broken(error));
  }
  return receipt;
}

Desk::Live& Desk::order_of(const Member& member, const v1::OrderId& id) {
  expire();
  const auto found = id.number() > static_cast<std::uint64_t>(INT64_MAX)
                         ? orders_.end()
                         : orders_.find(static_cast<std::int64_t>(id.number()));
  const auto is = [&id](std::int64_t round, std::int64_t attempt) {
    return id.round() == round && id.attempt() == attempt;
  };
  if (found == orders_.end() || found->second->row.client != member.row.client) {
    if (!is(round_, attempt_)) {
      throw Refused{v1::WRONG_ROUND,
                    fmt::format("order {} is of round {}, attempt {}; under way is round {}, "
                                "attempt {}",
                                id.number(), id.round() + 1, id.attempt(), round_ + 1, attempt_)};
    }
    throw Refused{v1::NOT_ASKED,
                  fmt::format("there is no order {} for {}", id.number(), member.row.name)};
  }
  const OrderRow& row = found->second->row;
  if (!is(row.round, row.attempt) || id.ask() != row.ask) {
    throw Refused{v1::WRONG_ROUND, fmt::format("order {} is of round {}, attempt {}, ask {}",
                                               id.number(), row.round + 1, row.attempt, row.ask)};
  }
  if (id.nonce() != row.nonce) {
    throw Refused{v1::WRONG_NONCE, fmt::format("order {} has another nonce", id.number())};
  }
  return *found->second;
}

void Desk::require_open(const Live& order) const {
  if (order.row.verdict == OrderVerdict::absent) {
    throw Refused{v1::LATE, fmt::format("order {} went on without it", order.row.id)};
  }
  if (order.row.verdict == OrderVerdict::refused) {
    throw Refused{v1::DUPLICATE,
                  fmt::format("order {} was refused already: {}", order.row.id, order.row.reason)};
  }
  if (!order.task) {
    throw Refused{v1::NOT_NOW, "the server was started again and has not come to it yet", true};
  }
}

Desk::Delivery& Desk::delivery_of(Member& member, const Live& order) const {
  if (member.delivery == nullptr || member.delivery->order != order.row.id) {
    throw Refused{v1::NOT_NOW, "it has to be opened first", true};
  }
  if (member.delivery->busy) {
    throw Refused{v1::NOT_NOW, "an earlier call is still at work on it", true};
  }
  return *member.delivery;
}

void Desk::list_missing(const Delivery& delivery, v1::Receipt& receipt) const {
  receipt.set_verdict(v1::OPEN);
  for (std::size_t place = 0; place < delivery.parts.size(); ++place) {
    const Part& part = delivery.parts[place];
    if (part.incoming != nullptr && !part.incoming->complete()) {
      v1::Missing& missing = *receipt.add_missing();
      missing.set_model(static_cast<std::uint32_t>(place));
      missing.set_first(part.incoming->first_missing());
    }
  }
}

v1::Receipt Desk::open(const Identity& who, const v1::Opening& opening) {
  return receipt_for(
      who, opening.order(), opening.process(), [&](Visit&, Member& member, v1::Receipt& receipt) {
        const Live& order = order_of(member, opening.order());
        const std::string digest = digest_of(opening);
        if (order.row.verdict == OrderVerdict::accepted) {
          if (digest != order.row.reply.digest) {
            throw Refused{v1::DUPLICATE,
                          fmt::format("order {} was answered with another reply", order.row.id)};
          }
          receipt.set_verdict(v1::ACCEPTED);
          return;
        }
        require_open(order);
        if (member.delivery != nullptr && member.delivery->busy) {
          throw Refused{v1::NOT_NOW, "an earlier call is still at work on it", true};
        }
        if (member.delivery == nullptr || member.delivery->order != order.row.id ||
            member.delivery->digest != digest) {
          member.delivery.reset();
          auto delivery = std::make_shared<Delivery>();
          delivery->first_model = inspect(order, opening);
          delivery->order = order.row.id;
          delivery->digest = digest;
          delivery->opening = opening;
          for (const v1::Model& model : opening.models()) {
            Part part{hexadecimal_of(model.digest()), hexadecimal_of(model.layout()),
                      static_cast<std::int64_t>(model.bytes())};
            if (!holds(part.digest, part.bytes)) {
              try {
                part.incoming = spool_.receive(part.bytes);
              } catch (const Error& error) {
                log("error", "spool", {{"detail", error.what()}});
                throw Refused{v1::NOT_NOW, "the server has no room for it at present", true};
              }
            }
            delivery->parts.push_back(std::move(part));
          }
          member.delivery = std::move(delivery);
          metrics_.add("winnow_bytes_total", label("direction", "up"),
                       static_cast<double>(opening.head().size()));
        }
        list_missing(*member.delivery, receipt);
      });
}

v1::Receipt Desk::put(const Identity& who, const v1::Portion& portion) {
  return receipt_for(
      who, portion.order(), portion.process(),
      [&](Visit& visit, Member& member, v1::Receipt& receipt) {
        const Live& order = order_of(member, portion.order());
        if (order.row.verdict == OrderVerdict::accepted) {
          receipt.set_verdict(v1::ACCEPTED);
          return;
        }
        require_open(order);
        std::ignore = delivery_of(member, order);
        const std::shared_ptr<Delivery> delivery = member.delivery;
        const auto refuse = [](v1::Reason reason, const std::string& why) {
          throw Refused{reason, why, false, true};
        };
        if (portion.model() >= delivery->parts.size()) {
          refuse(v1::WRONG_FIELDS, fmt::format("a piece of model {}, there are {}", portion.model(),
                                               delivery->parts.size()));
        }
        receipt.set_verdict(v1::OPEN);
        IncomingModel* incoming = delivery->parts[portion.model()].incoming.get();
        if (incoming == nullptr) {
          return;  // it is held
        }
        if (portion.number() >= incoming->pieces()) {
          refuse(v1::OVERSIZED, fmt::format("piece {} of model {}, there are {}", portion.number(),
                                            portion.model(), incoming->pieces()));
        }
        const std::size_t expected = incoming->length_of(portion.number());
        if (portion.data().size() != expected) {
          refuse(portion.data().size() > expected ? v1::OVERSIZED : v1::WRONG_LENGTH,
                 fmt::format("piece {} of {} bytes, expected {}", portion.number(),
                             portion.data().size(), expected));
        }
        const Busy busy(*delivery);
        {
          const Unlocked unlocked(visit);
          try {
            incoming->put(portion.number(), portion.data());
          } catch (const Error& error) {
            log("error", "spool", {{"detail", error.what()}});
            throw Refused{v1::NOT_NOW, "the server cannot store it at present", true};
          }
        }
        metrics_.add("winnow_bytes_total", label("direction", "up"),
                     static_cast<double>(portion.data().size()));
        fail(kAfterPiece);
        if (setup_.strict && !incoming->finite() &&
            wants_finite_models(
                exchange_of(orders_.at(delivery->order)->row.exchange, setup_.exchanges).answers)) {
          refuse(v1::NOT_FINITE,
                 fmt::format("model {} holds values that are not finite", portion.model()));
        }
      });
}

v1::Receipt Desk::seal(const Identity& who, const v1::Sealing& sealing) {
  return receipt_for(
      who, sealing.order(), sealing.process(),
      [&](Visit& visit, Member& member, v1::Receipt& receipt) {
        const Live& asked = order_of(member, sealing.order());
        if (asked.row.verdict == OrderVerdict::accepted) {
          receipt.set_verdict(v1::ACCEPTED);
          return;
        }
        require_open(asked);
        std::ignore = delivery_of(member, asked);
        const std::shared_ptr<Delivery> delivery = member.delivery;
        list_missing(*delivery, receipt);
        if (receipt.missing_size() > 0) {
          return;
        }
        for (std::size_t place = 0; place < delivery->parts.size(); ++place) {
          Part& part = delivery->parts[place];
          if (part.incoming != nullptr && part.incoming->digest() != part.digest) {
            part.incoming = nullptr;  // gives its room back first
            member.delivery.reset();
            throw Refused{v1::CORRUPTED,
                          fmt::format("model {} was changed on the way: its digest differs", place),
                          true};
          }
        }
        const LayoutPtr layout = setup_.layouts.at(static_cast<std::size_t>(asked.row.client));
        const std::string sent =
            asked.task->models_size() > 0 ? hexadecimal_of(asked.task->models(0).digest()) : "";
        const bool look =
            setup_.strict &&
            wants_finite_models(exchange_of(asked.row.exchange, setup_.exchanges).answers);
        const Busy busy(*delivery);
        std::optional<double> norm;
        bool finite = true;
        {
          const Unlocked unlocked(visit);
          try {
            store(*delivery);
            for (const Part& part : delivery->parts) {
              finite = finite && (!look || part.incoming != nullptr ||
                                  all_finite(spool_.map(part.digest, layout)));
            }
            norm = distance(*delivery, sent, layout);
          } catch (const Error& error) {
            log("error", "spool", {{"detail", error.what()}});
            throw Refused{v1::NOT_NOW, "the server cannot store it at present", true};
          }
        }
        fail(kAfterRename);
        Live& order = order_of(member, sealing.order());  // time has passed
        require_open(order);
        if (!finite) {
          throw Refused{v1::NOT_FINITE, "it holds values that are not finite", false, true};
        }
        if (norm) {
          check_norm(order, *norm);
        }
        accept(member, order, *delivery, norm);
        receipt.set_verdict(v1::ACCEPTED);
      });
}

}  // namespace winnow::net
