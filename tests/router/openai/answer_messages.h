#pragma once

#include <cstdint>
#include <string>

#include "baton/v1/inference.pb.h"

namespace baton {

// Messages of an answer, as a request's flow gives them to the client's side.
inline v1::Started SomeStart(float temperature) {
  v1::Started started;
  started.set_request_id("r1");
  started.set_model("tiny");
  started.set_prompt_tokens(6);
  started.mutable_sampling()->set_temperature(temperature);
  return started;
}

inline v1::Delta SomeDelta(const std::string& text, int32_t id) {
  v1::Delta delta;
  delta.set_text(text);
  delta.add_token_ids(id);
  return delta;
}

inline v1::Final SomeFinal() {
  v1::Final final;
  final.set_finish_reason(v1::FINISH_REASON_STOP_EOS);
  final.set_stop_cause(v1::STOP_CAUSE_EOS);
  final.set_stop_token_id(2);
  final.mutable_usage()->set_prompt_tokens(6);
  final.mutable_usage()->set_cached_tokens(4);
  final.mutable_usage()->set_completion_tokens(3);
  final.set_attempts(1);
  final.set_decode_worker("127.0.0.1:5");
  return final;
}

// BOS, which the text leaves out, "né", of which a token has one byte, and "x".
inline v1::Prompt EchoOf(bool scored) {
  v1::Prompt prompt;
  prompt.set_text("néx");
  for (const int32_t id : {1, 9, 8, 7, 6}) prompt.add_token_ids(id);
  if (!scored) return prompt;
  for (const std::string& bytes : {std::string("<s>"), std::string("n"), std::string("\xC3"),
                                   std::string("\xA9"), std::string("x")}) {
    v1::TokenLogprobs* token = prompt.add_logprobs();
    token->set_text(bytes[0] == '\xC3' || bytes[0] == '\xA9' ? "\uFFFD" : bytes);
    if (token->text() != bytes) token->set_raw_bytes(bytes);
    if (bytes != "<s>") token->set_logprob(-1);
  }
  return prompt;
}

}  // namespace baton
