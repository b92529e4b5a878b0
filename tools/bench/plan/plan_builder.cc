#include "tools/bench/plan/plan_builder.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/config/flag_set.h"
#include "tools/bench/plan/plan_lengths.h"
#include "tools/bench/plan/prompt_file.h"

namespace baton::bench {
namespace {

absl::Status CheckSources(const PlanOptions& options) {
  const bool trace = !options.trace.empty();
  const bool file = !options.prompts.empty();
  BATON_RETURN_IF_ERROR(CheckOneLoad(options.rate != 0, options.concurrency != 0, trace));
  if (trace && (options.input || options.output || file)) {
    return UsageError("a trace with other lengths or prompts", "a trace has its own lengths",
                      "only one of them");
  }
  if (file && options.input) {
    return UsageError("--prompts with --input-tokens", "the file's prompts have their lengths",
                      "only one of them");
  }
  if (!trace && !file && (!options.input || !options.output)) {
    return UsageError("no lengths", "expected prompt and output lengths, a trace or prompts",
                      "--input-tokens chat --output-tokens chat");
  }
  return absl::OkStatus();
}

absl::Status CheckAmounts(const PlanOptions& options) {
  if (options.concurrency < 0 || options.requests < 0 || options.max_model_len < 0 ||
      options.shared_prefix_tokens < 0 || options.duration < base::Duration::zero() ||
      options.warmup < base::Duration::zero()) {
    return UsageError("a negative number", "expected numbers from 0", "--help for their ranges");
  }
  const bool bounded = options.requests > 0 || options.duration > base::Duration::zero();
  if (!bounded && options.trace.empty() && options.prompts.empty()) {
    return UsageError("no end", "expected a number of requests or a duration", "--duration 60s");
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<PromptMaker>> MakerFor(const PlanOptions& options) {
  const PromptSharing sharing = {.prefix_tokens = options.shared_prefix_tokens,
                                 .block_tokens = options.block_tokens};
  const uint64_t seed = options.prompt_seed.value_or(options.seed);
  if (!options.text) {
    return MakeIdPrompts(options.vocabulary, options.tokenizer, seed, sharing);
  }
  if (options.tokenizer == nullptr) {
    return UsageError("text prompts without a tokenizer", "their tokens could not be counted",
                      "--tokenizer DIR, or token ids");
  }
  return MakeTextPrompts(options.tokenizer, seed, sharing);
}

absl::Status CheckIds(const PlanOptions& options, const std::vector<FilePrompt>& prompts) {
  const int32_t size = options.vocabulary.vocab_size;
  for (const FilePrompt& prompt : prompts) {
    const auto* ids = std::get_if<std::vector<int32_t>>(&prompt.prompt);
    if (ids == nullptr || size == 0) continue;
    const int32_t highest = *std::max_element(ids->begin(), ids->end());
    if (highest < size) continue;
    return absl::InvalidArgumentError(absl::StrCat(options.prompts, ":", prompt.line,
                                                   ": found token id ", highest,
                                                   "; expected ids below ", size));
  }
  return absl::OkStatus();
}

// Where prompts come from: a user's file or a maker.
class PromptSource final {
 public:
  static absl::StatusOr<PromptSource> Create(const PlanOptions& options) {
    PromptSource source;
    if (!options.prompts.empty()) {
      BATON_ASSIGN_OR_RETURN(source.file_, ReadPromptFile(options.prompts));
      BATON_RETURN_IF_ERROR(CheckIds(options, source.file_));
    } else {
      BATON_ASSIGN_OR_RETURN(source.maker_, MakerFor(options));
    }
    return source;
  }

  const std::vector<FilePrompt>& file() const { return file_; }

  std::string PresetOf(const PlannedLength& length) const {
    return length.file_prompt >= 0 ? file_[static_cast<size_t>(length.file_prompt)].preset : "";
  }

  absl::StatusOr<PromptMaker::Prompt> Get(int64_t index, const PlannedLength& length) const {
    if (length.file_prompt >= 0) return file_[static_cast<size_t>(length.file_prompt)].prompt;
    return maker_->Make(
        {.index = index, .tokens = length.input_tokens, .hash_ids = length.hash_ids});
  }

 private:
  std::vector<FilePrompt> file_;
  std::unique_ptr<PromptMaker> maker_;
};

void Count(const PlannedRequest& request, PlanSummary* summary) {
  ++summary->requests;
  summary->prompt_tokens += request.prompt_tokens > 0 ? request.prompt_tokens : 0;
}

}  // namespace

absl::Status CheckOneLoad(bool rate, bool concurrency, bool trace) {
  const int loads = (rate ? 1 : 0) + (concurrency ? 1 : 0) + (trace ? 1 : 0);
  if (loads == 1) return absl::OkStatus();
  if (loads == 0) {
    return UsageError("no load", "expected one of --rate, --concurrency and --trace", "--rate 10");
  }
  return UsageError(absl::StrCat("found ", loads, " of --rate, --concurrency and --trace"),
                    "expected one, which says when requests come", "--rate 10");
}

std::string FilledByPrefix(int64_t filled, int64_t requests, int32_t prefix_tokens) {
  return absl::StrCat(filled, " of ", requests,
                      " prompts have no token beyond the shared prefix of ", prefix_tokens,
                      ", so those of one length are equal");
}

absl::StatusOr<BuiltPlan> BuildPlan(const PlanOptions& options) {
  BATON_RETURN_IF_ERROR(CheckSources(options));
  BATON_RETURN_IF_ERROR(CheckAmounts(options));
  BATON_ASSIGN_OR_RETURN(const PromptSource source, PromptSource::Create(options));
  BuiltPlan built;
  built.plan.eos = options.eos;
  BATON_ASSIGN_OR_RETURN(const std::vector<PlannedLength> lengths,
                         PlanLengths(options, source.file(), &built.summary));
  built.plan.requests.reserve(lengths.size());
  for (const PlannedLength& length : lengths) {
    PlannedRequest request;
    request.index = built.summary.requests;
    request.at = length.at;
    request.prompt_tokens = length.input_tokens;
    request.max_tokens = length.output_tokens;
    request.preset = source.PresetOf(length);
    BATON_ASSIGN_OR_RETURN(request.prompt, source.Get(request.index, length));
    Count(request, &built.summary);
    built.plan.requests.push_back(std::move(request));
  }
  return built;
}

absl::StatusOr<int64_t> MostRequestsOfAPlan(const PlanOptions& options) {
  std::vector<FilePrompt> file;
  if (!options.prompts.empty()) {
    BATON_ASSIGN_OR_RETURN(file, ReadPromptFile(options.prompts));
  }
  BATON_ASSIGN_OR_RETURN(const double mean, MeanInputTokens(options, file));
  const double most = static_cast<double>(kMaxPlannedIds) / 2 / std::max(1.0, mean);
  return std::max<int64_t>(1, std::min(kMaxPlannedRequests, static_cast<int64_t>(most)));
}

}  // namespace baton::bench
