#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "tools/bench/load/request_record.h"

namespace baton::bench {

enum class SloMetric { kTtft, kTpot, kItl, kE2e, kMaxGap };

// The name of a metric in --slo and in results: "ttft", "tpot", "itl", "e2e", "max-gap".
std::string_view SloMetricName(SloMetric metric);

struct SloLimit {
  SloMetric metric = SloMetric::kTtft;
  double limit_ms = 0;
};

// What users are promised: each limit holds for `percentile` per cent of the requests (of the gaps,
// for ITL).
struct Slo {
  std::vector<SloLimit> limits;  // at least one, each metric once
  double percentile = 99;
  std::string reader;  // "silent", "listening", "visual" or "" when none was named
};

// Words per minute of a reader; 0 for an unknown name.
double ReaderWordsPerMinute(std::string_view reader);
// The time per output token at which text keeps up with a reader, milliseconds.
double ReaderTpotMs(double words_per_minute, double tokens_per_word);

// Whether `text` names a reader, so that ParseSlo needs the tokenizer's tokens per word.
bool SloNamesReader(std::string_view text);

// What may be limited, as messages say it.
inline constexpr std::string_view kSloNames = "ttft, tpot, itl, e2e, max-gap or reader";

// Reads "ttft=200ms,tpot=50ms[,itl=80ms][,e2e=10s][,max-gap=1s][,percentile=99]", where a bare
// number is milliseconds. "reader=silent|listening|visual" stands for a TPOT, which takes
// `tokens_per_word`, as measured with the tokenizer; that is 0 or less when it is unknown. Of
// another name it says that one of `names` was expected.
absl::StatusOr<Slo> ParseSlo(std::string_view text, double tokens_per_word,
                             std::string_view names = kSloNames);
// An SLO in words: "ttft <= 200 ms and tpot <= 50 ms at P99".
std::string SloText(const Slo& slo);

// How the samples of one metric stood to their limit.
struct SloCount {
  SloLimit limit;
  int64_t samples = 0;
  int64_t violations = 0;
};

// Adds the samples of `record` (which is ok()) to `count`. A request without the metric (TPOT of
// one token) is a sample that holds the limit, as in vLLM's goodput; ITL counts each gap.
void CountAgainst(const RequestRecord& record, SloCount* count);

// Whether the request alone keeps every limit; for ITL: its own percentile-th gap does.
bool IsGood(const RequestRecord& record, const Slo& slo);

}  // namespace baton::bench
