#include "winnow/method/system/fedns/arithmetic.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "testing/support.h"
#include "winnow/method/base/fedavg/fedavg.h"
#include "winnow/method/system/fedns/client.h"

namespace winnow::fedns::fedns_score_test {

// The worked batch (spec: input-noise F1).
struct Worked {
  at::Tensor weight = at::tensor({0.5F, -0.2F, 0.1F, 0.3F, -0.4F, 0.2F}).view({3, 2});
  at::Tensor bias = at::tensor({0.0F, 0.1F, -0.1F});
  at::Tensor features = at::tensor({1.0F, 2.0F, 2.0F, 0.5F}).view({2, 2});
  at::Tensor labels = at::tensor({0, 2}, at::kLong);
  at::Tensor logits = features.matmul(weight.t()) + bias;

  double norm(bool label, double temperature, std::int64_t p) const {
    return gradient_norm(
               head_gradient(features, logits, label ? labels : at::Tensor(), temperature), p)
        .item<double>();
  }
};

void expect_near(const at::Tensor& tensor, const std::vector<double>& expected, double tolerance) {
  const std::vector<float> values = values_of(tensor);
  ASSERT_EQ(values.size(), expected.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    EXPECT_NEAR(values[i], expected[i], tolerance) << i;
  }
}

// spec: input-noise F1
TEST(FedNSScore, HasTheWorkedGradient) {
  const Worked worked;
  expect_near(at::softmax(worked.logits, 1),
              {0.260927, 0.525443, 0.213629, 0.549356, 0.350285, 0.100358}, 1e-6);
  expect_near(head_gradient(worked.features, worked.logits, {}, 1.0),
              {0.539461, -0.055200, 0.339020, 0.589044, -0.878481, -0.533843}, 1e-6);
}

// spec: input-noise F1
TEST(FedNSScore, HasTheWorkedNorms) {
  const Worked worked;
  EXPECT_NEAR(worked.norm(false, 1.0, 1), 2.935049, 1e-5);
  EXPECT_NEAR(worked.norm(false, 1.0, 2), 1.346362, 1e-5);
  EXPECT_NEAR(worked.norm(true, 1.0, 1), 2.811683, 1e-5);
  EXPECT_NEAR(worked.norm(false, 2.0, 1), 0.815453, 1e-5);
  EXPECT_NEAR(worked.norm(true, 2.0, 1), 1.258710, 1e-5);
}

// spec: input-noise F2
TEST(FedNSScore, GradientSumsToZeroOverTheClasses) {
  const Worked worked;
  for (const at::Tensor& labels : {at::Tensor(), worked.labels}) {
    const at::Tensor gradient = head_gradient(worked.features, worked.logits, labels, 1.0);
    EXPECT_LT(gradient.sum(0).abs().max().item<double>(), 1e-6);
  }
}

// spec: input-noise F2
TEST(FedNSScore, OfAUniformPredictionIsZero) {
  const Worked worked;
  const at::Tensor gradient = head_gradient(worked.features, at::full({2, 3}, 4.0), {}, 1.0);
  EXPECT_NEAR(gradient_norm(gradient, 1).item<double>(), 0.0, 1e-6);
}

// spec: input-noise F3
TEST(FedNSScore, OfOneSampleIsTheProductOfTwoNorms) {
  const Worked worked;
  const std::vector<double> expected{3.457979, 3.494624};
  double mean = 0.0;
  for (std::int64_t i = 0; i < 2; ++i) {
    const at::Tensor h = worked.features.narrow(0, i, 1);
    const at::Tensor z = worked.logits.narrow(0, i, 1);
    const auto norm = gradient_norm(head_gradient(h, z, {}, 1.0), 1).item<double>();
    EXPECT_NEAR(norm, expected[static_cast<std::size_t>(i)], 1e-5);
    const at::Tensor spread = at::softmax(z, 1) * 3.0 - 1.0;
    EXPECT_NEAR(norm, (h.abs().sum() * spread.abs().sum()).item<double>(), 1e-5);
    mean += norm / 2.0;
  }
  EXPECT_LE(worked.norm(false, 1.0, 1), mean);
}

TEST(FedNSScore, StatisticsOfTheNorms) {
  const std::vector<double> norms{1.0, 2.0, 9.0, 4.0};
  EXPECT_DOUBLE_EQ(statistic_of(norms, Statistic::mean), 4.0);
  EXPECT_DOUBLE_EQ(statistic_of(norms, Statistic::var), (9.0 + 4.0 + 25.0 + 0.0) / 4.0);
  EXPECT_DOUBLE_EQ(statistic_of(norms, Statistic::median), 3.0);
  EXPECT_DOUBLE_EQ(statistic_of(std::vector<double>{5.0, 1.0, 2.0}, Statistic::median), 2.0);
  EXPECT_DOUBLE_EQ(statistic_of(std::vector<double>{5.0}, Statistic::var), 0.0);
  EXPECT_TRUE(std::isnan(statistic_of({}, Statistic::mean)));
  const std::vector<double> broken{1.0, std::numeric_limits<double>::quiet_NaN(), 2.0};
  EXPECT_TRUE(std::isnan(statistic_of(broken, Statistic::median)));
}

// One client with real samples on a real lane.
template <typename T>
struct Bench {
  DataSet data = tiny_data();
  Feed feed{data.train.images, data.normalisation, 0, at::kCPU};
  Lane lane{make_net<T>(data), feed, false};
  ClientData held = deal(data, {21}).front();
  ClientMemory memory;
  TrainOptions options{.epochs = 1, .batch_size = 5, .lr = 0.05};
  ClientContext context{7, held, memory, lane, options, 5};
  State start = T(shape_of(data)).weights().initial(1);

  std::vector<double> norms(const ScoreRule& rule) {
    lane.scorer().load(start);
    return gradient_norms(lane.scorer(), held.samples, context.labels_tensor(), rule);
  }
  Message task(const std::string& kind) const {
    return Message(kind).set("round", std::uint32_t{3}).set("model", start);
  }
  Message handle(const ScoreRule& rule, const std::string& kind = "train_score",
                 bool send_norms = false) {
    return fedns::Client(FedAvg().client_side(), rule, send_norms).handle(task(kind), context);
  }
  State plain() {
    return FedAvg().client_side()->handle(task("train"), context).template get<State>("model");
  }
};

TEST(FedNSScore, KeepsTheLastShortBatch) {
  Bench<TwoLayerNet> bench;
  EXPECT_EQ(bench.norms({}).size(), 2U);
  EXPECT_EQ(bench.norms({.batch = 4}).size(), 6U);
  EXPECT_EQ(bench.norms({.batch = 100}).size(), 1U);
  const std::vector<double> all = bench.norms({.batch = 4});
  const std::vector<std::int64_t> tail{bench.held.samples.back()};
  bench.lane.scorer().load(bench.start);
  EXPECT_NEAR(gradient_norms(bench.lane.scorer(), tail, {}, {}).front(), all.back(), 1e-6);
  EXPECT_TRUE(gradient_norms(bench.lane.scorer(), {}, {}, {}).empty());
}

TEST(FedNSScore, ClosedFormEqualsTheGradient) {
  Bench<NormNet> bench;
  for (const ScoreTarget loss : {ScoreTarget::uniform, ScoreTarget::label}) {
    for (const double temperature : {1.0, 2.0}) {
      for (const std::int64_t norm : {1, 2}) {
        for (const ScoreNorm batch_norm : {ScoreNorm::train_restore, ScoreNorm::eval}) {
          ScoreRule rule{.batch = 8,
                         .norm = norm,
                         .loss = loss,
                         .temperature = temperature,
                         .batch_norm = batch_norm};
          const std::vector<double> closed = bench.norms(rule);
          rule.layer = "fc.weight";
          const std::vector<double> differentiated = bench.norms(rule);
          ASSERT_EQ(closed.size(), 3U);
          ASSERT_EQ(differentiated.size(), 3U);
          for (std::size_t i = 0; i < closed.size(); ++i) {
            EXPECT_GT(closed[i], 0.01);
            EXPECT_NEAR(closed[i], differentiated[i], 1e-5 * std::max(1.0, closed[i]))
                << static_cast<int>(loss) << " " << temperature << " " << norm << " "
                << static_cast<int>(batch_norm);
          }
        }
      }
    }
  }
}

TEST(FedNSScore, MayLookAtAnotherLayer) {
  Bench<NormNet> bench;
  const std::vector<double> head = bench.norms({.layer = "fc.weight"});
  const std::vector<double> body = bench.norms({.layer = "conv.weight"});
  ASSERT_EQ(body.size(), head.size());
  EXPECT_GT(body[0], 0.0);
  EXPECT_NE(body[0], head[0]);
}

TEST(FedNSScore, OptionsChangeIt) {
  Bench<NormNet> bench;
  const double usual = bench.norms({})[0];
  EXPECT_NE(bench.norms({.norm = 2})[0], usual);
  EXPECT_NE(bench.norms({.loss = ScoreTarget::label})[0], usual);
  EXPECT_NE(bench.norms({.temperature = 2.0})[0], usual);
  EXPECT_NE(bench.norms({.batch_norm = ScoreNorm::eval})[0], usual);
}

TEST(FedNSClient, ScoresTheTrainedModel) {
  Bench<TwoLayerNet> bench;
  const Message reply = bench.handle({});
  EXPECT_EQ(reply.kind(), "train_score_done");
  EXPECT_EQ(hash(reply.get<State>("model")), hash(bench.plain()));
  EXPECT_EQ(reply.get<std::uint32_t>("samples"), 21U);
  EXPECT_TRUE(bench.memory.empty());
  EXPECT_FALSE(reply.has("norms"));
  bench.lane.scorer().load(reply.get<State>("model"));
  const std::vector<double> norms = gradient_norms(bench.lane.scorer(), bench.held.samples, {}, {});
  EXPECT_EQ(reply.get<double>("score"), statistic_of(norms, Statistic::mean));
  EXPECT_EQ(bench.handle({.statistic = Statistic::var}).get<double>("score"),
            statistic_of(norms, Statistic::var));
}

TEST(FedNSClient, SendsAllNormsWhenAsked) {
  Bench<TwoLayerNet> bench;
  const Message reply = bench.handle({.batch = 4}, "train_score", true);
  const auto& norms = reply.get<std::vector<double>>("norms");
  EXPECT_EQ(norms.size(), 6U);
  EXPECT_EQ(reply.get<double>("score"), statistic_of(norms, Statistic::mean));
}

TEST(FedNSClient, OtherTasksAreTheBaseMethods) {
  Bench<TwoLayerNet> bench;
  const Message reply = bench.handle({}, "train");
  EXPECT_EQ(reply.kind(), "train_done");
  EXPECT_EQ(hash(reply.get<State>("model")), hash(bench.plain()));
  EXPECT_FALSE(reply.has("score"));
}

TEST(FedNSClient, ScoresLikeOthersWhateverTheLaneDidBefore) {
  Bench<NormNet> first;
  Bench<NormNet> second;
  second.handle({.batch_norm = ScoreNorm::train_update});
  EXPECT_EQ(first.handle({}).get<double>("score"), second.handle({}).get<double>("score"));
}

// spec: input-noise 1.2 #1
TEST(FedNSClient, LeavesTheStatisticsAsTrainingLeftThem) {
  for (const ScoreNorm mode : {ScoreNorm::train_restore, ScoreNorm::eval}) {
    Bench<NormNet> bench;
    EXPECT_EQ(hash(bench.handle({.batch_norm = mode}).get<State>("model")), hash(bench.plain()))
        << static_cast<int>(mode);
  }
}

// spec: input-noise 1.2 #1
TEST(FedNSClient, MayUploadTheStatisticsThatScoringMoved) {
  Bench<NormNet> bench;
  const State plain = bench.plain();
  const Message restored = bench.handle({.batch = 8});
  const Message moved = bench.handle({.batch = 8, .batch_norm = ScoreNorm::train_update});
  const auto& model = moved.get<State>("model");
  EXPECT_EQ(values_of(model.parameters()), values_of(plain.parameters()));
  EXPECT_NE(values_of(model.buffers()), values_of(plain.buffers()));
  EXPECT_EQ(values_of(model.counters()), values_of(plain.counters() + 3.0F));
  EXPECT_EQ(moved.get<double>("score"), restored.get<double>("score"));
  EXPECT_EQ(moved.fields().size(), restored.fields().size());
  const Message measured =
      bench.handle({.batch = 8, .batch_norm = ScoreNorm::train_update}, "train_measure");
  EXPECT_EQ(measured.kind(), "train_measure_done");
  EXPECT_EQ(hash(measured.get<State>("model")), hash(plain)) << "a measurement changes no result";
  EXPECT_EQ(measured.get<double>("score"), moved.get<double>("score"));
}

}  // namespace winnow::fedns::fedns_score_test
