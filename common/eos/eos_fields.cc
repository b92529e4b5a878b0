#include "common/eos/eos_fields.h"

#include <array>
#include <cstdint>
#include <limits>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/sample/params.h"
#include "nlohmann/json.hpp"

namespace baton {
namespace {

constexpr double kMaxInt = INT32_MAX;
constexpr double kMaxTotal = 2.0 * INT32_MAX;  // the sum of two lengths
constexpr double kUnbounded = std::numeric_limits<double>::infinity();

std::span<const std::string_view> ReasonWords() {
  static const std::array<std::string_view, 9> words = {
      FinishReasonName(FinishReason::kStopEos),    FinishReasonName(FinishReason::kStopToken),
      FinishReasonName(FinishReason::kStopString), FinishReasonName(FinishReason::kStopGrammar),
      FinishReasonName(FinishReason::kLength),     FinishReasonName(FinishReason::kRunaway),
      FinishReasonName(FinishReason::kAborted),    FinishReasonName(FinishReason::kDeadline),
      FinishReasonName(FinishReason::kError)};
  return words;
}

std::span<const std::string_view> PolicyWords() {
  static const std::array<std::string_view, 3> words = {EosPolicyName(EosPolicy::kHonor),
                                                        EosPolicyName(EosPolicy::kIgnoreContinue),
                                                        EosPolicyName(EosPolicy::kIgnoreMask)};
  return words;
}

EosField Text(EosKey key, std::string_view name, std::string_view meaning) {
  return {.key = key, .name = name, .value = EosValue::kText, .meaning = meaning};
}

EosField Word(EosKey key, std::string_view name, bool nullable,
              std::span<const std::string_view> words, std::string_view meaning) {
  return {.key = key,
          .name = name,
          .value = EosValue::kWord,
          .nullable = nullable,
          .words = words,
          .meaning = meaning};
}

EosField Integer(EosKey key, std::string_view name, double least, std::string_view meaning,
                 bool nullable = false) {
  return {.key = key,
          .name = name,
          .value = EosValue::kInteger,
          .nullable = nullable,
          .least = least,
          .most = kMaxInt,
          .meaning = meaning};
}

EosField Figure(EosKey key, std::string_view name, double least, double most,
                std::string_view meaning) {
  return {.key = key,
          .name = name,
          .value = EosValue::kNumber,
          .nullable = true,
          .least = least,
          .most = most,
          .meaning = meaning};
}

std::array<EosField, 20> MakeFields() {
  using K = EosKey;
  EosField timestamp = Figure(K::kTimestamp, "timestamp", 0, kUnbounded,
                              "Unix seconds at which the token was sampled");
  timestamp.nullable = false;
  EosField total = Integer(K::kTotalLength, "total_length", 1, "prompt_length + output_length");
  total.most = kMaxTotal;
  EosField index =
      Integer(K::kIndex, "index", 0, "which of several answers to the request this is");
  index.optional = true;
  const EosField finished = {.key = K::kIsFinished,
                             .name = "is_finished",
                             .value = EosValue::kBool,
                             .meaning = "whether this is the request's last row"};
  return {{
      Text(K::kRequestId, "request_id", "unique among the requests of a tenant in flight"),
      timestamp,
      Integer(K::kStep, "step", 1, "tokens sampled, this one and EOS included"),
      Integer(K::kCurrentTokenId, "current_token_id", 0, "the token of this step"),
      Integer(K::kEosTokenId, "eos_token_id", 0, "the tokenizer's primary EOS", true),
      Figure(K::kEosLogprob, "eos_logprob", -kUnbounded, 0,
             "natural logarithm of the probability of EOS, over all EOS ids, of the raw logits at "
             "temperature 1"),
      Figure(K::kEosProb, "eos_prob", 0, 1, "exp(eos_logprob)"),
      finished,
      Word(K::kFinishReason, "finish_reason", true, ReasonWords(),
           "why the request ended; null before its last row"),
      Integer(K::kPromptLength, "prompt_length", 1, "tokens of the prompt"),
      Integer(K::kOutputLength, "output_length", 1, "the same as step"),
      total,
      Figure(K::kEosProbSampling, "eos_prob_sampling", 0, 1,
             "probability of the whole stop set after all processors: the chance that this step "
             "ends the request"),
      Integer(K::kEosRank, "eos_rank", 1, "place of the best EOS id among all ids", true),
      Figure(K::kEntropy, "entropy", 0, kUnbounded, "of the raw distribution, in nats"),
      Figure(K::kTop1Prob, "top1_prob", 0, 1, "probability of the most likely id"),
      Word(K::kEosPolicy, "eos_policy", false, PolicyWords(), "what the request does at EOS"),
      Integer(K::kNaturalEndStep, "natural_end_step", 1,
              "under an ignore policy, the step at which the answer would have ended", true),
      Integer(K::kAttempt, "attempt", 1, "which attempt of the router gave the token"),
      index,
  }};
}

// A bound as a person writes it: whole numbers without a fraction.
std::string BoundText(double bound) { return absl::StrCat(static_cast<int64_t>(bound)); }

std::string RangeText(const EosField& field) {
  if (field.most == kUnbounded) return absl::StrCat(" of at least ", BoundText(field.least));
  if (field.least == -kUnbounded) return absl::StrCat(" of at most ", BoundText(field.most));
  return absl::StrCat(" from ", BoundText(field.least), " to ", BoundText(field.most));
}

std::string_view SchemaType(EosValue value) {
  switch (value) {
    case EosValue::kText:
    case EosValue::kWord:
      return "string";
    case EosValue::kNumber:
      return "number";
    case EosValue::kInteger:
      return "integer";
    case EosValue::kBool:
      return "boolean";
  }
  return "";
}

nlohmann::ordered_json FieldSchema(const EosField& field) {
  nlohmann::ordered_json schema = {{"description", field.meaning}};
  if (field.value == EosValue::kWord) {
    schema["enum"] = field.words;
    if (field.nullable) schema["enum"].push_back(nullptr);
    return schema;
  }
  schema["type"] = SchemaType(field.value);
  if (field.nullable) schema["type"] = {SchemaType(field.value), "null"};
  if (field.value == EosValue::kText || field.value == EosValue::kBool) return schema;
  if (field.least != -kUnbounded) schema["minimum"] = static_cast<int64_t>(field.least);
  if (field.most != kUnbounded) schema["maximum"] = static_cast<int64_t>(field.most);
  return schema;
}

}  // namespace

std::span<const EosField> EosFields() {
  static const std::array<EosField, 20> fields = MakeFields();
  return fields;
}

std::string ExpectedOf(const EosField& field) {
  std::string text;
  switch (field.value) {
    case EosValue::kText:
      text = "a string";
      break;
    case EosValue::kWord:
      text = "one of " +
             absl::StrJoin(std::vector<std::string>(field.words.begin(), field.words.end()), ", ");
      break;
    case EosValue::kNumber:
      text = "a number" + RangeText(field);
      break;
    case EosValue::kInteger:
      text = "an integer" + RangeText(field);
      break;
    case EosValue::kBool:
      text = "true or false";
      break;
  }
  return field.nullable ? text + " or null" : text;
}

std::string EosRowSchema() {
  nlohmann::ordered_json schema = {
      {"$schema", "https://json-schema.org/draft/2020-12/schema"},
      {"title", "A row of Baton's EOS log: one accepted token"},
      {"description", "Each line of the log is one such object; docs/eos.md says what they mean."},
      {"type", "object"},
      {"additionalProperties", false},
      {"required", nlohmann::ordered_json::array()},
      {"properties", nlohmann::ordered_json::object()}};
  for (const EosField& field : EosFields()) {
    if (!field.optional) schema["required"].push_back(field.name);
    schema["properties"][std::string(field.name)] = FieldSchema(field);
  }
  return schema.dump(2) + "\n";
}

}  // namespace baton
