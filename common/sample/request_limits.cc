#include "common/sample/request_limits.h"

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status.h"

namespace baton {
namespace {

constexpr RequestLimitRow kRows[] = {
    {RequestLimit::kMessages, "messages", LimitKind::kCount, 4096},
    {RequestLimit::kMessageRole, "messages.role", LimitKind::kBytes, 64},
    {RequestLimit::kMessageName, "messages.name", LimitKind::kBytes, 64},
    {RequestLimit::kRequestId, "spec.request_id", LimitKind::kBytes, 256},
    {RequestLimit::kCacheSalt, "spec.cache_salt", LimitKind::kBytes, 256},
    {RequestLimit::kTag, "spec.tag", LimitKind::kBytes, 64},
    {RequestLimit::kStopStrings, "spec.stop.stop", LimitKind::kCount, 64},
    {RequestLimit::kStopStringBytes, "spec.stop.stop", LimitKind::kBytes, 256},
    {RequestLimit::kStopTokenIds, "spec.stop.stop_token_ids", LimitKind::kCount, 256},
    {RequestLimit::kLogitBiases, "spec.sampling.logit_bias", LimitKind::kCount, 1024},
    {RequestLimit::kNgram, "spec.sampling.no_repeat_ngram_size", LimitKind::kValue, 64},
    {RequestLimit::kGuidedJson, "spec.guided_json", LimitKind::kBytes, 65536},
    {RequestLimit::kGuidedRegex, "spec.guided_regex", LimitKind::kBytes, 16384},
    {RequestLimit::kGuidedGrammar, "spec.guided_grammar", LimitKind::kBytes, 65536},
    {RequestLimit::kGuidedChoices, "spec.guided_choice", LimitKind::kCount, 1000},
    {RequestLimit::kGuidedChoiceBytes, "spec.guided_choice", LimitKind::kBytes, 1024},
    {RequestLimit::kAnswers, "spec.sampling.n", LimitKind::kValue, 64},
    {RequestLimit::kBestOf, "spec.sampling.best_of", LimitKind::kValue, 64},
    {RequestLimit::kBeamWidth, "spec.sampling.beam_width", LimitKind::kValue, 16},
};

// What `most` counts, for a table.
std::string Unit(LimitKind kind) {
  if (kind == LimitKind::kCount) return "entries";
  return kind == LimitKind::kBytes ? "bytes, each" : "as its value";
}

// What a request has, as a sentence begins.
std::string Found(const RequestLimitRow& row, int64_t have) {
  const std::string field(row.field);
  if (row.kind == LimitKind::kCount) return absl::StrCat(field, " has ", have, " entries");
  if (row.kind == LimitKind::kBytes) return absl::StrCat(field, " has ", have, " bytes");
  return absl::StrCat(field, " is ", have);
}

}  // namespace

std::span<const RequestLimitRow> RequestLimits() { return kRows; }

absl::Status CheckLimit(RequestLimit limit, int64_t have) {
  const RequestLimitRow& row = kRows[static_cast<size_t>(limit)];
  BATON_CHECK(row.limit == limit) << "the table is not in the order of its enum";
  if (have <= row.most) return absl::OkStatus();
  return MakeError(
      absl::StatusCode::kInvalidArgument,
      {.reason = Reason::kLimitExceeded,
       .field = std::string(row.field),
       .values = {{"have", absl::StrCat(have)}, {"limit", absl::StrCat(row.most)}}},
      absl::StrCat(Found(row, have), "; the limit of a request is ", row.most, "; send less"));
}

std::string RequestLimitsMarkdown() {
  std::string text = "| field | at most | of |\n|---|---|---|\n";
  for (const RequestLimitRow& row : kRows) {
    absl::StrAppend(&text, "| `", std::string(row.field), "` | ", row.most, " | ", Unit(row.kind),
                    " |\n");
  }
  return text;
}

std::string RequestLimitsComment() {
  std::string text = "\n# What one request may contain; not settings.\n";
  for (const RequestLimitRow& row : kRows) {
    absl::StrAppend(&text, "#   ", std::string(row.field), ": at most ", row.most, " ",
                    Unit(row.kind), "\n");
  }
  return text;
}

}  // namespace baton
