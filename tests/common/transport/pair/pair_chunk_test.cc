#include "common/transport/pair/pair_chunk.h"

#include <gtest/gtest.h>

#include <random>

namespace baton {
namespace {

ChunkHeader SomeHeader() {
  ChunkHeader header{.epoch = 5, .plan = {}, .has_sums = true, .sums = {11, 12}};
  header.plan = {.number = 9, .ticket = Ticket::Draw(3), .parts = {{0, 0, 100}, {4, 32, 17}}};
  header.plan.bytes = PartOffsets(header.plan.parts).back();
  return header;
}

absl::StatusOr<ChunkHeader> Decode(const std::string& bytes) {
  return DecodeChunkHeader(std::as_bytes(std::span(bytes)));
}

TEST(PairChunkTest, AHeaderSurvivesTheWay) {
  const ChunkHeader header = SomeHeader();
  const std::string bytes = EncodeChunkHeader(header);
  EXPECT_EQ(static_cast<int64_t>(bytes.size()), kChunkHeaderBytes);
  const auto back = Decode(bytes);
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_TRUE(CheckChunkHeader(*back, header.epoch, header.plan).ok());
  EXPECT_EQ(back->sums, header.sums);
  EXPECT_FALSE(back->is_void);
}

TEST(PairChunkTest, PartsAreAlignedAndPadded) {
  const std::vector<int64_t> offsets = PartOffsets({{0, 0, 1}, {1, 0, 16}, {2, 0, 17}});
  const std::vector<int64_t> expected = {kChunkHeaderBytes, kChunkHeaderBytes + 16,
                                         kChunkHeaderBytes + 32, kChunkHeaderBytes + 64};
  EXPECT_EQ(offsets, expected);
}

TEST(PairChunkTest, EveryDifferenceToTheAnnouncementShows) {
  const ChunkHeader header = SomeHeader();
  const auto refused = [&](uint64_t epoch, const ChunkPlan& plan) {
    return !CheckChunkHeader(header, epoch, plan).ok();
  };
  EXPECT_TRUE(refused(6, header.plan));
  ChunkPlan plan = header.plan;
  plan.number = 10;
  EXPECT_TRUE(refused(5, plan));
  plan = header.plan;
  plan.bytes += 16;
  EXPECT_TRUE(refused(5, plan));
  plan = header.plan;
  plan.ticket.secret[3] ^= 1;
  EXPECT_TRUE(refused(5, plan));
  plan = header.plan;
  plan.parts[1].ordinal = 5;
  EXPECT_TRUE(refused(5, plan));
}

TEST(PairChunkTest, BytesOfSomethingElseAreNoChunk) {
  EXPECT_FALSE(Decode("").ok());
  EXPECT_FALSE(Decode(std::string(kChunkHeaderBytes, '\0')).ok());
  std::minstd_rand random(7);
  const std::string good = EncodeChunkHeader(SomeHeader());
  for (int i = 0; i < 2000; ++i) {
    std::string bytes = good;
    for (int flips = 0; flips < 4; ++flips) {
      bytes[random() % 200] = static_cast<char>(random());
    }
    const auto header = Decode(bytes);  // must not crash; what it says is compared later
    if (header.ok()) {
      EXPECT_LE(header->plan.parts.size(), kMaxChunkParts);
    }
  }
}

TEST(PairChunkTest, PlansThatCannotBeAreRefused) {
  ChunkPlan plan = SomeHeader().plan;
  const int64_t max = kChunkHeaderBytes + 1000;
  EXPECT_TRUE(CheckChunkPlan(plan, max).ok());
  EXPECT_FALSE(CheckChunkPlan(plan, kChunkHeaderBytes + 100).ok());
  plan.bytes -= 16;
  EXPECT_FALSE(CheckChunkPlan(plan, max).ok());
  plan.parts = {{0, 0, -5}};
  EXPECT_FALSE(CheckChunkPlan(plan, max).ok());
  plan.parts = {{0, 0, INT64_MAX - 3}};
  EXPECT_FALSE(CheckChunkPlan(plan, max).ok());
  plan.parts.assign(kMaxChunkParts + 1, {0, 0, 1});
  EXPECT_FALSE(CheckChunkPlan(plan, max).ok());
}

}  // namespace
}  // namespace baton
