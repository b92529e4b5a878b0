#include "router/workers/unpaired_shapes.h"

#include <gmock/gmock.h>

namespace baton {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

KvShape Blocks(const std::string& dtype, int32_t ranks = 1) {
  return {.dtype = dtype,
          .block_size = 16,
          .layers = 2,
          .kv_heads = 2,
          .head_dim = 64,
          .tensor_parallel = ranks};
}

TEST(UnpairedShapesTest, WhatHasACounterpartOrNobodyToPairWithIsNotToldOf) {
  UnpairedShapes unpaired;
  EXPECT_THAT(unpaired.Look("m", {}, {Blocks("int8")}), IsEmpty());
  EXPECT_THAT(unpaired.Look("m", {Blocks("int8")}, {}), IsEmpty());
  EXPECT_THAT(unpaired.Look("m", {Blocks("int8", 2)}, {Blocks("int8")}), IsEmpty());
}

TEST(UnpairedShapesTest, BothKindsAreToldOfWithWhatTheOthersHave) {
  UnpairedShapes unpaired;
  EXPECT_THAT(unpaired.Look("m", {Blocks("bfloat16")}, {Blocks("int8")}),
              ElementsAre(AllOf(StartsWith("decode workers with KV blocks int8"),
                                HasSubstr("these have bfloat16"), HasSubstr("--kv-dtype")),
                          AllOf(StartsWith("prefill workers with KV blocks bfloat16"),
                                HasSubstr("these have int8"), HasSubstr("--kv-dtype"))));
}

TEST(UnpairedShapesTest, EachIsToldOnceAndAgainWhenItComesBack) {
  UnpairedShapes unpaired;
  const std::vector<KvShape> decode = {Blocks("int8"), Blocks("float32")};
  EXPECT_EQ(unpaired.Look("m", {Blocks("float32")}, decode).size(), 1u);
  EXPECT_THAT(unpaired.Look("m", {Blocks("float32")}, decode), IsEmpty());
  EXPECT_EQ(unpaired.Look("other", {Blocks("float32")}, decode).size(), 1u);
  EXPECT_THAT(unpaired.Look("m", {Blocks("float32"), Blocks("int8")}, decode), IsEmpty());
  EXPECT_EQ(unpaired.Look("m", {Blocks("float32")}, decode).size(), 1u);
}

}  // namespace
}  // namespace baton
