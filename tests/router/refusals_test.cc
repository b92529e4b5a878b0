#include <gmock/gmock.h>

#include <span>
#include <string>
#include <string_view>

#include "absl/strings/str_split.h"
#include "common/rpc/status_map.h"
#include "google/protobuf/text_format.h"
#include "tests/router/router_fixture.h"

namespace baton::testing {
namespace {

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
constexpr auto kNotFound = absl::StatusCode::kNotFound;
constexpr auto kUnimplemented = absl::StatusCode::kUnimplemented;

// What is put into a good request, as text, and what the refusal says.
struct RefusalCase {
  std::string_view change;
  absl::StatusCode code;
  std::string_view reason;
  std::string_view field;
};

// The model has ids 0 to 319 and the request asks for 8 tokens.
constexpr RefusalCase kInputs[] = {
    {"text: ''", kInvalid, "EMPTY_PROMPT", "text"},
    {"token_ids {}", kInvalid, "EMPTY_PROMPT", "token_ids"},
    {"token_ids { ids: -1 }", kInvalid, "INVALID_TOKEN_ID", "token_ids"},
    {"token_ids { ids: 320 }", kInvalid, "INVALID_TOKEN_ID", "token_ids"},
    {"spec { model: 'gpt' }", kNotFound, "MODEL_NOT_FOUND", "spec.model"},
    {"spec { request_id: 'a\\nb' }", kInvalid, "INVALID_TEXT", "spec.request_id"},
};
constexpr RefusalCase kSampling[] = {
    {"temperature: -0.1", kInvalid, "INVALID_SAMPLING", "temperature"},
    {"temperature: nan", kInvalid, "INVALID_SAMPLING", "temperature"},
    {"temperature: inf", kInvalid, "INVALID_SAMPLING", "temperature"},
    {"top_k: -1", kInvalid, "INVALID_SAMPLING", "top_k"},
    {"top_p: 0", kInvalid, "INVALID_SAMPLING", "top_p"},
    {"min_p: nan", kInvalid, "INVALID_SAMPLING", "min_p"},
    {"repetition_penalty: 0", kInvalid, "INVALID_SAMPLING", "repetition_penalty"},
    {"presence_penalty: inf", kInvalid, "INVALID_SAMPLING", "presence_penalty"},
    {"logit_bias { key: 320 value: 1 }", kInvalid, "INVALID_TOKEN_ID", "logit_bias"},
    {"n: 0", kInvalid, "INVALID_SAMPLING", "n"},
    {"n: 65", kInvalid, "LIMIT_EXCEEDED", "n"},
    {"n: 3 best_of: 2", kInvalid, "CONFLICTING_OPTIONS", "best_of"},
    {"beam_width: -1", kInvalid, "INVALID_SAMPLING", "beam_width"},
    {"beam_width: 17", kInvalid, "LIMIT_EXCEEDED", "beam_width"},
    {"beam_width: 4 n: 5", kInvalid, "CONFLICTING_OPTIONS", "n"},
    {"beam_width: 4 best_of: 4", kInvalid, "CONFLICTING_OPTIONS", "best_of"},
    {"beam_width: 4 temperature: 0.5", kInvalid, "CONFLICTING_OPTIONS", "temperature"},
    {"beam_width: 4 top_p: 0.5", kInvalid, "CONFLICTING_OPTIONS", "top_p"},
    {"beam_width: 4 repetition_penalty: 1.5", kInvalid, "CONFLICTING_OPTIONS",
     "repetition_penalty"},
    {"beam_width: 4 length_penalty: 11", kInvalid, "INVALID_SAMPLING", "length_penalty"},
    {"beam_width: 4 length_penalty: nan", kInvalid, "INVALID_SAMPLING", "length_penalty"},
    {"beam_width: 4 early_stopping: 9", kInvalid, "INVALID_SAMPLING", "early_stopping"},
    {"length_penalty: 2", kInvalid, "CONFLICTING_OPTIONS", "length_penalty"},
    {"beam_width: 1 early_stopping: EARLY_STOPPING_NEVER", kInvalid, "CONFLICTING_OPTIONS",
     "early_stopping"},
};
constexpr RefusalCase kStops[] = {
    {"max_tokens: 0", kInvalid, "INVALID_MAX_TOKENS", "max_tokens"},
    {"max_tokens: -3", kInvalid, "INVALID_MAX_TOKENS", "max_tokens"},
    {"min_tokens: 9", kInvalid, "CONFLICTING_OPTIONS", "min_tokens"},
    {"stop: ''", kInvalid, "INVALID_TEXT", "stop"},
    {"stop_token_ids: 320", kInvalid, "INVALID_TOKEN_ID", "stop_token_ids"},
    {"eos_policy: 9", kInvalid, "CONFLICTING_OPTIONS", "eos_policy"},
    {"eos_policy: EOS_POLICY_IGNORE_CONTINUE stop: 'x'", kInvalid, "CONFLICTING_OPTIONS", "stop"},
    {"length_control { target: 0 strength: 1 }", kInvalid, "INVALID_SAMPLING",
     "length_control.target"},
    {"length_control { target: 9 }", kInvalid, "INVALID_SAMPLING", "length_control.strength"},
    {"length_control { target: 9 strength: nan }", kInvalid, "INVALID_SAMPLING",
     "length_control.strength"},
    {"length_control { target: 9 strength: 1 } eos_policy: EOS_POLICY_IGNORE_MASK", kInvalid,
     "CONFLICTING_OPTIONS", "length_control"},
    {"eos_policy: EOS_POLICY_IGNORE_MASK stop_token_ids: 5", kInvalid, "CONFLICTING_OPTIONS",
     "stop_token_ids"},
};
constexpr RefusalCase kOthers[] = {
    {"output { logprobs: 21 }", kInvalid, "INVALID_SAMPLING", "output.logprobs"},
    {"output { echo: true } sampling { n: 2 }", kInvalid, "CONFLICTING_OPTIONS", "output.echo"},
    {"request_id: 'two\\nlines'", kInvalid, "INVALID_TEXT", "request_id"},
    {"tag: 'two\\nlines'", kInvalid, "INVALID_TEXT", "tag"},
    {"preset: 'poetry'", kInvalid, "INVALID_SAMPLING", "preset"},
    {"priority: 1", kUnimplemented, "UNSUPPORTED_FIELD", "priority"},
    {"guided_json: '{'", kInvalid, "INVALID_GUIDE", "guided_json"},
    {"guided_json: '{\"type\":\"nope\"}'", kInvalid, "INVALID_GUIDE", "guided_json"},
    {"guided_regex: '('", kInvalid, "INVALID_GUIDE", "guided_regex"},
    {"guided_grammar: 'a'", kInvalid, "INVALID_GUIDE", "guided_grammar"},
    {"guided_choice: 'a' guided_choice: ''", kInvalid, "INVALID_GUIDE", "guided_choice"},
    {"guided_json: '{}' guided_regex: 'a'", kInvalid, "CONFLICTING_OPTIONS", "guided_regex"},
    {"json_object: true guided_choice: 'a'", kInvalid, "CONFLICTING_OPTIONS", "json_object"},
    {"json_object: true stop { eos_policy: EOS_POLICY_IGNORE_MASK }", kInvalid,
     "CONFLICTING_OPTIONS", "json_object"},
};

v1::StopParams* Stop(v1::GenerateRequest* request) {
  return request->mutable_spec()->mutable_stop();
}

class RefusalsTest : public RouterTest {
 protected:
  // `in` is the message that the changes are of, "" for the request; it ends the field's prefix.
  void ExpectRefused(std::string_view in, std::span<const RefusalCase> cases) {
    for (const RefusalCase& refusal : cases) {
      SCOPED_TRACE(std::string(in) + " " + std::string(refusal.change));
      v1::GenerateRequest request = Request("hello", 8);
      google::protobuf::Message* changed = &request;
      std::string field;
      const std::vector<std::string> parts =
          absl::StrSplit(std::string(in), '.', absl::SkipEmpty());
      for (const std::string& part : parts) {
        const auto* descriptor = changed->GetDescriptor()->FindFieldByName(part);
        changed = changed->GetReflection()->MutableMessage(changed, descriptor);
        field += part + ".";
      }
      google::protobuf::TextFormat::Parser parser;
      ASSERT_TRUE(parser.MergeFromString(std::string(refusal.change), changed));
      ExpectRefused(request, refusal.code, refusal.reason, field + std::string(refusal.field));
    }
  }

  void ExpectRefused(const v1::GenerateRequest& request, absl::StatusCode code,
                     std::string_view reason, std::string_view field) {
    const Answer answer = Generate(request);
    EXPECT_EQ(answer.status.code(), code) << answer.status;
    EXPECT_EQ(ReasonText(answer.status), reason);
    EXPECT_EQ(DetailOf(answer.status).field, field);
    EXPECT_FALSE(answer.status.message().empty());
    EXPECT_TRUE(answer.messages.empty());
    ++refused_;
  }

  int refused_ = 0;
};

TEST_F(RefusalsTest, EachBadRequestGetsItsCodeReasonAndFieldAndReachesNoWorker) {
  AddDecode();
  AddPrefill();
  StartRouter();
  ExpectRefused("", kInputs);
  ExpectRefused("spec.sampling", kSampling);
  ExpectRefused("spec.stop", kStops);
  ExpectRefused("spec", kOthers);
  v1::GenerateRequest nothing = Request("", 8);
  nothing.clear_input();
  ExpectRefused(nothing, kInvalid, "EMPTY_PROMPT", "text");
  v1::GenerateRequest long_id = Request("hello", 8);
  long_id.mutable_spec()->set_request_id(std::string(300, 'x'));
  ExpectRefused(long_id, kInvalid, "LIMIT_EXCEEDED", "spec.request_id");
  ExpectRefused(Request(std::string(kContext, 'x'), 8), kInvalid, "TOO_LONG", "input");
  ExpectRefused(Request("hello", kContext), kInvalid, "TOO_LONG", "input");
  ExpectRefused(Request("hello", 2147483647), kInvalid, "TOO_LONG", "input");
  EXPECT_EQ(decode_[0]->decode_streams(), 0);
  EXPECT_EQ(prefill_[0]->prefill_streams(), 0);
  const double all = refused_;
  EXPECT_EQ(Metric("baton_requests_received_total"), all);
  EXPECT_EQ(Metric("baton_request_failure_total{finished_reason=\"rejected\""), all);
  EXPECT_EQ(Metric("baton_requests_inflight"), 0);
  EXPECT_EQ(Metric("baton_request_success_total"), 0);
  EXPECT_TRUE(Generate(Request("hello", 8)).status.ok());
  EXPECT_EQ(Metric("baton_request_success_total"), 1);
  EXPECT_EQ(Metric("baton_request_failure_total"), all);
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
  const absl::Status refused = FromGrpcStatus(
      CallRaw(*router_, "/baton.v1.InferenceService/GenerateOnce", "\x12\x02\xff\xfe").status);
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

TEST_F(RefusalsTest, DetokenizeReadsNoMessageThatHasTooManyIds) {
  AddDecode();
  StartRouter();
  const std::string no_message(11 * kContext + 2048, '\xff');
  const RawAnswer refused = CallRaw(*router_, "/baton.v1.InferenceService/Detokenize", no_message);
  EXPECT_EQ(ReasonText(FromGrpcStatus(refused.status)), "TOO_LONG");
}

TEST_F(RefusalsTest, LongModelNameIsRefusedInFewBytes) {
  AddDecode();
  StartRouter();
  v1::GenerateRequest request = Request("hello", 8);
  request.mutable_spec()->set_model(std::string(100'000, 'm'));
  const Answer answer = Generate(request);
  EXPECT_EQ(ReasonText(answer.status), "MODEL_NOT_FOUND");
  EXPECT_LT(answer.status.message().size(), 200u);
}

TEST_F(RefusalsTest, TokenizeAndDetokenizeTakeNoMoreThanARequestCould) {
  AddDecode();
  StartRouter();
  v1::TokenizeRequest tokenize;
  tokenize.set_text(std::string(3'600'000, 'x'));
  v1::TokenizeResponse tokens;
  grpc::ClientContext first;
  EXPECT_EQ(ReasonText(FromGrpcStatus(stub_->Tokenize(&first, tokenize, &tokens))), "TOO_LONG");
  v1::DetokenizeRequest detokenize;
  for (int i = 0; i <= kContext; ++i) detokenize.add_token_ids('x');
  v1::DetokenizeResponse text;
  grpc::ClientContext second;
  EXPECT_EQ(ReasonText(FromGrpcStatus(stub_->Detokenize(&second, detokenize, &text))), "TOO_LONG");
}

TEST_F(RefusalsTest, ManyEmptyChatMessagesAreRefused) {
  AddDecode();
  StartRouter();
  v1::ChatGenerateRequest request;
  for (int i = 0; i < 500'000; ++i) request.add_messages();
  grpc::ClientContext context;
  const auto reader = stub_->ChatGenerate(&context, request);
  v1::ChatGenerateResponse message;
  EXPECT_FALSE(reader->Read(&message));
  const absl::Status refused = FromGrpcStatus(reader->Finish());
  EXPECT_EQ(ReasonText(refused), "LIMIT_EXCEEDED") << refused;
  EXPECT_EQ(DetailOf(refused).field, "messages");
  EXPECT_TRUE(Generate(Request("hello", 8)).status.ok());
}

}  // namespace
}  // namespace baton::testing
