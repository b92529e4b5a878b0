#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "common/base/ids.h"
#include "common/sample/beam_params.h"
#include "common/sample/guide_spec.h"
#include "common/sample/params.h"
#include "common/text/chat_template.h"
#include "router/edge/byte_budget.h"

namespace baton {

// What a request gives to generate from: text, ids that are used as they are, or a conversation for
// the chat template.
using RequestInput = std::variant<std::string, std::vector<TokenId>, std::vector<ChatMessage>>;

// A request that passed validation, with every default filled in.
struct RequestSpec {
  std::string request_id;
  std::string tenant;
  std::string client;  // who takes turns with others; see Caller
  RequestInput input;
  // Whether the tokenizer adds its special tokens; empty: to a text, and not to a conversation,
  // whose template writes them.
  std::optional<bool> special_tokens;
  bool chat = false;            // the input is, or was, a conversation
  std::vector<TokenId> prompt;  // once the input is tokenized
  SamplingParams sampling;
  BeamParams beams;  // on: the answers are searched for
  GuideSpec guide;
  // A max_tokens that was left out is settled once, before the first attempt. It is 0 only while no
  // worker has been seen.
  StopParams stop;
  // What a request over this transport gets at most that leaves max_tokens out; 0 = no such bound.
  int32_t usual_max_tokens = 0;
  bool as_many_as_fit = false;  // it was left out, and nothing but the context bounds it
  std::vector<std::string> stop_strings;
  bool include_stop = false;
  bool skip_special_tokens = true;
  bool logprobs = false;         // to the client; sampling.num_top_logprobs says how many beside
  bool prompt_logprobs = false;  // to the client, of the prompt's tokens
  bool echo = false;             // the prompt itself, to the client
  bool only_prompt = false;      // nothing of what is drawn goes to the client
  bool eos_steps = false;        // to the client
  bool eos_probe = false;        // with them, the products of the workers' probe
  int32_t predict_every = 0;     // steps between predictions to the client; 0 = none
  std::string tag;               // for the EOS log's summaries
  std::string preset;            // likewise; `sampling` has its numbers already
  std::string cache_salt;        // as workers get it: of the tenant and of what the request gave
  int32_t answers = 1;           // that are drawn
  int32_t best = 1;              // of these, so many are given: all, or those that rank best
  int32_t index = 0;             // of the answer that is drawn by this spec
  // Of what all requests may hold: its message, then its prompt. Shared by the specs of several
  // answers, and given back as each ends; null: nothing is held.
  std::shared_ptr<ByteBudget::Share> held;

  // Whether answers are ranked at their end, before any is given.
  bool ranked() const { return best < answers; }
};

// How many tokens a request may have.
struct LengthLimits {
  int32_t context = 0;      // prompt and output, at any worker that is listed and was seen
  int32_t context_now = 0;  // at those that are healthy now; 0: none was seen yet
  int32_t input = 0;        // 0 = only by the context
  int32_t output = 0;       // 0 = only by the context
  // Tokens of the largest pool of KV blocks, of the same workers, 0: none was seen; and of a block.
  int32_t pool = 0;
  int32_t pool_now = 0;
  int32_t block = 16;
};

}  // namespace baton
