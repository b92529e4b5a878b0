#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "common/sample/params.h"

// The one table of presets: what the router takes for a kind of task, where a request that names
// the preset leaves something out. docs/sampling.md shows it, and says how to go on from there.
namespace baton {

// What is absent stays as the model has it.
struct SamplingPreset {
  std::string_view name;  // of the public API: GenerationSpec.preset
  std::string_view task;  // for people
  std::optional<float> temperature;
  std::optional<float> top_p;
  std::optional<float> repetition_penalty;
  std::optional<float> presence_penalty;
  std::optional<float> frequency_penalty;
  std::optional<int32_t> no_repeat_ngram_size;
};

std::span<const SamplingPreset> SamplingPresets();

// Null when there is no such preset.
const SamplingPreset* FindSamplingPreset(std::string_view name);

// "qa, code, …", for messages.
std::string SamplingPresetNames();

// Writes what the preset sets over `params`.
void ApplySamplingPreset(const SamplingPreset& preset, SamplingParams* params);

// The table in Markdown, for the test that docs/sampling.md has it.
std::string SamplingPresetsMarkdown();

}  // namespace baton
