#include "router/workers/split_cost.h"

#include <algorithm>
#include <array>
#include <utility>

namespace baton {
namespace {

int64_t Missing(const SplitInput& input, const PromptSide& side) {
  return std::max<int64_t>(0, input.tokens - side.held_tokens);
}

// What is the same whether a prefill worker computes a prompt or a decode worker.
PromptCost CostAt(const SplitInput& input, const PromptSide& side) {
  const PromptTimes& times = side.times;
  const int64_t missing = Missing(input, side);
  const int64_t steps = (missing + times.step_tokens - 1) / times.step_tokens;
  // Prompts that wait share steps, so theirs are not rounded up.
  const double steps_before =
      static_cast<double>(side.queued_tokens) / static_cast<double>(times.step_tokens);
  const double tokens_s = static_cast<double>(missing) * times.token_s;
  return {.wait_s =
              static_cast<double>(side.queued_tokens) * times.token_s + steps_before * times.step_s,
          .compute_s = tokens_s + static_cast<double>(steps) * times.step_s,
          .transfer_s = 0,
          .others_s = static_cast<double>(side.delayed) * tokens_s};
}

// What speaks the most for the cheaper way.
SplitReason ReasonFor(const PromptCost& chosen, const PromptCost& other) {
  const std::array<std::pair<double, SplitReason>, 4> saved = {
      {{other.wait_s - chosen.wait_s, SplitReason::kWait},
       {other.compute_s - chosen.compute_s, SplitReason::kCompute},
       {other.transfer_s - chosen.transfer_s, SplitReason::kTransfer},
       {other.others_s - chosen.others_s, SplitReason::kOthers}}};
  return std::ranges::max_element(saved, {}, [](const auto& term) { return term.first; })->second;
}

}  // namespace

std::string_view SplitReasonName(SplitReason reason) {
  switch (reason) {
    case SplitReason::kLength:
      return "length";
    case SplitReason::kNoPrefill:
      return "no_prefill";
    case SplitReason::kBeside:
      return "beside";
    case SplitReason::kUnknown:
      return "unknown";
    case SplitReason::kWait:
      return "wait";
    case SplitReason::kCompute:
      return "compute";
    case SplitReason::kTransfer:
      return "transfer";
    case SplitReason::kOthers:
      return "others";
  }
  return "unknown";
}

SplitChoice ChooseSplit(const SplitInput& input) {
  if (!input.prefill.times.known() || !input.handoff.known) return {};
  PromptSide decode = input.decode;
  if (decode.times.token_s <= 0) decode.times.token_s = input.prefill.times.token_s;
  if (!decode.times.known()) return {};
  SplitChoice choice;
  choice.local_cost = CostAt(input, decode);
  choice.split_cost = CostAt(input, input.prefill);
  choice.split_cost.transfer_s =
      input.handoff.fixed_s + static_cast<double>(Missing(input, decode)) * input.handoff.token_s;
  choice.local = choice.local_cost.total_s() < choice.split_cost.total_s();
  choice.reason = choice.local ? ReasonFor(choice.local_cost, choice.split_cost)
                               : ReasonFor(choice.split_cost, choice.local_cost);
  return choice;
}

}  // namespace baton
