#include "common/sample/presets.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace baton {
namespace {

// The n-grams of a dialogue are of 4 tokens, not 3, because those of the prompt count as well: with
// 3, an answer could not end after two words that an earlier turn of the conversation ended with.
constexpr SamplingPreset kPresets[] = {
    {.name = "qa",
     .task = "answers to questions, summaries, extraction",
     .temperature = 0.3F,
     .top_p = 0.9F,
     .repetition_penalty = 1.05F,
     .presence_penalty = {},
     .frequency_penalty = 0.5F,
     .no_repeat_ngram_size = {}},
    {.name = "code",
     .task = "programs and other formal text",
     .temperature = 0.2F,
     .top_p = 0.95F,
     .repetition_penalty = 1.05F,
     .presence_penalty = {},
     .frequency_penalty = 0.5F,
     .no_repeat_ngram_size = {}},
    {.name = "creative",
     .task = "stories, ideas, variants",
     .temperature = 0.9F,
     .top_p = 0.95F,
     .repetition_penalty = {},
     .presence_penalty = 0.3F,
     .frequency_penalty = {},
     .no_repeat_ngram_size = {}},
    {.name = "dialogue",
     .task = "long conversations",
     .temperature = 0.7F,
     .top_p = 0.9F,
     .repetition_penalty = {},
     .presence_penalty = {},
     .frequency_penalty = {},
     .no_repeat_ngram_size = 4},
};

template <typename T>
void Override(const std::optional<T>& value, T* target) {
  if (value) *target = *value;
}

template <typename T>
std::string PresetCell(const std::optional<T>& value) {
  return value ? absl::StrCat(*value) : "";
}

}  // namespace

std::span<const SamplingPreset> SamplingPresets() { return kPresets; }

const SamplingPreset* FindSamplingPreset(std::string_view name) {
  const auto* found = std::ranges::find(kPresets, name, &SamplingPreset::name);
  return found == std::end(kPresets) ? nullptr : found;
}

std::string SamplingPresetNames() {
  std::string names;
  for (const SamplingPreset& preset : kPresets) {
    absl::StrAppend(&names, names.empty() ? "" : ", ", std::string(preset.name));
  }
  return names;
}

void ApplySamplingPreset(const SamplingPreset& preset, SamplingParams* params) {
  Override(preset.temperature, &params->temperature);
  Override(preset.top_p, &params->top_p);
  Override(preset.repetition_penalty, &params->repetition_penalty);
  Override(preset.presence_penalty, &params->presence_penalty);
  Override(preset.frequency_penalty, &params->frequency_penalty);
  Override(preset.no_repeat_ngram_size, &params->no_repeat_ngram_size);
}

std::string SamplingPresetsMarkdown() {
  std::string text =
      "| preset | for | `temperature` | `top_p` | `repetition_penalty` | `presence_penalty` | "
      "`frequency_penalty` | `no_repeat_ngram_size` |\n|---|---|---|---|---|---|---|---|\n";
  for (const SamplingPreset& preset : kPresets) {
    absl::StrAppend(&text, "| `", std::string(preset.name), "` | ", std::string(preset.task));
    for (const std::string& cell :
         {PresetCell(preset.temperature), PresetCell(preset.top_p),
          PresetCell(preset.repetition_penalty), PresetCell(preset.presence_penalty),
          PresetCell(preset.frequency_penalty), PresetCell(preset.no_repeat_ngram_size)}) {
      absl::StrAppend(&text, " | ", cell);
    }
    absl::StrAppend(&text, " |\n");
  }
  return text;
}

}  // namespace baton
