#include "router/openai/lacking_fields.h"

#include <algorithm>
#include <array>
#include <string>

#include "absl/strings/str_cat.h"
#include "router/openai/json_fields.h"

namespace baton {
namespace {

struct LackingField {
  std::string_view name;
  // The values that ask for nothing, as JSON without spaces; null is one for every field.
  std::array<std::string_view, 3> neutral = {};
};

constexpr LackingField kLacking[] = {
    // OpenAI's.
    {"best_of", {"1"}},
    {"echo", {"false"}},
    {"suffix", {"\"\""}},
    {"tools", {"[]"}},
    {"tool_choice", {"\"none\"", "\"auto\""}},
    {"functions", {"[]"}},
    {"function_call", {"\"none\"", "\"auto\""}},
    {"modalities", {R"(["text"])"}},
    {"audio", {}},
    {"prediction", {}},
    {"reasoning_effort", {}},
    {"verbosity", {}},
    {"service_tier", {"\"auto\"", "\"default\""}},
    {"store", {"false"}},
    {"web_search_options", {}},
    // vLLM's.
    {"add_generation_prompt", {"true"}},
    {"allowed_token_ids", {"[]"}},
    {"bad_words", {"[]"}},
    {"chat_template", {}},
    {"chat_template_kwargs", {"{}"}},
    {"continue_final_message", {"false"}},
    {"documents", {"[]"}},
    {"guided_decoding_backend", {}},
    {"guided_whitespace_pattern", {}},
    {"include_reasoning", {"true", "false"}},
    {"kv_transfer_params", {"{}"}},
    {"logits_processors", {"[]"}},
    {"logprob_token_ids", {"[]"}},
    {"mm_processor_kwargs", {"{}"}},
    {"priority", {"0"}},
    {"prompt_embeds", {}},
    {"prompt_logprobs", {}},
    {"repetition_detection", {}},
    {"return_prompt_text", {"false"}},
    {"return_token_ids", {"false"}},
    {"return_tokens_as_token_ids", {"false"}},
    {"spaces_between_special_tokens", {"true"}},
    {"structural_tag", {}},
    {"structured_outputs", {}},
    {"thinking_token_budget", {}},
    {"truncate_prompt_tokens", {}},
    {"vllm_xargs", {"{}"}},
};

constexpr std::string_view kIdle[] = {"user", "metadata", "parallel_tool_calls", "prompt_cache_key",
                                      "safety_identifier"};

const LackingField* FindLacking(std::string_view name) {
  const auto* found =
      std::ranges::find_if(kLacking, [&](const LackingField& row) { return row.name == name; });
  return found == std::end(kLacking) ? nullptr : found;
}

std::string InsteadOf(const LackingField& row) {
  if (row.neutral[0].empty()) return "leave it out";
  return absl::StrCat("leave it out, or send ", std::string(row.neutral[0]));
}

}  // namespace

bool IsLackingField(std::string_view name) { return FindLacking(name) != nullptr; }

absl::Status CheckLackingField(std::string_view name, const nlohmann::json& value) {
  const LackingField& row = *FindLacking(name);
  if (value.is_null()) return absl::OkStatus();
  const std::string text = value.dump();
  const auto same = [&](std::string_view neutral) { return !neutral.empty() && neutral == text; };
  if (std::ranges::any_of(row.neutral, same)) return absl::OkStatus();
  return NotThere(name, InsteadOf(row));
}

bool IsIdleField(std::string_view name) {
  return std::ranges::find(kIdle, name) != std::end(kIdle);
}

}  // namespace baton
