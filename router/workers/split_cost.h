#pragma once

#include <cstdint>
#include <string_view>

namespace baton {

// Why a prompt is computed by a prefill worker, or by its decode worker.
enum class SplitReason {
  kLength,     // by what --local-prefill-below N says of its uncached tokens
  kNoPrefill,  // no prefill worker serves
  kBeside,     // a further answer of a request goes where its prompt is already
  kUnknown,    // by cost, but too little was observed to reckon with
  // By cost: of all that speaks for the choice this is the most.
  kWait,      // for prompts that stand before it
  kCompute,   // of what is not cached
  kTransfer,  // of the KV cache to the decode worker
  kOthers,    // whom it makes wait
};
// "length", "no_prefill", "beside", "unknown", "wait", "compute", "transfer", "others".
std::string_view SplitReasonName(SplitReason reason);

// How long a worker takes over prompts.
struct PromptTimes {
  double step_s = 0;        // a step without prompt tokens
  double token_s = 0;       // what each of them adds to a step; 0: not known
  int32_t step_tokens = 0;  // of prompts that a step takes; 0: not known

  bool known() const { return token_s > 0 && step_tokens > 0; }
};

// How long a KV cache is on its way after the prompt was computed.
struct HandoffTimes {
  bool known = false;
  double fixed_s = 0;
  double token_s = 0;
};

// One of the two workers that could compute a prompt.
struct PromptSide {
  PromptTimes times;
  int64_t held_tokens = 0;    // of the prompt, in its prefix cache
  int64_t queued_tokens = 0;  // of prompts that stand before it
  int64_t delayed = 0;        // requests that its time delays
};

// What is reckoned with.
struct SplitInput {
  int64_t tokens = 0;  // of the prompt
  PromptSide prefill, decode;
  HandoffTimes handoff;
};

// What one of the two ways costs, in seconds: until the request decodes, and of others.
struct PromptCost {
  double wait_s = 0;
  double compute_s = 0;
  double transfer_s = 0;
  double others_s = 0;

  double total_s() const { return wait_s + compute_s + transfer_s + others_s; }
};

struct SplitChoice {
  bool local = false;
  SplitReason reason = SplitReason::kUnknown;
  PromptCost split_cost, local_cost;  // both 0 where nothing was reckoned
};

// Chooses the way that delays all requests together the least. A prompt waits for those before it,
// is computed as far as it is not cached, and is sent, if it was not computed by the decode worker,
// as far as that one does not hold it. It also delays others by the time of its tokens. A decode
// worker whose time per prompt token is not known yet is taken to be like the prefill worker. Where
// anything else is not known, prompts are split, so that it becomes known.
SplitChoice ChooseSplit(const SplitInput& input);

}  // namespace baton
