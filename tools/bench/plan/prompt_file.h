#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tools/bench/plan/prompt_maker.h"

namespace baton::bench {

// One line of a user's prompts file.
struct FilePrompt {
  PromptMaker::Prompt prompt;
  int32_t max_tokens = 0;  // 0 = not given
  std::string preset;      // of sampling; "" = none
  int64_t line = 0;        // counted from 1
};

// Reads JSONL of {"prompt": text} or {"token_ids": [...]}, each with "max_tokens" (or, as other
// tools call it, "output_tokens") if it has a length of its own, and with "preset" if it is drawn
// by one. Blank lines are skipped. An error names file and line, what was found and what was
// expected; keys that would be ignored are refused.
absl::StatusOr<std::vector<FilePrompt>> ReadPromptFile(const std::string& path);

}  // namespace baton::bench
