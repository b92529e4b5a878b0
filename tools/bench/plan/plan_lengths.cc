#include "tools/bench/plan/plan_lengths.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/config/flag_set.h"
#include "common/config/units.h"
#include "tools/bench/plan/arrivals.h"
#include "tools/bench/plan/draws.h"
#include "tools/bench/plan/trace.h"

namespace baton::bench {
namespace {

using Lengths = std::vector<PlannedLength>;

// Makes a pair of lengths fit a model. A number that the user gave is never changed.
class Fitting final {
 public:
  Fitting(int32_t max_model_len, bool fixed_input, bool fixed_output)
      : max_(max_model_len), fixed_input_(fixed_input), fixed_output_(fixed_output) {}

  // True when it shortened something.
  absl::StatusOr<bool> Fit(PlannedLength* length) const {
    const int64_t input = std::max(length->input_tokens, 0);
    const int64_t output = length->output_tokens;
    if (max_ == 0 || input + output <= max_) return false;
    const int64_t least = (fixed_input_ ? input : 1) + (fixed_output_ ? output : 1);
    if (least > max_ || (fixed_input_ && fixed_output_)) return TooLong(input, output);
    if (fixed_input_) {
      length->output_tokens = static_cast<int32_t>(max_ - input);
    } else if (fixed_output_) {
      length->input_tokens = static_cast<int32_t>(max_ - output);
    } else {
      length->input_tokens =
          static_cast<int32_t>(std::clamp<int64_t>(input * max_ / (input + output), 1, max_ - 1));
      length->output_tokens = max_ - length->input_tokens;
    }
    return true;
  }

 private:
  absl::Status TooLong(int64_t input, int64_t output) const {
    const auto side = [](int64_t tokens, bool fixed) {
      return absl::StrCat(fixed ? tokens : 1, fixed ? "" : " or more");
    };
    return UsageError(absl::StrCat("a prompt of ", side(input, fixed_input_), " and an output of ",
                                   side(output, fixed_output_), " tokens"),
                      absl::StrCat("the model takes ", max_, " of both together"),
                      "smaller numbers, or serve with a greater --max-model-len");
  }

  const int32_t max_;
  const bool fixed_input_;
  const bool fixed_output_;
};

int64_t RequestLimit(const PlanOptions& options) {
  return options.requests > 0 ? options.requests : std::numeric_limits<int64_t>::max();
}

absl::Status TooMany(int64_t requests) {
  return UsageError(absl::StrCat("a plan of ", requests, " requests"),
                    absl::StrCat("at most ", kMaxPlannedRequests, " are kept in memory"),
                    "a shorter --duration, fewer --requests or a lower --rate");
}

absl::Status CheckSharedPrefix(const PlanOptions& options) {
  const int32_t prefix = options.shared_prefix_tokens;
  if (prefix == 0 || !options.input || prefix < options.input->max()) return absl::OkStatus();
  return UsageError(absl::StrCat("--shared-prefix-tokens ", prefix, " with prompts of at most ",
                                 options.input->max(), " tokens"),
                    "none would have a token of its own, so those of one length would be equal",
                    absl::StrCat("a number below ", options.input->max()));
}

int64_t CountFilled(const Lengths& lengths, int32_t prefix_tokens) {
  return std::ranges::count_if(lengths, [prefix_tokens](const PlannedLength& length) {
    return length.file_prompt < 0 && length.input_tokens <= prefix_tokens;
  });
}

// The arrivals of an open loop, until both limits are used up, which count from the end of the
// warm-up.
absl::StatusOr<Lengths> OpenLoopTimes(const PlanOptions& options) {
  const ArrivalOptions how = {
      .rate = options.rate, .burstiness = options.burstiness, .seed = options.seed};
  BATON_RETURN_IF_ERROR(CheckArrivals(how));
  Arrivals arrivals(how);
  Lengths lengths;
  int64_t measured = 0;
  while (measured < RequestLimit(options)) {
    const base::Duration at = arrivals.Next();
    if (options.duration > base::Duration::zero() && at >= options.warmup + options.duration) break;
    if (at >= options.warmup) ++measured;
    lengths.push_back({.at = at, .hash_ids = {}});
    if (static_cast<int64_t>(lengths.size()) > kMaxPlannedRequests) {
      return TooMany(static_cast<int64_t>(lengths.size()));
    }
  }
  if (lengths.empty()) {
    return UsageError(absl::StrCat("no request in ", FormatDuration(options.duration), " at ",
                                   options.rate, " requests per second"),
                      "the first one comes later", "a longer --duration, or --requests");
  }
  return lengths;
}

// No stream is faster than this, so a closed loop cannot need more output tokens in its time.
constexpr double kTokensPerSecond = 4000;

double MostOutputTokens(const PlanOptions& options) {
  return kTokensPerSecond * base::Seconds(options.warmup + options.duration) * options.concurrency;
}

// As many requests as a closed loop could need if each had one token; CutClosedLoop cuts that to
// what they have.
absl::StatusOr<Lengths> ClosedLoop(const PlanOptions& options, PlanSummary* summary) {
  int64_t count = options.requests;
  if (count == 0) {
    constexpr double kMost = 1'000'000;
    count = std::llround(std::clamp<double>(MostOutputTokens(options), options.concurrency, kMost));
    summary->may_run_out = true;
  }
  if (count > kMaxPlannedRequests) return TooMany(count);
  return Lengths(static_cast<size_t>(count));
}

absl::StatusOr<Lengths> FromTrace(const PlanOptions& options) {
  TraceOptions how = {.time_scale = options.time_scale,
                      .block_tokens = options.block_tokens,
                      .warmup = options.warmup,
                      .duration = {},
                      .rows = RequestLimit(options)};
  if (options.duration > base::Duration::zero()) how.duration = options.warmup + options.duration;
  BATON_ASSIGN_OR_RETURN(std::vector<TraceRow> rows, ReadTrace(options.trace, how));
  Lengths lengths;
  lengths.reserve(rows.size());
  for (TraceRow& row : rows) {
    lengths.push_back({.at = row.at,
                       .input_tokens = row.input_tokens,
                       .output_tokens = row.output_tokens,
                       .hash_ids = std::move(row.hash_ids)});
  }
  return lengths;
}

absl::StatusOr<Lengths> Times(const PlanOptions& options, size_t file_prompts,
                              PlanSummary* summary) {
  if (!options.trace.empty()) return FromTrace(options);
  PlanOptions limited = options;
  if (options.requests == 0 && options.duration == base::Duration::zero()) {
    limited.requests = static_cast<int64_t>(file_prompts);
  }
  if (options.concurrency > 0) return ClosedLoop(limited, summary);
  return OpenLoopTimes(limited);
}

// Draws lengths, or takes those of the file's prompts in order.
absl::Status SetLengths(const PlanOptions& options, const std::vector<FilePrompt>& prompts,
                        Lengths* lengths) {
  Draws input(options.seed, Purpose::kInput);
  Draws output(options.seed, Purpose::kOutput);
  for (size_t i = 0; i < lengths->size(); ++i) {
    PlannedLength& length = (*lengths)[i];
    if (options.output) length.output_tokens = options.output->Draw(&output);
    if (prompts.empty()) {
      length.input_tokens = options.input->Draw(&input);
      continue;
    }
    const size_t at = i % prompts.size();
    const FilePrompt& prompt = prompts[at];
    length.file_prompt = static_cast<int64_t>(at);
    const auto* ids = std::get_if<std::vector<int32_t>>(&prompt.prompt);
    length.input_tokens = ids == nullptr ? -1 : static_cast<int32_t>(ids->size());
    if (prompt.max_tokens > 0) length.output_tokens = prompt.max_tokens;
    if (length.output_tokens == 0) {
      return UsageError(absl::StrCat(options.prompts, ":", prompt.line),
                        "the line has no max_tokens", "--output-tokens for all such lines");
    }
  }
  return absl::OkStatus();
}

absl::Status FitAll(const PlanOptions& options, const std::vector<FilePrompt>& prompts,
                    Lengths* lengths, PlanSummary* summary) {
  const bool drawn_output = !options.output || !options.output->fixed();
  for (PlannedLength& length : *lengths) {
    const FilePrompt* prompt =
        length.file_prompt < 0 ? nullptr : &prompts[static_cast<size_t>(length.file_prompt)];
    const bool fixed_input = prompt != nullptr || (options.input && options.input->fixed());
    const bool fixed_output = prompt != nullptr && prompt->max_tokens > 0 ? true : !drawn_output;
    const auto shortened = Fitting(options.max_model_len, fixed_input, fixed_output).Fit(&length);
    if (!shortened.ok() && prompt != nullptr) {
      return absl::InvalidArgumentError(absl::StrCat(options.prompts, ":", prompt->line, ": ",
                                                     std::string(shortened.status().message())));
    }
    if (!shortened.ok()) return shortened.status();
    if (*shortened) ++summary->clamped;
  }
  return absl::OkStatus();
}

// Cuts a closed loop of a duration to what it can need and to a quarter of the memory.
void CutClosedLoop(const PlanOptions& options, Lengths* lengths) {
  const double most = MostOutputTokens(options);
  double outputs = 0;
  int64_t ids = 0;
  for (size_t i = 0; i < lengths->size(); ++i) {
    ids += std::max((*lengths)[i].input_tokens, 0);
    const bool enough = outputs >= most && i >= static_cast<size_t>(options.concurrency);
    if (i > 0 && (enough || ids > kMaxPlannedIds / 4)) return lengths->resize(i);
    outputs += (*lengths)[i].output_tokens;
  }
}

absl::Status CheckIds(const Lengths& lengths) {
  int64_t ids = 0;
  for (size_t i = 0; i < lengths.size(); ++i) {
    ids += std::max(lengths[i].input_tokens, 0);
    if (ids <= kMaxPlannedIds) continue;
    return UsageError(
        absl::StrCat("prompts of more than ", kMaxPlannedIds, " tokens in all (request ", i + 1,
                     " of ", lengths.size(), " passes it)"),
        "they are made before the run, so that nothing slows the load",
        "fewer requests, a shorter --duration, or shorter prompts");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<PlannedLength>> PlanLengths(const PlanOptions& options,
                                                       const std::vector<FilePrompt>& prompts,
                                                       PlanSummary* summary) {
  BATON_RETURN_IF_ERROR(CheckSharedPrefix(options));
  BATON_ASSIGN_OR_RETURN(Lengths lengths, Times(options, prompts.size(), summary));
  if (options.trace.empty()) {
    BATON_RETURN_IF_ERROR(SetLengths(options, prompts, &lengths));
  }
  if (summary->may_run_out) CutClosedLoop(options, &lengths);
  if (!prompts.empty() && lengths.size() > prompts.size()) {
    summary->repeated_prompts = static_cast<int64_t>(lengths.size() - prompts.size());
  }
  BATON_RETURN_IF_ERROR(FitAll(options, prompts, &lengths, summary));
  summary->filled_by_prefix = CountFilled(lengths, options.shared_prefix_tokens);
  BATON_RETURN_IF_ERROR(CheckIds(lengths));
  return lengths;
}

absl::StatusOr<double> MeanInputTokens(const PlanOptions& options,
                                       const std::vector<FilePrompt>& prompts) {
  constexpr size_t kSample = 4096;
  Lengths lengths(std::max(kSample, prompts.size()));
  BATON_RETURN_IF_ERROR(SetLengths(options, prompts, &lengths));
  PlanSummary ignored;
  BATON_RETURN_IF_ERROR(FitAll(options, prompts, &lengths, &ignored));
  double tokens = 0;
  for (const PlannedLength& length : lengths) tokens += std::max(length.input_tokens, 0);
  return tokens / static_cast<double>(lengths.size());
}

}  // namespace baton::bench
