#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "common/rpc/status_map.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/generic/generic_stub.h"
#include "tests/router/router_fixture.h"

namespace baton::testing {
namespace {

struct RefusalCase {
  std::string name;
  std::function<void(v1::GenerateRequest*)> change;
  absl::StatusCode code;
  std::string reason;
  std::string field;
};

v1::SamplingParams* Sampling(v1::GenerateRequest* request) {
  return request->mutable_spec()->mutable_sampling();
}
v1::StopParams* Stop(v1::GenerateRequest* request) {
  return request->mutable_spec()->mutable_stop();
}

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
constexpr auto kUnimplemented = absl::StatusCode::kUnimplemented;

std::vector<RefusalCase> Cases() {
  using R = v1::GenerateRequest*;
  return {
      {"EmptyText", [](R r) { r->set_text(""); }, kInvalid, "EMPTY_PROMPT", "text"},
      {"NoInput", [](R r) { r->clear_input(); }, kInvalid, "EMPTY_PROMPT", "text"},
      {"NoTokenIds", [](R r) { r->mutable_token_ids(); }, kInvalid, "EMPTY_PROMPT", "token_ids"},
      {"NegativeTokenId", [](R r) { r->mutable_token_ids()->add_ids(-1); }, kInvalid,
       "INVALID_TOKEN_ID", "token_ids"},
      {"UnknownTokenId", [](R r) { r->mutable_token_ids()->add_ids(320); }, kInvalid,
       "INVALID_TOKEN_ID", "token_ids"},
      {"UnknownModel", [](R r) { r->mutable_spec()->set_model("gpt"); },
       absl::StatusCode::kNotFound, "MODEL_NOT_FOUND", "spec.model"},
      {"LongPrompt", [](R r) { r->set_text(std::string(kContext, 'x')); }, kInvalid, "TOO_LONG",
       "input"},
      {"LongOutput", [](R r) { Stop(r)->set_max_tokens(kContext); }, kInvalid, "TOO_LONG", "input"},
      {"HugeMaxTokens", [](R r) { Stop(r)->set_max_tokens(2147483647); }, kInvalid, "TOO_LONG",
       "input"},
      {"ZeroMaxTokens", [](R r) { Stop(r)->set_max_tokens(0); }, kInvalid, "INVALID_MAX_TOKENS",
       "spec.stop.max_tokens"},
      {"NegativeMaxTokens", [](R r) { Stop(r)->set_max_tokens(-3); }, kInvalid,
       "INVALID_MAX_TOKENS", "spec.stop.max_tokens"},
      {"NegativeTemperature", [](R r) { Sampling(r)->set_temperature(-0.1F); }, kInvalid,
       "INVALID_SAMPLING", "temperature"},
      {"NanTemperature", [](R r) { Sampling(r)->set_temperature(kNan); }, kInvalid,
       "INVALID_SAMPLING", "temperature"},
      {"InfiniteTemperature", [](R r) { Sampling(r)->set_temperature(kInf); }, kInvalid,
       "INVALID_SAMPLING", "temperature"},
      {"NegativeTopK", [](R r) { Sampling(r)->set_top_k(-1); }, kInvalid, "INVALID_SAMPLING",
       "top_k"},
      {"ZeroTopP", [](R r) { Sampling(r)->set_top_p(0); }, kInvalid, "INVALID_SAMPLING", "top_p"},
      {"NanMinP", [](R r) { Sampling(r)->set_min_p(kNan); }, kInvalid, "INVALID_SAMPLING", "min_p"},
      {"ZeroRepetitionPenalty", [](R r) { Sampling(r)->set_repetition_penalty(0); }, kInvalid,
       "INVALID_SAMPLING", "repetition_penalty"},
      {"InfinitePenalty", [](R r) { Sampling(r)->set_presence_penalty(kInf); }, kInvalid,
       "INVALID_SAMPLING", "presence_penalty"},
      {"BiasOfUnknownId", [](R r) { (*Sampling(r)->mutable_logit_bias())[320] = 1; }, kInvalid,
       "INVALID_TOKEN_ID", "logit_bias"},
      {"TooManyLogprobs", [](R r) { r->mutable_spec()->mutable_output()->set_logprobs(21); },
       kInvalid, "INVALID_SAMPLING", "logprobs"},
      {"UnknownStopId", [](R r) { Stop(r)->add_stop_token_ids(320); }, kInvalid, "INVALID_TOKEN_ID",
       "stop_token_ids"},
      {"EmptyStopString", [](R r) { Stop(r)->add_stop(""); }, kInvalid, "CONFLICTING_OPTIONS",
       "spec.stop.stop"},
      {"MinAboveMax", [](R r) { Stop(r)->set_min_tokens(9); }, kInvalid, "CONFLICTING_OPTIONS",
       "min_tokens"},
      {"IgnoreEosWithStopString",
       [](R r) {
         Stop(r)->set_eos_policy(v1::EOS_POLICY_IGNORE_CONTINUE);
         Stop(r)->add_stop("x");
       },
       kInvalid, "CONFLICTING_OPTIONS", "spec.stop.stop"},
      {"IgnoreEosWithStopId",
       [](R r) {
         Stop(r)->set_eos_policy(v1::EOS_POLICY_IGNORE_MASK);
         Stop(r)->add_stop_token_ids(5);
       },
       kInvalid, "CONFLICTING_OPTIONS", "stop_token_ids"},
      {"UnknownEosPolicy", [](R r) { Stop(r)->set_eos_policy(static_cast<v1::EosPolicy>(9)); },
       kInvalid, "CONFLICTING_OPTIONS", "spec.stop.eos_policy"},
      {"Priority", [](R r) { r->mutable_spec()->set_priority(1); }, kUnimplemented,
       "UNSUPPORTED_FIELD", "spec.priority"},
      {"GuidedJson", [](R r) { r->mutable_spec()->set_guided_json("{}"); }, kUnimplemented,
       "UNSUPPORTED_FIELD", "spec.guided_json"},
      {"GuidedRegex", [](R r) { r->mutable_spec()->set_guided_regex("a"); }, kUnimplemented,
       "UNSUPPORTED_FIELD", "spec.guided_regex"},
      {"GuidedGrammar", [](R r) { r->mutable_spec()->set_guided_grammar("a"); }, kUnimplemented,
       "UNSUPPORTED_FIELD", "spec.guided_grammar"},
      {"SeveralSamples", [](R r) { Sampling(r)->set_n(2); }, kUnimplemented, "UNSUPPORTED_FIELD",
       "spec.sampling.n"},
      {"Beams", [](R r) { Sampling(r)->set_beam_width(4); }, kUnimplemented, "UNSUPPORTED_FIELD",
       "spec.sampling.beam_width"},
      {"PromptLogprobs",
       [](R r) { r->mutable_spec()->mutable_output()->set_prompt_logprobs(true); }, kUnimplemented,
       "UNSUPPORTED_FIELD", "spec.output.prompt_logprobs"},
  };
}

using RefusalsTest = RouterTest;

TEST_F(RefusalsTest, EachBadRequestGetsItsCodeReasonAndFieldAndReachesNoWorker) {
  AddDecode();
  AddPrefill();
  StartRouter();
  for (const RefusalCase& refusal : Cases()) {
    SCOPED_TRACE(refusal.name);
    v1::GenerateRequest request = Request("hello", 8);
    refusal.change(&request);
    const Answer answer = Generate(request);
    EXPECT_EQ(answer.status.code(), refusal.code) << answer.status;
    EXPECT_EQ(ReasonText(answer.status), refusal.reason);
    EXPECT_EQ(DetailOf(answer.status).field, refusal.field);
    EXPECT_FALSE(answer.status.message().empty());
    EXPECT_TRUE(answer.messages.empty());
  }
  EXPECT_EQ(decode_[0]->decode_streams(), 0);
  EXPECT_EQ(prefill_[0]->prefill_streams(), 0);
  const double all = static_cast<double>(Cases().size());
  EXPECT_EQ(Metric("baton_requests_received_total"), all);
  EXPECT_EQ(Metric("baton_request_success_total{finished_reason=\"rejected\""), all);
  EXPECT_EQ(Metric("baton_requests_inflight"), 0);
  EXPECT_TRUE(Generate(Request("hello", 8)).status.ok());
}

TEST_F(RefusalsTest, TooLongSaysWhatItHadAndTheLimit) {
  AddDecode();
  StartRouter();
  const Answer answer = Generate(Request(std::string(kContext, 'x'), 8));
  const ErrorDetail detail = DetailOf(answer.status);
  EXPECT_THAT(detail.values, ::testing::Contains(std::pair<std::string, std::string>{
                                 "have", std::to_string(kContext + 1)}));
  EXPECT_THAT(detail.values, ::testing::Contains(std::pair<std::string, std::string>{
                                 "limit", std::to_string(kContext - 1)}));
}

TEST_F(RefusalsTest, InputAndOutputLimitsOfTheRouterBite) {
  options_.max_input_length = 6;
  options_.max_output_length = 4;
  AddDecode();
  StartRouter();
  EXPECT_TRUE(Generate(Request("12345", 4)).status.ok());
  EXPECT_EQ(ReasonText(Generate(Request("123456", 4)).status), "TOO_LONG");
  EXPECT_EQ(ReasonText(Generate(Request("12345", 5)).status), "INVALID_MAX_TOKENS");
  EXPECT_EQ(Generate(Request("12345", 0)).final->usage().completion_tokens(), 4);
}

TEST_F(RefusalsTest, IgnoringEosIsRefusedWhereTheServerSaysSo) {
  options_.ignore_eos = IgnoreEosRule::kRefuse;
  AddDecode();
  StartRouter();
  v1::GenerateRequest request = Request("hello", 8);
  Stop(&request)->set_eos_policy(v1::EOS_POLICY_IGNORE_CONTINUE);
  EXPECT_EQ(ReasonText(Generate(request).status), "CONFLICTING_OPTIONS");
  Stop(&request)->set_eos_policy(v1::EOS_POLICY_HONOR);
  EXPECT_TRUE(Generate(request).status.ok());
}

TEST_F(RefusalsTest, TextThatIsNotUtf8IsNamedByItsField) {
  AddDecode();
  StartRouter();
  // A client cannot be made to send this through its stub, so the bytes are written by hand:
  // field 2 (text), two bytes, not UTF-8.
  const std::string bytes = "\x12\x02\xff\xfe";
  grpc::Slice slice(bytes);
  const grpc::ByteBuffer request(&slice, 1);
  grpc::GenericStub stub(
      grpc::CreateChannel(router_->address(), grpc::InsecureChannelCredentials()));
  grpc::ClientContext context;
  grpc::CompletionQueue queue;
  const auto call =
      stub.PrepareUnaryCall(&context, "/baton.v1.InferenceService/GenerateOnce", request, &queue);
  call->StartCall();
  grpc::ByteBuffer response;
  grpc::Status status;
  call->Finish(&response, &status, nullptr);
  void* tag = nullptr;
  bool ok = false;
  ASSERT_TRUE(queue.Next(&tag, &ok));
  const absl::Status refused = FromGrpcStatus(status);
  EXPECT_EQ(refused.code(), kInvalid) << refused;
  EXPECT_EQ(ReasonText(refused), "INVALID_TEXT");
  EXPECT_EQ(DetailOf(refused).field, "text");
}

TEST_F(RefusalsTest, RequestIdIsUniqueAmongRequestsInFlightOnly) {
  auto slow = WorkerOptions(worker::v1::WORKER_ROLE_DECODE);
  slow.script = [](const FakeMoment& moment) {
    const bool hang = moment.point == FakePoint::kToken && moment.generation.prompt_ids_size() > 3;
    return hang ? FakeAction::Hang() : FakeAction::Go();
  };
  AddDecode(slow);
  StartRouter();
  v1::GenerateRequest request = Request("hangs", 8);
  request.mutable_spec()->set_request_id("mine");
  grpc::ClientContext context;
  const auto reader = stub_->Generate(&context, request);
  v1::GenerateResponse message;
  ASSERT_TRUE(reader->Read(&message));
  v1::GenerateRequest same = Request("ab", 2);
  same.mutable_spec()->set_request_id("mine");
  EXPECT_EQ(ReasonText(Generate(same).status), "CONFLICTING_OPTIONS");
  context.TryCancel();
  ReadAnswer(reader.get());
  ASSERT_TRUE(Eventually([&] { return router_->in_flight() == 0; }));
  EXPECT_EQ(Generate(same).started.request_id(), "mine");
}

TEST_F(RefusalsTest, MessageOverTheLimitIsRefusedAndTheNextOneServed) {
  AddDecode();
  StartRouter();
  const Answer answer = Generate(Request(std::string(size_t{17} << 20, 'x'), 8));
  EXPECT_EQ(answer.status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(Generate(Request("hello", 8)).status.ok());
}

TEST_F(RefusalsTest, TokenizeAndDetokenizeAnswerAndRefuse) {
  AddDecode();
  StartRouter();
  v1::TokenizeRequest tokenize;
  tokenize.set_text("hi");
  v1::TokenizeResponse tokens;
  {
    grpc::ClientContext context;
    ASSERT_TRUE(stub_->Tokenize(&context, tokenize, &tokens).ok());
  }
  EXPECT_THAT(tokens.token_ids(), ::testing::ElementsAre(kBos, 'h', 'i'));
  v1::DetokenizeRequest detokenize;
  *detokenize.mutable_token_ids() = tokens.token_ids();
  v1::DetokenizeResponse text;
  {
    grpc::ClientContext context;
    ASSERT_TRUE(stub_->Detokenize(&context, detokenize, &text).ok());
  }
  EXPECT_EQ(text.text(), "hi");
  detokenize.add_token_ids(320);
  grpc::ClientContext context;
  const auto refused = FromGrpcStatus(stub_->Detokenize(&context, detokenize, &text));
  EXPECT_EQ(ReasonText(refused), "INVALID_TOKEN_ID");
}

}  // namespace
}  // namespace baton::testing
