#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "baton/v1/inference.pb.h"
#include "nlohmann/json_fwd.hpp"
#include "router/openai/answer_facts.h"
#include "router/openai/text_pieces.h"

namespace baton {

// Writes what is not streamed in the shape of OpenAI. Each message becomes text when it comes, so
// that an answer takes about the memory of its text, and no call has much to do, the last one
// either. Begins with Start. Not thread-safe.
class WholeAnswer final {
 public:
  explicit WholeAnswer(const AnswerFacts& facts) : facts_(facts) {}

  void Start(const v1::Started& started);
  void Show(const v1::Prompt& prompt);
  void Append(const v1::Delta& delta);
  void Predict(const v1::EndPrediction& prediction);
  void End(const v1::Final& final);

  // What was written of it so far.
  size_t bytes() const;
  // The answer, once all of it ended. Call once.
  TextPieces Take();

 private:
  // The entries of a list, with commas between them.
  struct List {
    void Add(const nlohmann::ordered_json& entries);

    TextPieces text;
  };
  struct Choice {
    size_t bytes() const;

    TextPieces text;  // as it stands between quotes
    bool scored = false;
    List scores;                                             // of a chat
    List text_offset, token_logprobs, tokens, top_logprobs;  // of a completion
    TextPlace place;                                         // of the next token
    List token_ids, eos, predictions;                        // of the extension
    v1::Final final;
  };
  // The lists as members of an object, in this order and without its braces.
  static TextPieces Members(std::initializer_list<std::pair<std::string_view, List*>> lists);
  void AddLists(const nlohmann::ordered_json& lists, Choice* choice);
  TextPieces Logprobs(Choice* choice) const;
  TextPieces Extension(Choice* choice) const;
  TextPieces ChoiceText(Choice* choice, bool several) const;

  const AnswerFacts facts_;
  std::string prefix_;
  v1::SamplingParams sampling_;
  EchoedPrompt echo_;
  std::map<int32_t, Choice> choices_;  // by index
};

}  // namespace baton
