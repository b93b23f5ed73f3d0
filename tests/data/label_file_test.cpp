#include "winnow/data/label_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/data_testing.h"

namespace winnow::label_file_test {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;

TEST(LabelFile, ReadsEveryForm) {
  const TempFolder folder("labels_read");
  struct Case {
    const char* name;
    std::string content;
  };
  for (const Case& example : {
           Case{"a.txt", "2\n0\n1\n"},
           Case{"b.txt", "2\r\n0\r\n\r\n1"},
           Case{"c.csv", "2\n0\n1\n"},
           Case{"d.csv", "label\n2\n0\n1\n"},
           Case{"e.csv", "1,0\n0,2\n2,1\n"},
           Case{"f.csv", "index,label\n0, 2\n1, 0\n2, 1\n"},
           Case{"g.npy", npy("<i8", "(3,)", little(2, 8) + little(0, 8) + little(1, 8))},
           Case{"h.npy", npy("|u1", "(3, 1)", std::string("\x02\x00\x01", 3))},
       }) {
    EXPECT_THAT(read_label_file(folder.write(example.name, example.content), 3, 3),
                ElementsAre(2, 0, 1))
        << example.name;
  }
}

TEST(LabelFile, AWrongLengthSaysBothNumbers) {
  const TempFolder folder("labels_length");
  std::string many;
  for (int i = 0; i < 49'999; ++i) {
    many += "1\n";
  }
  EXPECT_THAT(error_text([&] { read_label_file(folder.write("human.txt", many), 50'000, 10); }),
              HasSubstr("human.txt has 49,999 labels, the training set has 50,000"));
  EXPECT_THAT(error_text([&] { read_label_file(folder.write("x.csv", "0,1\n"), 3, 10); }),
              HasSubstr("x.csv has 1 labels, the training set has 3"));
  EXPECT_THAT(error_text([&] { read_label_file(folder.write("y.txt", ""), 3, 10); }),
              HasSubstr("y.txt has 0 labels"));
}

TEST(LabelFile, WrongLinesAreNamed) {
  const TempFolder folder("labels_lines");
  const auto read = [&](const std::string& name, const std::string& content) {
    const auto file = folder.write(name, content);
    return error_text([&] { read_label_file(file, 3, 3); });
  };
  EXPECT_THAT(read("a.txt", "1\n\n3\n"), HasSubstr("a.txt line 3: label 3 is outside 0..2"));
  EXPECT_THAT(read("a.txt", "1\n-1\n"), HasSubstr("a.txt line 2: label -1 is outside 0..2"));
  EXPECT_THAT(read("a.txt", "1\n1.5\n"), HasSubstr("line 2: '1.5' is not a whole number"));
  EXPECT_THAT(read("a.csv", "1\nx\n"), HasSubstr("a.csv line 2: 'x': expected a label"));
  EXPECT_THAT(read("a.csv", "0,1\n7\n"), HasSubstr("a.csv line 2: '7': expected index,label"));
  EXPECT_THAT(read("a.csv", "0,1,2\n"), HasSubstr("a.csv line 1"));
  EXPECT_THAT(read("a.csv", "0,1\n0,2\n"), HasSubstr("line 2: index 0 already has a label"));
  EXPECT_THAT(read("a.csv", "3,1\n"), HasSubstr("line 1: index 3 is outside 0..2"));
  EXPECT_THAT(read("a.csv", "i,l\n0,9\n"), HasSubstr("line 2: label 9 is outside 0..2"));
  EXPECT_THAT(read("a.npy", npy("|u1", "(3,)", "\x01\x05\x01")),
              HasSubstr("a.npy entry 1: label 5 is outside 0..2"));
  EXPECT_THAT(read("a.npy", npy("|u1", "(1, 3)", "\x01\x01\x01")),
              HasSubstr("expected whole numbers of shape (n,) or (n, 1), found (1, 3)"));
  EXPECT_THAT(read("a.npy", npy("<f4", "(1,)", "abcd")), HasSubstr("found real numbers"));
  EXPECT_THAT(read("a.json", "[]"),
              HasSubstr("a.json: unknown kind of label file | expected a name ending in .npy"));
}

// Several sets of human labels come as columns of one file; the error says how to take one of them.
TEST(LabelFile, OneOfSeveralColumnsIsTakenAsTheErrorSays) {
  const TempFolder folder("labels_columns");
  const auto read = [&](const std::string& name, const std::string& content) {
    const auto file = folder.write(name, content);
    return error_text([&] { read_label_file(file, 3, 3); });
  };
  const std::string six("\x00\x01\x01\x02\x02\x00", 6);
  EXPECT_THAT(read("a.npy", npy("|u1", "(3, 2)", six)),
              AllOf(HasSubstr("found (3, 2) | to take column 0 of its 2: python3 -c 'import numpy; "
                              "numpy.save(\"labels.npy\", numpy.load(\""),
                    HasSubstr("a.npy\")[:, 0])'")));
  EXPECT_THAT(
      read("a.bin", six),
      AllOf(HasSubstr("a.bin: unknown kind of label file | expected a name ending in .npy, .csv or "
                      ".txt; to take column 0 of its 2: python3 -c 'import numpy; "
                      "numpy.save(\"labels.npy\", numpy.fromfile(\""),
            HasSubstr("a.bin\", \"uint8\").reshape(3, 2)[:, 0])'")));
  // No whole number of labels for each sample.
  EXPECT_THAT(read("b.bin", six.substr(1)),
              EndsWith("expected a name ending in .npy, .csv or .txt"));
  EXPECT_THAT(read("c.npy", npy("|u1", "(2, 3)", six)), EndsWith("found (2, 3)"));
}

}  // namespace winnow::label_file_test
