#include <utility>

#include "common/base/status.h"
#include "common/config/bind.h"
#include "common/config/flag_types.h"

namespace baton {
namespace {

constexpr int64_t kMaxTokens = int64_t{1} << 40;

// Who says none may leave the settings of what is off for now where they are.
absl::Status CheckForetelling(const DraftFlags& draft, const EngineFlags& engine) {
  const EngineFlags defaults;
  const bool tokens = engine.num_speculative_tokens != defaults.num_speculative_tokens;
  const bool batch =
      engine.speculative_disable_by_batch_size != defaults.speculative_disable_by_batch_size;
  const bool nobody = engine.speculative == SpeculativeFlag::kAuto && draft.model.empty();
  if (!nobody || (!tokens && !batch)) return absl::OkStatus();
  return UsageError(
      std::string(tokens ? "--num-speculative-tokens" : "--speculative-disable-by-batch-size") +
          " without speculation",
      "nothing is foretold then", "--speculative ngram, or --draft-model DIR");
}

absl::Status CheckDraft(const DraftFlags& draft, const EngineFlags& engine) {
  if (draft.model.empty()) {
    if (engine.speculative == SpeculativeFlag::kDraft) {
      return UsageError("--speculative draft without --draft-model",
                        "a draft model foretells then, and none is named", "--draft-model DIR");
    }
    if (!draft.kv_cache_tokens) return absl::OkStatus();
    return UsageError("--draft-kv-cache-tokens without --draft-model",
                      "it is the size of a draft model's KV cache", "--draft-model DIR");
  }
  const bool drafts =
      engine.speculative == SpeculativeFlag::kAuto || engine.speculative == SpeculativeFlag::kDraft;
  if (!drafts) {
    return UsageError("--draft-model with --speculative " + WordOf(engine.speculative),
                      "either a draft model foretells or what that says", "--speculative draft");
  }
  if (engine.device == DeviceFlag::kCuda) {
    return UsageError("--draft-model with --device cuda",
                      "draft models run on CPUs only, beside a model on the same CPU",
                      "--speculative ngram, which foretells on a GPU as well");
  }
  return absl::OkStatus();
}

}  // namespace

void BindDraft(FlagSet* set, DraftFlags* flags, const EngineFlags* engine) {
  const std::string group = "Draft model";
  Flag model = Valued(TextFlag("draft-model", &flags->model), "DIR");
  model.path = PathUse::kModel;
  set->Add(With(std::move(model), group,
                "a small model with the same tokenizer, which foretells the tokens that steps "
                "verify; on CPUs only. Prefill workers have none"));
  set->Add(With(OptionalInt64Flag("draft-kv-cache-tokens", &flags->kv_cache_tokens,
                                  {.min = 1, .max = kMaxTokens}),
                group,
                "size of the draft model's own KV cache in tokens; default: as many as the "
                "model's. For answers that find no room in it nothing is foretold"));
  set->AddCheck([flags, engine] { return CheckDraft(*flags, *engine); });
  set->AddCheck([flags, engine] { return CheckForetelling(*flags, *engine); });
}

}  // namespace baton
