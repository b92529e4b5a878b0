#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tools/generate/prompt_request.h"

namespace baton {

// One line of the prompts that `baton eos collect` asks.
struct CollectPrompt {
  std::string family = "prompt";      // as the line says
  PromptRequest request;              // its input; nothing else is set
  std::optional<int32_t> max_tokens;  // of this prompt alone
  std::string sha256;                 // of the line's prompt, messages or token_ids as JSON
};

struct CollectPrompts {
  std::vector<CollectPrompt> prompts;
  std::string sha256;  // of the file
};

// Reads JSONL of {"prompt": text}, {"messages": [{role, content}]} or {"token_ids": [...]}, each
// perhaps with a "family" and "max_tokens". Blank lines are skipped. A family has at most 64
// letters, digits, dots and underscores, because request ids begin with it. An error is one of
// usage that names file and line.
absl::StatusOr<CollectPrompts> ReadCollectPrompts(const std::string& path);

}  // namespace baton
