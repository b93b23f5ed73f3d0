// What no client can make a method believe: the exchanges of the methods, judged in one place.
#include "winnow/federation/firewall.h"

#include <gtest/gtest.h>

#include <limits>

#include "testing/support.h"
#include "winnow/experiment/registry.h"

namespace winnow::method_firewall_test {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

const Setting kSetting{.clients = 4, .fraction = 1.0, .classes = 3, .features = 2};

std::vector<Exchange> exchanges_of(const std::string& method) {
  return builtin_registry().make(method)->exchanges(kSetting);
}

// "reason: detail", or "counts".
std::string verdict(const std::string& method, const std::string& task, const Message& reply) {
  const auto refusal = judge(reply, Message(task), 15, exchanges_of(method));
  return refusal ? name_of(refusal->reason) + ": " + refusal->detail : "counts";
}

Message trained(std::uint32_t samples) {
  return Message("train_done").set("model", state_of({1})).set("samples", samples);
}

TEST(Firewall, BelievesNoOtherNumberOfSamples) {
  EXPECT_EQ(verdict("fedavg", "train", trained(15)), "counts");
  EXPECT_EQ(verdict("fedavg", "train", trained(16)),
            "wrong_samples: samples = 16, expected its 15");
  EXPECT_EQ(verdict("fedavg", "train", trained(14)),
            "wrong_samples: samples = 14, expected its 15");
  EXPECT_EQ(verdict("fedavg", "train", trained(4294967295U)),
            "wrong_samples: samples = 4294967295, expected its 15");
  const auto kept = [](std::uint32_t samples) {
    return trained(samples).renamed("train_kept_done");
  };
  EXPECT_EQ(verdict("clc", "train_kept", kept(15)), "counts");
  EXPECT_EQ(verdict("clc", "train_kept", kept(0)), "counts");
  EXPECT_EQ(verdict("clc", "train_kept", kept(16)),
            "wrong_samples: samples = 16, expected at most its 15");
}

TEST(Firewall, RefusesOtherRepliesAndFields) {
  EXPECT_EQ(verdict("clipfl", "train", Message("dismissed")),
            "wrong_kind: task 'train' was answered with 'dismissed', expected 'train_done'");
  EXPECT_EQ(verdict("fedavg", "train", Message("train_done").set("model", state_of({1}))),
            "wrong_fields: message 'train_done': field 2 is missing, expected 'samples'");
}

TEST(Firewall, RefusesNumbersThatCannotBe) {
  const auto estimate = [](double value) {
    return Message("correct1_done").set("muhat", value).set("relabelled", std::uint32_t{3});
  };
  EXPECT_EQ(verdict("fedcorr", "correct1", estimate(0.5)), "counts");
  EXPECT_EQ(verdict("fedcorr", "correct1", estimate(1.5)),
            "out_of_range: muhat = 1.5, expected 0 to 1");
  EXPECT_EQ(verdict("fedcorr", "correct1", estimate(kNaN)), "counts") << "the method's business";
  EXPECT_EQ(verdict("fednova", "train", trained(15).set("a", -1.0)),
            "out_of_range: a = -1, expected at least 0");
  EXPECT_EQ(verdict("focus", "train", trained(15).set("local_loss", -0.1)),
            "out_of_range: local_loss = -0.1, expected at least 0");
  EXPECT_EQ(verdict("fedncl", "train", trained(15).set("loss", -0.1)),
            "out_of_range: loss = -0.1, expected at least 0");
}

TEST(Firewall, RefusesListsOfAnotherLength) {
  const auto local = [](double accuracy, std::vector<float> output) {
    return trained(15)
        .renamed("local_done")
        .set("accuracy", accuracy)
        .set("output", std::move(output));
  };
  EXPECT_EQ(verdict("fedrn", "warmup", local(0.5, {1, 2, 3})), "counts");
  EXPECT_EQ(verdict("fedrn", "robust", local(1.5, {1, 2, 3})),
            "out_of_range: accuracy = 1.5, expected 0 to 1");
  EXPECT_EQ(verdict("fedrn", "warmup", local(0.5, {1, 2})),
            "wrong_length: field 'output' has 2 values, expected 3");
  const auto confidence = [](std::vector<double> mean, std::vector<double> count) {
    return Message("confidence_done").set("mean", std::move(mean)).set("count", std::move(count));
  };
  EXPECT_EQ(verdict("clc", "confidence", confidence({.1, .2, .3}, {5, 5, 5})), "counts");
  EXPECT_EQ(verdict("clc", "confidence", confidence({.1, .2, .3}, {5, 5})),
            "wrong_length: field 'count' has 2 values, expected 3");
  EXPECT_EQ(verdict("clc", "confidence", confidence({.1, .2, .3}, {5, 5, 16})),
            "wrong_samples: count = 16, expected at most its 15");
  EXPECT_EQ(verdict("rofl", "train", trained(15).set("centroids", std::vector<float>(5))),
            "wrong_length: field 'centroids' has 5 values, expected 6");
}

// What is not finite is a training that diverged, and no reply that cannot be.
TEST(Firewall, LeavesWhatIsNotFiniteToTheMethod) {
  const auto nan = static_cast<float>(kNaN);
  const Message diverged =
      Message("train_done").set("model", state_of({nan})).set("samples", std::uint32_t{15});
  EXPECT_EQ(verdict("fedavg", "train", diverged), "counts");
  EXPECT_FALSE(usable(diverged, exchanges_of("fedavg")));
  EXPECT_TRUE(usable(trained(15), exchanges_of("fedavg")));
  EXPECT_FALSE(usable(trained(15).set("a", kNaN), exchanges_of("fednova")));
  EXPECT_FALSE(usable(trained(15).set("a", -1.0), exchanges_of("fednova")));
  EXPECT_FALSE(usable(trained(15).set("control", state_of({nan})), exchanges_of("scaffold")));
  EXPECT_TRUE(usable(Message("evaluate_done").set("loss", kNaN), exchanges_of("power_of_choice")))
      << "who cannot say a number comes last";
}

}  // namespace winnow::method_firewall_test
