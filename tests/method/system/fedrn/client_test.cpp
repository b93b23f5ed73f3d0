#include "winnow/method/system/fedrn/client.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "testing/support.h"
#include "winnow/method/clean_set.h"
#include "winnow/method/system/fedrn/fedrn.h"
#include "winnow/train/loss.h"

namespace winnow::fedrn::fedrn_client_test {

constexpr std::uint64_t kSeed = 5;
constexpr std::int64_t kId = 7;

// One client with a lane of its own.
struct Client {
  Client(const NetInfo& net, DataSet its_data, ClientData its_samples, bool augment = false,
         const TrainOptions& train = {.epochs = 2, .batch_size = 5, .lr = 0.1})
      : data(std::move(its_data)),
        feed(data.train.images, data.normalisation, 0, at::kCPU),
        lane(make_net(net, data), feed, augment),
        held(std::move(its_samples)),
        options(train) {}

  ClientContext context() { return {kId, held, memory, lane, options, kSeed}; }
  Message ask(const Message& task, const ClientOptions& with = {}) {
    ClientContext own = context();
    Message reply = fedrn::Client(with).handle(task, own);
    EXPECT_NO_THROW(check(task, FedRN().exchanges({})));
    EXPECT_NO_THROW(check(reply, FedRN().exchanges({})));
    steps = own.steps();
    return reply;
  }
  LocalSet set() const { return {held.samples, held.given}; }
  std::int64_t selected() const { return std::ranges::count(memory.trace.selected.value(), true); }

  DataSet data;
  Feed feed;
  Lane lane;
  ClientData held;
  ClientMemory memory;
  TrainOptions options;
  std::int64_t steps = 0;
};

// Twenty samples of the tiny data set, every fourth with a wrong label.
Client tiny_client(const NetInfo& net, bool augment = false) {
  DataSet data = tiny_data(60, 30, 16);
  ClientData held = deal(data, {20}).front();
  for (std::size_t i = 0; i < held.given.size(); i += 4) {
    held.given[i] = (held.given[i] + 1) % 3;
  }
  return {net, std::move(data), std::move(held), augment};
}

State initial(const Client& client, const NetInfo& net, std::uint64_t seed) {
  return net.make(shape_of(client.data))->weights().initial(seed);
}

// One pixel per sample and two classes; the difference of the logits of class 0 and 1 is
// slope * (pixel - centre).
State pixel_judge(float slope, float centre) {
  const NetInfo net = net_info<LinearNet>("linear");
  State state = net.make({2, 1, 1, 1})->weights().initial(1);
  state.view(*state.layout->find("fc.weight")).copy_(at::tensor({slope, 0.0F}).view({2, 1}));
  state.view(*state.layout->find("fc.bias")).copy_(at::tensor({-slope * centre, 0.0F}));
  return state;
}

// Samples of one pixel, all labelled 0, that are not trained on: the learning rate is 0.
Client pixel_client(const std::vector<std::pair<int, std::uint8_t>>& groups) {
  DataSet data;
  std::vector<std::vector<std::uint8_t>> rows;
  for (const auto& [count, pixel] : groups) {
    rows.insert(rows.end(), static_cast<std::size_t>(count), {pixel});
  }
  data.name = "pixels";
  data.classes = 2;
  data.train.images = rows_as_images(rows);
  data.train.labels.assign(rows.size(), 0);
  data.normalisation = bytes_as_they_are();
  ClientData held = deal(data, {static_cast<std::int64_t>(rows.size())}).front();
  return {net_info<LinearNet>("linear"),
          std::move(data),
          std::move(held),
          false,
          {.epochs = 1, .batch_size = 50, .lr = 0.0}};
}

Message warmup(const State& model, std::uint32_t round = 3) {
  return Message("warmup").set("round", round).set("model", model);
}

Message robust(const State& model, std::vector<State> neighbours, std::vector<double> reliability,
               std::uint32_t round = 3) {
  return Message("robust")
      .set("round", round)
      .set("model", model)
      .set("neighbours", std::move(neighbours))
      .set("reliability", std::move(reliability));
}

TEST(FedRNClient, WarmUpTrainsLikeFedAvgAndReports) {
  const NetInfo net = net_info<TwoLayerNet>("two_layers");
  Client client = tiny_client(net);
  client.memory.trace.selected.emplace(20, true);
  const State start = initial(client, net, 1);
  const Message reply = client.ask(warmup(start));
  EXPECT_EQ(client.steps, 8);

  const State local =
      client.lane.trainer().train(start, client.set(), client.options, {}, {kSeed, 3, kId}).state;
  EXPECT_EQ(hash(reply.get<State>("model")), hash(local));
  EXPECT_EQ(reply.get<std::uint32_t>("samples"), 20U);
  client.lane.scorer().load(local);
  EXPECT_EQ(reply.get<double>("accuracy"),
            client.lane.scorer().score(client.feed, client.set(), 50).accuracy());
  EXPECT_EQ(reply.get<std::vector<float>>("output"),
            values_of(client.lane.scorer().output(noise_input(kSeed, {1, 16, 16}))));
  EXPECT_EQ(hash({start.layout, client.memory.own.tensors.at("local")}), hash(local));
  EXPECT_FALSE(client.memory.trace.selected) << "everything is trained on again";
}

// The whole of robust(), written out (spec: label-noise B.3).
void expect_procedure(const NetInfo& net, bool augment, const ClientOptions& options) {
  SCOPED_TRACE(fmt::format("{}, augment {}, clean view {}, finetune {}", net.name, augment,
                           options.score_view == ScoreView::clean, options.finetune));
  Client client = tiny_client(net, augment);
  const State start = initial(client, net, 1);
  const State own =
      client.lane.trainer().train(start, client.set(), client.options, {}, {1, 0, 1}).state;
  const std::vector<State> neighbours{
      client.lane.trainer()
          .train(initial(client, net, 2), client.set(), client.options, {}, {2, 0, 2})
          .state,
      initial(client, net, 3)};
  const std::vector<double> reliability{0.5, 0.9, 0.3};
  client.memory.own.tensors["local"] = own.flat;
  const Message reply = client.ask(robust(start, neighbours, reliability), options);

  ClientContext context = client.context();
  const bool jitter = options.score_view == ScoreView::augmented;
  const auto logits = [&](const State& model, const std::string& purpose) {
    client.lane.scorer().load(model);
    return client.lane.scorer().logits(client.feed, client.held.samples, options.score_batch,
                                       jitter ? context.draw_view(purpose, 3) : Jitter());
  };
  const auto vote = [&](const State& model, const std::string& purpose) {
    const std::vector<float> loss =
        values_of(losses(logits(model, purpose), context.labels_tensor()));
    return clean_probability({loss.begin(), loss.end()});
  };
  std::vector<std::vector<double>> votes{vote(own, "fedrn score 0")};
  const Subset aux(client.set(), clean_mask(votes[0], options.threshold));
  for (std::size_t j = 0; j < 2; ++j) {
    TrainOptions tuning = client.options;
    tuning.epochs = options.finetune_epochs;
    const TrainKey key{stream_key(kSeed, "fedrn finetune", {}), 3, kId};
    const State tuned = options.finetune
                            ? client.lane.trainer()
                                  .train(neighbours[j], aux.set(), tuning, {.head_only = true}, key)
                                  .state
                            : neighbours[j];
    votes.push_back(vote(tuned, fmt::format("fedrn score {}", j + 1)));
  }
  const std::vector<bool> clean =
      clean_mask(joint_probability(votes, vote_weights(reliability)), options.threshold);
  EXPECT_EQ(client.memory.trace.selected, clean);
  EXPECT_LT(client.selected(), 20);
  const Subset subset(client.set(), clean);
  const TrainOutcome trained =
      client.lane.trainer().train(start, subset.set(), client.options, {}, {kSeed, 3, kId});
  EXPECT_EQ(hash(reply.get<State>("model")), hash(trained.state));
  EXPECT_EQ(client.steps, trained.steps) << "finetuning is not counted";
  EXPECT_EQ(reply.get<std::uint32_t>("samples"), 20U);
  const at::Tensor right =
      logits(trained.state, "fedrn expertise").argmax(1).eq(context.labels_tensor());
  EXPECT_EQ(reply.get<double>("accuracy"), right.sum().item<double>() / 20.0);
}

TEST(FedRNClient, FollowsTheProcedure) {
  const NetInfo net = net_info<TwoLayerNet>("two_layers");
  for (const bool augment : {false, true}) {
    for (const ScoreView view : {ScoreView::augmented, ScoreView::clean}) {
      expect_procedure(net, augment, {.score_view = view});
    }
  }
  expect_procedure(net, false, {.finetune = false});
  expect_procedure(net, false, {.finetune_epochs = 3});
  expect_procedure(net, false, {.threshold = 0.7});
  // Normalises with the statistics of the batch, also when scoring.
  expect_procedure(builtin_networks().find("cnn4"), true, {.score_batch = 7});
}

// spec: label-noise B.8 #6
TEST(FedRNClient, FinetuningMovesTheHeadAlone) {
  const NetInfo net = builtin_networks().find("cnn4");
  Client client = tiny_client(net);
  ClientContext context = client.context();
  const State neighbour = initial(client, net, 4);
  const std::string received = hash(neighbour);
  const State tuned = finetune_head(neighbour, client.set(), 1, 3, context);
  EXPECT_EQ(hash(neighbour), received) << "a copy was trained";
  int body = 0;
  int head = 0;
  for (const Slot& slot : neighbour.layout->slots()) {
    const bool same = at::equal(tuned.view(slot), neighbour.view(slot));
    const bool is_head = slot.name.starts_with("linear.");
    EXPECT_EQ(same, !is_head) << slot.name;
    (is_head ? head : body) += 1;
  }
  EXPECT_EQ(body, 16);
  EXPECT_EQ(head, 2);
  EXPECT_EQ(context.steps(), 0);
}

TEST(FedRNClient, EveryNeighbourSeesTheSameBatches) {
  const NetInfo net = net_info<TwoLayerNet>("two_layers");
  Client client = tiny_client(net);
  ClientContext context = client.context();
  const State neighbour = initial(client, net, 4);
  const std::string first = hash(finetune_head(neighbour, client.set(), 1, 3, context));
  finetune_head(initial(client, net, 9), client.set(), 1, 3, context);
  EXPECT_EQ(hash(finetune_head(neighbour, client.set(), 1, 3, context)), first);
  EXPECT_NE(hash(finetune_head(neighbour, client.set(), 1, 4, context)), first) << "another round";

  // Two equal neighbours therefore vote as one of twice the weight.
  const State start = initial(client, net, 1);
  const Message once = client.ask(robust(start, {neighbour}, {0.5, 1.0}));
  client.memory = {};
  const Message twice = client.ask(robust(start, {neighbour, neighbour}, {0.5, 0.5, 0.5}));
  EXPECT_EQ(hash(once.get<State>("model")), hash(twice.get<State>("model")));
}

// spec: label-noise B.8 #9
TEST(FedRNClient, ExpertiseIsMeasuredOnAllSamples) {
  // Sure and right, hardly right, hardly wrong.
  Client client = pixel_client({{300, 255}, {112, 102}, {88, 98}});
  const Message reply = client.ask(robust(pixel_judge(0.1F, 100), {}, {1.0}));
  EXPECT_EQ(client.selected(), 300);
  EXPECT_DOUBLE_EQ(reply.get<double>("accuracy"), 0.824);
  EXPECT_EQ(reply.get<std::uint32_t>("samples"), 500U);
  EXPECT_EQ(client.steps, 6);
}

// spec: label-noise B.4 #7
TEST(FedRNClient, JudgesWithItsLastLocalModel) {
  const State likes_bright = pixel_judge(0.1F, 100);
  const State likes_dark = pixel_judge(-0.1F, 100);
  Client client = pixel_client({{10, 250}, {10, 5}});
  const std::vector<bool> bright = [] {
    std::vector<bool> mask(20, false);
    std::fill_n(mask.begin(), 10, true);
    return mask;
  }();
  client.memory.own.tensors["local"] = likes_bright.flat;
  client.ask(robust(likes_dark, {}, {1.0}));
  EXPECT_EQ(client.memory.trace.selected, bright);
  EXPECT_EQ(hash({likes_dark.layout, client.memory.own.tensors.at("local")}), hash(likes_dark))
      << "what it has trained now";
  EXPECT_EQ(values_of(likes_bright), values_of(pixel_judge(0.1F, 100))) << "never changed in place";

  client.memory = {};
  client.ask(robust(likes_bright, {}, {1.0}));
  EXPECT_EQ(client.memory.trace.selected, bright) << "without one the received model judges";
}

TEST(FedRNClient, JudgesWithTheReceivedModelWhenTold) {
  const State likes_bright = pixel_judge(0.1F, 100);
  Client client = pixel_client({{10, 250}, {10, 5}});
  client.memory.own.tensors["local"] = likes_bright.flat;
  client.ask(robust(pixel_judge(-0.1F, 100), {}, {1.0}), {.own_model = OwnModel::global});
  EXPECT_FALSE(client.memory.trace.selected->front());
  EXPECT_TRUE(client.memory.trace.selected->back());
}

TEST(FedRNClient, NeighboursOutvoteTheClient) {
  const State likes_bright = pixel_judge(0.1F, 100);
  const State likes_dark = pixel_judge(-0.1F, 100);
  Client client = pixel_client({{10, 250}, {10, 5}});
  const ClientOptions as_they_are{.finetune = false};
  client.ask(robust(likes_bright, {likes_dark}, {0.2, 0.8}), as_they_are);
  EXPECT_FALSE(client.memory.trace.selected->front());
  EXPECT_TRUE(client.memory.trace.selected->back());
  client.memory = {};
  client.ask(robust(likes_bright, {likes_dark}, {0.8, 0.2}), as_they_are);
  EXPECT_TRUE(client.memory.trace.selected->front());
  EXPECT_FALSE(client.memory.trace.selected->back());
}

TEST(FedRNClient, AnEmptyCleanSetBecomesTheWholeSet) {
  Client client = pixel_client({{10, 250}, {10, 5}});
  client.ask(robust(pixel_judge(0.1F, 100), {pixel_judge(-0.1F, 100)}, {0.5, 0.5}),
             {.threshold = 0.9, .finetune = false});
  EXPECT_EQ(client.selected(), 20);
  EXPECT_EQ(client.steps, 1);
}

TEST(FedRNClient, EqualLossesAreAllClean) {
  Client client = pixel_client({{30, 120}});
  client.ask(robust(pixel_judge(0.1F, 100), {pixel_judge(-0.1F, 100)}, {0.5, 0.5}));
  EXPECT_EQ(client.selected(), 30);
}

TEST(FedRNClient, ServesAClientWithOneSample) {
  Client client = pixel_client({{1, 90}});
  const Message reply =
      client.ask(robust(pixel_judge(0.1F, 100), {pixel_judge(0.2F, 80)}, {0.5, 0.5}));
  EXPECT_EQ(client.selected(), 1);
  EXPECT_EQ(reply.get<std::uint32_t>("samples"), 1U);
  EXPECT_EQ(reply.get<double>("accuracy"), 0.0);
}

TEST(FedRNClient, ServesAClientWithoutSamples) {
  Client client = pixel_client({{1, 90}});
  client.held = {};
  const State model = pixel_judge(0.1F, 100);
  const Message reply = client.ask(robust(model, {model}, {0.5, 0.5}));
  EXPECT_EQ(hash(reply.get<State>("model")), hash(model));
  EXPECT_EQ(reply.get<double>("accuracy"), 0.0);
}

TEST(FedRNClient, DoesNotJudgeWithAModelThatDiverged) {
  Client client = pixel_client({{10, 250}, {10, 5}});
  client.options.lr = std::numeric_limits<double>::infinity();
  const State model = pixel_judge(0.1F, 100);
  const Message reply = client.ask(warmup(model));
  EXPECT_FALSE(reply.get<State>("model").flat.isfinite().all().item<bool>());
  EXPECT_FALSE(client.memory.own.tensors.contains("local"));
  client.options.lr = 0.0;
  client.ask(robust(model, {}, {1.0}));
  EXPECT_EQ(client.selected(), 10);
}

TEST(FedRNClient, RefusesReliabilitiesThatDoNotFit) {
  Client client = pixel_client({{4, 250}});
  const State model = pixel_judge(0.1F, 100);
  const Message task = robust(model, {model, model}, {0.5, 0.5});
  EXPECT_EQ(error_text([&] { client.ask(task); }),
            "message 'robust' holds 2 neighbours and 2 reliabilities, expected one reliability "
            "more than neighbours");
  EXPECT_EQ(error_kind([&] { client.ask(task); }), ErrorKind::peer);
}

// spec: label-noise B.4 #2
TEST(FedRNClient, TheNoiseInputBelongsToTheRun) {
  const at::Tensor input = noise_input(5, {3, 32, 32});
  EXPECT_EQ(input.sizes(), (std::vector<std::int64_t>{1, 3, 32, 32}));
  EXPECT_TRUE(at::equal(input, noise_input(5, {3, 32, 32})));
  EXPECT_FALSE(at::equal(input, noise_input(6, {3, 32, 32})));
  EXPECT_NEAR(input.mean().item<double>(), 0.0, 0.1);
  EXPECT_NEAR(input.std().item<double>(), 1.0, 0.1);
}

}  // namespace winnow::fedrn::fedrn_client_test
