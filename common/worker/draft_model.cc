#include "common/worker/draft_model.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/formats/model_config.h"
#include "common/text/text_fingerprint.h"
#include "kernels/paged_kv.h"
#include "spdlog/spdlog.h"

namespace baton {
namespace {

// What went wrong is wrong with the draft, not with the model.
absl::Status OfDraft(const std::string& dir, const absl::Status& status) {
  return absl::Status(status.code(),
                      absl::StrCat("--draft-model ", dir, ": ", std::string(status.message())));
}

DraftOptions DraftOptionsOf(const EngineOptions& engine) {
  DraftOptions options;
  options.max_rows = engine.max_num_seqs;
  options.max_tokens = engine.max_num_batched_tokens;
  options.most = engine.proposals.most;
  options.eos_ids = engine.eos_ids;
  return options;
}

}  // namespace

absl::Status CheckDraft(const std::string& dir, const std::string& model_dir,
                        const EngineOptions& engine, std::optional<kernels::DType> kv_dtype,
                        const std::vector<EosSetEntry>& eos_set) {
  const auto config = LoadModelConfig(dir);
  if (!config.ok()) return OfDraft(dir, config.status());
  if (config->vocab != engine.vocab_size) {
    return OfDraft(dir, absl::InvalidArgumentError(absl::StrCat(
                            "its vocabulary has ", config->vocab, " ids, that of ", model_dir,
                            " has ", engine.vocab_size, "; take a draft of the same family")));
  }
  // The EOS ids of the draft do not matter: it draws with those of the model.
  const auto draft = TextFingerprint(dir, config->vocab, eos_set);
  if (!draft.ok()) return OfDraft(dir, draft.status());
  BATON_ASSIGN_OR_RETURN(const std::string model,
                         TextFingerprint(model_dir, engine.vocab_size, eos_set));
  if (*draft != model) {
    return OfDraft(dir, absl::InvalidArgumentError(absl::StrCat(
                            "its tokenizer has the fingerprint ", *draft, ", that of ", model_dir,
                            " has ", model,
                            ", so their ids stand for different texts; take a draft with the same "
                            "tokenizer.json")));
  }
  if (config->max_positions < engine.max_model_len) {
    return OfDraft(dir, absl::OutOfRangeError(absl::StrCat(
                            "it knows positions up to ", config->max_positions,
                            ", and requests may have ", engine.max_model_len,
                            " tokens; lower --max-model-len, or take a draft that knows more")));
  }
  // Its cache has the type of the model's.
  if (kv_dtype.has_value() && !HeadsFit(*config, *kv_dtype)) {
    return OfDraft(dir, absl::InvalidArgumentError(absl::StrCat(
                            "it has heads of ", config->head_dim, ", and --kv-dtype ",
                            std::string(kernels::Name(*kv_dtype)), " needs a multiple of ",
                            kernels::KvLayout::kQuantizedDims,
                            "; take another draft, or --kv-dtype auto for both models")));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<DraftModel>> LoadDraft(const std::string& dir, ModelOptions like,
                                                      int64_t kv_tokens,
                                                      const EngineOptions& engine,
                                                      const base::Clock& clock,
                                                      LoadProgressLog* progress) {
  like.tensor_parallel_size = 1;
  like.kv = {};
  like.kv.tokens = kv_tokens;
  like.probe.reset();
  like.limits = {.max_tokens = engine.max_num_batched_tokens, .max_samples = engine.max_num_seqs};
  auto loaded = LoadModel(
      dir, like, [progress](int64_t done, int64_t total) { progress->Note(done, total); }, clock,
      [progress](const std::string& phase) { progress->Begin("draft model: " + phase); });
  if (absl::IsResourceExhausted(loaded.status())) {
    const std::string why(loaded.status().message());
    return OfDraft(dir, absl::ResourceExhaustedError(absl::StrCat(
                            why, ", or --draft-kv-cache-tokens, which is ", kv_tokens)));
  }
  if (!loaded.ok()) return OfDraft(dir, loaded.status());
  auto draft = std::make_unique<DraftModel>();
  draft->loaded = *std::move(loaded);
  const kernels::PagedKv& kv = draft->loaded->kv();
  spdlog::info(
      "draft model {}: weights {} MiB packed, numerics {}; KV cache: {} blocks of {} tokens, {} "
      "MiB; at most {} tokens foretold for one answer",
      draft->loaded->fingerprint, draft->loaded->weight_bytes >> 20, draft->loaded->numerics(),
      kv.num_blocks, kv.layout.block_size,
      (static_cast<size_t>(kv.num_blocks) * kv.layout.block_bytes()) >> 20, engine.proposals.most);
  draft->proposer =
      std::make_unique<DraftProposer>(DraftOptionsOf(engine), kv, std::move(draft->loaded->runner));
  return draft;
}

}  // namespace baton
