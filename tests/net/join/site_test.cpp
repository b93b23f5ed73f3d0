#include "winnow/net/join/site.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "net/join/dealt.h"
#include "winnow/engine/local_examiner.h"
#include "winnow/engine/prototype.h"

namespace winnow::member::site_test {

using ::testing::HasSubstr;

Session session_over_sites(const Dealing& dealing, std::vector<std::shared_ptr<Site>> sites) {
  Runtime runtime = on_cpu(1);
  runtime.engine = "sites";
  runtime.engines.add({"sites", "clients as sites", nullptr,
                       [sites](const Experiment& experiment, const Registry& registry,
                               const Runtime& how, const std::atomic<bool>* stop) {
                         auto place = std::make_unique<Workplace>(
                             experiment, server_world(experiment, registry), registry, how, stop);
                         auto engine = std::make_unique<SiteEngine>(sites, *place);
                         Examiner* examiner = &place->examiner();
                         return Hosted{std::move(place), std::move(engine), examiner};
                       }});
  return Session(dealing.served, dealing.registry, runtime, nullptr);
}

struct Played {
  std::vector<std::string> hashes;
  Traffic traffic;
  std::vector<std::optional<double>> accuracies;
};

Played play_all(Session& session) {
  Played played;
  while (session.rounds_done() < session.rounds()) {
    session.play();
    played.accuracies.push_back(session.history().back().accuracy);
  }
  played.hashes = hashes(session.history());
  played.traffic = session.engine().traffic();
  return played;
}

void expect_equal(const Played& one, const Played& other) {
  EXPECT_FALSE(one.hashes.empty());
  EXPECT_EQ(one.hashes, other.hashes);
  EXPECT_EQ(one.traffic.bytes_down, other.traffic.bytes_down);
  EXPECT_EQ(one.traffic.bytes_up, other.traffic.bytes_up);
  EXPECT_EQ(one.traffic.client_steps, other.traffic.client_steps);
  EXPECT_EQ(one.traffic.participations, other.traffic.participations);
  EXPECT_EQ(one.traffic.passes.forward, other.traffic.passes.forward);
  EXPECT_EQ(one.traffic.passes.backward, other.traffic.passes.backward);
}

class SiteWith : public ::testing::TestWithParam<std::string> {};

// Experiment to files, files to sites, and only bytes between them and the server.
TEST_P(SiteWith, MembersWithTheirOwnFilesComputeTheBitsOfTheSimulation) {
  const TestFolder folder;
  const Experiment experiment = experiment_with(
      GetParam(), {"data.augment=\"on\"", "data.mean=[0.4]", "data.std=[0.3]", "data.channels=1"});
  Session simulation(experiment, methods(), on_cpu(), nullptr);
  const Played expected = play_all(simulation);
  const Dealing dealing(experiment, folder.path());
  std::vector<std::shared_ptr<Site>> sites;
  for (std::int64_t client = 0; client < dealing.charter.members; ++client) {
    sites.push_back(dealing.site(client));
  }
  Session session = session_over_sites(dealing, sites);
  const Played played = play_all(session);
  expect_equal(played, expected);
  if (simulation.measured() == Measured::global) {
    EXPECT_EQ(played.accuracies, expected.accuracies);
  }
}

INSTANTIATE_TEST_SUITE_P(Methods, SiteWith,
                         ::testing::Values("fedavg", "scaffold", "fedcorr", "fedrn", "rhfl", "clc",
                                           "joint_optimisation", "clipfl", "dividemix", "feddyn",
                                           "audit", "rofl", "remembering"));

TEST(Site, CropsAndResizesAsTheSimulationDoes) {
  const TestFolder folder;
  const Experiment experiment = experiment_with(
      "fedavg", {"data.augment=\"on\"", "data.crop=24", "model.resize=32", "data.channels=3"});
  Session simulation(experiment, methods(), on_cpu(), nullptr);
  const Played expected = play_all(simulation);
  const Dealing dealing(experiment, folder.path());
  const std::shared_ptr<Site> all = dealing.site_of_all(1);
  Session session =
      session_over_sites(dealing, {static_cast<std::size_t>(dealing.charter.members), all});
  expect_equal(play_all(session), expected);
}

TEST(Site, HostsAllMembersAndAnswersSeveralAtOnce) {
  const TestFolder folder;
  const Dealing dealing(experiment_with("scaffold"), folder.path());
  const std::unique_ptr<Site> all = dealing.site_of_all(2);
  EXPECT_EQ(all->lanes(), 2U);
  const State global = dealing.place->prototype().initial_state(dealing.served.seed);
  const std::vector<Exchange>& exchanges = dealing.place->exchanges();
  Message task(exchanges.front().task);
  for (const FieldRule& field : exchanges.front().asks) {
    if (field.type == FieldType::u32) {
      task.set(field.name, std::uint32_t{0});
    } else {
      task.set(field.name, global);
    }
  }
  std::vector<std::string> together(6);
  std::vector<std::thread> threads;
  for (std::size_t client = 0; client < 6; ++client) {
    threads.emplace_back([&, client] {
      together[client] = bytes_of(all->answer(static_cast<std::int64_t>(client), {}, task).reply);
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  for (std::size_t client = 0; client < 6; ++client) {
    const auto id = static_cast<std::int64_t>(client);
    EXPECT_EQ(bytes_of(dealing.site(id)->answer(id, {}, task).reply), together[client]);
  }
}

TEST(Site, IsInterruptedInTheMiddleOfATraining) {
  const TestFolder folder;
  const Dealing dealing(experiment_with("fedavg"), folder.path());
  std::atomic<bool> stop = true;
  const std::unique_ptr<Site> site = dealing.site(0, &stop);
  const Message task = Message("train")
                           .set("round", std::uint32_t{0})
                           .set("model", dealing.place->prototype().initial_state(1));
  EXPECT_THROW(site->answer(0, {}, task), Interrupted);
  stop = false;
  EXPECT_GT(site->answer(0, {}, task).steps, 0);
}

TEST(Site, RefusesACharterWhoseNetworkIsAnotherOneHere) {
  const TestFolder folder;
  Dealing dealing(experiment_with("fedavg"), folder.path());
  dealing.charter.layout = std::string(64, 'a');
  EXPECT_THAT(error_text([&] { dealing.site(0); }),
              HasSubstr("the network \"lenet5\" of the server is not the one of this program | use "
                        "the same version of Winnow at both ends"));
}

// What was shown and agreed to is what the codec enforces.
TEST(Site, RefusesACharterThatIsSilentAboutWhatLeaves) {
  const TestFolder folder;
  Dealing dealing(experiment_with("clc"), folder.path());
  const std::vector<std::string> honest = dealing.charter.leaves;
  ASSERT_GT(honest.size(), 1U);
  for (const std::vector<std::string>& leaves :
       {std::vector<std::string>{honest.front()}, std::vector<std::string>(),
        std::vector<std::string>(honest.rbegin(), honest.rend())}) {
    dealing.charter.leaves = leaves;
    EXPECT_THAT(
        error_text([&] { dealing.site(0); }),
        HasSubstr("the charter of the server says that other things leave a member than its "
                  "method takes | do not take part"));
  }
}

TEST(Site, RefusesPublicImagesOfTheWrongLengthAndMemoryOfAnotherMember) {
  const TestFolder folder;
  Dealing dealing(experiment_with("rhfl"), folder.path());
  EXPECT_THAT(
      error_text([&] { Site(dealing.charter, dealing.registry, {}, "short", on_cpu(1), nullptr); }),
      HasSubstr("the public images have 5 bytes, expected"));
  ClientMemory memory;
  memory.trace.labels = Labels{0, 1};
  EXPECT_THAT(error_text([&] { dealing.site(0)->check_memory(0, memory); }),
              HasSubstr("client 0: it has 2 labels, expected one for each of"));
}

}  // namespace winnow::member::site_test
