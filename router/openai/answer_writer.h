#pragma once

#include <cstdint>
#include <string>

#include "baton/v1/inference.pb.h"
#include "router/openai/openai_request.h"

namespace baton {

// What all parts of one answer have in common.
struct AnswerFacts {
  OpenAiApi api = OpenAiApi::kCompletions;
  OpenAiShape shape;
  int64_t created = 0;  // Unix seconds
};

// Writes one answer in the shapes of OpenAI, from the messages of baton.v1: as the events of a
// stream ("data: …" and an empty line each), or whole. Begins with Start, and knows no sockets. Not
// thread-safe.
class AnswerWriter final {
 public:
  explicit AnswerWriter(const AnswerFacts& facts) : facts_(facts) {}

  void Start(const v1::Started& started);

  // The event that opens the stream; "" where there is none.
  std::string Opening() const;
  // The event of new tokens; "" when it would say nothing.
  std::string DeltaEvent(const v1::Delta& delta);
  std::string PredictionEvent(const v1::EndPrediction& prediction) const;
  // All that follows the last delta of an answer that is whole.
  std::string LastEvents(const v1::Final& final) const;
  // The event of a stream that breaks; `error` is what OpenAiErrorJson makes.
  static std::string ErrorEvent(const std::string& error);

  // The answer that is not streamed, of which everything came in one delta.
  std::string Whole(const v1::GenerateOnceResponse& answer);

 private:
  struct Choice;
  std::string Event(const Choice& choice) const;

  const AnswerFacts facts_;
  std::string prefix_;  // what every chunk begins with
  int32_t prompt_tokens_ = 0;
  v1::SamplingParams sampling_;  // how tokens are drawn
  int32_t completion_tokens_ = 0;
  int64_t text_offset_ = 0;  // of the next token, in characters
};

}  // namespace baton
