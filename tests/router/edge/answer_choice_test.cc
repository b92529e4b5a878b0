#include "router/edge/answer_choice.h"

#include <gmock/gmock.h>

#include <string>
#include <utility>

#include "common/base/status.h"

namespace baton {
namespace {

RequestSpec Chosen(const v1::GenerationSpec& spec) {
  RequestSpec checked;
  EXPECT_TRUE(TakeAnswers(spec, RouterOptions(), &checked).ok());
  return checked;
}

absl::Status RefusalOf(int32_t n, int32_t best_of, RouterOptions options = {}) {
  v1::GenerationSpec spec;
  spec.mutable_sampling()->set_n(n);
  if (best_of != 0) spec.mutable_sampling()->set_best_of(best_of);
  RequestSpec checked;
  return TakeAnswers(spec, options, &checked);
}

TEST(AnswerChoiceTest, WithoutAWordThereIsOneAnswer) {
  const RequestSpec checked = Chosen({});
  EXPECT_EQ(checked.answers, 1);
  EXPECT_EQ(checked.best, 1);
  EXPECT_FALSE(checked.ranked());
}

TEST(AnswerChoiceTest, BestOfDrawsAndNGives) {
  v1::GenerationSpec spec;
  spec.mutable_sampling()->set_n(2);
  EXPECT_EQ(Chosen(spec).answers, 2);
  spec.mutable_sampling()->set_best_of(2);
  EXPECT_FALSE(Chosen(spec).ranked());
  spec.mutable_sampling()->set_best_of(5);
  EXPECT_EQ(Chosen(spec).answers, 5);
  EXPECT_EQ(Chosen(spec).best, 2);
  EXPECT_TRUE(Chosen(spec).ranked());
}

TEST(AnswerChoiceTest, WhatDoesNotFitIsRefusedByName) {
  EXPECT_EQ(ReasonOf(RefusalOf(0, 0)), Reason::kInvalidSampling);
  EXPECT_EQ(DetailOf(RefusalOf(-1, 0)).field, "spec.sampling.n");
  EXPECT_TRUE(RefusalOf(64, 0).ok());
  EXPECT_EQ(ReasonOf(RefusalOf(65, 0)), Reason::kLimitExceeded);
  EXPECT_EQ(DetailOf(RefusalOf(65, 0)).field, "spec.sampling.n");
  EXPECT_EQ(ReasonOf(RefusalOf(1, 65)), Reason::kLimitExceeded);
  EXPECT_EQ(DetailOf(RefusalOf(1, 65)).field, "spec.sampling.best_of");
  EXPECT_EQ(ReasonOf(RefusalOf(3, 2)), Reason::kConflictingOptions);
  EXPECT_EQ(ReasonOf(RefusalOf(3, -2)), Reason::kConflictingOptions);
}

TEST(AnswerChoiceTest, MoreThanTheQueueHoldsWouldNeverFindRoom) {
  RouterOptions options;
  options.max_num_queued_reqs = 3;
  EXPECT_TRUE(RefusalOf(3, 0, options).ok());
  const absl::Status refused = RefusalOf(1, 4, options);
  EXPECT_EQ(ReasonOf(refused), Reason::kLimitExceeded);
  EXPECT_EQ(DetailOf(refused).field, "spec.sampling.best_of");
}

absl::Status RoomFor(int32_t answers, int32_t best, const std::string& tenant, size_t bytes = 0) {
  RouterOptions options;
  options.max_inflight_bytes = 1000;
  options.tenants = {.others = {.max_queued = 4}, .named = {{"free", {}}}};
  RequestSpec spec;
  spec.tenant = tenant;
  spec.answers = answers;
  spec.best = best;
  return CheckRoomForAnswers(spec, bytes, options);
}

void ExpectTooMany(const absl::Status& refused, const std::string& field, int have, int limit) {
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ReasonOf(refused), Reason::kLimitExceeded);
  const ErrorDetail detail = DetailOf(refused);
  EXPECT_EQ(detail.field, field);
  EXPECT_THAT(detail.values, ::testing::ElementsAre(std::pair("have", std::to_string(have)),
                                                    std::pair("limit", std::to_string(limit))));
  EXPECT_FALSE(detail.retry_after.has_value());
}

TEST(AnswerChoiceTest, MoreThanATenantMayHaveWaitingWouldNeverFindRoom) {
  EXPECT_TRUE(RoomFor(4, 4, "bound").ok());
  ExpectTooMany(RoomFor(5, 5, "bound"), "spec.sampling.n", 5, 4);
  ExpectTooMany(RoomFor(5, 1, "bound"), "spec.sampling.best_of", 5, 4);
}

TEST(AnswerChoiceTest, MoreThanTheBytesThatOneClientMayHoldWouldNeverFindRoom) {
  EXPECT_TRUE(RoomFor(5, 5, "free", 150).ok());
  ExpectTooMany(RoomFor(6, 6, "free", 150), "spec.sampling.n", 6, 5);
  ExpectTooMany(RoomFor(6, 2, "free", 149), "spec.sampling.best_of", 6, 5);
}

TEST(AnswerChoiceTest, RankedAnswersHaveNoPredictions) {
  v1::GenerationSpec spec;
  spec.mutable_eos()->set_predict(true);
  spec.mutable_sampling()->set_n(2);
  EXPECT_EQ(Chosen(spec).answers, 2);
  spec.mutable_sampling()->set_best_of(3);
  RequestSpec checked;
  const absl::Status refused = TakeAnswers(spec, RouterOptions(), &checked);
  EXPECT_EQ(ReasonOf(refused), Reason::kConflictingOptions);
  EXPECT_EQ(DetailOf(refused).field, "spec.eos.predict");
}

}  // namespace
}  // namespace baton
