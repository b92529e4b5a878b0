#pragma once

#include <span>
#include <string>

#include "nlohmann/json.hpp"

namespace baton::test {

// What one model does on different numbers of threads, as a table in Markdown: each figure, and how
// many times that of the first run it is. A run holds "threads", and StepTiming's figures of one
// prefill and any number of decode batches, the same in all runs.
std::string ScalingTable(std::span<const nlohmann::json> runs);

}  // namespace baton::test
