#include "winnow/model/safetensors.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

#include <cstring>
#include <filesystem>
#include <limits>

#include "model/support.h"
#include "winnow/base/files.h"

namespace winnow::safetensors_test {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// A file from a header written by hand.
std::string file_bytes(const std::string& header, std::size_t data_bytes) {
  const std::uint64_t length = header.size();
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &length, 8);
  return bytes + header + std::string(data_bytes, '\0');
}

std::string fault(const std::string& bytes) {
  return error_text([&] { decode_tensors(bytes, "x.safetensors"); });
}

std::string fault(const std::string& header, std::size_t data_bytes) {
  return fault(file_bytes(header, data_bytes));
}

std::string one(const std::string& dtype, const std::string& shape, const std::string& offsets) {
  return fmt::format(R"({{"w":{{"dtype":"{}","shape":{},"data_offsets":{}}}}})", dtype, shape,
                     offsets);
}

TensorFile sample() {
  return {{{"f32", at::arange(6, at::kFloat).view({2, 3})},
           {"f64", at::full({1}, 0.1, at::kDouble)},
           {"i64", at::tensor({std::int64_t{1} << 60, std::int64_t{-1}}, at::kLong)},
           {"i32", at::tensor({-7}, at::kInt)},
           {"u8", at::tensor({1, 2, 255}, at::kByte)},
           {"f16", at::full({3}, 0.1, at::kHalf)},
           {"bf16", at::full({2}, 0.1, at::kBFloat16)},
           {"scalar", at::scalar_tensor(3, at::kLong)},
           {"empty", at::empty({0, 5})},
           {"transposed", at::arange(6, at::kFloat).view({2, 3}).t()},
           {"näme \"quoted\"", at::ones({1})}},
          {{"round", "12"}, {"note", "line\nbreak"}}};
}

TEST(Safetensors, RoundTripKeepsEveryTensorAndTheMetadata) {
  const TensorFile before = sample();
  const TensorFile after = decode_tensors(encode_tensors(before), "x");
  EXPECT_EQ(after.metadata, before.metadata);
  ASSERT_EQ(after.tensors.size(), before.tensors.size());
  for (const auto& [name, tensor] : before.tensors) {
    const at::Tensor& read = after.tensors.at(name);
    EXPECT_EQ(read.scalar_type(), tensor.scalar_type()) << name;
    EXPECT_EQ(read.sizes(), tensor.sizes()) << name;
    EXPECT_TRUE(read.is_contiguous()) << name;
    EXPECT_TRUE(at::equal(read, tensor)) << name;
  }
}

TEST(Safetensors, BytesAreTheFormatsAndTheHeaderIsPaddedToEight) {
  const TensorFile file{{{"w", at::ones({1})}, {"b", at::scalar_tensor(2, at::kLong)}}, {}};
  const std::string header = R"({"b":{"data_offsets":[0,8],"dtype":"I64","shape":[]},)"
                             R"("w":{"data_offsets":[8,12],"dtype":"F32","shape":[1]}})";
  const std::string bytes = encode_tensors(file);
  std::uint64_t length = 0;
  std::memcpy(&length, bytes.data(), 8);
  EXPECT_EQ(length % 8, 0U);
  EXPECT_THAT(bytes.substr(8, length), StartsWith(header));
  EXPECT_EQ(bytes.substr(8 + length), std::string("\2\0\0\0\0\0\0\0\0\0\x80\x3f", 12));
  EXPECT_EQ(bytes, encode_tensors(file));
}

TEST(Safetensors, NothingAtAllIsAFile) {
  const TensorFile file = decode_tensors(encode_tensors({}), "x");
  EXPECT_TRUE(file.tensors.empty());
  EXPECT_TRUE(file.metadata.empty());
}

TEST(Safetensors, OrderAndSpacesOfTheHeaderAreFree) {
  const TensorFile file =
      decode_tensors(file_bytes(R"({ "a" : {"shape":[1], "dtype":"U8", "data_offsets":[1,2]},
                      "b" : {"data_offsets":[0,1], "dtype":"U8", "shape":[1]} }   )",
                                2),
                     "x");
  EXPECT_EQ(file.tensors.size(), 2U);
}

TEST(Safetensors, WhatTheFormatCannotHoldIsRefused) {
  EXPECT_THAT(error_text([] {
                encode_tensors({{{"h", at::ones({1}, at::kBool)}}, {}});
              }),
              HasSubstr("tensor \"h\" of type Bool cannot be saved"));
  EXPECT_THAT(error_text([] {
                encode_tensors({{{"__metadata__", at::ones({1})}}, {}});
              }),
              HasSubstr("cannot be saved"));
  EXPECT_THAT(error_text([] {
                encode_tensors({{{"\xff", at::ones({1})}}, {}});
              }),
              HasSubstr("must be UTF-8"));
}

// Looking through all tensors at the end of each took more than a minute here.
TEST(Safetensors, ManyTensorsTakeLittleTime) {
  std::string header = "{";
  for (int i = 0; i < 80'000; ++i) {
    header += (i > 0 ? ",\"" : "\"") + std::to_string(i) +
              R"(":{"dtype":"F32","shape":[0],"data_offsets":[0,0]})";
  }
  const auto begun = std::chrono::steady_clock::now();
  EXPECT_EQ(decode_tensors(file_bytes(header + "}", 0), "x.safetensors").tensors.size(), 80'000U);
  EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::seconds(20));
}

TEST(Safetensors, EveryDamageIsNamed) {
  EXPECT_THAT(fault("short"), StartsWith("x.safetensors: it has 5 bytes, too few"));
  std::string claims = file_bytes("{}", 0);
  claims[1] = 1;
  EXPECT_THAT(fault(claims), HasSubstr("its header claims 258 bytes, but only 2 follow"));
  EXPECT_THAT(fault(std::string(16, '\xff')),
              HasSubstr("claims 18446744073709551615 bytes, but only 8 follow"));
  EXPECT_THAT(fault("", 0), HasSubstr("its header is damaged"));
  EXPECT_THAT(fault("{\"w\":", 0), HasSubstr("its header is damaged"));
  EXPECT_THAT(fault("{} trailing", 0), HasSubstr("its header is damaged"));
  EXPECT_THAT(fault("{\"\xff\":{}}", 0), HasSubstr("its header is damaged"));
  EXPECT_THAT(fault("7", 0), HasSubstr("its header is not a JSON object"));
  EXPECT_THAT(fault("[]", 0), HasSubstr("its header is not a JSON object"));
  EXPECT_THAT(fault(R"({"w":1})", 0), HasSubstr("tensor \"w\" does not have exactly dtype"));
  EXPECT_THAT(fault(R"({"w":{"dtype":"F32","shape":[]}})", 0), HasSubstr("does not have exactly"));
  EXPECT_THAT(fault(R"({"__metadata__":7})", 0), HasSubstr("not a map of strings"));
  EXPECT_THAT(fault(R"({"__metadata__":{"a":7}})", 0), HasSubstr("for \"a\" that is not a string"));
}

TEST(Safetensors, ForgedEntriesAreNamed) {
  EXPECT_THAT(
      fault(one("F8", "[1]", "[0,2]"), 2),
      HasSubstr("tensor \"w\": dtype \"F8\" is not one of F64, I64, F32, I32, F16, BF16, U8"));
  EXPECT_THAT(fault(one("F32", "7", "[0,4]"), 4), HasSubstr("shape must be a list"));
  EXPECT_THAT(fault(one("F32", "[-1]", "[0,4]"), 4), HasSubstr("shape must be whole numbers"));
  EXPECT_THAT(fault(one("F32", "[1.5]", "[0,4]"), 4), HasSubstr("shape must be whole numbers"));
  EXPECT_THAT(fault(one("F32", "[1]", "[0]"), 4), HasSubstr("must be two whole numbers"));
  EXPECT_THAT(fault(one("F32", "[1]", "[-4,0]"), 4), HasSubstr("must be two whole numbers"));
  EXPECT_THAT(fault(one("F32", "[1]", "[4,0]"), 4), HasSubstr("lie outside of the 4 bytes"));
  EXPECT_THAT(fault(one("F32", "[2]", "[0,8]"), 4),
              HasSubstr("data_offsets 0 to 8 lie outside of the 4 bytes of data"));
  EXPECT_THAT(fault(one("F32", "[2]", "[0,4]"), 4),
              HasSubstr("F32 [2] takes 8 bytes, but data_offsets give it 4"));
}

TEST(Safetensors, HugeShapesDoNotOverflow) {
  EXPECT_THAT(fault(one("F32", "[4611686018427387904]", "[0,0]"), 0), HasSubstr("too large"));
  EXPECT_THAT(fault(one("F32", "[4294967296,4294967296]", "[0,0]"), 0), HasSubstr("too large"));
  EXPECT_THAT(fault(one("F32", "[0,4294967296,4294967296]", "[0,0]"), 0), HasSubstr("too large"));
  EXPECT_THAT(fault(one("U8", "[18446744073709551615]", "[0,0]"), 0), HasSubstr("too large"));
  EXPECT_THAT(fault(one("F32", "[1099511627776]", "[0,4]"), 4), HasSubstr("takes 4398046511104"));
  std::string ones = "[1";
  for (int extent = 0; extent < 20; ++extent) {
    ones += ",1";
  }
  EXPECT_THAT(fault(one("U8", ones + "]", "[0,1]"), 1), HasSubstr("at most 16 numbers"));
}

TEST(Safetensors, EveryByteBelongsToExactlyOneTensor) {
  const auto two = [](const char* first, const char* second) {
    return fmt::format(R"({{"a":{{"dtype":"U8","shape":[2],"data_offsets":{}}},)"
                       R"("b":{{"dtype":"U8","shape":[2],"data_offsets":{}}}}})",
                       first, second);
  };
  EXPECT_EQ(fault(two("[0,2]", "[2,4]"), 4), "no error");
  EXPECT_THAT(fault(two("[0,2]", "[1,3]"), 3), HasSubstr("tensor \"b\" overlaps another one"));
  EXPECT_THAT(fault(two("[0,2]", "[0,2]"), 2), HasSubstr("overlaps another one"));
  EXPECT_THAT(fault(two("[0,2]", "[3,5]"), 5),
              HasSubstr("tensor \"b\" follows bytes that belong to no tensor"));
  EXPECT_THAT(fault(two("[0,2]", "[2,4]"), 9), HasSubstr("5 bytes at its end belong to no tensor"));
}

TEST(Safetensors, DuplicateKeysAndDeepNestingAreRefused) {
  const std::string entry = R"({"dtype":"U8","shape":[0],"data_offsets":[0,0]})";
  EXPECT_THAT(fault(fmt::format(R"({{"a":{0},"a":{0}}})", entry), 0),
              HasSubstr("its header is damaged: it has the key \"a\" twice"));
  EXPECT_THAT(fault(R"({"a":{"dtype":"U8","dtype":"F32","shape":[0],"data_offsets":[0,0]}})", 0),
              HasSubstr("the key \"dtype\" twice"));
  EXPECT_THAT(fault(R"({"__metadata__":{"k":"1","k":"2"}})", 0), HasSubstr("the key \"k\" twice"));
  EXPECT_EQ(fault(fmt::format(R"({{"a":{0},"b":{0}}})", entry), 0), "no error");
  EXPECT_THAT(fault(R"({"a":{"b":{"c":{}}}})", 0), HasSubstr("tensor \"a\" does not have exactly"));
  EXPECT_THAT(fault(std::string(100'000, '['), 0), HasSubstr("nested deeper than 64 levels"));
  EXPECT_THAT(fault(R"({"a":{"dtype":"U8","shape":[[1]],"data_offsets":[0,0]}})", 0),
              HasSubstr("shape must be whole numbers"));
}

TEST(Safetensors, NamesInMessagesAreEscapedAndCut) {
  EXPECT_THAT(fault("{\"\\u001b[31m\":1}", 0), HasSubstr("tensor \"\\u001b[31m\""));
  const std::string text = fault(fmt::format(R"({{"{}":1}})", std::string(5000, 'n')), 0);
  EXPECT_LT(text.size(), 400U);
}

// Any cut and any flipped byte is either noticed or harmless: never a crash, never another type.
TEST(Safetensors, RandomDamageIsAnErrorOrStillAFile) {
  const std::string whole = encode_tensors(sample());
  for (std::size_t length = 0; length < whole.size(); ++length) {
    EXPECT_NE(fault(whole.substr(0, length)), "no error") << length;
  }
  constexpr std::uint64_t kSeed = 5;
  Stream stream(kSeed, "damage");
  for (int trial = 0; trial < 2000; ++trial) {
    std::string damaged = whole;
    damaged[stream.below(damaged.size())] = static_cast<char>(stream.below(256));
    EXPECT_NO_FATAL_FAILURE(fault(damaged)) << "seed " << kSeed << " trial " << trial;
  }
}

TEST(Safetensors, HoldsTenThousandTensors) {
  TensorFile file;
  for (int index = 0; index < 10'000; ++index) {
    file.tensors.emplace(fmt::format("client.{}.momentum", index),
                         at::full({8}, index, at::kFloat));
  }
  const TensorFile read = decode_tensors(encode_tensors(file), "x");
  EXPECT_EQ(read.tensors.size(), 10'000U);
  EXPECT_EQ(read.tensors.at("client.77.momentum")[3].item<float>(), 77);
}

class StateFile : public ::testing::Test {
 protected:
  StateFile()
      : folder_(std::filesystem::temp_directory_path() /
                fmt::format("winnow_state_file_{}",
                            ::testing::UnitTest::GetInstance()->current_test_info()->name())),
        path_(folder_ / "model.safetensors"),
        state_(builtin_networks().find("resnet18").make({10, 3, 32, 32})->weights().initial(1)) {
    std::filesystem::create_directories(folder_);
    state_.counters().fill_(41);
  }
  ~StateFile() override { std::filesystem::remove_all(folder_); }

  std::string load_fault() {
    return error_text([&] { load_state(path_, state_.layout); });
  }

  std::filesystem::path folder_;
  std::filesystem::path path_;
  State state_;
};

TEST_F(StateFile, RoundTripKeepsEveryBitAndCountersAreWholeNumbers) {
  save_state(path_, state_, {{"model", "resnet18"}});
  EXPECT_EQ(hash(load_state(path_, state_.layout)), hash(state_));
  const TensorFile file = load_tensors(path_);
  EXPECT_EQ(file.metadata.at("model"), "resnet18");
  EXPECT_EQ(file.tensors.size(), 122U);
  const at::Tensor& counter = file.tensors.at("bn1.num_batches_tracked");
  EXPECT_EQ(counter.scalar_type(), at::kLong);
  EXPECT_EQ(counter.dim(), 0);
  EXPECT_EQ(counter.item<std::int64_t>(), 41);
  EXPECT_TRUE(
      at::equal(file.tensors.at("fc.weight"), state_.view(*state_.layout->find("fc.weight"))));
}

TEST_F(StateFile, AMissingTensorIsNamed) {
  save_state(path_, state_);
  TensorFile file = load_tensors(path_);
  file.tensors.erase("fc.bias");
  save_tensors(path_, file);
  EXPECT_THAT(load_fault(),
              AllOf(StartsWith(path_.string()), HasSubstr("tensor \"fc.bias\" is missing")));
}

TEST_F(StateFile, AnUnknownTensorIsNamed) {
  save_state(path_, state_);
  TensorFile file = load_tensors(path_);
  file.tensors.emplace("extra", at::ones({1}));
  save_tensors(path_, file);
  EXPECT_THAT(load_fault(), HasSubstr("tensor \"extra\" is unknown to the model"));
}

TEST_F(StateFile, AnotherShapeOrTypeIsNamed) {
  save_state(path_, state_);
  TensorFile file = load_tensors(path_);
  file.tensors["fc.bias"] = at::ones({100});
  save_tensors(path_, file);
  EXPECT_THAT(load_fault(), HasSubstr("tensor \"fc.bias\" is F32 [100], expected F32 [10]"));
  file.tensors["fc.bias"] = at::ones({10}, at::kDouble);
  save_tensors(path_, file);
  EXPECT_THAT(load_fault(), HasSubstr("tensor \"fc.bias\" is F64 [10], expected F32 [10]"));
}

TEST_F(StateFile, AMissingFileIsNamed) {
  EXPECT_THAT(load_fault(), HasSubstr("cannot read " + path_.string() + ": no such file"));
}

// A file that could not be read again is not written.
TEST(Safetensors, AHeaderThatTheReaderWouldRefuseIsNotWritten) {
  TensorFile file;
  file.metadata["long"] = std::string(100'000'000, 'x');
  const auto path = std::filesystem::temp_directory_path() / "winnow_long_header.safetensors";
  for (const auto& write : {std::function<void()>([&] { encode_tensors(file); }),
                            std::function<void()>([&] { save_tensors(path, file); })}) {
    EXPECT_THAT(error_text(write),
                ::testing::HasSubstr("is longer than the 100000000 that a safetensors file may "
                                     "have | it names too many tensors: nothing was written"));
  }
  EXPECT_FALSE(std::filesystem::exists(path));
}

}  // namespace winnow::safetensors_test
