#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <string>
#include <string_view>

#include "common/formats/safetensors.h"
#include "tests/common/formats/safetensors_writer.h"
#include "tests/common/text/test_files.h"
#include "tests/fakes/scratch_folder.h"

namespace baton {
namespace {

using ::baton::testing::OneTensorFile;
using ::baton::testing::SourcePath;
using ::testing::HasSubstr;

constexpr char kIndexName[] = "model.safetensors.index.json";

std::string Text(const StoredTensor& tensor) {
  return {reinterpret_cast<const char*>(tensor.data.data()), tensor.data.size()};
}

TEST(CheckpointFiles, OpensASingleFile) {
  const ScratchFolder dir;
  dir.Write("model.safetensors", OneTensorFile("w", "abc"));
  const auto checkpoint = CheckpointFiles::Open(dir.path());
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  ASSERT_NE((*checkpoint)->Find("w"), nullptr);
  EXPECT_EQ(Text(*(*checkpoint)->Find("w")), "abc");
  EXPECT_EQ((*checkpoint)->Find("v"), nullptr);
  EXPECT_EQ((*checkpoint)->data_bytes(), 3);
}

TEST(CheckpointFiles, OpensTheShardsOfAnIndex) {
  const ScratchFolder dir;
  dir.Write("b.safetensors", OneTensorFile("w1", "first"));
  dir.Write("a.safetensors", OneTensorFile("w2", "second"));
  dir.Write(kIndexName, R"({"metadata":{"total_size":11},
      "weight_map":{"w1":"b.safetensors","w2":"a.safetensors"}})");
  const auto checkpoint = CheckpointFiles::Open(dir.path());
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  ASSERT_EQ((*checkpoint)->tensors().size(), 2u);
  EXPECT_EQ((*checkpoint)->tensors()[0]->name, "w1");
  EXPECT_EQ(Text(*(*checkpoint)->Find("w2")), "second");
  ASSERT_EQ((*checkpoint)->files().size(), 2u);
  EXPECT_EQ((*checkpoint)->files()[0]->path(), dir.path() + "/a.safetensors");
  EXPECT_EQ((*checkpoint)->data_bytes(), 11);
}

TEST(CheckpointFiles, OpensShardsThatTransformersWrote) {
  const auto checkpoint =
      CheckpointFiles::Open(SourcePath("tests/golden/models/qwen2_hd64_sharded"));
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  EXPECT_EQ((*checkpoint)->files().size(), 3u);
  EXPECT_NE((*checkpoint)->Find("model.embed_tokens.weight"), nullptr);
}

TEST(CheckpointFiles, DroppedPagesStayReadable) {
  const ScratchFolder dir;
  const std::string data(100'000, 'q');
  dir.Write("model.safetensors", OneTensorFile("w", data));
  const auto checkpoint = CheckpointFiles::Open(dir.path());
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  const StoredTensor& tensor = *(*checkpoint)->Find("w");
  CheckpointFiles::Prefetch(tensor);
  EXPECT_EQ(Text(tensor), data);
  CheckpointFiles::DropPages(tensor);
  EXPECT_EQ(Text(tensor), data);
}

TEST(CheckpointFiles, SaysWhatADirectoryWithoutWeightsLacks) {
  const ScratchFolder dir;
  const absl::Status status = CheckpointFiles::Open(dir.path()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()), HasSubstr("model.safetensors"));
}

// As a cache of downloads leaves them whose blobs are gone.
TEST(CheckpointFiles, SaysWhereALinkToNothingLeads) {
  for (const char* name : {"model.safetensors", kIndexName, "a.safetensors"}) {
    const ScratchFolder dir;
    if (std::string_view(name) == "a.safetensors") {
      dir.Write(kIndexName, R"({"weight_map":{"w1":"a.safetensors"}})");
    }
    std::filesystem::create_symlink("../blobs/5d0a", dir / name);
    const absl::Status status = CheckpointFiles::Open(dir.path()).status();
    EXPECT_THAT(std::string(status.message()),
                HasSubstr(std::string(name) + " is a link to ../blobs/5d0a"));
  }
}

// The refusal of an index over two sound shards: w1 in a.safetensors, w2 in b.safetensors.
std::string IndexRefusal(const std::string& index) {
  const ScratchFolder dir;
  dir.Write("a.safetensors", OneTensorFile("w1", "1"));
  dir.Write("b.safetensors", OneTensorFile("w2", "2"));
  dir.Write(kIndexName, index);
  const absl::Status status = CheckpointFiles::Open(dir.path()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << index;
  EXPECT_THAT(std::string(status.message()), HasSubstr(kIndexName));
  return std::string(status.message());
}

TEST(CheckpointFiles, RefusesAnIndexThatIsNotOne) {
  const std::string deep(200'000, '[');
  for (const std::string& index :
       {std::string(), std::string("[]"), std::string("{}"), std::string("{\"weight_map\":[]}"),
        std::string("{\"weight_map\":{}}"), std::string("{\"weight_map\":{\"w1\":7}}"), deep}) {
    IndexRefusal(index);
  }
}

TEST(CheckpointFiles, RefusesPathsOutOfTheDirectory) {
  for (const char* path :
       {"../a.safetensors", "/etc/passwd", "x/../a.safetensors", "", ".", ".."}) {
    EXPECT_THAT(IndexRefusal(std::string("{\"weight_map\":{\"w1\":\"") + path + "\"}}"),
                HasSubstr("inside the model directory"));
  }
}

TEST(CheckpointFiles, RefusesAMissingShard) {
  EXPECT_THAT(IndexRefusal(R"({"weight_map":{"w1":"c.safetensors"}})"), HasSubstr("missing"));
}

TEST(CheckpointFiles, RefusesATensorThatItsShardLacks) {
  EXPECT_THAT(IndexRefusal(R"({"weight_map":{"w1":"a.safetensors","w3":"a.safetensors"}})"),
              HasSubstr("does not contain"));
  EXPECT_THAT(IndexRefusal(R"({"weight_map":{"w1":"b.safetensors","w2":"b.safetensors"}})"),
              HasSubstr("does not contain"));
}

TEST(CheckpointFiles, RefusesAnIndexThatLeavesATensorOut) {
  const ScratchFolder dir;
  dir.Write("a.safetensors",
            testing::FileOf(R"({"w1":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                            R"("w2":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})",
                            "12"));
  dir.Write(kIndexName, R"({"weight_map":{"w1":"a.safetensors"}})");
  const absl::Status status = CheckpointFiles::Open(dir.path()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("w2"));
}

TEST(CheckpointFiles, NamesTheShardThatIsTruncated) {
  const ScratchFolder dir;
  dir.Write("a.safetensors", OneTensorFile("w1", "12345").substr(0, 30));
  dir.Write(kIndexName, R"({"weight_map":{"w1":"a.safetensors"}})");
  const absl::Status status = CheckpointFiles::Open(dir.path()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("a.safetensors"));
}

}  // namespace
}  // namespace baton
