#pragma once

#include <span>
#include <string>
#include <string_view>

namespace baton {

// The keys of a row of the EOS log, in the order of the log.
enum class EosKey {
  kRequestId,
  kTimestamp,
  kStep,
  kCurrentTokenId,
  kEosTokenId,
  kEosLogprob,
  kEosProb,
  kIsFinished,
  kFinishReason,
  kPromptLength,
  kOutputLength,
  kTotalLength,
  kEosProbSampling,
  kEosRank,
  kEntropy,
  kTop1Prob,
  kEosPolicy,
  kNaturalEndStep,
  kAttempt,
  kIndex,
};

enum class EosValue { kText, kNumber, kInteger, kBool, kWord };

// What a row may have under one key. Readers check by this table and docs/eos_log.schema.json is
// made from it.
struct EosField {
  EosKey key;
  std::string_view name;
  EosValue value;
  bool nullable = false;
  bool optional = false;  // rows of earlier versions lack it
  double least = 0;       // of numbers and integers
  double most = 0;
  std::span<const std::string_view> words = {};  // of kWord: all that there are
  std::string_view meaning;
};

// All of them, in the order of the enum. Optional ones come last.
std::span<const EosField> EosFields();

// "a number from 0 to 1 or null", for messages.
std::string ExpectedOf(const EosField& field);

// The JSON schema (draft 2020-12) of a row, as docs/eos_log.schema.json has it.
std::string EosRowSchema();

}  // namespace baton
