#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "baton/v1/inference.pb.h"
#include "common/base/eos_signal.h"
#include "common/text/detokenizer.h"
#include "common/text/tokenizer.h"

namespace baton {

// Fills in the text of a token: of v1::TokenLogprobs and v1::TokenLogprob alike.
template <typename Entry>
void FillText(const Tokenizer& tokenizer, TokenId id, Entry* out) {
  const std::string_view bytes = tokenizer.TokenBytes(id);
  Utf8Assembler characters;
  std::string text = characters.Append(bytes);
  text += characters.Flush();
  if (text != bytes) out->set_raw_bytes(bytes.data(), bytes.size());
  out->set_text(std::move(text));
}

inline void FillLogprobs(const SampledToken& token, const Tokenizer& tokenizer,
                         v1::TokenLogprobs* out) {
  out->set_logprob(token.logprob);
  FillText(tokenizer, token.token, out);
  for (const TokenLogprob& alternative : token.top_logprobs) {
    v1::TokenLogprob* top = out->add_top();
    top->set_token_id(alternative.token);
    top->set_logprob(alternative.logprob);
    FillText(tokenizer, alternative.token, top);
  }
}

}  // namespace baton
