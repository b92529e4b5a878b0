#include "router/edge/request_parse.h"

#include <gtest/gtest.h>

#include <functional>

#include "baton/v1/inference.pb.h"
#include "common/base/status.h"
#include "common/sample/request_limits.h"

namespace baton {
namespace {

// What the table allows of `limit`.
int Most(RequestLimit limit) {
  return static_cast<int>(RequestLimits()[static_cast<size_t>(limit)].most);
}

// A request in which each limited size is as large as it may be.
v1::ChatGenerateRequest Largest() {
  v1::ChatGenerateRequest request;
  for (int i = 0; i < Most(RequestLimit::kMessages); ++i) {
    request.add_messages()->set_role(std::string(Most(RequestLimit::kMessageRole), 'r'));
  }
  v1::GenerationSpec* spec = request.mutable_spec();
  spec->set_request_id(std::string(Most(RequestLimit::kRequestId), 'i'));
  spec->set_cache_salt(std::string(Most(RequestLimit::kCacheSalt), 's'));
  spec->set_tag(std::string(Most(RequestLimit::kTag), 't'));
  for (int i = 0; i < Most(RequestLimit::kStopStrings); ++i) {
    spec->mutable_stop()->add_stop(std::string(Most(RequestLimit::kStopStringBytes), 'x'));
  }
  for (int i = 0; i < Most(RequestLimit::kStopTokenIds); ++i) {
    spec->mutable_stop()->add_stop_token_ids(300 + i);  // two bytes each
  }
  for (int i = 0; i < Most(RequestLimit::kLogitBiases); ++i) {
    (*spec->mutable_sampling()->mutable_logit_bias())[i] = 1;
  }
  spec->set_guided_json(std::string(Most(RequestLimit::kGuidedJson), 'j'));
  spec->set_guided_regex(std::string(Most(RequestLimit::kGuidedRegex), 'x'));
  spec->set_guided_grammar(std::string(Most(RequestLimit::kGuidedGrammar), 'g'));
  for (int i = 0; i < Most(RequestLimit::kGuidedChoices); ++i) {
    spec->add_guided_choice(std::string(Most(RequestLimit::kGuidedChoiceBytes), 'c'));
  }
  return request;
}

grpc::ByteBuffer BytesOf(const std::string& bytes) {
  const grpc::Slice slice(bytes);
  return grpc::ByteBuffer(&slice, 1);
}

TEST(RequestParseTest, TheLargestRequestOfTheTablePasses) {
  v1::ChatGenerateRequest parsed;
  EXPECT_TRUE(ParseRequest(SerializeResponse(Largest()), &parsed).ok());
  EXPECT_EQ(parsed.messages_size(), Most(RequestLimit::kMessages));
}

TEST(RequestParseTest, OneMoreOfAnyIsRefusedBeforeAnythingIsCopied) {
  struct Case {
    std::string_view field;
    std::string_view have;
    std::function<void(v1::ChatGenerateRequest*)> change;
  };
  const Case cases[] = {
      {"messages", "4097", [](auto* request) { request->add_messages(); }},
      {"messages.role", "65",
       [](auto* request) { request->mutable_messages(9)->mutable_role()->push_back('r'); }},
      {"spec.request_id", "257",
       [](auto* request) { request->mutable_spec()->mutable_request_id()->push_back('i'); }},
      {"spec.cache_salt", "257",
       [](auto* request) { request->mutable_spec()->mutable_cache_salt()->push_back('s'); }},
      {"spec.tag", "65",
       [](auto* request) { request->mutable_spec()->mutable_tag()->push_back('t'); }},
      {"spec.stop.stop", "65",
       [](auto* request) { request->mutable_spec()->mutable_stop()->add_stop("x"); }},
      {"spec.stop.stop", "257",
       [](auto* request) {
         request->mutable_spec()->mutable_stop()->mutable_stop(3)->push_back('x');
       }},
      {"spec.stop.stop_token_ids", "257",
       [](auto* request) { request->mutable_spec()->mutable_stop()->add_stop_token_ids(1); }},
      {"spec.sampling.logit_bias", "1025",
       [](auto* request) {
         (*request->mutable_spec()->mutable_sampling()->mutable_logit_bias())[5000] = 1;
       }},
      {"spec.guided_json", "65537",
       [](auto* request) { request->mutable_spec()->mutable_guided_json()->push_back('j'); }},
      {"spec.guided_regex", "16385",
       [](auto* request) { request->mutable_spec()->mutable_guided_regex()->push_back('x'); }},
      {"spec.guided_grammar", "65537",
       [](auto* request) { request->mutable_spec()->mutable_guided_grammar()->push_back('g'); }},
      {"spec.guided_choice", "1001",
       [](auto* request) { request->mutable_spec()->add_guided_choice("c"); }},
      {"spec.guided_choice", "1025",
       [](auto* request) { request->mutable_spec()->mutable_guided_choice(7)->push_back('c'); }},
  };
  for (const Case& refused : cases) {
    SCOPED_TRACE(std::string(refused.field) + " " + std::string(refused.have));
    v1::ChatGenerateRequest request = Largest();
    refused.change(&request);
    v1::ChatGenerateRequest parsed;
    const absl::Status status = ParseRequest(SerializeResponse(request), &parsed);
    const ErrorDetail detail = DetailOf(status);
    EXPECT_EQ(detail.reason, Reason::kLimitExceeded) << status;
    EXPECT_EQ(detail.field, refused.field);
    ASSERT_EQ(detail.values.size(), 2u);
    EXPECT_EQ(detail.values[0].second, refused.have);
    EXPECT_EQ(parsed.ByteSizeLong(), 0u);
  }
}

// A message that comes in parts is joined by the parser, so its parts count together.
TEST(RequestParseTest, PartsOfOneMessageAreCountedTogether) {
  v1::GenerateRequest half;
  for (int i = 0; i < Most(RequestLimit::kStopTokenIds) / 2 + 1; ++i) {
    half.mutable_spec()->mutable_stop()->add_stop_token_ids(7);
  }
  v1::GenerateRequest parsed;
  const std::string bytes = half.SerializeAsString();
  EXPECT_TRUE(ParseRequest(BytesOf(bytes), &parsed).ok());
  const absl::Status status = ParseRequest(BytesOf(bytes + bytes), &parsed);
  EXPECT_EQ(DetailOf(status).field, "spec.stop.stop_token_ids");
}

TEST(RequestParseTest, TheErrorNamesTheWholeNumber) {
  v1::ChatGenerateRequest request;
  for (int i = 0; i < 500'000; ++i) request.add_messages();
  request.mutable_spec()->set_model("tiny");
  v1::ChatGenerateRequest parsed;
  const ErrorDetail detail = DetailOf(ParseRequest(SerializeResponse(request), &parsed));
  EXPECT_EQ(detail.values[0].second, "500000");
  EXPECT_EQ(detail.values[1].second, "4096");
}

// The parser would keep each of them in memory of its own.
TEST(RequestParseTest, ThousandsOfUnknownFieldsAreRefusedWhereverTheyStand) {
  const auto detail = [](const std::string& bytes) {
    v1::GenerateRequest parsed;
    return DetailOf(ParseRequest(BytesOf(bytes), &parsed));
  };
  const auto expect_refused = [&](const std::string& bytes, const std::string& field) {
    EXPECT_EQ(detail(bytes).reason, Reason::kLimitExceeded);
    EXPECT_EQ(detail(bytes).field, field);
    const std::vector<std::pair<std::string, std::string>> values = {{"have", "2000"},
                                                                     {"limit", "1024"}};
    EXPECT_EQ(detail(bytes).values, values);
  };
  std::string few;  // of number 1000, with nothing in them
  for (int i = 0; i < 1000; ++i) few += std::string("\xc2\x3e\x00", 3);
  v1::GenerateRequest request;
  request.mutable_spec()->mutable_output();
  EXPECT_EQ(detail(few).reason, Reason::kNone);
  expect_refused(few + few, "1000");
  request.mutable_spec()
      ->mutable_output()
      ->GetReflection()
      ->MutableUnknownFields(request.mutable_spec()->mutable_output())
      ->ParseFromString(few + few);
  expect_refused(request.SerializeAsString(), "spec.output.1000");
}

TEST(RequestParseTest, BytesThatAreNoMessageAreLeftToTheParser) {
  for (const std::string bytes : {"\x0a\xff\xff\xff\xff\x0f", "\x0a\x05\x0a", "\xff", "\x0b"}) {
    v1::ChatGenerateRequest parsed;
    const absl::Status status = ParseRequest(BytesOf(bytes), &parsed);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(ReasonOf(status), Reason::kNone) << status;
  }
}

}  // namespace
}  // namespace baton
