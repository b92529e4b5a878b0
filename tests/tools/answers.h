#pragma once

#include <string>

#include "tests/fakes/fake_inference_service.h"

namespace baton {

// An answer of two tokens, "text" and EOS, with everything that a final message can hold.
inline FakeInferenceService::Answer GoodAnswer(const baton::v1::GenerationSpec& spec,
                                               const std::string& text) {
  FakeInferenceService::Answer answer;
  answer.events.resize(4);
  auto* started = answer.events[0].mutable_started();
  started->set_request_id(spec.request_id().empty() ? "made-by-server" : spec.request_id());
  started->set_model("demo");
  auto* first = answer.events[1].mutable_delta();
  first->set_text(text);
  first->add_token_ids(7);
  auto* second = answer.events[2].mutable_delta();
  second->add_token_ids(2);
  if (spec.eos().steps()) {
    for (int step = 1; step <= 2; ++step) {
      auto* row = (step == 1 ? first : second)->add_eos_steps();
      row->set_step(step);
      row->set_eos_prob(step == 1 ? 0.001 : 0.75);
      row->set_eos_logprob(-1);
      row->set_eos_rank(3 - step);
    }
  }
  auto* final = answer.events[3].mutable_final();
  final->set_finish_reason(baton::v1::FINISH_REASON_STOP_EOS);
  final->set_stop_cause(baton::v1::STOP_CAUSE_EOS);
  final->set_stop_token_id(2);
  final->mutable_usage()->set_prompt_tokens(5);
  final->mutable_usage()->set_completion_tokens(2);
  final->mutable_timings()->set_ttft_ms(10);
  final->mutable_timings()->set_total_ms(30);
  final->set_attempts(1);
  final->set_prefill_worker("127.0.0.1:1");
  final->set_decode_worker("127.0.0.1:2");
  return answer;
}

}  // namespace baton
