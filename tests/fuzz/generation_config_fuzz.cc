// generation_config.json, whose values stand in for what a request leaves out.
#include <string>

#include "common/formats/generation_config.h"
#include "common/sample/validate.h"
#include "router/edge/served_model.h"
#include "tests/fakes/scratch_folder.h"
#include "tests/fuzz/fuzz_target.h"

namespace baton::fuzz {

FUZZ_TARGET(generation_config) {
  static const ScratchFolder folder;
  folder.Write("generation_config.json", input);
  const auto generation = LoadGenerationConfig(folder.path());
  if (!Accepted(generation.status())) return;
  BATON_CHECK(generation->max_new_tokens.value_or(1) >= 1);
  // A request that says nothing is one that the model's own defaults do not break.
  ServedModel model;
  model.config.vocab = 512;
  model.generation = *generation;
  const absl::Status defaults = ValidateSampling(model.DefaultSampling(), model.config.vocab);
  BATON_CHECK(defaults.ok()) << defaults.ToString();
  const auto set = BuildEosSet(model.config, *generation, std::nullopt, nullptr);
  if (!Accepted(set.status())) return;
  for (const EosSetEntry& entry : *set) {
    BATON_CHECK(entry.id >= 0 && entry.id < model.config.vocab) << entry.id;
    BATON_CHECK(!entry.sources.empty()) << entry.id;
  }
}

}  // namespace baton::fuzz
