// Files of prompts, which the bench sends.
#include <string>
#include <variant>
#include <vector>

#include "tests/fakes/scratch_folder.h"
#include "tests/fuzz/fuzz_target.h"
#include "tools/bench/plan/prompt_file.h"

namespace baton::fuzz {

FUZZ_TARGET(prompt_file) {
  static const ScratchFolder folder;
  const auto prompts = bench::ReadPromptFile(folder.Write("prompts.jsonl", input));
  if (!Accepted(prompts.status())) return;
  BATON_CHECK(!prompts->empty());
  int64_t line = 0;
  for (const bench::FilePrompt& prompt : *prompts) {
    BATON_CHECK(prompt.line > line && prompt.max_tokens >= 0);
    line = prompt.line;
    if (const auto* ids = std::get_if<std::vector<int32_t>>(&prompt.prompt)) {
      BATON_CHECK(!ids->empty());
      for (const int32_t id : *ids) BATON_CHECK(id >= 0) << id;
    } else {
      BATON_CHECK(!std::get<std::string>(prompt.prompt).empty());
    }
  }
}

}  // namespace baton::fuzz
