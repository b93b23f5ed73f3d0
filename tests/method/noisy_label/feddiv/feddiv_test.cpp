#include "winnow/method/noisy_label/feddiv/feddiv.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "method/one_client.h"
#include "testing/support.h"
#include "winnow/method/base/fedavg/fedavg.h"

namespace winnow::feddiv_test {

using testing::DoubleNear;
using testing::ElementsAre;
using Values = std::vector<double>;

constexpr std::uint32_t kSamples = 5;

// Clients that return what they got, with a filter of their own.
struct Federation {
  explicit Federation(const Json& table, Values sent = {.1, .7, .01, .04, .8, .2})
      : reply(std::move(sent)), method(make_with<FedDiv>(table)) {}

  Json play(std::int64_t round) {
    FakeFleet fleet({kSamples, kSamples, 0}, [&](std::int64_t, const Message& task) {
      if (task.kind() == "warm_up") {
        return Message("warm_up_done")
            .set("model", task.get<State>("model"))
            .set("samples", kSamples);
      }
      filter_sent = task.get<Values>("filter");
      return Message("train_done")
          .set("model", task.get<State>("model"))
          .set("samples", kSamples)
          .set("filter", reply);
    });
    Json notes = Json::object();
    Server server{setting, fleet, global, notes};
    method->play(round, server);
    for (const Order& order : fleet.asked) {
      EXPECT_NO_THROW(check(order.task, method->exchanges(setting)));
      asked.push_back(order.client);
    }
    return notes;
  }

  Values reply;
  Values filter_sent;
  std::vector<std::int64_t> asked;
  Setting setting{.seed = 4, .rounds = 99, .clients = 3, .fraction = 1.0, .classes = 2};
  State global = state_of({1, 2});
  std::unique_ptr<FedDiv> method;
};

const Json kShort{{"warmup", 1}, {"usual_rounds", 3}};

TEST(FedDiv, HasAScheduleOfItsOwn) {
  Federation federation(kShort);
  EXPECT_EQ(federation.method->rounds(federation.setting), 3 + 3);
  EXPECT_EQ(federation.method->schedule(federation.setting), "warmup 1 x 3 turns + usual_rounds 3");
  EXPECT_EQ(error_text([] {
              make_with<FedDiv>({{"warmup", 0}, {"usual_rounds", 0}})->check({});
            }),
            "method.warmup and method.usual_rounds are both 0 | expected at least one round");
}

TEST(FedDiv, WarmsUpClientByClientAndPassesOverTheEmptyOne) {
  Federation federation(kShort);
  int idle = 0;
  for (std::int64_t round = 0; round < 3; ++round) {
    const Json notes = federation.play(round);
    EXPECT_EQ(notes.at("stage"), "warm-up");
    idle += notes.contains("standstill") ? 1 : 0;
  }
  EXPECT_THAT(federation.asked, testing::UnorderedElementsAre(0, 1));
  EXPECT_EQ(idle, 1);
}

TEST(FedDiv, SendsTheMeanOfTheFiltersItWasSent) {
  Federation federation(kShort);
  EXPECT_FALSE(federation.play(3).contains("noisy_weight"));
  EXPECT_TRUE(federation.filter_sent.empty()) << "nobody has told one yet";
  const Json notes = federation.play(4);
  EXPECT_THAT(federation.filter_sent,
              ElementsAre(DoubleNear(.1, 1e-12), DoubleNear(.7, 1e-12), DoubleNear(.01, 1e-12),
                          DoubleNear(.04, 1e-12), DoubleNear(.8, 1e-12), DoubleNear(.2, 1e-12)));
  EXPECT_NEAR(notes.at("noisy_weight").get<double>(), .2, 1e-12);
  EXPECT_NEAR(federation.method->findings().scores.at("noisy_weight").at(1), .2, 1e-12);
}

TEST(FedDiv, RejectsAFilterThatIsNoMixture) {
  Federation federation(kShort, {.1, .7, 0, .04, .8, .2});
  EXPECT_EQ(error_text([&] { federation.play(3); }),
            "round 4: every reply held values that are not finite | the training diverged: lower "
            "train.lr");
}

TEST(FedDiv, WithLocalFiltersSendsAndExpectsNone) {
  Federation federation({{"warmup", 0}, {"usual_rounds", 3}, {"filter", "local"}}, {});
  federation.play(0);
  EXPECT_FALSE(federation.play(1).contains("noisy_weight"));
  EXPECT_TRUE(federation.filter_sent.empty());
}

TEST(FedDiv, RefusesForgedFilters) {
  Federation federation(kShort);
  federation.play(3);
  Archive archive;
  federation.method->save(archive);
  archive = out_of_a_file(archive);
  EXPECT_NO_THROW(make_with<FedDiv>(kShort)->load(archive));
  archive.values["filters"]["0"]["filter"][2] = -1.0;
  EXPECT_EQ(error_text([&] { make_with<FedDiv>(kShort)->load(archive); }),
            "filters.0: expected a mixture");
}

TEST(FedDivClient, AnswersWithAFilterAndRemembersItsClasses) {
  OneClient client;
  const auto method = make_with<FedDiv>({{"clean_below", 0.0}});
  const Message task = Message("train")
                           .set("round", std::uint32_t{3})
                           .set("model", client.initial(1))
                           .set("filter", Values{});
  const Message reply = client.handle(*method, task);
  EXPECT_TRUE(feddiv::filter_of(reply.get<Values>("filter")));
  EXPECT_EQ(client.memory.own.values.at("feddiv.participations"), 1);
  EXPECT_EQ(client.memory.own.tensors.at("feddiv.local").numel(), 12);
  EXPECT_NEAR(client.memory.own.tensors.at("feddiv.prior").sum().item<double>(), 1.0, 1e-9);
  EXPECT_EQ(client.memory.trace.selected->size(), 12U);
  EXPECT_EQ(client.memory.trace.last_labels->size(), 12U);
}

// Everybody is clean, nothing is mixed and nothing added to the loss: FedAvg's model bit for bit.
TEST(FedDivClient, IsFedAvgInItsNeutralSetting) {
  OneClient client;
  const auto method = make_with<FedDiv>({{"clean_below", 1.0}, {"mixup", 0}, {"eta", 0}});
  const State start = client.initial(1);
  const Message reply =
      client.handle(*method, Message("train")
                                 .set("round", std::uint32_t{3})
                                 .set("model", start)
                                 .set("filter", Values{.1, .7, .01, .04, .8, .2}));
  EXPECT_EQ(model_hash(reply), hash(client.plain(start, 3)));
}

TEST(FedDivClient, RefusesAFilterThatIsNoMixture) {
  OneClient client;
  EXPECT_EQ(error_text([&] {
              client.handle(*make_with<FedDiv>(), Message("train")
                                                      .set("round", std::uint32_t{3})
                                                      .set("model", client.initial(1))
                                                      .set("filter", Values{1, 2, 0, 0, 1, 0}));
            }),
            "message 'train' holds a filter that is no mixture");
}

}  // namespace winnow::feddiv_test
