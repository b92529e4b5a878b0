#include "common/formats/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "tests/common/formats/safetensors_writer.h"
#include "tests/common/text/test_files.h"
#include "tests/fakes/scratch_folder.h"

namespace baton {
namespace {

using ::baton::testing::FileOf;
using ::baton::testing::ReadFile;
using ::baton::testing::SourcePath;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kTwoTensors[] =
    R"({"b":{"dtype":"F32","shape":[2,2],"data_offsets":[4,20]},)"
    R"("a":{"dtype":"BF16","shape":[2],"data_offsets":[0,4]},"__metadata__":{"format":"pt"}})";

// The refusal of a file with this content.
absl::Status Refusal(std::string_view content) {
  const ScratchFolder dir;
  const std::string path = dir.Write("x.safetensors", content);
  const auto file = SafetensorsFile::Open(path);
  if (!file.ok()) {
    EXPECT_THAT(std::string(file.status().message()), HasSubstr(path));
  }
  return file.status();
}

TEST(SafetensorsFile, ListsTensorsInTheOrderOfTheirData) {
  const ScratchFolder dir;
  std::string data(20, '\0');
  const float one = 1.5f;
  std::memcpy(data.data() + 4, &one, sizeof(one));
  const auto opened = SafetensorsFile::Open(dir.Write("x", FileOf(kTwoTensors, data)));
  ASSERT_TRUE(opened.ok()) << opened.status();
  const SafetensorsFile& file = **opened;
  ASSERT_EQ(file.tensors().size(), 2u);
  EXPECT_EQ(file.tensors()[0].name, "a");
  EXPECT_EQ(file.tensors()[0].dtype, "BF16");
  EXPECT_THAT(file.tensors()[0].shape, ElementsAre(2));
  EXPECT_EQ(file.tensors()[0].data.size(), 4u);
  const StoredTensor* b = file.Find("b");
  ASSERT_NE(b, nullptr);
  EXPECT_THAT(b->shape, ElementsAre(2, 2));
  float read = 0;
  std::memcpy(&read, b->data.data(), sizeof(read));
  EXPECT_EQ(read, one);
  EXPECT_EQ(file.Find("__metadata__"), nullptr);
  EXPECT_EQ(file.header(), kTwoTensors);
}

TEST(SafetensorsFile, AcceptsScalarsEmptyTensorsAndNoTensors) {
  EXPECT_TRUE(Refusal(FileOf("{}", "")).ok());
  EXPECT_TRUE(Refusal(FileOf(R"({"s":{"dtype":"I64","shape":[],"data_offsets":[0,8]},)"
                             R"("e":{"dtype":"F32","shape":[0,7],"data_offsets":[8,8]}})",
                             "12345678"))
                  .ok());
}

TEST(SafetensorsFile, SaysThatAFileIsMissing) {
  const auto file = SafetensorsFile::Open("/nonexistent/x.safetensors");
  EXPECT_EQ(file.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(file.status().message()), HasSubstr("/nonexistent/x.safetensors"));
}

TEST(SafetensorsFile, RefusesWhatIsNotAFile) {
  const ScratchFolder dir;
  EXPECT_EQ(SafetensorsFile::Open(dir.path()).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(SafetensorsFile, RefusesFilesThatAreTooShort) {
  for (size_t size = 0; size < 8; ++size) {
    EXPECT_EQ(Refusal(std::string(size, '\0')).code(), absl::StatusCode::kInvalidArgument);
  }
}

TEST(SafetensorsFile, RefusesEveryTruncation) {
  const std::string whole = FileOf(kTwoTensors, std::string(20, 'x'));
  ASSERT_TRUE(Refusal(whole).ok());
  for (size_t size = 0; size < whole.size(); ++size) {
    EXPECT_EQ(Refusal(whole.substr(0, size)).code(), absl::StatusCode::kInvalidArgument) << size;
  }
  const absl::Status status = Refusal(whole.substr(0, whole.size() - 1));
  EXPECT_THAT(std::string(status.message()), HasSubstr("truncated"));
}

TEST(SafetensorsFile, RefusesHeaderLengthsThatLie) {
  std::string file = FileOf(kTwoTensors, std::string(20, 'x'));
  for (const uint64_t length :
       {uint64_t{0}, uint64_t{1}, file.size() - 7, file.size(), uint64_t{99'999'999},
        uint64_t{100'000'001}, uint64_t{1} << 63, ~uint64_t{0}, ~uint64_t{0} - 7}) {
    std::memcpy(file.data(), &length, sizeof(length));
    EXPECT_EQ(Refusal(file).code(), absl::StatusCode::kInvalidArgument) << length;
  }
}

// Each header is wrong for 16 bytes of data.
class HostileHeaderTest : public ::testing::TestWithParam<std::pair<const char*, const char*>> {};

TEST_P(HostileHeaderTest, IsRefused) {
  const absl::Status status = Refusal(FileOf(GetParam().second, std::string(16, 'x')));
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, HostileHeaderTest,
    ::testing::Values(
        std::pair("NotJson", "not json"), std::pair("Array", "[]"), std::pair("Null", "null"),
        std::pair("NotUtf8", "{\"\xFF\":{}}"),
        std::pair("LeadingSpace", R"( {"a":{"dtype":"U8","shape":[16],"data_offsets":[0,16]}})"),
        std::pair("Hole", R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},)"
                          R"("b":{"dtype":"U8","shape":[8],"data_offsets":[8,16]}})"),
        std::pair("HoleAtTheStart", R"({"a":{"dtype":"U8","shape":[12],"data_offsets":[4,16]}})"),
        std::pair("RestOfTheFile", R"({"a":{"dtype":"U8","shape":[12],"data_offsets":[0,12]}})"),
        std::pair("Overlap", R"({"a":{"dtype":"U8","shape":[10],"data_offsets":[0,10]},)"
                             R"("b":{"dtype":"U8","shape":[8],"data_offsets":[8,16]}})"),
        std::pair("BeyondTheFile", R"({"a":{"dtype":"U8","shape":[17],"data_offsets":[0,17]}})"),
        std::pair("Backwards", R"({"a":{"dtype":"U8","shape":[16],"data_offsets":[16,0]}})"),
        std::pair("ShapeTooSmall", R"({"a":{"dtype":"F32","shape":[3],"data_offsets":[0,16]}})"),
        std::pair("ShapeOverflows",
                  R"({"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,16]}})"),
        std::pair("NegativeShape", R"({"a":{"dtype":"F32","shape":[-4],"data_offsets":[0,16]}})"),
        std::pair("HugeOffset",
                  R"({"a":{"dtype":"U8","shape":[16],"data_offsets":[0,18446744073709551616]}})"),
        std::pair("UnknownType", R"({"a":{"dtype":"F99","shape":[4],"data_offsets":[0,16]}})"),
        std::pair("MissingShape", R"({"a":{"dtype":"F32","data_offsets":[0,16]}})"),
        std::pair("DuplicateName", R"({"a":{"dtype":"U8","shape":[16],"data_offsets":[0,16]},)"
                                   R"("a":{"dtype":"U8","shape":[16],"data_offsets":[0,16]}})"),
        std::pair("DuplicateNameOfAnEmptyTensor",
                  R"({"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},)"
                  R"("a":{"dtype":"U8","shape":[16],"data_offsets":[0,16]}})"),
        std::pair("DuplicateNameEscaped",
                  R"({"a":{"dtype":"U8","shape":[16],"data_offsets":[0,16]},)"
                  R"("\u0061":{"dtype":"U8","shape":[16],"data_offsets":[0,16]}})"),
        std::pair("DuplicateField",
                  R"({"a":{"dtype":"U8","dtype":"I8","shape":[16],"data_offsets":[0,16]}})"),
        std::pair("TextAfterTheObject",
                  R"({"a":{"dtype":"U8","shape":[16],"data_offsets":[0,16]}}{})")),
    [](const auto& kind) { return std::string(kind.param.first); });

// Whatever the bytes, opening either refuses or gives tensors inside the file that cover it.
TEST(SafetensorsFile, MutationsNeverGiveTensorsOutsideTheFile) {
  const std::string original = FileOf(kTwoTensors, std::string(20, 'x'));
  const std::string tokens = "0123456789{}[]\",:-eE.\\u";
  int accepted = 0;
  for (uint32_t seed = 0; seed < 2500; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    std::string bytes = original;
    for (uint32_t edits = 1 + random() % 3; edits > 0; --edits) {
      const size_t at = random() % bytes.size();
      switch (random() % 4) {
        case 0:
          bytes[at] = static_cast<char>(random());
          break;
        case 1:
          bytes[at] = tokens[random() % tokens.size()];
          break;
        case 2:
          bytes.erase(at, 1 + random() % 4);
          break;
        default:
          bytes.insert(at, 1, tokens[random() % tokens.size()]);
          break;
      }
      if (bytes.empty()) bytes = "x";
    }
    const ScratchFolder dir;
    const auto file = SafetensorsFile::Open(dir.Write("x", bytes));
    if (!file.ok()) {
      EXPECT_EQ(file.status().code(), absl::StatusCode::kInvalidArgument) << file.status();
      continue;
    }
    ++accepted;
    size_t covered = 8 + (*file)->header().size();
    unsigned sum = 0;
    for (const StoredTensor& tensor : (*file)->tensors()) {
      covered += tensor.data.size();
      for (const std::byte byte : tensor.data) sum += static_cast<unsigned>(byte);
    }
    EXPECT_EQ(covered, bytes.size()) << sum;
  }
  EXPECT_GT(accepted, 10);  // changes of data and names are legal
}

}  // namespace
}  // namespace baton
