#pragma once

#include <span>
#include <string>
#include <string_view>

#include "common/config/flag_set.h"

namespace baton::bench {

// A flag of `vllm bench serve`.
struct VllmFlag {
  std::string_view name;  // without dashes
  // Our flag of the same meaning, which also takes vLLM's name; "" when there is none.
  std::string_view alias_of;
  std::string_view instead;  // else what to type, or why nothing has to be
};

std::span<const VllmFlag> VllmFlags();

// Makes those that mean the same other names of our flags, which are in `set`, and has the others
// answered with what to type instead.
void BindVllmFlags(FlagSet* set);

// The table in Markdown, for the test that docs/bench.md has it; what has one answer stands in one
// row.
std::string VllmFlagsAsMarkdown();

}  // namespace baton::bench
