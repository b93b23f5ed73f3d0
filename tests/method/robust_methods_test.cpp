// What the robust aggregation methods have in common (spec: baselines 9 to 14).
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <memory>

#include "method/base_rounds.h"
#include "testing/support.h"
#include "winnow/base/random.h"
#include "winnow/experiment/registry.h"
#include "winnow/method/robust/arfl/arfl.h"
#include "winnow/method/robust/bulyan/bulyan.h"
#include "winnow/method/robust/geometric_median/geometric_median.h"
#include "winnow/method/robust/krum/krum.h"
#include "winnow/method/robust/median/median.h"
#include "winnow/method/robust/trimmed_mean/trimmed_mean.h"

namespace winnow::robust_methods_test {

std::unique_ptr<BaseMethod> make(const std::string& name, const Json& table = Json::object()) {
  static const std::map<std::string, std::function<MethodInfo()>> kInfos{
      {"trimmed_mean", trimmed_mean_info},
      {"median", median_info},
      {"krum", krum_info},
      {"multi_krum", multi_krum_info},
      {"bulyan", bulyan_info},
      {"geometric_median", geometric_median_info},
      {"arfl", arfl_info}};
  const MethodInfo info = kInfos.at(name)();
  EXPECT_EQ(info.name, name);
  EXPECT_EQ(info.group, "robust aggregation");
  std::unique_ptr<Method> method = info.make();
  Params params;
  method->declare(params);
  params.read(table, "method");
  return std::unique_ptr<BaseMethod>(dynamic_cast<BaseMethod*>(method.release()));
}

Upload upload_of(std::int64_t client, const State& model, std::uint32_t samples = 10) {
  return {client, Message("train_done").set("model", model).set("samples", samples),
          static_cast<double>(samples)};
}

State aggregate(BaseMethod& method, const std::vector<Upload>& uploads) {
  return fuse(method, uploads.front().model(), uploads);
}

std::vector<Upload> random_uploads(int count, std::int64_t size = 700) {
  const auto layout =
      std::make_shared<const Layout>(std::vector<Slot>{{"w", {size}, SlotKind::parameter, 0, 0},
                                                       {"b", {5}, SlotKind::buffer, 0, 0},
                                                       {"c", {}, SlotKind::counter, 0, 0}});
  std::vector<Upload> uploads;
  for (int k = 0; k < count; ++k) {
    Stream stream(8, "test", static_cast<std::uint64_t>(k));
    State state = State::zeros(layout);
    for (std::int64_t i = 0; i < layout->total(); ++i) {
      state.flat.data_ptr<float>()[i] = static_cast<float>(1.0 + 0.1 * stream.normal());
    }
    state.counters().fill_(20.0 + k);
    uploads.push_back(upload_of(k, state, static_cast<std::uint32_t>(10 + k)));
  }
  return uploads;
}

class RobustMethod : public testing::TestWithParam<std::string> {};

INSTANTIATE_TEST_SUITE_P(All, RobustMethod,
                         testing::Values("trimmed_mean", "median", "krum", "multi_krum", "bulyan",
                                         "geometric_median", "arfl"),
                         [](const auto& info) { return info.param; });

TEST_P(RobustMethod, KeepsCountersWhole) {
  const State model = aggregate(*make(GetParam()), random_uploads(10));
  const float counter = values_of(model.counters()).front();
  EXPECT_EQ(counter, std::round(counter));
  EXPECT_GE(counter, 20.0F);
  EXPECT_LE(counter, 29.0F);
}

TEST_P(RobustMethod, NeverChangesAnUpload) {
  const std::vector<Upload> uploads = random_uploads(8);
  std::vector<std::string> before;
  for (const Upload& upload : uploads) {
    before.push_back(hash(upload.model()));
  }
  const auto method = make(GetParam());
  aggregate(*method, uploads);
  for (std::size_t k = 0; k < uploads.size(); ++k) {
    EXPECT_EQ(hash(uploads[k].model()), before[k]);
  }
}

TEST_P(RobustMethod, ForgetsARoundThatWasNotFinished) {
  const std::vector<Upload> uploads = random_uploads(9);
  const auto method = make(GetParam());
  const std::string expected = hash(aggregate(*method, uploads));
  State wild = uploads.front().model().clone();
  wild.flat.fill_(-50);
  HandRound left(wild);
  method->begin(left.round);
  for (std::int64_t client = 20; client < 40; ++client) {
    method->add(left.round, upload_of(client, wild));
  }
  EXPECT_EQ(hash(aggregate(*method, uploads)), expected);
}

TEST_P(RobustMethod, RefusesARoundWithoutUploads) {
  const auto method = make(GetParam());
  HandRound hand(state_of({1}));
  method->begin(hand.round);
  EXPECT_EQ(error_text([&] { std::ignore = method->finish(hand.round); }),
            "no client contributed to this round | lower the noise or raise federation.fraction");
  EXPECT_EQ(error_kind([&] { std::ignore = method->finish(hand.round); }), ErrorKind::run);
}

TEST_P(RobustMethod, RefusesModelsOfAnotherLayout) {
  const auto method = make(GetParam());
  HandRound hand(state_of({1, 2}));
  method->begin(hand.round);
  method->add(hand.round, upload_of(0, state_of({1, 2})));
  EXPECT_EQ(error_text([&] {
              method->add(hand.round, upload_of(1, state_of({1, 2, 3})));
            }),
            "models of different layouts cannot be aggregated");
}

TEST_P(RobustMethod, PlaysARoundWithFedAvgsMessages) {
  const std::vector<Upload> uploads = random_uploads(8);
  std::vector<std::int64_t> sizes;
  for (const Upload& upload : uploads) {
    sizes.push_back(static_cast<std::int64_t>(upload.samples));
  }
  FakeFleet fleet(sizes, [&](std::int64_t client, const Message&) {
    return uploads[static_cast<std::size_t>(client)].reply;
  });
  const Setting setting{.seed = 4, .rounds = 2, .clients = 8, .fraction = 1.0, .classes = 3};
  State global = uploads.front().model().clone();
  const State start = global;
  const std::string start_hash = hash(start);
  Json notes = Json::object();
  Server server{setting, fleet, global, notes};
  const auto method = make(GetParam());
  method->play(0, server);

  EXPECT_EQ(hash(global), hash(aggregate(*method, uploads)));
  EXPECT_EQ(hash(start), start_hash) << "replaced, never changed";
  ASSERT_EQ(fleet.asked.size(), 8U);
  for (std::size_t i = 0; i < 8; ++i) {
    EXPECT_EQ(fleet.asked[i].task.kind(), "train");
    EXPECT_EQ(fleet.asked[i].task.bytes(), 4 + 4 * 706);
    EXPECT_EQ(fleet.replies[i].kind(), "train_done");
    EXPECT_EQ(fleet.replies[i].bytes(), 4 * 706 + 4);
    EXPECT_NO_THROW(check(fleet.asked[i].task, method->exchanges({})));
    EXPECT_NO_THROW(check(fleet.replies[i], method->exchanges({})));
  }
}

class WeightBlindMethod : public testing::TestWithParam<std::string> {};

INSTANTIATE_TEST_SUITE_P(All, WeightBlindMethod,
                         testing::Values("median", "krum", "bulyan", "arfl"),
                         [](const auto& info) { return info.param; });

// But for counters, which samples weigh.
TEST_P(WeightBlindMethod, IgnoresSamplesAndFactors) {
  std::vector<Upload> uploads = random_uploads(8);
  const auto method = make(GetParam());
  const auto values = [&] {
    const State model = aggregate(*method, uploads);
    return values_of(model.flat.narrow(0, 0, model.layout->total() - 1));
  };
  const std::vector<float> before = values();
  for (Upload& upload : uploads) {
    upload.samples = 1.0 + static_cast<double>(upload.client % 3);
    upload.factor = upload.client % 2 == 0 ? 0.0 : 5.0;
  }
  EXPECT_EQ(values(), before);
}

// spec: baselines 0.1
TEST(RobustMethods, OfSingleCoordinatesAverageCountersBySamples) {
  std::vector<Upload> uploads{upload_of(0, state_of({1}, {1}, {10}), 100),
                              upload_of(1, state_of({2}, {2}, {20}), 300),
                              upload_of(2, state_of({6}, {6}, {40}), 600)};
  const auto counter = [&](const std::string& name, const Json& table) {
    return values_of(aggregate(*make(name, table), uploads).counters());
  };
  const auto expect_counter = [&](float expected) {
    EXPECT_EQ(counter("median", Json::object()), std::vector<float>{expected});
    EXPECT_EQ(counter("trimmed_mean", {{"trim", 0.34}}), std::vector<float>{expected});
    EXPECT_EQ(counter("bulyan", {{"byzantine", 0}}), std::vector<float>{expected});
  };
  expect_counter(31);
  for (Upload& upload : uploads) {
    upload.factor = upload.client == 0 ? 9.0 : 1.0;
  }
  expect_counter(31);
  for (Upload& upload : uploads) {
    upload.samples = 0.0;
  }
  expect_counter(23);
}

TEST(RobustMethods, BulyanAveragesTheCountersOfTheSelected) {
  std::vector<Upload> uploads;
  for (const float value : {0.0F, .1F, .2F, .3F, .4F, .5F, 9.0F}) {
    const auto client = static_cast<std::int64_t>(uploads.size());
    uploads.push_back(upload_of(client, state_of({value}, {}, {static_cast<float>(client)}),
                                client == 4 ? 96 : 1));
  }
  EXPECT_EQ(values_of(aggregate(*make("bulyan"), uploads).counters()), std::vector<float>{4})
      << "clients 2, 3, 4, 0, 1";
  uploads[6].samples = 1e6;
  EXPECT_EQ(values_of(aggregate(*make("bulyan"), uploads).counters()), std::vector<float>{4});
}

// What the event of a round shows, played by the method `name` over eight random models.
Json notes_under(const std::string& name, const Json& table, std::int64_t round) {
  const std::vector<Upload> uploads = random_uploads(8);
  std::vector<std::int64_t> sizes(uploads.size(), 10);
  FakeFleet fleet(sizes, [&](std::int64_t client, const Message& task) {
    Message reply = uploads[static_cast<std::size_t>(client)].reply;
    return task.kind() == "train_score" ? reply.renamed("train_score_done").set("score", 1.0)
                                        : reply;
  });
  const Setting setting{
      .seed = 4, .rounds = 20, .clients = 8, .fraction = 1.0, .classes = 3, .validation = 10};
  State global = uploads.front().model();
  Json notes = Json::object();
  Server server{setting, fleet, global, notes, [](const std::vector<State>& models) {
                  return std::vector<Score>(models.size(), Score{5, 10, 0.0});
                }};
  const std::unique_ptr<Method> method = builtin_registry().make(name);
  Params params;
  method->declare(params);
  params.read(table, "method");
  method->play(round, server);
  return notes;
}

TEST(RobustNotes, SurviveEveryWrapper) {
  const std::map<std::string, std::vector<std::string>> notes{
      {"krum", {"selected"}},
      {"multi_krum", {"selected"}},
      {"bulyan", {"selected"}},
      {"arfl", {"arfl_clients", "arfl_weights"}},
      {"geometric_median", {"passes"}}};
  for (const auto& [rule, keys] : notes) {
    const Json plain = notes_under(rule, Json::object(), 0);
    // Nobody is dropped or pruned, so the rule sees the same models.
    const Json table{{"base", rule}, {"pre_rounds", 5}, {"keep", 8}, {"prune", 0.0}};
    std::vector<Json> wrapped{notes_under("clipfl", table, 0), notes_under("clipfl", table, 7),
                              notes_under("fedcorr", Json{{"base", rule}, {"iterations", 1}}, 800),
                              notes_under("oracle", Json{{"base", rule}}, 0)};
    if (make(rule)->weighs()) {
      wrapped.push_back(notes_under("fedns", Json{{"base", rule}}, 0));
      wrapped.push_back(notes_under("fedns_oracle_flags", Json{{"base", rule}}, 3));
    }
    for (const std::string& key : keys) {
      ASSERT_TRUE(plain.contains(key)) << rule;
      for (const Json& each : wrapped) {
        EXPECT_EQ(each.value(key, Json("missing")), plain.at(key)) << rule << " " << each.dump();
      }
    }
  }
}

}  // namespace winnow::robust_methods_test
