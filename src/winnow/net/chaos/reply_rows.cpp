// Rows 8 to 15: a member that sends what it should not.
#include <fmt/format.h>

#include <cstring>
#include <limits>
#include <set>
#include <utility>

#include "winnow/base/error.h"
#include "winnow/base/files.h"
#include "winnow/base/text.h"
#include "winnow/net/chaos/outcome.h"
#include "winnow/net/chaos/rogue.h"
#include "winnow/net/chaos/rows.h"
#include "winnow/net/join/channel.h"
#include "winnow/net/serve/wire_form.h"
#include "winnow/run/run_directory.h"

namespace winnow::chaos {
namespace {

namespace fs = std::filesystem;

// What a wrong reply may cost the server: pages that it would have used anyway.
constexpr std::int64_t kFlat = std::int64_t{24} << 20;
constexpr int kDirection = 3;  // place in a head: 0 is a task, 1 a reply
constexpr int kExchange = 4;   // the number of the exchange

using Change = std::function<void(Reply& reply)>;

// A wrong reply and the answer it must get.
struct Lie {
  const char* reason;
  Change change;
};

void expect_verdict(const v1::Receipt& receipt, const std::string& expected) {
  const std::string seen = verdict_of(receipt);
  require(seen == expected,
          fmt::format("'{}' instead of '{}'{}", seen, expected,
                      receipt.has_refusal() ? ": " + receipt.refusal().detail() : ""));
}

// Tells one lie a round and is honest in the others; all lies are final.
std::string lie_each_round(Federation& federation, const std::vector<Lie>& lies) {
  federation.serve();
  federation.swarm(honest());
  Rogue rogue(federation, kTarget);
  std::size_t told = 0;
  std::int64_t before = 0;
  std::set<std::string> reasons;
  rogue.take_part([&](const v1::Task& task) {
    Reply reply = rogue.answer(task);
    if (task.order().round() == 0) {
      expect_verdict(rogue.deliver(reply), "accepted");
      return;
    }
    if (told == 0) {
      before = federation.server().peak_memory();
    }
    if (told == lies.size()) {
      rogue.deliver(reply);
      return;
    }
    const Lie& lie = lies[told++];
    lie.change(reply);
    expect_verdict(rogue.deliver(reply), lie.reason);
    reasons.insert(lie.reason);
    const std::int64_t grown = federation.server().peak_memory() - before;
    require(grown < kFlat,
            fmt::format("after '{}' the server holds {} MiB more", lie.reason, grown >> 20));
  });
  federation.finish();
  require(told == lies.size(), "not all of it was tried");
  for (const std::string& reason : reasons) {
    require(federation.refused_with(reason), fmt::format("network.jsonl has no '{}'", reason));
  }
  const std::string seen = federation.same_absences(std::ssize(lies));
  const std::vector<std::string> words(reasons.begin(), reasons.end());
  return fmt::format("{}; {}", join(words, ", "), seen);
}

std::string rounds_for(std::size_t lies) {
  return fmt::format("rounds={}", lies + 2);
}

void put_float(std::string& values, float value) {
  std::memcpy(values.data(), &value, sizeof value);
}

std::string changed_on_the_way(const Stage& stage, const fs::path& folder) {
  Federation federation(stage, folder);
  federation.serve();
  federation.swarm(honest());
  Rogue rogue(federation, kTarget);
  int times = 0;
  rogue.take_part([&](const v1::Task& task) {
    const Reply right = rogue.answer(task);
    Reply wrong = right;
    char& byte = wrong.parcel.models.at(0).values.at(1000);
    byte = static_cast<char>(byte ^ 1);  // the digest stays
    expect_verdict(rogue.deliver(wrong), "corrupted");
    expect_verdict(rogue.deliver(right), "accepted");
    ++times;
  });
  federation.finish();
  return fmt::format("{} times corrupted, sent again; {}", times, federation.same_model());
}

// Not refused at the door, but by the method, as in a simulation in which it was absent then.
std::string not_finite_by_method(const Stage& stage, const fs::path& folder) {
  Federation federation(stage, folder);
  federation.serve();
  federation.swarm(honest());
  Rogue rogue(federation, kTarget);
  rogue.take_part([&](const v1::Task& task) {
    Reply reply = rogue.answer(task);
    if (task.order().round() == 2) {
      std::string values = reply.parcel.models.at(0).values;
      put_float(values, std::numeric_limits<float>::quiet_NaN());
      Rogue::set_values(reply, std::move(values));
    }
    expect_verdict(rogue.deliver(reply), "accepted");
  });
  federation.finish();
  const fs::path absences = folder / "as-if.jsonl";
  write_file_whole(
      absences,
      fmt::format(
          R"({{"event":"round","round":3,"absent":[{{"ask":0,"client":{},"reason":"refused"}}]}})"
          "\n",
          kTarget));
  require(federation.summary().at("model_hash") == federation.simulated(absences),
          "not the model without that reply");
  return "rejected by the method, same model";
}

std::string not_finite(const Stage& stage, const fs::path& folder) {
  const auto with = [](float value) {
    return [value](Reply& reply) {
      std::string values = reply.parcel.models.at(0).values;
      put_float(values, value);
      Rogue::set_values(reply, std::move(values));
    };
  };
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const std::vector<Lie> lies{{"not_finite", with(std::numeric_limits<float>::quiet_NaN())},
                              {"not_finite", with(kInfinity)},
                              {"not_finite", with(-kInfinity)}};
  Federation strict(stage, folder / "strict",
                    {.experiment = {rounds_for(lies.size())}, .serve = {"strict=true"}});
  const std::string seen = lie_each_round(strict, lies);
  return fmt::format("strict: {}; else: {}", seen, not_finite_by_method(stage, folder / "else"));
}

std::string wrong_form(const Stage& stage, const fs::path& folder) {
  const std::vector<Lie> lies{
      {"wrong_length",
       [](Reply& reply) {
         reply.opening.mutable_models(0)->set_bytes(reply.opening.models(0).bytes() - 4);
       }},
      {"wrong_layout",
       [](Reply& reply) {
         reply.opening.mutable_models(0)->set_layout(std::string(net::kDigestBytes, 'x'));
       }},
      {"wrong_kind", [](Reply& reply) { (*reply.opening.mutable_head())[kExchange] = 77; }},
      {"wrong_kind", [](Reply& reply) { (*reply.opening.mutable_head())[kDirection] = 0; }},
      {"wrong_fields", [](Reply& reply) { reply.opening.mutable_head()->resize(7); }},
      {"wrong_fields", [](Reply& reply) { reply.opening.mutable_models(0)->set_digest("short"); }},
      {"oversized", [](Reply& reply) { reply.opening.mutable_head()->append(1 << 20, 'x'); }},
      {"oversized",
       [](Reply& reply) {
         for (int time = 0; time < 10'000; ++time) {
           *reply.opening.add_models() = reply.opening.models(0);
         }
       }},
      {"out_of_range", [](Reply& reply) { reply.opening.set_steps(std::uint64_t{1} << 60); }}};
  Federation federation(stage, folder, {.experiment = {rounds_for(lies.size())}});
  return lie_each_round(federation, lies);
}

std::string wrong_lengths(const Stage& stage, const fs::path& folder) {
  Federation federation(stage, folder);
  federation.serve();
  federation.swarm(honest());
  Rogue rogue(federation, kTarget);
  std::string unread;
  std::int64_t before = 0;
  rogue.take_part([&](const v1::Task& task) {
    Reply reply = rogue.answer(task);
    switch (task.order().round()) {
      case 1:
        before = federation.server().peak_memory();
        reply.opening.mutable_models(0)->set_bytes(std::uint64_t{1} << 63);
        expect_verdict(rogue.open(reply), "oversized");
        return;
      case 2:
        expect_verdict(rogue.open(reply), "open");
        expect_verdict(rogue.put(reply, std::uint64_t{1} << 32, "data"), "oversized");
        return;
      case 3:
        expect_verdict(rogue.open(reply), "open");
        try {
          rogue.put(reply, 0, std::string(std::size_t{5} << 20, 'x'));
        } catch (const Error& error) {
          unread = error.what();
        } catch (const member::Unreachable& error) {
          unread = error.what();  // the call ended before the server's words had come
        }
        require(!unread.empty(), "a piece of 5 MiB was read");
        break;
      case 4:
        expect_verdict(rogue.open(reply), "open");
        expect_verdict(rogue.put(reply, 0, std::string(1'900'000, 'x')), "oversized");
        return;
      default:
        break;
    }
    expect_verdict(rogue.deliver(reply), "accepted");
    if (task.order().round() == 5) {
      const std::int64_t grown = federation.server().peak_memory() - before;
      require(grown < kFlat, fmt::format("the server holds {} MiB more", grown >> 20));
    }
  });
  federation.finish();
  return fmt::format("oversized, 5 MiB unread, memory flat; {}", federation.same_absences(3));
}

std::string wrong_orders(const Stage& stage, const fs::path& folder) {
  Federation federation(stage, folder);
  federation.serve();
  federation.swarm(honest());
  Rogue rogue(federation, kTarget);
  rogue.take_part([&](const v1::Task& task) {
    const Reply right = rogue.answer(task);
    const auto with = [&](const std::function<void(v1::OrderId&)>& change) {
      Reply wrong = right;
      change(*wrong.opening.mutable_order());
      return rogue.open(wrong);
    };
    expect_verdict(with([](v1::OrderId& id) { id.set_round(id.round() + 1); }), "wrong_round");
    expect_verdict(with([](v1::OrderId& id) { id.set_attempt(9); }), "wrong_round");
    expect_verdict(with([](v1::OrderId& id) { id.set_nonce(std::string(16, 'x')); }),
                   "wrong_nonce");
    expect_verdict(with([](v1::OrderId& id) { id.set_number(id.number() + 1000); }), "not_asked");
    expect_verdict(rogue.deliver(right), "accepted");
  });
  federation.finish();
  return "wrong_round, wrong_nonce, not_asked; " + federation.same_model();
}

std::string duplicates(const Stage& stage, const fs::path& folder) {
  Federation federation(stage, folder);
  federation.serve();
  federation.swarm(honest());
  Rogue rogue(federation, kTarget);
  rogue.take_part([&](const v1::Task& task) {
    Reply reply = rogue.answer(task);
    expect_verdict(rogue.deliver(reply), "accepted");
    expect_verdict(rogue.deliver(reply), "accepted");
    expect_verdict(rogue.seal(reply), "accepted");
    std::string values = reply.parcel.models.at(0).values;
    put_float(values, 1.0F);
    Rogue::set_values(reply, std::move(values));
    expect_verdict(rogue.deliver(reply), "duplicate");
  });
  federation.finish();
  return "accepted again, duplicate; " + federation.same_model();
}

std::string implausible(const Stage& stage, const fs::path& folder) {
  const std::vector<Lie> lies{{"wrong_samples",
                               [](Reply& reply) {  // the last field of the head
                                 std::string& head = *reply.opening.mutable_head();
                                 head.replace(head.size() - 4, 4, "\xff\xff\xff\xff");
                               }},
                              {"norm_band", [](Reply& reply) {
                                 std::string values = reply.parcel.models.at(0).values;
                                 for (std::size_t at = 0; at + sizeof(float) <= values.size();
                                      at += sizeof(float)) {
                                   float value = 0.0F;
                                   std::memcpy(&value, values.data() + at, sizeof value);
                                   value *= 1000.0F;
                                   std::memcpy(values.data() + at, &value, sizeof value);
                                 }
                                 Rogue::set_values(reply, std::move(values));
                               }}};
  // A median needs five earlier replies: the second lie is told when eleven are there.
  Federation federation(stage, folder,
                        {.experiment = {rounds_for(lies.size())}, .serve = {"norm_band=10.0"}});
  return lie_each_round(federation, lies);
}

std::string names_of_others(const Stage& stage, const fs::path& folder) {
  Federation federation(stage, folder);
  federation.serve();
  federation.swarm(honest());
  Rogue older(federation, kTarget);
  older.join();
  const v1::Task task = older.await_task();
  Reply foreign = older.answer(task);
  // Orders of a round have one number after the other, by client.
  foreign.opening.mutable_order()->set_number(task.order().number() - 1);
  expect_verdict(older.deliver(foreign), "not_asked");
  Rogue newer(federation, kTarget);
  newer.join();
  const v1::Assignment told = older.next();
  require(told.has_refusal() && told.refusal().reason() == v1::NAME_TAKEN,
          "the older process was not told");
  expect_verdict(older.deliver(older.answer(task)), "name_taken");
  newer.take_part();
  federation.finish();
  return "not_asked; name_taken for the older one; " + federation.same_model();
}

}  // namespace

void add_reply_rows(std::vector<Row>& rows) {
  rows.push_back({8, "a bit flipped in a piece before TLS", "corrupted, sent again, same model",
                  changed_on_the_way});
  rows.push_back({9, "NaN, +Inf, -Inf in a model",
                  "strict: not_finite; otherwise the method rejects it", not_finite});
  rows.push_back({10, "wrong shape, layout, kind, fields; too many values",
                  "refused with the right reason, memory does not grow", wrong_form});
  rows.push_back({11, "2^63 bytes announced, piece 2^32, a piece of 5 MiB",
                  "oversized or not read, memory does not grow", wrong_lengths});
  rows.push_back({12, "stale round, wrong nonce, reply nobody asked for",
                  "refused with the right reason, same model", wrong_orders});
  rows.push_back({13, "a reply sent twice, with the same and with different bytes",
                  "accepted again; duplicate; counted once", duplicates});
  rows.push_back({14, "samples = 2^32 - 1; an update 1,000 times too large",
                  "wrong_samples; norm_band", implausible});
  rows.push_back({15, "another member's order; the same certificate twice",
                  "not_asked; the newer process continues, the older gets name_taken",
                  names_of_others});
}

}  // namespace winnow::chaos
