#include "winnow/method/selection/power_of_choice/power_of_choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <set>

#include "method/base_rounds.h"
#include "testing/simulation.h"
#include "testing/support.h"
#include "winnow/federation/selection.h"
#include "winnow/method/base/fedavg/fedavg.h"

namespace winnow::power_of_choice::power_of_choice_test {

using testing::Each;
using testing::ElementsAre;

using Ids = std::vector<std::int64_t>;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
const std::vector<double> kLosses{0.2, 0.9, 0.5, 0.7, 0.1};  // spec: baselines 15

std::unique_ptr<PowerOfChoice> power_of_choice(const Json& table = Json::object()) {
  auto method = std::make_unique<PowerOfChoice>();
  Params params;
  method->declare(params);
  params.read(table, "method");
  return method;
}

// A federation whose clients answer with given losses and a model of their id.
struct Federation {
  Federation(const Json& table, std::vector<double> said, Ids sizes = {}, double fraction = 0.4)
      : losses(std::move(said)),
        method(power_of_choice(table)),
        setting{.seed = 4,
                .rounds = 10,
                .clients = static_cast<std::int64_t>(losses.size()),
                .fraction = fraction,
                .classes = 3},
        fleet(sizes.empty() ? Ids(losses.size(), 5) : std::move(sizes),
              [this](std::int64_t client, const Message& task) { return answer(client, task); }) {}

  Message answer(std::int64_t client, const Message& task) const {
    check(task, method->exchanges({}));
    const double loss = losses[static_cast<std::size_t>(client)];
    if (task.kind() == "evaluate") {
      return Message("evaluate_done").set("loss", loss);
    }
    Message reply("train_done");
    reply.set("model", state_of({static_cast<float>(client)}, {static_cast<float>(client)}))
        .set("samples", static_cast<std::uint32_t>(fleet.samples(client)));
    if (std::ranges::count(method->exchanges({}).at(0).answers, "loss", &FieldRule::name) > 0) {
      reply.set("loss", loss);
    }
    return reply;
  }
  Json play(std::int64_t round = 0) {
    fleet.asked.clear();
    fleet.replies.clear();
    Json notes = Json::object();
    Server server{setting, fleet, global, notes};
    method->play(round, server);
    for (const Message& reply : fleet.replies) {
      check(reply, method->exchanges({}));
    }
    return notes;
  }
  Ids select(const Ids& pool, std::int64_t count, std::int64_t round = 0) {
    Json notes = Json::object();
    Server server{setting, fleet, global, notes};
    Round started(round, server, pool);
    return method->select(started, count);
  }
  Ids asked(const std::string& kind) const {
    Ids clients;
    for (const Order& order : fleet.asked) {
      if (order.task.kind() == kind) {
        clients.push_back(order.client);
      }
    }
    std::ranges::sort(clients);
    return clients;
  }

  std::vector<double> losses;
  std::unique_ptr<PowerOfChoice> method;
  Setting setting;
  FakeFleet fleet;
  State global = state_of({0}, {0});
};

TEST(LargestLosses, AreTheWorkedOnes) {
  std::vector<Candidate> candidates;
  for (const std::int64_t client : {0, 2, 3, 4}) {
    candidates.push_back({client, kLosses[static_cast<std::size_t>(client)]});
  }
  EXPECT_THAT(largest_losses(candidates, 2), ElementsAre(3, 2));
  EXPECT_THAT(largest_losses(candidates, 9), ElementsAre(3, 2, 0, 4));
  EXPECT_TRUE(largest_losses({}, 2).empty());
}

TEST(LargestLosses, AreOfTheLowerIdWhereEqual) {
  EXPECT_THAT(largest_losses({{8, 0.5}, {3, 0.5}, {5, 0.5}, {1, 0.4}}, 2), ElementsAre(3, 5));
}

TEST(DrawByWeight, DrawsEachMemberInProportionAndOnce) {
  const Ids pool{2, 5, 7};
  std::map<std::int64_t, int> first;
  for (std::int64_t round = 0; round < 4000; ++round) {
    Stream stream(1, "test", round);
    ++first[draw_by_weight(pool, {1, 2, 5}, 1, stream).at(0)];
    EXPECT_THAT(draw_by_weight(pool, {1, 2, 5}, 3, stream), ElementsAre(2, 5, 7));
  }
  EXPECT_NEAR(first[2], 500, 80);
  EXPECT_NEAR(first[5], 1000, 110);
  EXPECT_NEAR(first[7], 2500, 130);
}

TEST(DrawByWeight, NeverDrawsAWeightOfZero) {
  Stream stream(1, "test");
  EXPECT_THAT(draw_by_weight(Ids{2, 5, 7}, {1, 0, 1}, 3, stream), ElementsAre(2, 7));
  EXPECT_TRUE(draw_by_weight(Ids{2}, {0}, 1, stream).empty());
}

TEST(PowerOfChoice, TrainsTheCandidatesOfTheLargestLosses) {
  Federation federation({{"candidates", 4}}, kLosses);
  std::set<Ids> drawn;
  for (std::int64_t round = 0; round < 12; ++round) {
    const Json notes = federation.play(round);
    const Ids candidates = federation.asked("evaluate");
    drawn.insert(candidates);
    ASSERT_EQ(candidates.size(), 4U);
    std::vector<Candidate> ranked;
    for (const std::int64_t client : candidates) {
      ranked.push_back({client, kLosses[static_cast<std::size_t>(client)]});
    }
    Ids expected = largest_losses(ranked, 2);
    std::ranges::sort(expected);
    EXPECT_EQ(federation.asked("train"), expected);
    EXPECT_EQ(notes["candidates"], Json(candidates));
    EXPECT_EQ(notes["clients"], Json(expected));
    EXPECT_EQ(notes["losses"].size(), 4U);
    if (candidates == Ids{0, 2, 3, 4}) {
      EXPECT_THAT(expected, ElementsAre(2, 3));
    }
  }
  EXPECT_GT(drawn.size(), 1U) << "the candidates change from round to round";
}

// spec: baselines 15. Under label noise these are the noisiest clients.
TEST(PowerOfChoice, WithAllAsCandidatesAlwaysTrainsTheHighestLosses) {
  Federation federation({{"candidates", 5}}, kLosses);
  for (std::int64_t round = 0; round < 5; ++round) {
    federation.play(round);
    EXPECT_THAT(federation.asked("train"), ElementsAre(1, 3));
  }
  const Findings findings = federation.method->findings();
  EXPECT_FALSE(findings.flagged);
  EXPECT_EQ(findings.scores.at("times_chosen"),
            (std::map<std::int64_t, double>{{0, 0}, {1, 5}, {2, 0}, {3, 5}, {4, 0}}));
  EXPECT_EQ(findings.scores.at("loss").at(2), 0.5);
}

TEST(PowerOfChoice, DrawsMoreCandidatesThanThereAreClientsAsAll) {
  Federation federation(Json::object(), kLosses);
  federation.play();
  EXPECT_EQ(federation.asked("evaluate").size(), 5U);
  EXPECT_THAT(federation.asked("train"), ElementsAre(1, 3));
}

TEST(PowerOfChoice, WithAsManyCandidatesAsTrainedSelectsByChanceAndAsksNobody) {
  const Ids pool{0, 1, 2, 3, 4};
  Federation federation({{"candidates", 2}, {"draw", "uniform"}}, kLosses);
  for (std::int64_t round = 0; round < 6; ++round) {
    federation.play(round);
    EXPECT_TRUE(federation.asked("evaluate").empty());
    EXPECT_EQ(federation.asked("train"), select_uniform(pool, 2, 4, round));
  }
  Federation heavy({{"candidates", 1}}, kLosses, {1, 1, 1000000, 1, 1}, 0.2);
  for (std::int64_t round = 0; round < 6; ++round) {
    heavy.play(round);
    EXPECT_THAT(heavy.asked("train"), ElementsAre(2)) << "in proportion to the samples";
  }
}

TEST(PowerOfChoice, GivesEqualLossesToTheLowerId) {
  Federation federation({{"candidates", 5}}, {0.1, 0.6, 0.6, 0.6, 0.2});
  federation.play();
  EXPECT_THAT(federation.asked("train"), ElementsAre(1, 2));
}

TEST(PowerOfChoice, TrainsAClientWithoutAFiniteLossLast) {
  Federation federation({{"candidates", 5}},
                        {0.1, kNaN, 0.6, std::numeric_limits<double>::infinity(), kNaN});
  const Json notes = federation.play();
  EXPECT_THAT(federation.asked("train"), ElementsAre(0, 2));
  EXPECT_EQ(notes["losses"], (Json{0.1, nullptr, 0.6, nullptr, nullptr}));
  EXPECT_EQ(federation.method->findings().scores.at("loss").size(), 2U);
}

TEST(PowerOfChoice, NeverLeavesThePoolOfAWrapper) {
  Federation federation({{"candidates", 3}}, kLosses);
  const Ids pool{0, 2, 4};
  for (std::int64_t round = 0; round < 6; ++round) {
    EXPECT_THAT(federation.select(pool, 1, round), ElementsAre(2));
  }
  EXPECT_THAT(federation.asked("evaluate"), Each(testing::AnyOf(0, 2, 4)));
  federation.fleet.asked.clear();
  EXPECT_EQ(federation.select(pool, 9), pool) << "all when there are fewer";
  EXPECT_TRUE(federation.fleet.asked.empty());
  EXPECT_EQ(federation.select({0, 1, 2, 4}, 4).size(), 4U) << "more than there are candidates";
}

TEST(PowerOfChoice, NeverAsksAClientWithoutSamples) {
  Federation federation(Json::object(), kLosses, {5, 0, 5, 5, 0}, 0.7);
  federation.play();
  EXPECT_THAT(federation.asked("evaluate"), ElementsAre(0, 2, 3));
  EXPECT_THAT(federation.asked("train"), ElementsAre(2, 3));
}

TEST(PowerOfChoice, AveragesAlikeOrBySamples) {
  Federation plain(Json::object(), kLosses, {5, 30, 5, 10, 5});
  plain.play();
  EXPECT_EQ(values_of(plain.global), (std::vector<float>{2.0F, 1.5F})) << "buffers by samples";
  Federation weighed({{"weighting", "samples"}}, kLosses, {5, 30, 5, 10, 5});
  weighed.play();
  EXPECT_EQ(values_of(weighed.global), (std::vector<float>{1.5F, 1.5F}));
}

TEST(PowerOfChoice, WeighsByTheFactorsOfAWrapper) {
  const auto method = power_of_choice();
  std::vector<Upload> uploads;
  for (const auto& [value, factor] : {std::pair(1.0F, 3.0), std::pair(5.0F, 1.0)}) {
    uploads.push_back(
        {0, Message("train_done").set("model", state_of({value})).set("samples", std::uint32_t{7}),
         7.0, factor});
  }
  EXPECT_EQ(values_of(fuse(*method, state_of({0}), uploads)), std::vector<float>{2.0F});
}

TEST(PowerOfChoice, WithTheLastLossTriesTheUnknownFirstAndAsksNothing) {
  Federation federation({{"loss", "last"}}, kLosses);
  std::vector<Ids> trained;
  for (std::int64_t round = 0; round < 5; ++round) {
    federation.play(round);
    EXPECT_TRUE(federation.asked("evaluate").empty());
    trained.push_back(federation.asked("train"));
  }
  // 4 is left for the third round, together with the largest loss so far.
  EXPECT_THAT(trained, ElementsAre(Ids{0, 1}, Ids{2, 3}, Ids{1, 4}, Ids{1, 3}, Ids{1, 3}));
  EXPECT_EQ(federation.method->findings().scores.at("loss").at(4), 0.1);
}

TEST(PowerOfChoice, WithTheLastLossDoesNotInsistOnAClientThatNeverReports) {
  Federation federation({{"loss", "last"}}, {kNaN, kNaN, 0.5, 0.4, 0.3});
  federation.play(0);
  EXPECT_THAT(federation.asked("train"), ElementsAre(0, 1));
  // The upload of 2 is dropped by a wrapper, that of 3 comes in.
  EXPECT_THAT(federation.select({0, 1, 2, 3, 4}, 2, 1), ElementsAre(2, 3));
  HandRound hand(federation.global, {5, 5, 5, 5, 5}, 1);
  federation.method->begin(hand.round);
  federation.method->add(hand.round,
                         {3, federation.answer(3, federation.method->task(hand.round, 3)), 5.0});
  EXPECT_THAT(federation.select({0, 1, 2, 3, 4}, 2, 2), ElementsAre(3, 4));
}

TEST(PowerOfChoice, RejectsAModelThatIsNotFinite) {
  const auto method = power_of_choice();
  FakeFleet fleet({5, 5, 5}, [](std::int64_t client, const Message& task) {
    if (task.kind() == "evaluate") {
      return Message("evaluate_done").set("loss", static_cast<double>(client));
    }
    return Message("train_done")
        .set("model", state_of({client == 1 ? static_cast<float>(kNaN) : 7.0F}))
        .set("samples", std::uint32_t{5});
  });
  const Setting setting{.seed = 4, .rounds = 1, .clients = 3, .fraction = 0.7, .classes = 3};
  State global = state_of({0});
  Json notes = Json::object();
  Server server{setting, fleet, global, notes};
  method->play(0, server);
  EXPECT_EQ(notes["rejected"], Json{1});
  EXPECT_EQ(values_of(global), std::vector<float>{7.0F});
}

// One parameter and one buffer: P = 2 values. spec: baselines T6
TEST(PowerOfChoice, CostsAModelAndANumberPerCandidateMore) {
  Federation federation({{"candidates", 4}}, kLosses);
  federation.play();
  EXPECT_EQ(federation.fleet.asked.front().task.bytes(), 4 + 4 * 2);
  EXPECT_EQ(federation.fleet.replies.front().bytes(), 8);
  EXPECT_EQ(federation.fleet.traffic().bytes_down, 4 * 12 + 2 * 12);
  EXPECT_EQ(federation.fleet.traffic().bytes_up, 4 * 8 + 2 * 12);

  Federation last({{"loss", "last"}}, kLosses);
  last.play();
  EXPECT_EQ(last.fleet.traffic().bytes_down, 2 * 12);
  EXPECT_EQ(last.fleet.traffic().bytes_up, 2 * (12 + 8));
}

TEST(PowerOfChoice, ResumesWhatItKnows) {
  const Json table{{"loss", "last"}, {"candidates", 4}};
  const std::vector<double> losses{0.2, kNaN, 0.5, 1.0 / 3.0, 0.1};
  Federation whole(table, losses);
  for (std::int64_t round = 0; round < 2; ++round) {
    whole.play(round);
  }
  Archive archive;
  whole.method->save(archive);
  archive = out_of_a_file(archive);
  archive.values = Json::parse(archive.values.dump());
  Federation resumed(table, losses);
  resumed.method->load(archive);
  EXPECT_EQ(resumed.method->findings().scores, whole.method->findings().scores);
  std::vector<Ids> trained;
  for (std::int64_t round = 2; round < 6; ++round) {
    whole.play(round);
    trained.push_back(whole.asked("train"));
    resumed.play(round);
    EXPECT_EQ(resumed.asked("train"), trained.back()) << round;
  }
  whole.method->load(archive);
  whole.play(2);
  EXPECT_EQ(whole.asked("train"), trained.front()) << "a round is taken back";
  whole.method->load({});
  EXPECT_TRUE(whole.method->findings().scores.empty()) << "an empty archive clears";
}

TEST(PowerOfChoice, RefusesFewerCandidatesThanARoundTrains) {
  const auto method = power_of_choice({{"candidates", 9}});
  EXPECT_EQ(error_text([&] { method->check({.clients = 100, .fraction = 0.1}); }),
            "method.candidates = 9: expected at least the 10 clients of a round | raise it, or "
            "lower federation.fraction");
  EXPECT_EQ(error_kind([&] { method->check({.clients = 100, .fraction = 0.1}); }),
            ErrorKind::experiment);
  EXPECT_NO_THROW(method->check({.clients = 90, .fraction = 0.1}));
  EXPECT_THAT(error_text([] {
                power_of_choice({{"loss", "epoch"}});
              }),
              testing::HasSubstr("method.loss"));
}

// A client of 12 samples, half of whose labels it may have corrected.
struct OneClient {
  Message answer(const PowerOfChoice& method, const std::string& kind, std::uint32_t round = 3) {
    ClientContext context(7, held, memory, lane, options, 5);
    const Message task = Message(kind).set("round", round).set("model", start);
    check(task, method.exchanges({}));
    Message reply = method.client_side()->handle(task, context);
    check(reply, method.exchanges({}));
    steps = context.steps();
    return reply;
  }
  double loss(std::span<const std::int64_t> samples, std::span<const std::int64_t> labels) {
    lane.scorer().load(start);
    return lane.scorer().score(feed, {samples, labels}, 128).mean_loss();
  }

  DataSet data = tiny_data();
  Feed feed{data.train.images, data.normalisation, 0, at::kCPU};
  Lane lane{make_net<NormNet>(data), feed, false};
  ClientData held = deal(data, {12}).front();
  ClientMemory memory;
  TrainOptions options{.epochs = 2, .batch_size = 5};
  State start = NormNet(shape_of(data)).weights().initial(1);
  std::int64_t steps = 0;
};

TEST(PowerOfChoice, ClientEvaluatesTheReceivedModelOnItsLabelsInUse) {
  OneClient client;
  const auto method = power_of_choice();
  EXPECT_DOUBLE_EQ(client.answer(*method, "evaluate").get<double>("loss"),
                   client.loss(client.held.samples, client.held.given));
  EXPECT_EQ(client.steps, 0);
  EXPECT_TRUE(client.memory.empty());
  client.memory.trace.labels = Labels(12, 1);
  EXPECT_DOUBLE_EQ(client.answer(*method, "evaluate").get<double>("loss"),
                   client.loss(client.held.samples, Labels(12, 1)));
}

TEST(PowerOfChoice, ClientEvaluatesOneBatchOfTheRound) {
  OneClient client;
  const auto method = power_of_choice({{"loss", "batch"}});
  const double first = client.answer(*method, "evaluate", 0).get<double>("loss");
  EXPECT_EQ(client.answer(*method, "evaluate", 0).get<double>("loss"), first);
  EXPECT_NE(client.answer(*method, "evaluate", 1).get<double>("loss"), first);
  client.options.batch_size = 50;
  EXPECT_NEAR(client.answer(*method, "evaluate", 1).get<double>("loss"),
              client.loss(client.held.samples, client.held.given), 1e-6)
      << "a batch of all its samples";
}

TEST(PowerOfChoice, ClientTrainsAsFedAvgAndTellsItsLossWhereAsked) {
  OneClient client;
  const TrainOutcome plain = client.lane.trainer().train(
      client.start, {client.held.samples, client.held.given}, client.options, {}, {5, 3, 7});
  const Message reply = client.answer(*power_of_choice(), "train");
  EXPECT_EQ(hash(reply.get<State>("model")), hash(plain.state));
  EXPECT_EQ(reply.get<std::uint32_t>("samples"), 12U);
  EXPECT_EQ(client.steps, 6);
  const Message with_loss = client.answer(*power_of_choice({{"loss", "last"}}), "train");
  EXPECT_EQ(hash(with_loss.get<State>("model")), hash(plain.state));
  EXPECT_EQ(with_loss.get<double>("loss"), plain.mean_loss);
}

// The model after three rounds over four clients.
std::string model_of(Method& method, std::int64_t lanes) {
  const DataSet data = tiny_data();
  Simulation engine(data, deal(data, {10, 25, 5, 20}), net_info<NormNet>("norm"),
                    {.epochs = 1, .batch_size = 6, .lr = 0.1}, {.lanes = lanes, .seed = 5},
                    nullptr);
  engine.serve(method.client_side(), method.exchanges({}));
  const Setting setting{
      .seed = 5, .rounds = 3, .clients = 4, .fraction = 0.5, .classes = data.classes};
  State global = engine.initial_state(5);
  for (std::int64_t round = 0; round < 3; ++round) {
    Json notes = Json::object();
    Server server{setting, engine, global, notes};
    method.play(round, server);
    engine.commit();
  }
  return hash(global);
}

TEST(PowerOfChoice, WithoutAChoiceIsFedAvgBitForBit) {
  FedAvg fedavg;
  const auto neutral =
      power_of_choice({{"candidates", 2}, {"draw", "uniform"}, {"weighting", "samples"}});
  EXPECT_EQ(model_of(*neutral, 2), model_of(fedavg, 2));
}

TEST(PowerOfChoice, EndsInTheSameBitsForAnyNumberOfLanes) {
  for (const char* loss : {"whole", "batch", "last"}) {
    const Json table{{"candidates", 3}, {"loss", loss}};
    EXPECT_EQ(model_of(*power_of_choice(table), 1), model_of(*power_of_choice(table), 3)) << loss;
  }
}

TEST(PowerOfChoice, HasTheDocumentedDefaults) {
  const MethodInfo info = power_of_choice_info();
  EXPECT_EQ(info.name, "power_of_choice");
  EXPECT_EQ(info.group, "selection");
  const std::unique_ptr<Method> method = info.make();
  EXPECT_NE(dynamic_cast<BaseMethod*>(method.get()), nullptr);
  Params params;
  method->declare(params);
  EXPECT_EQ(
      params.values(),
      (Json{{"candidates", 30}, {"draw", "samples"}, {"loss", "whole"}, {"weighting", "mean"}}));
}

// Who was never tried comes first, so a client that never answers would be chosen for ever.
TEST(PowerOfChoiceAbsences, WhoDoesNotEvaluateIsNotAskedToTrain) {
  Federation federation({{"candidates", 5}}, kLosses);
  federation.fleet.away = [](std::int64_t client, const Message&) { return client == 1; };
  for (std::int64_t round = 0; round < 3; ++round) {
    const Json notes = federation.play(round);
    EXPECT_THAT(federation.asked("train"), ElementsAre(2, 3));
    EXPECT_EQ(notes["losses"].size(), 5U);
    EXPECT_TRUE(notes["losses"][1].is_null());
  }
  federation.fleet.away = [](std::int64_t, const Message&) { return true; };
  const std::string before = hash(federation.global);
  EXPECT_TRUE(federation.play(3).contains("standstill"));
  EXPECT_EQ(hash(federation.global), before);
}

}  // namespace winnow::power_of_choice::power_of_choice_test
