#include "common/transport/pair/pair_parcel.h"

#include <gtest/gtest.h>

#include <random>

namespace baton {
namespace {

ParcelHeader SomeHeader() {
  ParcelHeader header{.epoch = 5, .plan = {}, .has_sums = true, .sums = {11, 12}};
  header.plan = {.number = 9, .ticket = Ticket::Draw(3), .parts = {{0, 0, 100}, {4, 32, 17}}};
  header.plan.bytes = PartOffsets(header.plan.parts).back();
  return header;
}

absl::StatusOr<ParcelHeader> Decode(const std::string& bytes) {
  return DecodeParcelHeader(std::as_bytes(std::span(bytes)));
}

TEST(PairParcelTest, AHeaderSurvivesTheWay) {
  const ParcelHeader header = SomeHeader();
  const std::string bytes = EncodeParcelHeader(header);
  EXPECT_EQ(static_cast<int64_t>(bytes.size()), kParcelHeaderBytes);
  const auto back = Decode(bytes);
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_TRUE(CheckParcelHeader(*back, header.epoch, header.plan).ok());
  EXPECT_EQ(back->sums, header.sums);
  EXPECT_FALSE(back->is_void);
}

TEST(PairParcelTest, PartsAreAlignedAndPadded) {
  const std::vector<int64_t> offsets = PartOffsets({{0, 0, 1}, {1, 0, 16}, {2, 0, 17}});
  const std::vector<int64_t> expected = {kParcelHeaderBytes, kParcelHeaderBytes + 16,
                                         kParcelHeaderBytes + 32, kParcelHeaderBytes + 64};
  EXPECT_EQ(offsets, expected);
}

TEST(PairParcelTest, EveryDifferenceToTheAnnouncementShows) {
  const ParcelHeader header = SomeHeader();
  const auto refused = [&](uint64_t epoch, const ParcelPlan& plan) {
    return !CheckParcelHeader(header, epoch, plan).ok();
  };
  EXPECT_TRUE(refused(6, header.plan));
  ParcelPlan plan = header.plan;
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

TEST(PairParcelTest, BytesOfSomethingElseAreNoParcel) {
  EXPECT_FALSE(Decode("").ok());
  EXPECT_FALSE(Decode(std::string(kParcelHeaderBytes, '\0')).ok());
  std::minstd_rand random(7);
  const std::string good = EncodeParcelHeader(SomeHeader());
  for (int i = 0; i < 2000; ++i) {
    std::string bytes = good;
    for (int flips = 0; flips < 4; ++flips) {
      bytes[random() % 200] = static_cast<char>(random());
    }
    const auto header = Decode(bytes);  // must not crash; what it says is compared later
    if (header.ok()) {
      EXPECT_LE(header->plan.parts.size(), kMaxParcelParts);
    }
  }
}

TEST(PairParcelTest, PlansThatCannotBeAreRefused) {
  ParcelPlan plan = SomeHeader().plan;
  const int64_t max = kParcelHeaderBytes + 1000;
  EXPECT_TRUE(CheckParcelPlan(plan, max).ok());
  EXPECT_FALSE(CheckParcelPlan(plan, kParcelHeaderBytes + 100).ok());
  plan.bytes -= 16;
  EXPECT_FALSE(CheckParcelPlan(plan, max).ok());
  plan.parts = {{0, 0, -5}};
  EXPECT_FALSE(CheckParcelPlan(plan, max).ok());
  plan.parts = {{0, 0, INT64_MAX - 3}};
  EXPECT_FALSE(CheckParcelPlan(plan, max).ok());
  plan.parts.assign(kMaxParcelParts + 1, {0, 0, 1});
  EXPECT_FALSE(CheckParcelPlan(plan, max).ok());
}

}  // namespace
}  // namespace baton
