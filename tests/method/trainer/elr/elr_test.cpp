#include "winnow/method/trainer/elr/elr.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "method/one_client.h"
#include "method/rows.h"
#include "testing/support.h"

namespace winnow::elr_test {

using testing::HasSubstr;

std::unique_ptr<Elr> make_elr(bool with_global, const Json& table = Json::object()) {
  auto method = std::make_unique<Elr>(with_global);
  Params params;
  method->declare(params);
  params.read(table, "method");
  return method;
}

// spec: rivals 6.1
TEST(ElrTerm, IsTheWorkedNumber) {
  const at::Tensor logits = rows_of({{std::log(4.0F), 0.0F}});
  const at::Tensor p = bounded_predictions(logits);
  EXPECT_NEAR(p[0][0].item<double>(), .8, 1e-6);
  const at::Tensor first = p * .3;
  EXPECT_NEAR(elr_term(logits, first).item<double>(), -.228156, 1e-5);
  const at::Tensor second = first * .7 + p * .3;
  EXPECT_NEAR(second[0][0].item<double>(), .408, 1e-6);
  EXPECT_NEAR(elr_term(logits, second).item<double>(), -.425872, 1e-5);
}

TEST(ElrTerm, StaysFiniteWhereAllIsCertain) {
  const at::Tensor sure = rows_of({{100.0F, 0.0F}});
  EXPECT_TRUE(std::isfinite(elr_term(sure, bounded_predictions(sure)).item<double>()));
}

TEST(Elr, RemembersTargets) {
  OneClient client;
  const State start = client.initial(1);
  client.train(*make_elr(false), 0, start);
  const at::Tensor targets = client.memory.own.tensors.at("elr.targets");
  // After two epochs with beta = .7: 1 - .49 of a distribution.
  EXPECT_NEAR(targets.sum(1).min().item<double>(), .51, 1e-4);
  EXPECT_NEAR(targets.sum(1).max().item<double>(), .51, 1e-4);
}

TEST(Elr, IsFedAvgWithoutItsTerm) {
  OneClient client;
  const State start = client.initial(1);
  EXPECT_EQ(model_hash(client.train(*make_elr(false, {{"lambda", 0}}), 3, start)),
            hash(client.plain(start, 3)));
}

TEST(Flr, IsElrWithoutTheGlobalModel) {
  OneClient one;
  OneClient two;
  OneClient three;
  const State start = one.initial(1);
  const std::string elr = model_hash(one.train(*make_elr(false), 0, start));
  EXPECT_EQ(model_hash(two.train(*make_elr(true, {{"local", 1}}), 0, start)), elr);
  EXPECT_NE(model_hash(three.train(*make_elr(true), 0, start)), elr);
}

TEST(Elr, RefusesForgedTargets) {
  OneClient client;
  client.memory.own.tensors["elr.targets"] = at::zeros({11, 3});
  ClientContext context(client.kId, client.held, client.memory, client.lane, client.options,
                        client.kSeed);
  EXPECT_THAT(error_text([&] { make_elr(false)->client_side()->check_memory(context); }),
              HasSubstr("tensor 'elr.targets' is Float [11, 3], expected Float [12, "));
}

}  // namespace winnow::elr_test
