// Sums under masks without a network: sites as members, and only bytes between them and the server.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "net/join/dealt.h"
#include "winnow/engine/crew.h"
#include "winnow/engine/local_examiner.h"
#include "winnow/engine/prototype.h"
#include "winnow/net/join/consent.h"
#include "winnow/net/mask/letters.h"
#include "winnow/net/mask/masking_client.h"
#include "winnow/net/mask/secrets.h"

namespace winnow::member::masked_site_test {

using ::testing::HasSubstr;

const std::vector<std::string> kFixed{"federation.sums=\"fixed\""};

struct Federation {
  Federation(const Experiment& experiment, const std::filesystem::path& folder,
             const Registry& registry = methods())
      : dealing(experiment, folder, /*masked=*/true, registry) {
    Runtime runtime = on_cpu(1);
    runtime.engine = "sites";
    runtime.engines.add(
        {"sites", "clients as sites", nullptr,
         [this](const Experiment& served, const Registry& known, const Runtime& how,
                const std::atomic<bool>* stop) {
           auto place =
               std::make_unique<Workplace>(served, server_world(served, known), known, how, stop);
           std::vector<std::shared_ptr<Site>> sites;
           for (std::int64_t client = 0; client < dealing.charter.members; ++client) {
             sites.push_back(dealing.site(client));
           }
           auto made = std::make_unique<SiteEngine>(std::move(sites), *place, dealing.masks);
           engine = made.get();
           Examiner* examiner = &place->examiner();
           return Hosted{std::move(place), std::move(made), examiner};
         }});
    session = std::make_unique<Session>(dealing.served, dealing.registry, runtime, nullptr);
  }

  std::vector<std::string> play() {
    while (session->rounds_done() < session->rounds()) {
      const Session::Played played = session->play();
      notes.push_back(played.notes);
    }
    return hashes(session->history());
  }

  Dealing dealing;
  SiteEngine* engine = nullptr;  // the session's
  std::unique_ptr<Session> session;
  std::vector<Json> notes;
};

std::vector<std::string> simulated(const Experiment& experiment,
                                   const Registry& registry = methods()) {
  Session session(experiment, registry, on_cpu(), nullptr);
  while (session.rounds_done() < session.rounds()) {
    session.play();
  }
  return hashes(session.history());
}

class MaskedMethod : public ::testing::TestWithParam<std::string> {};

TEST_P(MaskedMethod, EndsInTheModelOfTheSimulation) {
  const TestFolder folder;
  const Experiment experiment = experiment_with(GetParam(), kFixed);
  Federation federation(experiment, folder.path());
  EXPECT_EQ(federation.play(), simulated(experiment));
  EXPECT_FALSE(federation.engine->seen.empty());
  for (const Message& reply : federation.engine->seen) {
    EXPECT_FALSE(reply.has("model")) << reply.kind();
  }
}

INSTANTIATE_TEST_SUITE_P(Methods, MaskedMethod,
                         ::testing::Values("fedavg", "fedadam", "scaffold", "feddyn", "clc",
                                           "power_of_choice", "coteaching", "rofl"));

// Of five members four have to stay: one drops out after it has shared its keys, in another round
// one before, and in a third one after its words have arrived.
TEST(MaskedSums, WhoeverDropsOutTheModelIsThatOfTheSimulationWithoutIt) {
  const TestFolder folder;
  const std::vector<std::string> sets{"federation.sums=\"fixed\"", "federation.clients=5",
                                      "federation.fraction=1.0", "rounds=4"};
  const Experiment experiment = experiment_with("scaffold", sets);
  Federation federation(experiment, folder.path());
  federation.engine->silent = [](std::int64_t round, std::int64_t client, const Message& task) {
    return (round == 1 && client == 2 && task.kind() == "masked_train") ||
           (round == 2 && client == 4 && task.kind() == "mask_keys") ||
           (round == 3 && client == 0 && task.kind() == "mask_shares") ||
           (round == 0 && client == 1 && task.kind() == "mask_open");
  };
  const std::vector<std::string> played = federation.play();
  std::string events;
  for (std::size_t round = 0; round < federation.notes.size(); ++round) {
    Json event = federation.notes[round];
    event["event"] = "round";
    event["round"] = round + 1;
    events += event.dump() + "\n";
  }
  EXPECT_FALSE(federation.notes[0].contains("absent")) << "its words had arrived";
  EXPECT_EQ(federation.notes[1].at("absent").at(0).at("client"), 2);
  EXPECT_EQ(federation.notes[1].at("absent").at(0).at("ask"), 0) << "one ask of the method";
  write_file_whole(folder / "events.jsonl", events);
  std::vector<std::string> again = sets;
  again.push_back("federation.absences=\"" + (folder / "events.jsonl").string() + "\"");
  EXPECT_EQ(played, simulated(experiment_with("scaffold", again)));
  EXPECT_NE(played.back(), simulated(experiment).back());
}

TEST(MaskedSums, WithTooFewTheSumIsLostAndNothingIsOpened) {
  const TestFolder folder;
  const Experiment experiment = experiment_with(
      "fedavg", {"federation.sums=\"fixed\"", "federation.clients=5", "federation.fraction=1.0"});
  Federation federation(experiment, folder.path());
  std::int64_t opened = 0;
  federation.engine->silent = [&](std::int64_t, std::int64_t client, const Message& task) {
    opened += task.kind() == "mask_open" ? 1 : 0;
    return client < 2 && task.kind() == "masked_train" && federation.engine->attempt == 0;
  };
  try {
    federation.session->play();
    FAIL() << "two of five are missing";
  } catch (const mask::MasksRemain& remain) {
    EXPECT_STREQ(remain.what(), "3 of 5 members have sent words, needed are 4");
  }
  EXPECT_EQ(opened, 0);
  federation.engine->attempt = 1;
  federation.play();
  EXPECT_EQ(hashes(federation.session->history()), simulated(experiment))
      << "another attempt, another session";
}

// Sends what no sum takes.
class Overflowing final : public FedAvg {
 public:
  ServerNeeds server_needs() const override { return ServerNeeds::sums("it averages the models"); }
  std::unique_ptr<ClientSide> client_side() const override {
    return std::make_unique<ScriptedClient>([](const Message& task, ClientContext& context) {
      State model = task.get<State>("model").clone();
      model.flat.add_(1.0);
      if (context.id() == 1) {
        model.flat[0] = 4097.0;
      }
      return Message("train_done")
          .set("model", std::move(model))
          .set("samples", static_cast<std::uint32_t>(context.size()));
    });
  }
};

TEST(MaskedSums, AMemberWhoseValuesDoNotFitSaysSoAndIsLeftOut) {
  const TestFolder folder;
  Registry registry = methods();
  registry.methods.add({"overflowing", "test", "", [] { return std::make_unique<Overflowing>(); }});
  Json tree = small_tree({"federation.sums=\"fixed\"", "federation.fraction=1.0", "rounds=2",
                          "method.name=\"overflowing\""});
  const Experiment experiment = parse_experiment(tree, registry);
  Federation federation(experiment, folder.path(), registry);
  EXPECT_EQ(federation.play(), simulated(experiment, registry));
  EXPECT_EQ(federation.notes[0].at("rejected"), (std::vector<std::int64_t>{1}));
}

TEST(MaskedSums, TheCharterSaysSoAndMembersConsentToIt) {
  const TestFolder folder;
  const Dealing dealing(experiment_with("fedavg", kFixed), folder.path(), /*masked=*/true);
  const std::string text = consent_text(dealing.charter, dealing.charter.hash());
  EXPECT_THAT(text, HasSubstr("sums         under masks: the server sees sums of models, never a "
                              "single one\n"));
  EXPECT_THAT(text, HasSubstr("low words of 'model', masked: only their sum over all members"));
  EXPECT_THAT(text, HasSubstr("shares of its keys for masks, each sealed for another member"));
  EXPECT_TRUE(read_charter(dealing.charter.text()).masked);
  Charter floating = dealing.charter;
  floating.experiment["federation"].erase("sums");
  EXPECT_THAT(error_text([&] { charter_experiment(floating, dealing.registry); }),
              HasSubstr("the charter of the server: masked = true: it needs federation.sums"));
}

// What a lying server could try, asked of one site.
TEST(MaskedSums, AMemberDoesNotOpenWhatItShouldNot) {
  const TestFolder folder;
  const Experiment experiment = experiment_with(
      "fedavg", {"federation.sums=\"fixed\"", "federation.clients=4", "federation.fraction=1.0"});
  const Dealing dealing(experiment, folder.path(), /*masked=*/true);
  std::vector<std::unique_ptr<Site>> sites;
  std::vector<ClientMemory> memories(4);
  for (std::int64_t client = 0; client < 4; ++client) {
    sites.push_back(dealing.site(client));
  }
  const std::vector<float> session = mask::numbers_of(std::string(mask::kSessionBytes, 's'));
  const std::vector<Exchange> exchanges = mask::masked_exchanges(dealing.place->exchanges(), 4);
  const auto ask = [&](std::size_t client, const Message& task) {
    Site::Work work =
        sites[client]->answer(static_cast<std::int64_t>(client), memories[client], task);
    memories[client] = work.memory;
    return unpack_reply(work.reply, task.kind(), exchanges,
                        {.layouts = {dealing.place->crew().layout()},
                         .samples = sites[client]->samples(static_cast<std::int64_t>(client))});
  };
  const auto letter_in = [](const Message& reply) {
    return mask::bytes_in(reply.get<std::vector<float>>(mask::kLetter));
  };
  const auto task = [&](const char* kind, const std::string& letter) {
    return Message(kind).set(mask::kSession, session).set(mask::kLetter, mask::numbers_of(letter));
  };
  const auto says = [&](std::size_t client, const Message& sent) {
    const ClientMemory before = memories[client];
    const std::string text = error_text([&] { ask(client, sent); });
    memories[client] = before;
    return text;
  };

  EXPECT_EQ(says(0, task("mask_open", "")),
            "the server goes on with a sum under masks that was not begun");
  const Message plain = Message("train")
                            .set("round", std::uint32_t{0})
                            .set("model", dealing.place->prototype().initial_state(1));
  EXPECT_THAT(error_text([&] { return pack_task(plain, exchanges); }),
              HasSubstr("unknown task 'train'"));

  mask::Roster roster;
  const Message keys = Message("mask_keys").set(mask::kSession, session);
  for (std::size_t client = 0; client < 4; ++client) {
    roster[static_cast<std::int64_t>(client)] = mask::MaskOffer::read(letter_in(ask(client, keys)));
  }
  EXPECT_THAT(says(0, keys), HasSubstr("again, which is done only once"));
  mask::Roster few = roster;
  few.erase(2);
  few.erase(3);
  EXPECT_THAT(says(0, task("mask_shares", letter_of(few))),
              HasSubstr("the server wants a sum of 2 members under masks, expected at least 3"));
  mask::Roster swapped = roster;
  swapped[1].mask = swapped[2].mask;
  EXPECT_THAT(says(0, task("mask_shares", letter_of(swapped))),
              HasSubstr("the keys for masks of client 1 are not signed by client-1"));
  mask::Roster own = roster;
  own[0] = own[1];
  EXPECT_THAT(says(0, task("mask_shares", letter_of(own))),
              HasSubstr("has changed the keys of this member"));
  mask::Roster twice = roster;
  twice[9] = make_offer(*dealing.masks, std::string(mask::kSessionBytes, 's'), 9, roster[1].channel,
                        roster[1].mask, dealing.credentials.at(1));
  EXPECT_THAT(says(0, task("mask_shares", letter_of(twice))), HasSubstr("lists a member twice"));

  std::vector<std::string> shares;
  for (std::size_t client = 0; client < 4; ++client) {
    shares.push_back(letter_in(ask(client, task("mask_shares", letter_of(roster)))));
  }
  // Member 0 hears from some of the others.
  const auto words = [&](const std::vector<std::size_t>& from) {
    mask::LetterWriter letter;
    for (const std::size_t other : from) {
      letter.put(static_cast<std::uint32_t>(other));
      letter.put(shares[other].substr(0, mask::kSealedShare));  // the first is for member 0
    }
    return plain.renamed("masked_train")
        .set(mask::kSession, session)
        .set(mask::kLetter, mask::numbers_of(letter.bytes()));
  };
  EXPECT_THAT(says(0, words({1})),
              HasSubstr("the server wants a sum of 2 members under masks, expected at least 3"));
  EXPECT_THAT(says(0, words({1, 1, 2})), HasSubstr("a share of client 1, which has none to send"));
  shares[3][0] = static_cast<char>(shares[3][0] ^ 1);
  EXPECT_THAT(says(0, words({1, 2, 3})), HasSubstr("a sealed share was not made for this member"));
  shares[3][0] = static_cast<char>(shares[3][0] ^ 1);
  const ClientMemory before_words = memories[0];
  EXPECT_EQ(ask(0, words({1, 2, 3})).get<std::uint8_t>("fits"), 1);

  const auto open = [&](const std::vector<std::uint32_t>& arrived) {
    mask::LetterWriter letter;
    for (const std::uint32_t client : arrived) {
      letter.put(client);
    }
    return task("mask_open", letter.bytes());
  };
  EXPECT_THAT(says(0, open({0, 1})),
              HasSubstr("opens a sum of 2 members under masks, expected at least 3"));
  EXPECT_THAT(says(0, open({1, 2, 3})), HasSubstr("opens a sum of 3 members under masks"))
      << "without itself";
  EXPECT_THAT(says(0, open({0, 1, 7})), HasSubstr("words of client 7 arrived, which sent none"));
  const ClientMemory before_open = memories[0];
  EXPECT_EQ(letter_in(ask(0, open({0, 1, 2}))).size(), 4 * mask::kKeyBytes);
  EXPECT_TRUE(memories[0].own.values.empty()) << "nothing is left of the keys";
  memories[0] = before_open;  // as if the server had said that the reply did not count
  EXPECT_THAT(says(0, open({0, 1, 3})), HasSubstr("again, which is done only once"));
  memories[0] = before_words;
  EXPECT_THAT(says(0, words({1, 2, 3})), HasSubstr("again, which is done only once"));
}

}  // namespace winnow::member::masked_site_test
