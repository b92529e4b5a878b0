#include "common/formats/gguf/gguf_file.h"

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <functional>
#include <limits>
#include <string>
#include <string_view>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/fakes/gguf_writer.h"
#include "tests/fakes/scratch_folder.h"

namespace baton {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr uint32_t kTypeF32 = 0;
constexpr uint32_t kTypeQ4_0 = 2;
constexpr uint32_t kTypeQ8_0 = 8;
constexpr uint32_t kIq2Xs = 17;

class GgufFileTest : public ::testing::Test {
 protected:
  absl::StatusOr<std::unique_ptr<GgufFile>> Open(std::string_view bytes) const {
    return GgufFile::Open(folder_.Write("m.gguf", bytes));
  }
  // What is wrong with the bytes; every message names the file.
  std::string Defect(std::string_view bytes) const {
    const auto file = Open(bytes);
    if (file.ok()) return "";
    EXPECT_THAT(std::string(file.status().message()), HasSubstr("m.gguf"));
    return std::string(file.status().message());
  }
  std::string DefectOf(const std::function<void(GgufWriter&)>& change) const {
    GgufWriter writer = Small();
    change(writer);
    return Defect(writer.Bytes());
  }
  static GgufWriter Small() {
    GgufWriter writer;
    writer.Add("general.architecture", "llama");
    writer.Add("a.number", uint32_t{7});
    writer.Add("a.fraction", 0.5f);
    writer.Add("a.truth", true);
    writer.Add("a.list", std::vector<int32_t>{1, -2, 3});
    writer.Add("a.words", std::vector<std::string>{"one", "", "three"});
    writer.AddTensor("first", kTypeF32, {2, 3}, std::string(24, 'x'));
    writer.AddTensor("second", kTypeQ8_0, {2, 32}, std::string(68, 'y'));
    return writer;
  }

  const ScratchFolder folder_;
};

TEST_F(GgufFileTest, GivesMetadataAndTensors) {
  for (const uint32_t version : {2, 3}) {
    GgufWriter writer = Small();
    writer.version = version;
    const std::string bytes = writer.Bytes();
    const auto opened = Open(bytes);
    ASSERT_TRUE(opened.ok()) << opened.status();
    const GgufFile& file = **opened;
    const nlohmann::json scalars = file.Scalars();
    EXPECT_EQ(scalars["a.number"], 7);
    EXPECT_EQ(scalars["a.fraction"], 0.5);
    EXPECT_EQ(scalars["a.truth"], true);
    EXPECT_EQ(scalars["a.list"], nlohmann::json({1, -2, 3}));
    EXPECT_FALSE(scalars.contains("a.words"));
    EXPECT_THAT(*file.Strings("a.words"), ElementsAre("one", "", "three"));
    EXPECT_THAT(*file.Numbers("a.list"), ElementsAre(1, -2, 3));
    EXPECT_TRUE(file.Strings("absent")->empty());
    EXPECT_FALSE(file.Strings("a.number").ok());
    EXPECT_FALSE(file.Numbers("a.words").ok());
    const GgufTensor* second = file.FindTensor("second");
    ASSERT_NE(second, nullptr);
    EXPECT_EQ(second->type->name, "Q8_0");
    EXPECT_THAT(second->shape, ElementsAre(2, 32));
    EXPECT_EQ(second->data.size(), 68u);
    EXPECT_EQ(second->data[0], std::byte{'y'});
    EXPECT_EQ(file.FindTensor("third"), nullptr);
    EXPECT_TRUE(bytes.starts_with(file.header()));
  }
}

TEST_F(GgufFileTest, KeepsToTheAlignmentThatItNames) {
  GgufWriter writer;
  writer.alignment = 256;
  writer.Add("general.alignment", uint32_t{256});
  writer.AddTensor("one", kTypeF32, {1}, "abcd");
  writer.AddTensor("two", kTypeF32, {1}, "efgh");
  const auto file = Open(writer.Bytes());
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ((*file)->FindTensor("two")->data[0], std::byte{'e'});
}

TEST_F(GgufFileTest, EveryTruncationIsRefused) {
  const std::string bytes = Small().Bytes();
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_NE(Defect(std::string_view(bytes).substr(0, size)), "") << size << " bytes";
  }
  EXPECT_EQ(Defect(bytes), "");
}

TEST_F(GgufFileTest, OtherFilesAreRefusedByName) {
  EXPECT_EQ(GgufFile::Open(folder_ / "absent.gguf").status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(Defect("{\"a text file\": \"of some length\"}"), HasSubstr("GGUF"));
  EXPECT_THAT(DefectOf([](GgufWriter& w) { w.version = 1; }), HasSubstr("version 1"));
  EXPECT_THAT(DefectOf([](GgufWriter& w) { w.version = 4; }), HasSubstr("version 4"));
  EXPECT_THAT(DefectOf([](GgufWriter& w) { w.version = 0x03000000; }), HasSubstr("big-endian"));
  EXPECT_THAT(DefectOf([](GgufWriter& w) { w.Add("split.count", uint32_t{3}); }),
              AllOf(HasSubstr("3 parts"), HasSubstr("llama-gguf-split")));
}

TEST_F(GgufFileTest, HostileMetadataIsRefused) {
  const auto raw = [](uint32_t type, std::string rest) {
    std::string bytes(4, '\0');
    std::memcpy(bytes.data(), &type, 4);
    return bytes + rest;
  };
  const std::string most(8, '\xff');
  EXPECT_THAT(DefectOf([](GgufWriter& w) { w.more_entries = uint64_t{1} << 60; }),
              HasSubstr("entries"));
  EXPECT_THAT(DefectOf([](GgufWriter& w) { w.more_entries = 4096; }),
              HasSubstr("expected at most 1048576 and 4096"));
  EXPECT_THAT(DefectOf([](GgufWriter& w) { w.more_tensors = uint64_t{1} << 40; }),
              HasSubstr("tensors"));
  EXPECT_THAT(DefectOf([](GgufWriter& w) { w.more_entries = 1; }), HasSubstr("m.gguf"));
  EXPECT_THAT(DefectOf([&](GgufWriter& w) { w.AddRaw("k", raw(8, most)); }),
              HasSubstr("truncated"));
  EXPECT_THAT(DefectOf([&](GgufWriter& w) { w.AddRaw("k", raw(9, raw(4, most))); }),
              HasSubstr("truncated"));
  EXPECT_THAT(DefectOf([&](GgufWriter& w) { w.AddRaw("k", raw(9, raw(8, most))); }),
              HasSubstr("truncated"));
  EXPECT_THAT(DefectOf([&](GgufWriter& w) { w.AddRaw("k", raw(13, "")); }), HasSubstr("type 13"));
  EXPECT_THAT(DefectOf([&](GgufWriter& w) { w.AddRaw("k", raw(9, raw(9, most))); }),
              HasSubstr("in an array"));
  EXPECT_THAT(DefectOf([](GgufWriter& w) { w.Add("a.number", uint32_t{8}); }),
              HasSubstr("occurs twice"));
  EXPECT_THAT(DefectOf([](GgufWriter& w) { w.Add("", uint32_t{8}); }), HasSubstr("empty"));
  EXPECT_THAT(DefectOf([](GgufWriter& w) { w.Add("general.alignment", uint32_t{33}); }),
              HasSubstr("power of two"));
  EXPECT_THAT(DefectOf([](GgufWriter& w) { w.Add("general.alignment", uint32_t{0}); }),
              HasSubstr("power of two"));
}

TEST_F(GgufFileTest, HostileTensorsAreRefused) {
  const auto add = [](uint32_t type, std::vector<uint64_t> shape) {
    return [type, shape](GgufWriter& w) { w.AddTensor("bad", type, shape, std::string(64, 'z')); };
  };
  constexpr uint64_t kHuge = std::numeric_limits<uint64_t>::max();
  EXPECT_THAT(DefectOf(add(kIq2Xs, {256})),
              AllOf(HasSubstr("bad"), HasSubstr("IQ2_XS"), HasSubstr("Q4_K")));
  EXPECT_THAT(DefectOf(add(4711, {256})), HasSubstr("number 4711"));
  EXPECT_THAT(DefectOf(add(kTypeQ4_0, {3, 33})), HasSubstr("multiple of 32"));
  EXPECT_THAT(DefectOf(add(kTypeF32, {})), HasSubstr("0 dimensions"));
  EXPECT_THAT(DefectOf(add(kTypeF32, {1, 1, 1, 1, 1})), HasSubstr("5 dimensions"));
  EXPECT_THAT(DefectOf(add(kTypeF32, {0})), HasSubstr("dimension of 0"));
  EXPECT_THAT(DefectOf(add(kTypeF32, {kHuge})), HasSubstr("dimension"));
  EXPECT_THAT(DefectOf(add(kTypeF32, {uint64_t{1} << 33, uint64_t{1} << 33})),
              HasSubstr("dimension"));
  EXPECT_THAT(DefectOf(add(kTypeF32, {uint64_t{1} << 40})), HasSubstr("truncated"));
  EXPECT_THAT(DefectOf([](GgufWriter& w) { w.AddTensor("first", kTypeF32, {1}, "abcd"); }),
              HasSubstr("occurs twice"));
  for (const uint64_t offset : {uint64_t{1}, uint64_t{0}, uint64_t{64}}) {
    EXPECT_THAT(DefectOf([offset](GgufWriter& w) {
                  w.AddTensor("bad", kTypeF32, {16}, std::string(64, 'z'));
                  w.MoveLast(offset);
                }),
                HasSubstr("begins at byte"))
        << offset;
  }
  EXPECT_THAT(DefectOf([](GgufWriter& w) {
                w.AddTensor("bad", kTypeF32, {16}, std::string(64, 'z'));
                w.MoveLast(kHuge - 31);
              }),
              HasSubstr("truncated"));
}

TEST(GgufPathTest, IsAFileAndNoDirectory) {
  const ScratchFolder folder;
  std::filesystem::create_directory(folder / "model.gguf");
  EXPECT_FALSE(IsGgufPath(folder / "model.gguf"));
  EXPECT_FALSE(IsGgufPath(folder.path()));
  EXPECT_TRUE(IsGgufPath(folder / "absent.gguf"));
  EXPECT_TRUE(IsGgufPath(folder.Write("other", "x")));
  EXPECT_FALSE(IsGgufPath(folder / "absent"));
}

}  // namespace
}  // namespace baton
