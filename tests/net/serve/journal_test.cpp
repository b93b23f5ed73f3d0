#include "winnow/net/serve/journal.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "net/serve/desk_harness.h"

namespace winnow::net {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

const std::vector<std::string> kNames{"ann", "bob"};

TEST(Journal, KeepsWhatItWasToldBeyondTheProcess) {
  const TestFolder folder;
  {
    Journal journal(folder / "journal.sqlite", owner_of_test(), kNames);
    MemberRow ann = journal.members()[0];
    EXPECT_EQ(ann.name, "ann");
    EXPECT_EQ(ann.status, MemberStatus::enrolled);
    ann.samples = 12;
    ann.status = MemberStatus::present;
    journal.put(ann);
    journal.put(RoundRow{0, 1, {12, 0}});
    std::vector<OrderRow> orders(2);
    orders[0] = {.client = 0, .exchange = "train", .nonce = process('\0'), .task_digest = "t"};
    orders[1] = {.client = 1, .exchange = "train", .nonce = process('b'), .task_digest = "u"};
    journal.put(AskRow{0, 1, 0, 5, 6}, orders);
    EXPECT_EQ(orders[1].id, 2);
    orders[0].reply = {.head = std::string("a\0b", 3),
                       .models = {{std::string(64, 'a'), std::string(64, 'b')}},
                       .digest = "d",
                       .steps = 3,
                       .own_model = std::string(64, 'f')};
    journal.accept(orders[0], NormRow{"train", 2.5});
    orders[1].verdict = OrderVerdict::absent;
    orders[1].reason = "silent";
    journal.decide({orders[1]});
  }
  Journal journal(folder / "journal.sqlite", owner_of_test(), kNames);
  EXPECT_EQ(journal.members()[0].samples, 12);
  EXPECT_EQ(journal.round(0)->samples, (std::vector<std::int64_t>{12, 0}));
  EXPECT_FALSE(journal.round(1));
  EXPECT_EQ(journal.ask(0, 1, 0)->deadline, 6);
  const std::vector<OrderRow> orders = journal.orders();
  ASSERT_EQ(orders.size(), 2U);
  EXPECT_EQ(orders[0].verdict, OrderVerdict::accepted);
  EXPECT_EQ(orders[0].nonce, process('\0'));
  EXPECT_EQ(orders[0].reply.head, std::string("a\0b", 3));
  EXPECT_EQ(orders[0].reply.models[0].layout, std::string(64, 'b'));
  EXPECT_EQ(orders[1].reason, "silent");
  EXPECT_EQ(journal.norms(1, "train"), std::vector<double>{2.5});
  EXPECT_TRUE(journal.norms(0, "train").empty()) << "of earlier rounds only";
  EXPECT_TRUE(journal.own_models().empty()) << "until the round is settled";
  journal.settle(1);
  EXPECT_EQ(journal.own_models().at(0), std::string(64, 'f'));
  EXPECT_EQ(journal.committed(), 1);
  EXPECT_EQ(journal.members()[0].rounds, 1);
  EXPECT_EQ(journal.members()[1].absences, 1);
  journal.acknowledge(0, 1);
  EXPECT_EQ(journal.orders().size(), 1U);
}

TEST(Journal, RefusesThoseOfOthers) {
  const TestFolder folder;
  const auto path = folder / "journal.sqlite";
  { const Journal journal(path, owner_of_test(), kNames); }
  const auto open = [&](const std::function<void(JournalOwner&)>& change,
                        std::vector<std::string> names = kNames) {
    JournalOwner owner = owner_of_test();
    change(owner);
    return error_text([&] { const Journal journal(path, owner, names); });
  };
  EXPECT_EQ(open([](JournalOwner&) {}), "no error");
  EXPECT_THAT(open([](JournalOwner& o) { o.federation = "other"; }),
              HasSubstr("journal.sqlite belongs to another federation: 0123456789abcdef, not "
                        "other"));
  EXPECT_THAT(open([](JournalOwner& o) { o.charter_hash = "other"; }),
              HasSubstr("belongs to another charter"));
  EXPECT_THAT(open([](JournalOwner& o) { o.experiment = "other"; }),
              HasSubstr("belongs to another experiment"));
  EXPECT_THAT(open([](JournalOwner& o) { o.layout = "other"; }),
              HasSubstr("belongs to another layout"));
  EXPECT_THAT(open([](JournalOwner&) {}, {"bob", "ann"}),
              HasSubstr("has other members, or in another order, than the file"));
  {
    Database database(path);
    database.execute("PRAGMA user_version = 9");
  }
  EXPECT_THAT(open([](JournalOwner&) {}),
              HasSubstr("was written by a newer Winnow: format 9, this program reads 1"));
}

TEST(Journal, NamesAFileThatIsDamagedOrNoJournal) {
  const TestFolder folder;
  const auto open = [&](const std::string& name) {
    try {
      const Journal journal(folder / name, owner_of_test(), kNames);
    } catch (const Error& error) {
      EXPECT_EQ(exit_code(error.kind()), 5);
      return std::string(error.what());
    }
    return std::string("no error");
  };
  write_file_whole(folder / "text", "this is certainly not a database of any kind, but a text");
  EXPECT_THAT(open("text"), AllOf(HasSubstr("/text is damaged: "), HasSubstr("not a database")));
  {
    Database database(folder / "foreign");
    database.execute("CREATE TABLE somebody(x INTEGER)");
  }
  EXPECT_THAT(open("foreign"), HasSubstr("/foreign is not a journal"));
  {
    Journal journal(folder / "whole", owner_of_test(), kNames);
    for (int i = 0; i < 200; ++i) {
      journal.put(RefusalRow{i, 0, "ann", i, "late", std::string(200, 'x')});
    }
  }
  std::string bytes = read_file(folder / "whole");
  for (std::size_t at = 4096; at < bytes.size(); at += 64) {
    bytes[at] = static_cast<char>(~bytes[at]);
  }
  write_file_whole(folder / "whole", bytes);
  EXPECT_THAT(open("whole"), HasSubstr("/whole is damaged"));
  std::filesystem::create_symlink(folder / "elsewhere", folder / "link");
  EXPECT_THAT(open("link"), HasSubstr("/link is a symbolic link"));
}

TEST(Spool, HoldsModelsUnderTheirDigestsAndKnowsDamage) {
  const TestFolder folder;
  const Spool spool(folder / "spool");
  const LayoutPtr layout = three_pieces();
  const State model = filled(layout, 3);
  const std::string digest = hash(model);
  EXPECT_FALSE(spool.holds(digest, model.bytes()));
  {
    auto incoming = spool.receive(model.bytes());
    const std::string values(static_cast<const char*>(model.flat.data_ptr()), model.flat.nbytes());
    for (const std::uint64_t number : {2U, 0U, 1U}) {
      incoming->put(number, std::string_view(values).substr(number * kPieceBytes, kPieceBytes));
    }
    EXPECT_EQ(incoming->digest(), digest);
    spool.keep(*incoming, digest);
  }
  EXPECT_EQ(hash(spool.map(digest, layout)), digest);
  const auto unfinished = spool.receive(100);
  EXPECT_EQ(spool.bytes(), model.bytes() + 100);
  spool.check({{digest, model.bytes()}});
  EXPECT_EQ(spool.bytes(), model.bytes()) << "what is not complete goes at the start";
  const State mapped = spool.map(digest, layout);
  const auto path = folder.path() / "spool" / (digest + ".model");
  std::string bytes = read_file(path);
  bytes[7] ^= 1;
  write_file_whole(path, bytes);
  EXPECT_THAT(error_text([&] {
                spool.check({{digest, model.bytes()}});
              }),
              AllOf(HasSubstr(path.string()), HasSubstr("it is not the model that was accepted")));
  spool.keep_only({});
  EXPECT_THAT(error_text([&] {
                spool.check({{digest, model.bytes()}});
              }),
              HasSubstr("is missing, and the journal counts on it"));
  EXPECT_EQ(hash(mapped), digest) << "who has it mapped keeps it";
}

}  // namespace
}  // namespace winnow::net
