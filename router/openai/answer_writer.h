#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "baton/v1/inference.pb.h"
#include "nlohmann/json_fwd.hpp"
#include "router/openai/answer_facts.h"

namespace baton {

// Writes one answer in the shapes of OpenAI, from the messages of baton.v1: as the events of a
// stream ("data: …" and an empty line each). Begins with Start, and knows no sockets. Not
// thread-safe.
class AnswerWriter final {
 public:
  explicit AnswerWriter(const AnswerFacts& facts) : facts_(facts) {}

  void Start(const v1::Started& started);

  // The events that open the stream, one for each answer; "" where there is none.
  std::string Opening() const;
  // The event of an echoed prompt, or of a piece of it.
  std::string PromptEvent(const v1::Prompt& prompt);
  // The event of new tokens; "" when it would say nothing.
  std::string DeltaEvent(const v1::Delta& delta);
  std::string PredictionEvent(const v1::EndPrediction& prediction) const;
  // The event of one of several answers that ended before the last.
  std::string EndEvent(const v1::Final& final) const;
  // All that follows the last delta of a request whose answers are whole.
  std::string LastEvents(const v1::Final& final) const;
  // The event of a stream that breaks; `error` is what OpenAiErrorJson makes.
  static std::string ErrorEvent(const std::string& error);

 private:
  struct Choice;
  std::string Event(const Choice& choice) const;
  TextPlace* PlaceOf(int32_t index);

  const AnswerFacts facts_;
  std::string prefix_;  // what every chunk begins with
  int32_t prompt_tokens_ = 0;
  v1::SamplingParams sampling_;    // how tokens are drawn
  int32_t completion_tokens_ = 0;  // of all answers
  std::vector<TextPlace> places_;  // by index: of the next token
  EchoedPrompt echo_;
};

}  // namespace baton
