#include "winnow/data/client_sets.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/data_testing.h"
#include "winnow/data/catalog.h"
#include "winnow/data/image_files.h"

namespace winnow::client_sets_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const ClientSetOptions kAll{.test_from = "none", .image_size = 4};

std::string grey(char level) {
  return png(4, 4, std::string(1, level));
}

// Two clients; dogs at the second only.
void write_two_clients(const TempFolder& folder) {
  for (int i = 0; i < 5; ++i) {
    folder.write("north/cat/" + std::to_string(i) + ".png", grey(static_cast<char>(i)));
    folder.write("south/dog/" + std::to_string(i) + ".png", grey(static_cast<char>(10 + i)));
  }
  folder.write("south/cat/9.png", grey(99));
}

TEST(ClientFolders, EverySampleHasItsOwnerItsClassAndItsName) {
  const TempFolder folder("clients_two");
  write_two_clients(folder);
  const DataSet set = read_client_set(folder.path(), kAll);
  EXPECT_THAT(set.client_names, ElementsAre("north", "south"));
  EXPECT_THAT(set.class_names, ElementsAre("cat", "dog"));
  EXPECT_THAT(set.owners, ElementsAre(0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1));
  EXPECT_THAT(set.train.labels, ElementsAre(0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1));
  EXPECT_EQ(set.names[5], "south/cat/9.png");
  EXPECT_EQ(set.train.images[5][0][0][0].item<int>(), 99);
  EXPECT_EQ(count_clients_of(folder.path(), kAll), 2);
}

TEST(ClientFolders, AFolderOfClassesIsOneClient) {
  const TempFolder folder("clients_one");
  folder.write("cat/1.png", grey(1));
  folder.write("dog/2.png", grey(2));
  const DataSet set = read_client_set(folder.path(), kAll);
  EXPECT_THAT(set.client_names, ElementsAre("winnow_data_clients_one"));
  EXPECT_THAT(set.owners, ElementsAre(0, 0));
}

TEST(ClientFolders, TheTestPartIsAShareOfEachClientClientsOrAFolder) {
  const TempFolder folder("clients_test");
  write_two_clients(folder);
  ClientSetOptions options{.test_share = 0.4, .image_size = 4};
  const DataSet share = read_client_set(folder.path(), options);
  EXPECT_EQ(share.train.size(), 7);  // 2 of 5 and 2 of 6 are tested on
  EXPECT_EQ(share.test.size(), 4);
  EXPECT_TRUE(share.test_drawn);
  EXPECT_EQ(std::ranges::count(share.owners, 0), 3);
  options.test_from = "clients";
  const DataSet held_out = read_client_set(folder.path(), options);
  EXPECT_EQ(held_out.client_names.size(), 1U);
  EXPECT_EQ(held_out.train.size() + held_out.test.size(), 11);
  EXPECT_THAT(held_out.owners, ::testing::Each(0));
  EXPECT_EQ(count_clients_of(folder.path(), options), 1);
  const TempFolder checked("clients_checked");
  checked.write("dog/1.png", grey(5));
  options.test_from = "auto";
  options.test_path = checked.path();
  const DataSet own = read_client_set(folder.path(), options);
  EXPECT_EQ(own.train.size(), 11);
  EXPECT_THAT(own.test.labels, ElementsAre(1));
  EXPECT_FALSE(own.test_drawn);
}

TEST(ClientFolders, WhatIsWrongIsNamed) {
  const TempFolder folder("clients_wrong");
  EXPECT_THAT(error_text([&] { read_client_set(folder.path(), kAll); }),
              HasSubstr("no client folders | expected CLIENT/CLASS/*.png, a list"));
  folder.write("north/cat/1.png", grey(1));
  folder.write("south/notes.txt", "");
  EXPECT_THAT(error_text([&] { read_client_set(folder.path(), kAll); }),
              HasSubstr("south: no class folder in this client's folder"));
  folder.write("south/cat/2.png", grey(1));
  EXPECT_THAT(
      error_text([&] { read_client_set(folder.path(), {.test_from = "own", .image_size = 4}); }),
      HasSubstr(
          "data.test_from = \"own\", but there is no test part | set data.test_path to a folder"));
  EXPECT_THAT(error_text([&] { read_client_set(folder.path(), {.image_size = 4}); }),
              HasSubstr("no client has enough samples to test on 0.2 of them"));
}

TEST(ClientLists, AColumnSaysWhoHoldsTheImage) {
  const TempFolder folder("clients_list");
  for (const char* name : {"a.png", "b.png", "c.png"}) {
    folder.write(name, grey(3));
  }
  const auto list =
      folder.write("list.csv", "client,path,label\n10,a.png,cat\n9,b.png,dog\n10,c.png,dog\n");
  const DataSet set = read_client_set(list, kAll);
  EXPECT_THAT(set.client_names, ElementsAre("9", "10"));  // numbers in their order
  EXPECT_THAT(set.owners, ElementsAre(1, 0, 1));
  EXPECT_THAT(set.names, ElementsAre("a.png", "b.png", "c.png"));
  EXPECT_THAT(set.train.labels, ElementsAre(0, 1, 1));
}

TEST(ClientLists, AListWithoutTheColumnIsRefused) {
  const TempFolder folder("clients_list_bad");
  const auto read = [&](const std::string& text) {
    const auto list = folder.write("list.csv", text);
    return error_text([&] { read_client_set(list, kAll); });
  };
  EXPECT_THAT(read("path,label\na.png,cat\n"),
              HasSubstr("no column 'client'; the columns are path, label | a list of clients has "
                        "the columns path, label and client, once each"));
  EXPECT_THAT(read("a.png cat\n"),
              HasSubstr("line 1: expected a header with the columns path, label and client"));
  EXPECT_THAT(read("path,label,client\na.png,cat,\n"), HasSubstr("the column 'client' is empty"));
  EXPECT_THAT(read("path,label,client\na.png,cat,x\x01\n"),
              HasSubstr("a client's name has 1 to 255 bytes of UTF-8"));
}

// Four images of 2 x 2 by two clients.
std::string archive(const std::string& clients, const std::string& descr, bool names) {
  ZipWriter zip;
  zip.add("images.npy", npy("|u1", "(4, 2, 2)", "aaaabbbbccccdddd"), true);
  zip.add("labels.npy", npy("|u1", "(4,)", std::string("\0\1\0\1", 4)), true);
  zip.add("clients.npy", npy(descr, "(4,)", clients), true);
  if (names) {
    zip.add("names.npy", npy("|S2", "(4,)", "p1p2p3p4"), false);
  }
  return zip.bytes();
}

TEST(ClientArrays, ClientsAreNumbersOrTexts) {
  const TempFolder folder("clients_npz");
  const auto numbers =
      folder.write("a.npz", archive(std::string("\5\2\5\2", 4), "|u1", /*names=*/false));
  const DataSet set = read_client_set(numbers, {.test_from = "none"});
  EXPECT_THAT(set.client_names, ElementsAre("2", "5"));
  EXPECT_THAT(set.owners, ElementsAre(1, 0, 1, 0));
  EXPECT_EQ(set.name_of(3), "3");
  const auto texts = folder.write("b.npz", archive("b1a1b1a1", "|S2", /*names=*/true));
  const DataSet named = read_client_set(texts, {.test_from = "none"});
  EXPECT_THAT(named.client_names, ElementsAre("a1", "b1"));
  EXPECT_EQ(named.name_of(3), "p4");
  const DataSet shared = read_client_set(texts, {.test_share = 0.5});
  EXPECT_EQ(shared.train.size(), 2);
  EXPECT_EQ(shared.test.size(), 2);
  EXPECT_EQ(shared.names.size(), 2U);
  const DataSet numbered = read_client_set(numbers, {.test_share = 0.5});
  std::vector<std::string> all = numbered.names;  // numbers of the archive, in either part
  all.insert(all.end(), numbered.test_names.begin(), numbered.test_names.end());
  EXPECT_THAT(all, ::testing::UnorderedElementsAre("0", "1", "2", "3"));
}

TEST(ClientArrays, LengthsThatDifferAreRefused) {
  const TempFolder folder("clients_npz_bad");
  ZipWriter zip;
  zip.add("images.npy", npy("|u1", "(4, 2, 2)", "aaaabbbbccccdddd"), true);
  zip.add("labels.npy", npy("|u1", "(4,)", std::string("\0\1\0\1", 4)), true);
  zip.add("clients.npy", npy("|u1", "(3,)", "abc"), true);
  const auto file = folder.write("a.npz", zip.bytes());
  EXPECT_THAT(error_text([&] { read_client_set(file, {.test_from = "none"}); }),
              HasSubstr("clients: shape (3,), but there are 4 images"));
}

TEST(ClientSets, TheCatalogReadsThem) {
  const TempFolder folder("clients_catalog");
  write_two_clients(folder);
  DataOptions options;
  options.name = "clients";
  options.path = folder.path().string();
  options.image_size = 8;
  EXPECT_EQ(clients_in(options, builtin_data_sets()), 2);
  const DataSet set = load(options, builtin_data_sets());
  EXPECT_EQ(set.owners.size(), set.names.size());
  EXPECT_EQ(set.height(), 8);
  options.path = (folder.path() / "nowhere").string();
  EXPECT_EQ(clients_in(options, builtin_data_sets()), 0);
  DataOptions other;
  other.name = "synthetic";
  other.test_from = "share";
  EXPECT_THAT(error_text([&] { load(other, builtin_data_sets()); }),
              HasSubstr("data.test_from: data set 'synthetic' does not use it"));
}

}  // namespace winnow::client_sets_test
