#include "winnow/stats/noise_kind.h"

#include <gtest/gtest.h>

#include <functional>
#include <vector>

#include "winnow/base/random.h"

namespace winnow::noise_kind_test {

constexpr std::int64_t kClasses = 10;

// A client as the audit would see it: true classes by `mix`, labels changed by `corrupt`, and a
// model of 85 % accuracy whose probabilities are spread when it errs.
struct Client {
  std::vector<std::vector<float>> p;
  std::vector<std::int64_t> given;
};

using Corrupt = std::function<std::int64_t(std::int64_t truth, Stream& stream)>;

Client simulate(std::uint64_t seed, std::int64_t samples, std::vector<double> mix,
                const Corrupt& corrupt) {
  Stream stream(seed, "client");
  Client client;
  for (std::int64_t n = 0; n < samples; ++n) {
    const auto truth = static_cast<std::int64_t>(stream.categorical(mix));
    std::int64_t seen = truth;
    if (!stream.bernoulli(.85)) {
      seen = (truth + 1 + static_cast<std::int64_t>(stream.below(kClasses - 1))) % kClasses;
    }
    const double top = seen == truth ? stream.uniform(.5, 1.0) : stream.uniform(.3, .8);
    std::vector<float> p(kClasses, static_cast<float>((1.0 - top) / (kClasses - 1)));
    p[static_cast<std::size_t>(seen)] = static_cast<float>(top);
    client.p.push_back(p);
    client.given.push_back(corrupt(truth, stream));
  }
  return client;
}

std::int64_t honest(std::int64_t truth, Stream& /*stream*/) {
  return truth;
}

Corrupt pair_flips(double rate) {
  return [rate](std::int64_t truth, Stream& stream) {
    return stream.bernoulli(rate) ? (truth + kClasses - 1) % kClasses : truth;
  };
}

Corrupt symmetric(double rate) {
  return [rate](std::int64_t truth, Stream& stream) {
    const auto step = 1 + static_cast<std::int64_t>(stream.below(kClasses - 1));
    return stream.bernoulli(rate) ? (truth + step) % kClasses : truth;
  };
}

// What is found of the first of the clients, with the sums of all.
struct Found {
  KindFinding kind;
  double rate = 0.0;
};

std::vector<Found> look(const std::vector<Client>& clients) {
  ThresholdSums sums(kClasses);
  std::vector<ThresholdSums> own;
  for (const Client& client : clients) {
    own.emplace_back(kClasses);
    for (std::size_t n = 0; n < client.p.size(); ++n) {
      own.back().add(client.p[n], client.given[n]);
    }
    sums += own.back();
  }
  const std::vector<double> thresholds = sums.thresholds();
  std::vector<JointCounts> counts;
  for (const Client& client : clients) {
    counts.emplace_back(kClasses);
    for (std::size_t n = 0; n < client.p.size(); ++n) {
      counts.back().add(client.given[n], confident_class(client.p[n], thresholds));
    }
  }
  const Confusion confusion = honest_confusion(counts);
  std::vector<Found> found;
  for (std::size_t c = 0; c < clients.size(); ++c) {
    found.push_back({find_kind(counts[c], confusion),
                     noise_rate(calibrated_joint(counts[c], own[c].samples()), kClasses)});
  }
  return found;
}

const std::vector<double> kEven(kClasses, .1);

std::vector<Client> with_honest(Client first, std::size_t honest_clients = 9) {
  std::vector<Client> clients{std::move(first)};
  for (std::uint64_t c = 1; c <= honest_clients; ++c) {
    clients.push_back(simulate(100 + c, 500, kEven, honest));
  }
  return clients;
}

// spec: audit 8 #4
TEST(NoiseKind, PairFlipsAreFoundWithTheirRate) {
  const std::vector<Found> found = look(with_honest(simulate(1, 500, kEven, pair_flips(.4))));
  EXPECT_EQ(found[0].kind.kind, NoiseKind::pair);
  EXPECT_GE(found[0].kind.rate, .33);
  EXPECT_LE(found[0].kind.rate, .47);
  EXPECT_GE(found[0].rate, .33);
  EXPECT_LE(found[0].rate, .47);
  for (std::size_t c = 1; c < found.size(); ++c) {
    EXPECT_EQ(found[c].kind.kind, NoiseKind::none) << c;
  }
}

TEST(NoiseKind, SymmetricAndRandomLabelsAreToldApart) {
  EXPECT_EQ(look(with_honest(simulate(2, 500, kEven, symmetric(.4))))[0].kind.kind,
            NoiseKind::symmetric);
  const Corrupt random = [](std::int64_t /*truth*/, Stream& stream) {
    return static_cast<std::int64_t>(
        stream.categorical(std::vector<double>{.3, .2, .1, .1, .05, .05, .05, .05, .05, .05}));
  };
  EXPECT_EQ(look(with_honest(simulate(3, 500, kEven, random)))[0].kind.kind,
            NoiseKind::random_labels);
}

TEST(NoiseKind, NoiseOfSomeClassesOnlyIsClassDependent) {
  const Corrupt some = [](std::int64_t truth, Stream& stream) {
    return (truth == 3 || truth == 5) && stream.bernoulli(.6) ? 8 - truth : truth;
  };
  const KindFinding found = look(with_honest(simulate(4, 800, kEven, some)))[0].kind;
  EXPECT_EQ(found.kind, NoiseKind::class_dependent);
  EXPECT_NEAR(found.rate, .12, .05);
}

// spec: audit 8 #3
TEST(NoiseKind, AnHonestClientOfOneClassIsNotCalledNoisy) {
  Client rare;
  for (int n = 0; n < 300; ++n) {
    const double own = .3 + .6 * (n + .5) / 300;
    std::vector<float> p(kClasses, static_cast<float>((1.0 - own) / (kClasses - 1)));
    p[7] = static_cast<float>(own);
    rare.p.push_back(p);
    rare.given.push_back(7);
  }
  const std::vector<Found> found = look(with_honest(std::move(rare)));
  EXPECT_EQ(found[0].kind.kind, NoiseKind::none);
  EXPECT_EQ(found[0].kind.rate, 0.0);
  EXPECT_EQ(found[0].rate, 0.0);
}

// The skew that bends naive rates: two classes, of a federation in which most clients are noisy.
TEST(NoiseKind, SkewedHonestClientsAreNotNoisyBesideManyNoisyOnes) {
  std::vector<double> two(kClasses, 0.0);
  two[2] = .7;
  two[4] = .3;
  std::vector<Client> clients{simulate(6, 300, two, honest)};
  for (std::uint64_t c = 0; c < 12; ++c) {
    clients.push_back(simulate(200 + c, 400, kEven, c < 7 ? symmetric(.4) : Corrupt(honest)));
  }
  const std::vector<Found> found = look(clients);
  EXPECT_EQ(found[0].kind.kind, NoiseKind::none);
  for (std::size_t c = 1; c < found.size(); ++c) {
    EXPECT_EQ(found[c].kind.kind, c <= 7 ? NoiseKind::symmetric : NoiseKind::none) << c;
  }
}

// spec: audit 8 #5
TEST(NoiseKind, RenamingClassesOrClientsChangesNothing) {
  std::vector<Client> clients = with_honest(simulate(1, 500, kEven, pair_flips(.4)));
  const std::vector<Found> before = look(clients);
  std::vector<Client> renamed;
  for (auto client = clients.rbegin(); client != clients.rend(); ++client) {
    Client other;
    for (std::size_t n = 0; n < client->p.size(); ++n) {
      std::vector<float> p(kClasses);
      for (std::size_t j = 0; j < kClasses; ++j) {
        p[(j * 3 + 4) % kClasses] = client->p[n][j];
      }
      other.p.push_back(p);
      other.given.push_back((client->given[n] * 3 + 4) % kClasses);
    }
    renamed.push_back(other);
  }
  const std::vector<Found> after = look(renamed);
  for (std::size_t c = 0; c < before.size(); ++c) {
    const Found& other = after[before.size() - 1 - c];
    EXPECT_EQ(other.kind.kind, before[c].kind.kind);
    EXPECT_NEAR(other.kind.rate, before[c].kind.rate, 1e-6);
    EXPECT_NEAR(other.rate, before[c].rate, 1e-12);
  }
}

// spec: audit 3
TEST(NoiseKind, AModelsConfusionIsThatOfAllUntilItsOwnClientsShowIt) {
  const Confusion all{2, {0.9, 0.1, 0.2, 0.8}, 100.0};
  const Confusion own = model_confusion(all, JointCounts(2, {15, 15, 0, 0}));
  EXPECT_NEAR(own.at(0, 0), (15.0 + 9.0) / 40.0, 1e-12);
  EXPECT_NEAR(own.at(0, 1), (15.0 + 1.0) / 40.0, 1e-12);
  EXPECT_NEAR(own.at(1, 1), 0.8, 1e-12);
  EXPECT_EQ(own.counts, 100.0);
}

TEST(NoiseKind, TheWeightsOfTheKindsSumToOne) {
  const KindFinding found = look(with_honest(simulate(8, 300, kEven, symmetric(.2))))[0].kind;
  double sum = 0.0;
  for (const KindFit& fit : found.fits) {
    sum += fit.weight;
  }
  EXPECT_NEAR(sum, 1.0, 1e-9);
  EXPECT_GT(found.fit(found.kind).weight, .5);
  EXPECT_NEAR(found.expected_rate, .2, .1);
}

}  // namespace winnow::noise_kind_test
