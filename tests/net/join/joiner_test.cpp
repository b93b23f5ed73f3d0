#include "winnow/net/join/joiner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <set>
#include <thread>

#include "net/join/dealt.h"
#include "net/join/fake_server.h"
#include "winnow/engine/prototype.h"
#include "winnow/net/join/drive.h"
#include "winnow/net/join/offer.h"

namespace winnow::member::joiner_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// A member with its state on the disk, and the server it talks to.
struct Meeting {
  explicit Meeting(const std::string& method = "scaffold")
      : dealing(experiment_with(method), folder / "dealt"),
        server(dealing.charter),
        site(dealing.site(0)) {
    restart();
  }

  // As a new process of the same member.
  void restart(Keep::Watch watch = {}) {
    joiner.reset();
    keep = std::make_unique<Keep>(folder / "state", std::move(watch));
    keep->agree(dealing.charter.federation, dealing.charter.hash());
    joiner = std::make_unique<Joiner>(
        Joiner::Parts{.name = "client-0",
                      .channel = server,
                      .site = *site,
                      .shelf = shelf,
                      .keep = *keep,
                      .client = 0,
                      .charter_hash = dealing.charter.hash(),
                      .process = random_process(),
                      .version = "test",
                      .arithmetic = "none",
                      .fingerprint = "0",
                      .pulse = pulse,
                      .say = [this](const std::string& line) { said.push_back(line); }});
  }

  // A task of the method's first exchange with this model everywhere.
  Parcel task(std::uint32_t round, const State& model) const {
    const Exchange& exchange = dealing.place->exchanges().front();
    Message message(exchange.task);
    for (const FieldRule& field : exchange.asks) {
      if (field.type == FieldType::u32) {
        message.set(field.name, round);
      } else {
        message.set(field.name, model);
      }
    }
    return pack_task(message, dealing.place->exchanges());
  }
  Parcel task(std::uint32_t round) const { return task(round, global()); }
  State global() const { return dealing.place->prototype().initial_state(1); }

  Joiner::Then step() { return joiner->take(server.assignment()); }

  const TestFolder folder;
  Dealing dealing;
  FakeServer server;
  std::unique_ptr<Site> site;
  Shelf shelf;
  std::unique_ptr<Keep> keep;
  std::unique_ptr<Joiner> joiner;
  std::vector<std::string> said;
  double pulse = 15.0;
};

v1::Refusal refusal(v1::Reason reason, const std::string& detail, bool again = false) {
  v1::Refusal made;
  made.set_reason(reason);
  made.set_detail(detail);
  made.set_try_again(again);
  return made;
}

TEST(Joiner, SaysHelloAnswersATaskAndIsDone) {
  Meeting meeting;
  meeting.joiner->join();
  const v1::Hello& hello = meeting.server.hellos.at(0);
  EXPECT_EQ(hello.samples(), static_cast<std::uint64_t>(meeting.site->samples(0)));
  EXPECT_EQ(hex_of(hello.charter()), meeting.dealing.charter.hash());
  EXPECT_EQ(hello.process().size(), 16U);
  const Parcel task = meeting.task(0);
  const OrderName order = meeting.server.put_out(1, 0, task);
  EXPECT_EQ(meeting.step(), Joiner::Then::ask);
  const Site::Work expected =
      meeting.dealing.site(0)->answer(0, {}, meeting.site->task_in(0, task, {}));
  ASSERT_TRUE(meeting.server.sealed.contains(1));
  EXPECT_EQ(meeting.server.sealed.at(1).first, expected.reply.head);
  ASSERT_EQ(meeting.server.sealed.at(1).second.size(), expected.reply.models.size());
  for (std::size_t i = 0; i < expected.reply.models.size(); ++i) {
    EXPECT_EQ(meeting.server.sealed.at(1).second[i], expected.reply.models[i].values);
  }
  const v1::Opening& opening = meeting.server.openings.at(0);
  EXPECT_EQ(opening.steps(), static_cast<std::uint64_t>(expected.steps));
  EXPECT_EQ(opening.forward(), static_cast<std::uint64_t>(expected.passes.forward));
  EXPECT_TRUE(meeting.keep->answered(order));
  EXPECT_EQ(meeting.keep->undecided(), std::nullopt);
  meeting.server.settled = {{1, v1::ACCEPTED}};
  meeting.server.committed = 1;
  meeting.server.finished = true;
  EXPECT_EQ(meeting.step(), Joiner::Then::finished);
  EXPECT_EQ(meeting.joiner->model_hash(), "f00d");
  EXPECT_EQ(meeting.keep->committed_round(), 1);
  EXPECT_FALSE(meeting.keep->answered(order));
  EXPECT_FALSE(meeting.keep->memory().empty());
  EXPECT_THAT(meeting.said, IsEmpty());
}

TEST(Joiner, AModelIsFetchedOnceHoweverOftenItIsReferredTo) {
  Meeting meeting;
  meeting.server.put_out(1, 0, meeting.task(0));
  meeting.step();
  const int fetched = meeting.server.calls["fetch"];
  EXPECT_GT(fetched, 0);
  meeting.server.settled = {{1, v1::ACCEPTED}};
  meeting.server.put_out(2, 0, meeting.task(0));
  meeting.step();
  EXPECT_EQ(meeting.server.calls["fetch"], fetched);
}

// The connection breaks, or the process dies, at every call of a delivery in turn.
TEST(Joiner, ResendsWhatItHasAndDoesNotTrainAgain) {
  for (const bool restarts : {false, true}) {
    for (const char* where : {"open", "put", "seal", "sealed"}) {
      Meeting meeting;
      meeting.server.put_out(1, 0, meeting.task(0));
      bool broken = false;
      meeting.server.hook = [&](const std::string& name) {
        if (name == where && !broken) {
          broken = true;
          throw Unreachable("gone");
        }
      };
      EXPECT_THROW(meeting.step(), Unreachable) << where;
      const std::int64_t answered = meeting.joiner->answered();
      EXPECT_EQ(answered, 1);
      if (restarts) {
        meeting.restart();
      }
      meeting.joiner->join();
      if (meeting.server.sealed.contains(1)) {
        meeting.server.settled = {{1, v1::ACCEPTED}};  // taken down before the receipt was lost
      }
      meeting.step();
      EXPECT_EQ(meeting.joiner->answered(), restarts ? 0 : 1) << where;
      EXPECT_TRUE(meeting.server.sealed.contains(1)) << where;
      EXPECT_EQ(meeting.keep->undecided(), std::nullopt) << where;
    }
  }
}

TEST(Joiner, ACrashBeforeTheReplyIsKeptCostsTheTrainingAndNothingElse) {
  struct Crash {};
  Meeting meeting;
  meeting.server.put_out(1, 0, meeting.task(0));
  meeting.restart([](const std::string& step) {
    if (step == "outbox") {
      throw Crash();
    }
  });
  EXPECT_THROW(meeting.step(), Crash);
  EXPECT_EQ(meeting.server.calls["open"], 0);
  meeting.restart();
  EXPECT_EQ(meeting.step(), Joiner::Then::ask);
  EXPECT_EQ(meeting.joiner->answered(), 1);
  EXPECT_TRUE(meeting.server.sealed.contains(1));
}

TEST(Joiner, AFullDiskLeavesTheOrderUnansweredAndSaysSo) {
  Meeting meeting;
  meeting.restart([](const std::string& step) {
    if (step == "outbox") {
      throw Error(ErrorKind::run, "no space left on device");
    }
  });
  meeting.server.put_out(7, 2, meeting.task(2));
  EXPECT_EQ(meeting.step(), Joiner::Then::pause);
  EXPECT_THAT(meeting.said,
              ElementsAre("order 7 of round 3 is not answered: no space left on device"));
  EXPECT_EQ(meeting.server.calls["open"], 0);
  EXPECT_TRUE(meeting.keep->memory().empty());
}

TEST(Joiner, ARefusedReplyIsForgottenAndSaid) {
  Meeting meeting;
  meeting.server.put_out(1, 0, meeting.task(0));
  meeting.server.seal_refusal = refusal(v1::LATE, "the time was up");
  EXPECT_EQ(meeting.step(), Joiner::Then::ask);
  EXPECT_THAT(meeting.said,
              ElementsAre("the reply to order 1 of round 1 does not count: the time was up"));
  EXPECT_TRUE(meeting.keep->memory().empty());
}

TEST(Joiner, TriesACorruptedDeliveryAgainAndThenWaits) {
  Meeting meeting;
  meeting.server.put_out(1, 0, meeting.task(0));
  meeting.server.seal_refusal = refusal(v1::CORRUPTED, "its digest differs", true);
  EXPECT_THROW(meeting.step(), Unreachable);
  EXPECT_EQ(meeting.server.calls["seal"], 3);
  EXPECT_FALSE(meeting.keep->memory().empty());
}

// SCAFFOLD's controls have to agree at both ends, whatever was lost.
TEST(Joiner, WhatDidNotCountHasLeftNoTraceInTheNextReply) {
  Meeting meeting;
  meeting.server.put_out(1, 0, meeting.task(0));
  meeting.step();
  meeting.server.settled = {{1, v1::ABSENT}};
  meeting.server.committed = 1;
  const Parcel task = meeting.task(1);
  meeting.server.put_out(2, 1, task);
  meeting.step();
  const Site::Work fresh =
      meeting.dealing.site(0)->answer(0, {}, meeting.site->task_in(0, task, {}));
  EXPECT_EQ(meeting.server.sealed.at(2).second.at(0), fresh.reply.models.at(0).values);
  EXPECT_EQ(meeting.server.sealed.at(2).first, fresh.reply.head);
}

TEST(Joiner, RefusalsAreSaidInWords) {
  const auto text = [](const v1::Refusal& why) {
    Meeting meeting("fedavg");
    meeting.server.change_welcome = [&](v1::Welcome& welcome) { *welcome.mutable_refusal() = why; };
    return error_text([&] { meeting.joiner->join(); });
  };
  EXPECT_EQ(text(refusal(v1::NOT_ENROLLED, "client-9 is not enrolled")),
            "the server refuses this member: client-9 is not enrolled | ask the operator to add it "
            "to [[members]]");
  EXPECT_EQ(text(refusal(v1::WRONG_NUMERICS, "")),
            "the server refuses this member: it computes differently | use the version of Winnow "
            "that the server has");
  EXPECT_EQ(text(refusal(v1::REVOKED, "\x1b[31mred")),
            "the server refuses this member: \\x1b[31mred | ask the operator for another "
            "certificate");
  Meeting meeting("fedavg");
  meeting.server.refusal = refusal(v1::NAME_TAKEN, "");
  EXPECT_THAT(error_text([&] { meeting.step(); }),
              HasSubstr("another process takes part under this name | stop the other one first"));
  meeting.server.refusal = refusal(v1::NOT_NOW, "it has not joined yet", true);
  EXPECT_THROW(meeting.step(), Unreachable);
}

TEST(Joiner, RefusesAServerThatHasChangedItsCharterOrItsMindAboutWhoThisIs) {
  Meeting meeting("fedavg");
  meeting.server.change_welcome = [](v1::Welcome& welcome) {
    welcome.set_charter_hash(std::string(32, 'x'));
  };
  EXPECT_THAT(error_text([&] { meeting.joiner->join(); }),
              HasSubstr("the charter of the server has changed"));
  meeting.server.change_welcome = [](v1::Welcome& welcome) { welcome.set_client(3); };
  EXPECT_EQ(error_text([&] { meeting.joiner->join(); }),
            "the server calls this member client 3, it is client 0");
}

TEST(Joiner, TakesNothingFromAHostileServer) {
  const auto text = [](const std::function<void(Meeting&, v1::Task&)>& spoil) {
    Meeting meeting("fedavg");
    meeting.server.put_out(1, 0, meeting.task(0));
    spoil(meeting, meeting.server.tasks.front());
    try {
      meeting.step();
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::peer);
      EXPECT_EQ(meeting.joiner->answered(), 0);
      return std::string(error.what());
    } catch (const Unreachable& error) {
      return std::string("unreachable: ") + error.what();
    }
    return std::string("no error");
  };
  EXPECT_EQ(text([](Meeting& meeting, v1::Task&) {
              meeting.server.change_piece = [](v1::Piece& piece) {
                (*piece.mutable_data())[7] ^= 1;
              };
            }),
            "unreachable: a model was changed on the way: its digest differs");
  EXPECT_THAT(text([](Meeting& meeting, v1::Task&) {
                meeting.server.change_piece = [](v1::Piece& piece) { piece.set_data("short"); };
              }),
              HasSubstr("sends piece 0 of a model with 5 bytes, expected"));
  EXPECT_THAT(text([](Meeting& meeting, v1::Task&) {
                meeting.server.change_piece = [](v1::Piece& piece) {
                  piece.set_data(std::string(5 << 20, 'x'));
                };
              }),
              HasSubstr("with 5242880 bytes, expected"));
  EXPECT_EQ(text([](Meeting&, v1::Task& task) {
              task.mutable_models(0)->set_layout(std::string(32, 'l'));
            }),
            "the server sends a model with the layout of another network");
  EXPECT_THAT(text([](Meeting&, v1::Task& task) {
                task.mutable_models(0)->set_bytes(std::uint64_t{1} << 63);
              }),
              HasSubstr("sends a model of 9223372036854775808 bytes, expected"));
  EXPECT_EQ(text([](Meeting&, v1::Task& task) { task.mutable_models(0)->set_digest("abc"); }),
            "the server sends a digest of 3 bytes, expected 32");
  EXPECT_EQ(text([](Meeting&, v1::Task& task) { task.mutable_order()->set_nonce(""); }),
            "the server sends an order without a number or a nonce");
  EXPECT_EQ(text([](Meeting&, v1::Task& task) { task.set_head("WN1"); }),
            "a task: the direction needs 1 bytes, there are 0");
  EXPECT_THAT(text([](Meeting&, v1::Task& task) { task.set_head(task.head() + "x"); }),
              HasSubstr("a task: 1 bytes too many"));
  EXPECT_EQ(text([](Meeting& meeting, v1::Task& task) {
              *task.add_models() = task.models(0);
              meeting.server.hook = [](const std::string& name) { EXPECT_NE(name, "fetch"); };
            }),
            "the server sends a task of 2 models, expected at most 1");
  EXPECT_EQ(text([](Meeting& meeting, v1::Task&) {
              meeting.server.settled = {{(std::uint64_t{1} << 53) + 1, v1::ABSENT}};
            }),
            "the server settles an order 9007199254740993, which cannot be");
}

// The largest number that a state file can hold, and is read from again.
TEST(Joiner, ALargeOrderThatIsSettledCanBeReadAgain) {
  Meeting meeting("fedavg");
  meeting.server.settled = {{std::uint64_t{1} << 53, v1::ABSENT}};
  meeting.step();
  EXPECT_NO_THROW(meeting.restart());
  EXPECT_EQ(meeting.keep->settled_up_to(), std::uint64_t{1} << 53);
}

TEST(Joiner, HearsTheEndWhileItTrains) {
  Meeting meeting("remembering");
  std::atomic<bool> told = false;
  meeting.server.put_out(1, 0, meeting.task(0));
  const v1::Assignment task = meeting.server.assignment();
  meeting.server.hook = [&](const std::string& name) {
    if (name == "next") {
      meeting.server.tasks.clear();
      meeting.server.settled = {{1, v1::ABSENT}};
      meeting.server.finished = true;
      told = meeting.server.calls["next"] > 1;  // so the first answer was taken
    } else {
      EXPECT_EQ(name, "fetch") << "the server may be gone by then";
    }
  };
  meeting.dealing.registry = methods([&](std::int64_t, std::int64_t) {
    for (int i = 0; i < 1000 && !told; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  });
  meeting.joiner.reset();
  meeting.site = meeting.dealing.site(0);
  meeting.pulse = 0.001;
  meeting.restart();
  EXPECT_EQ(meeting.joiner->take(task), Joiner::Then::finished);
  EXPECT_TRUE(told);
  EXPECT_EQ(meeting.joiner->model_hash(), "f00d");
  EXPECT_TRUE(meeting.keep->memory().empty());
}

TEST(Joiner, RefusesOrdersThatAreSettledOrThatSkipOne) {
  Meeting meeting("fedavg");
  meeting.server.settled = {{5, v1::ABSENT}};
  meeting.server.put_out(5, 0, meeting.task(0));
  EXPECT_EQ(error_text([&] { meeting.step(); }),
            "the server asks for order 5 again, which is settled");
  Meeting other("fedavg");
  other.server.put_out(1, 0, other.task(0));
  other.server.hook = [](const std::string& name) {
    if (name == "open") {
      throw Unreachable("gone");
    }
  };
  EXPECT_THROW(other.step(), Unreachable);
  other.server.hook = nullptr;
  other.server.tasks.clear();
  other.server.put_out(2, 0, other.task(0));
  EXPECT_EQ(error_text([&] { other.step(); }), "the server has not said what became of order 1");
}

TEST(Offer, IsCheckedBeforeItIsShown) {
  const TestFolder folder;
  const Dealing dealing(experiment_with("rhfl"), folder / "dealt");
  FakeServer server(dealing.charter);
  server.client = 2;
  const Offer offer = ask_offer(server, random_process());
  EXPECT_EQ(offer.hash, dealing.charter.hash());
  EXPECT_EQ(offer.client, 2);
  EXPECT_EQ(server.hellos.at(0).charter(), "");
  EXPECT_EQ(accept_offer(server, offer, random_process()), 2);
  EXPECT_EQ(hex_of(server.hellos.at(1).charter()), offer.hash);
  EXPECT_EQ(server.hellos.at(1).samples(), 0U) << "which it tells when it joins";
  server.client = 6;
  for (const auto& call :
       std::vector<std::function<void()>>{[&] { ask_offer(server, random_process()); },
                                          [&] { accept_offer(server, offer, random_process()); }}) {
    EXPECT_EQ(error_text(call), "the server calls this member client 6 of 6");
  }
  server.client = 0;
  server.change_welcome = [](v1::Welcome& welcome) { welcome.clear_charter_hash(); };
  EXPECT_THAT(error_text([&] { accept_offer(server, offer, random_process()); }),
              HasSubstr("the charter of the server has changed"));
  server.change_welcome = [](v1::Welcome& welcome) { welcome.set_protocol(9); };
  EXPECT_EQ(error_text([&] { ask_offer(server, random_process()); }),
            "the server speaks protocol 9, this program 1");
  server.change_welcome = [](v1::Welcome& welcome) { welcome.mutable_charter()->append(" "); };
  EXPECT_EQ(error_text([&] { ask_offer(server, random_process()); }),
            "the server sends a charter that does not have the hash it announces");
  server.change_welcome = nullptr;
  const std::string bytes = bytes_in(dealing.place->world().public_images);
  server.shown[bytes_of_hex(offer.charter.public_digest)] = bytes;
  EXPECT_EQ(fetch_public_images(server, offer.charter), bytes);
  server.change_piece = [](v1::Piece& piece) { (*piece.mutable_data())[0] ^= 1; };
  EXPECT_EQ(error_text([&] { fetch_public_images(server, offer.charter); }),
            "the server sends other public images than its charter names");
}

TEST(Drive, GoesOnThroughLostConnectionsUntilTheFederationIsFinished) {
  Meeting meeting("fedavg");
  meeting.server.put_out(1, 0, meeting.task(0));
  int broken = 0;
  meeting.server.hook = [&](const std::string& name) {
    const std::map<std::string, int> fails{{"join", 1}, {"next", 2}, {"fetch", 3}, {"seal", 4}};
    const auto found = fails.find(name);
    if (found != fails.end() && broken + 1 == found->second) {
      ++broken;
      throw Unreachable("connection lost");
    }
    if (name == "sealed") {
      meeting.server.finished = true;
    }
  };
  std::vector<std::string> said;
  const std::vector<Ending> endings =
      drive({meeting.joiner.get()}, 1, nullptr,
            [&](const std::string& line) { said.push_back(line); }, {0.001, 0.01, 0.001});
  EXPECT_TRUE(endings.at(0).finished);
  EXPECT_EQ(broken, 4);
  EXPECT_EQ(meeting.joiner->answered(), 1);
  EXPECT_THAT(
      said, ElementsAre("client-0: connection lost; trying again", "client-0: the server is back"));
}

TEST(Drive, AMemberThatFailsDoesNotHoldUpTheOthers) {
  Meeting one("fedavg");
  Meeting other("fedavg");
  one.server.refusal = refusal(v1::NAME_TAKEN, "");
  other.server.put_out(1, 0, other.task(0));
  other.server.hook = [&](const std::string& name) {
    other.server.finished = other.server.finished || name == "sealed";
  };
  const std::vector<Ending> endings =
      drive({one.joiner.get(), other.joiner.get()}, 2, nullptr, {}, {0.001, 0.01, 0.001});
  EXPECT_FALSE(endings.at(0).finished);
  EXPECT_THAT(error_text([&] { std::rethrow_exception(endings.at(0).failure); }),
              HasSubstr("another process takes part under this name"));
  EXPECT_TRUE(endings.at(1).finished);
}

TEST(Drive, StopsWhenAskedTo) {
  Meeting meeting("fedavg");
  std::atomic<bool> stop = false;
  meeting.server.hook = [&](const std::string& name) {
    if (name == "next" && meeting.server.calls["next"] > 3) {
      stop = true;
    }
  };
  const std::vector<Ending> endings =
      drive({meeting.joiner.get()}, 1, &stop, {}, {0.001, 0.01, 0.001});
  EXPECT_FALSE(endings.at(0).finished);
  EXPECT_FALSE(endings.at(0).failure);
}

TEST(Patience, DoublesUpToTheMostAndBeginsAnew) {
  Patience patience(1.0, 60.0);
  std::vector<double> waits;
  for (int i = 0; i < 8; ++i) {
    waits.push_back(patience.wait(1.0));
  }
  EXPECT_THAT(waits, ElementsAre(1, 2, 4, 8, 16, 32, 60, 60));
  patience.reset();
  EXPECT_DOUBLE_EQ(patience.wait(0.0), 0.5);
}

}  // namespace winnow::member::joiner_test
