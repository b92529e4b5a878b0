#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "baton/v1/inference.pb.h"
#include "common/text/detokenizer.h"
#include "nlohmann/json.hpp"

namespace baton {

// {"content": [{"token", "logprob", "bytes", "top_logprobs": […]}], "refusal": null}.
nlohmann::ordered_json ChatLogprobs(const v1::Delta& delta);

// Whether the text of an answer has nothing of the token with that id; null: of none.
using LeftOut = std::function<bool(int32_t id)>;

// How far tokens have come in the text that is made of them. A character that several tokens make
// up counts with the first of them.
class TextPlace final {
 public:
  // The characters of the tokens so far.
  int64_t characters() const;
  // What the text gains by a token with these bytes: the characters that they finish.
  std::string TextOf(std::string_view bytes) const;
  // What the text has in place of a character that was begun, if it ends here.
  std::string Unfinished() const;
  // A token of which the text has these bytes.
  void AddToken(std::string_view bytes);
  // The text ends here, and another one begins.
  void Finish();

 private:
  int64_t whole_ = 0;
  Utf8Assembler assembler_;  // as the text's own, so that bytes that are none count as there
};

// {"text_offset", "token_logprobs", "tokens", "top_logprobs"}: lists with an entry for each token.
// `*place` goes on behind them. The token that was drawn stands among the top ones, as with OpenAI.
nlohmann::ordered_json CompletionLogprobs(const v1::Delta& delta, const LeftOut& left_out,
                                          TextPlace* place);
// As that, of an echoed prompt, whose first token has null for its logprobs. What `text`, where it
// goes on at its first character, does not show, as special tokens that it leaves out, takes no
// room in it: `*text` and `*place` go on behind what was found.
nlohmann::ordered_json PromptLogprobs(const v1::Prompt& prompt, std::string_view* text,
                                      TextPlace* place);

}  // namespace baton
