// What crosses the wire arrives as it was: errors with their details, requests, tokens.
#include <gtest/gtest.h>

#include <cmath>

#include "common/base/status.h"
#include "common/rpc/deadline.h"
#include "common/rpc/generation.h"
#include "common/rpc/status_map.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"

namespace baton {
namespace {

TEST(StatusMapTest, DetailsSurviveBothWays) {
  const absl::Status status = MakeError(absl::StatusCode::kResourceExhausted,
                                        {.reason = Reason::kQueueFull,
                                         .field = "sampling.top_p",
                                         .values = {{"have", "9000"}, {"limit", "4096"}},
                                         .retry_after = std::chrono::milliseconds(1500)},
                                        "the queue is full");
  const absl::Status back = FromGrpcStatus(ToGrpcStatus(status));
  EXPECT_EQ(back.code(), status.code());
  EXPECT_EQ(back.message(), status.message());
  const ErrorDetail detail = DetailOf(back);
  EXPECT_EQ(detail.reason, Reason::kQueueFull);
  EXPECT_EQ(detail.field, "sampling.top_p");
  EXPECT_EQ(detail.values.size(), 2u);
  EXPECT_EQ(detail.retry_after, std::chrono::milliseconds(1500));
}

TEST(StatusMapTest, EveryCodeKeepsItsNumber) {
  EXPECT_TRUE(ToGrpcStatus(absl::OkStatus()).ok());
  EXPECT_TRUE(FromGrpcStatus(grpc::Status::OK).ok());
  for (int code = 1; code <= 16; ++code) {
    const grpc::Status wire = ToGrpcStatus(absl::Status(static_cast<absl::StatusCode>(code), "m"));
    EXPECT_EQ(static_cast<int>(wire.error_code()), code);
    EXPECT_TRUE(wire.error_details().empty());
    EXPECT_EQ(static_cast<int>(FromGrpcStatus(wire).code()), code);
  }
}

TEST(StatusMapTest, WritesWhatGoogleRpcClientsRead) {
  const grpc::Status wire =
      ToGrpcStatus(InvalidArgument(Reason::kInvalidSampling, "sampling.top_p", "top_p is 2"));
  google::rpc::Status proto;
  ASSERT_TRUE(proto.ParseFromString(wire.error_details()));
  EXPECT_EQ(proto.code(), 3);
  ASSERT_EQ(proto.details_size(), 2);
  google::rpc::ErrorInfo info;
  ASSERT_TRUE(proto.details(0).UnpackTo(&info));
  EXPECT_EQ(info.reason(), "INVALID_SAMPLING");
  EXPECT_EQ(info.domain(), "baton");
  google::rpc::BadRequest bad;
  ASSERT_TRUE(proto.details(1).UnpackTo(&bad));
  EXPECT_EQ(bad.field_violations(0).field(), "sampling.top_p");
}

TEST(StatusMapTest, ForeignOrBrokenDetailsLeaveCodeAndMessage) {
  google::rpc::Status proto;
  google::rpc::ErrorInfo info;
  info.set_domain("elsewhere");
  info.set_reason("FULL");
  proto.add_details()->PackFrom(info);
  for (const std::string& details : {proto.SerializeAsString(), std::string("\xff\xff")}) {
    const absl::Status status =
        FromGrpcStatus(grpc::Status(grpc::StatusCode::UNAVAILABLE, "m", details));
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
    EXPECT_EQ(status.message(), "m");
    EXPECT_EQ(ReasonOf(status), Reason::kNone);
  }
}

SequenceSpec FullSpec() {
  SequenceSpec spec;
  spec.prompt = {1, 2, 3};
  spec.generated = {7, 8};
  spec.sampling = {.temperature = 0.7f,
                   .top_k = 40,
                   .top_p = 0.9f,
                   .min_p = 0.1f,
                   .repetition_penalty = 1.2f,
                   .presence_penalty = 0.3f,
                   .frequency_penalty = -0.4f,
                   .no_repeat_ngram_size = 3,
                   .logit_bias = {{5, 1.5f}, {900, -2.0f}},
                   .seed = 0xFFFFFFFFFFFFFFFFu,
                   .num_top_logprobs = 4};
  spec.stop = {.max_tokens = 50,
               .min_tokens = 5,
               .stop_token_ids = {9, 10},
               .eos_policy = EosPolicy::kIgnoreMask,
               .length_control = LengthControl{.target = 60, .strength = 2.5f}};
  spec.natural_end_step = 12;
  spec.end_chance_step = 1;
  spec.cache_salt = "tenant";
  spec.guide = {.kind = GuideKind::kRegex, .text = "a+"};
  spec.bare_forced = true;
  return spec;
}

TEST(GenerationTest, SpecsSurviveBothWays) {
  const SequenceSpec spec = FullSpec();
  worker_pb::Generation proto;
  SpecToProto(spec, &proto);
  const auto back = SpecFromProto(proto);
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(back->prompt, spec.prompt);
  EXPECT_EQ(back->generated, spec.generated);
  EXPECT_EQ(back->sampling, spec.sampling);
  EXPECT_EQ(back->stop, spec.stop);
  EXPECT_EQ(back->guide, spec.guide);
  EXPECT_TRUE(back->bare_forced);
  EXPECT_EQ(back->natural_end_step, spec.natural_end_step);
  EXPECT_EQ(back->end_chance_step, spec.end_chance_step);
  EXPECT_EQ(back->cache_salt, spec.cache_salt);
}

TEST(GenerationTest, AWaitIsTheSameHoweverOftenItIsPassedOn) {
  for (const int64_t ns :
       std::initializer_list<int64_t>{1, 3, 7, 1'000'003, 123'456'789, 86'399'999'999'999}) {
    SequenceSpec spec;
    spec.waited = std::chrono::nanoseconds(ns);
    for (int hop = 0; hop < 3; ++hop) {
      worker_pb::Generation proto;
      SpecToProto(spec, &proto);
      spec = SpecFromProto(proto).value();
    }
    EXPECT_EQ(spec.waited, std::chrono::nanoseconds(ns));
  }
}

TEST(GenerationTest, EveryEosPolicySurvivesAndUnknownOnesAreRefused) {
  for (const EosPolicy policy :
       {EosPolicy::kHonor, EosPolicy::kIgnoreContinue, EosPolicy::kIgnoreMask}) {
    SequenceSpec spec = FullSpec();
    spec.stop.eos_policy = policy;
    worker_pb::Generation proto;
    SpecToProto(spec, &proto);
    EXPECT_EQ(SpecFromProto(proto)->stop.eos_policy, policy);
  }
  worker_pb::Generation proto;
  proto.mutable_stopping()->set_eos_handling(static_cast<worker_pb::EosHandling>(17));
  EXPECT_EQ(ReasonOf(SpecFromProto(proto).status()), Reason::kUnsupportedField);
}

TEST(GenerationTest, EveryGuideSurvivesAndUnknownOnesAreRefused) {
  for (const GuideKind kind : {GuideKind::kNone, GuideKind::kJsonSchema, GuideKind::kJsonObject,
                               GuideKind::kRegex, GuideKind::kChoice, GuideKind::kGrammar}) {
    SequenceSpec spec;
    spec.guide.kind = kind;
    worker_pb::Generation proto;
    SpecToProto(spec, &proto);
    EXPECT_EQ(proto.has_guide(), kind != GuideKind::kNone);
    EXPECT_EQ(SpecFromProto(proto)->guide, spec.guide);
  }
  worker_pb::Generation proto;
  proto.mutable_guide()->set_kind(static_cast<worker_pb::GuideKind>(17));
  EXPECT_EQ(ReasonOf(SpecFromProto(proto).status()), Reason::kUnsupportedField);
}

TEST(GenerationTest, TokensSurviveBothWays) {
  PlacedToken token{.index = 3, .unix_time = 1234567890.25};
  token.token = {.token = 42, .logprob = -1.25f, .top_logprobs = {{42, -1.25f}, {1, -2.5f}}};
  token.token.eos = {.eos_logprob = -3,
                     .eos_prob_sampling = 0.05f,
                     .eos_rank = 9,
                     .entropy = 2.5f,
                     .top1_prob = 0.3f};
  token.token.natural_end = true;
  token.token.end_chance = true;
  token.token.runaway_end = true;
  token.token.only_end = true;
  token.token.forced = true;
  token.token.probe = {0.5f, -7};
  worker_pb::Token proto;
  TokenToProto(token, {.eos_signal = true, .probe = true}, &proto);
  const PlacedToken back = TokenFromProto(proto);
  EXPECT_EQ(back.index, 3);
  EXPECT_EQ(back.unix_time, token.unix_time);
  EXPECT_EQ(back.token.token, 42);
  EXPECT_EQ(back.token.top_logprobs.size(), 2u);
  EXPECT_EQ(back.token.eos.eos_rank, 9);
  EXPECT_EQ(back.token.eos.eos_logprob, -3);
  EXPECT_TRUE(back.token.natural_end);
  EXPECT_TRUE(back.token.end_chance);
  EXPECT_TRUE(back.token.runaway_end);
  EXPECT_TRUE(back.token.only_end);
  EXPECT_TRUE(back.token.forced);
  EXPECT_EQ(back.token.probe, token.token.probe);
}

TEST(GenerationTest, NanSignalsSurviveAndExtrasCanBeLeftOut) {
  PlacedToken token;
  token.token.probe = {1};
  token.token.eos.eos_logprob = std::nanf("");
  worker_pb::Token proto;
  TokenToProto(token, {.eos_signal = true}, &proto);
  EXPECT_EQ(proto.probe_size(), 0);
  EXPECT_TRUE(std::isnan(TokenFromProto(proto).token.eos.eos_logprob));
  worker_pb::Token without;
  TokenToProto(token, {.probe = true}, &without);
  EXPECT_FALSE(without.has_eos());
  EXPECT_EQ(without.probe_size(), 1);
}

TEST(GenerationTest, EstimatesOfEndsSurviveBothWaysAndUnknownOnesAreNone) {
  PlacedToken token{.index = 3};
  worker_pb::Token without;
  TokenToProto(token, {.eos_signal = true}, &without);
  EXPECT_FALSE(without.has_end());
  EXPECT_FALSE(TokenFromProto(without).token.end.has_value());
  token.token.end = EndEstimate{.at_step = 4,
                                .expected_remaining = 12.5f,
                                .p50 = 7,
                                .p90 = 40,
                                .p_within = {0.1f, 0.2f, 0.5f, 0.9f, 1},
                                .kind = PredictorKind::kGru};
  worker_pb::Token proto;
  TokenToProto(token, {.eos_signal = true}, &proto);
  EXPECT_EQ(TokenFromProto(proto).token.end, token.token.end);
  worker_pb::Token other = proto;
  other.mutable_end()->set_predictor("oracle");
  EXPECT_FALSE(TokenFromProto(other).token.end.has_value());
  other = proto;
  other.mutable_end()->add_within(1);
  EXPECT_FALSE(TokenFromProto(other).token.end.has_value());
}

TEST(GenerationTest, ALengthClassTravelsUnlessItIsTooLong) {
  SequenceSpec spec;
  spec.length_class = "chat/256/default";
  worker_pb::Generation proto;
  SpecToProto(spec, &proto);
  EXPECT_EQ(SpecFromProto(proto)->length_class, spec.length_class);
  proto.set_length_class(std::string(257, 'x'));
  EXPECT_EQ(SpecFromProto(proto)->length_class, "");
}

TEST(GenerationTest, EndingsSurviveBothWays) {
  for (const FinishReason reason :
       {FinishReason::kStopEos, FinishReason::kStopToken, FinishReason::kStopString,
        FinishReason::kStopGrammar, FinishReason::kLength, FinishReason::kRunaway}) {
    worker_pb::Ending proto;
    EndingToProto({reason, 5, 8}, &proto);
    const WorkerEnding back = EndingFromProto(proto);
    EXPECT_EQ(back.reason, reason);
    EXPECT_EQ(back.stop_token, 5);
    EXPECT_EQ(back.natural_end_step, 8);
  }
  EXPECT_EQ(FinishCauseToProto(FinishReason::kAborted), worker_pb::FINISH_CAUSE_UNSPECIFIED);
  EXPECT_EQ(FinishReasonFromProto(static_cast<worker_pb::FinishCause>(99)), FinishReason::kNone);
}

TEST(GenerationTest, TicketsOfAnotherLengthAreNone) {
  const Ticket ticket = Ticket::Draw(11);
  worker_pb::Ticket proto;
  TicketToProto(ticket, &proto);
  ASSERT_TRUE(TicketFromProto(proto));
  EXPECT_TRUE(SameTicket(*TicketFromProto(proto), ticket));
  proto.mutable_secret()->push_back('x');
  EXPECT_FALSE(TicketFromProto(proto));
  EXPECT_FALSE(TicketFromProto(worker_pb::Ticket()));
}

TEST(GenerationTest, ShapesSurviveBothWays) {
  const KvShape shape{.dtype = "bfloat16",
                      .block_size = 16,
                      .layers = 24,
                      .kv_heads = 4,
                      .head_dim = 64,
                      .tensor_parallel = 2,
                      .layout_version = 3};
  worker_pb::KvLayout proto;
  KvShapeToProto(shape, &proto);
  EXPECT_EQ(KvShapeFromProto(proto), shape);
}

TEST(DeadlineTest, IsAnInstantOfTheGivenClock) {
  base::ManualClock clock;
  const auto now = std::chrono::system_clock::now();
  const base::Instant at = DeadlineFromSystem(now + std::chrono::seconds(60), clock);
  EXPECT_LE(at, clock.Now() + std::chrono::seconds(60));
  EXPECT_GT(at, clock.Now() + std::chrono::seconds(50));
  EXPECT_EQ(DeadlineFromSystem(std::chrono::system_clock::time_point::max(), clock), base::kNever);
}

}  // namespace
}  // namespace baton
