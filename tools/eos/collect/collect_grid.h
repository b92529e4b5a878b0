#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "nlohmann/json.hpp"
#include "tools/eos/collect/collect_prompts.h"

namespace baton {

// What every prompt is asked with: each seed at each temperature.
struct CollectGrid {
  int32_t first_seed = 1;  // the seeds are first_seed, first_seed + 1, …
  int32_t seeds = 1;
  std::vector<float> temperatures = {1};
  float top_p = 1;                    // 1 = off
  std::optional<int32_t> max_tokens;  // where a prompt has none of its own; empty: what fits
  bool hidden = false;                // ask for the probe's products, too
};

// One request of the grid.
struct CollectRequest {
  std::string id;
  size_t prompt = 0;  // its place in CollectPrompts::prompts
  uint64_t seed = 0;  // as it is sent
  float temperature = 0;
  std::optional<int32_t> max_tokens;
};

// All of them: prompt by prompt, in it temperature by temperature, in it seed by seed. An id is
//
//   FAMILY-PROMPT-tTEMPERATURE-pTOP_P-mMAX_TOKENS-sSEED     story-000012-t0.8-p1-s3
//
// with the place of the prompt from 0 in six digits, and without the part -m where max_tokens is
// not set. The seed that is sent is 1000000 · SEED plus the place of the prompt: with the same one,
// answers to different prompts would be drawn with the same random numbers.
std::vector<CollectRequest> RequestsOf(const CollectPrompts& prompts, const CollectGrid& grid);

// A temperature as the ids have it: six digits, so that close ones may read the same.
std::string TemperatureText(float temperature);

// What is sent for it.
PromptRequest ToSend(const CollectPrompt& prompt, const CollectRequest& request,
                     const CollectGrid& grid);

// The grid as the manifest has it.
nlohmann::ordered_json GridJson(const CollectGrid& grid);

// A number such as 0.8 as it was given, not as the float next to it.
double AsGiven(float value);

}  // namespace baton
