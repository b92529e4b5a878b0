#include "tools/bench/figures/slo.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/config/units.h"
#include "tools/bench/figures/request_times.h"
#include "tools/bench/figures/statistics.h"

namespace baton::bench {
namespace {

constexpr std::array kMetrics = {SloMetric::kTtft, SloMetric::kTpot, SloMetric::kItl,
                                 SloMetric::kE2e, SloMetric::kMaxGap};

// Words per minute. Silent: adults reading English non-fiction, Brysbaert 2019 (doi
// 10.1016/j.jml.2019.104047), 190 studies. Listening: the upper end of the 150 to 160 that
// audiobooks are read at, since a voice must never wait. Visual: skimming by eye, the second
// fastest of the five kinds of reading that R. P. Carver tells apart.
struct Reader {
  std::string_view name;
  double words_per_minute;
};
constexpr std::array kReaders = {Reader{"silent", 238}, Reader{"listening", 160},
                                 Reader{"visual", 450}};

absl::Status Refused(const std::string& message) {
  return absl::InvalidArgumentError("--slo: " + message);
}

std::optional<SloMetric> MetricNamed(std::string_view name) {
  for (const SloMetric metric : kMetrics) {
    if (SloMetricName(metric) == name) return metric;
  }
  return std::nullopt;
}

absl::Status AddLimit(SloMetric metric, double limit_ms, Slo* slo) {
  for (const SloLimit& limit : slo->limits) {
    if (limit.metric == metric) {
      return Refused(absl::StrCat(std::string(SloMetricName(metric)),
                                  " is limited twice (a reader is a limit of tpot); keep one"));
    }
  }
  slo->limits.push_back({metric, limit_ms});
  return absl::OkStatus();
}

absl::Status AddReader(const std::string& name, double tokens_per_word, Slo* slo) {
  const double speed = ReaderWordsPerMinute(name);
  if (speed <= 0) {
    return Refused(
        absl::StrCat("unknown reader '", name, "'; expected silent, listening or visual"));
  }
  if (!(tokens_per_word > 0)) {
    return Refused(
        "reader= needs the tokens per word of the model's tokenizer, which is not known here; "
        "give tpot= instead");
  }
  slo->reader = name;
  return AddLimit(SloMetric::kTpot, ReaderTpotMs(speed, tokens_per_word), slo);
}

absl::Status SetPercentile(const std::string& text, Slo* slo) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !(value >= 1 && value <= 99.99)) {
    return Refused(absl::StrCat("percentile=", text, ": expected a number from 1 to 99.99"));
  }
  slo->percentile = value;
  return absl::OkStatus();
}

absl::Status AddItem(const std::string& item, double tokens_per_word, std::string_view names,
                     Slo* slo) {
  const std::vector<std::string> parts = absl::StrSplit(item, absl::MaxSplits('=', 1));
  if (parts.size() != 2 || parts[1].empty()) {
    return Refused(absl::StrCat("found '", item, "', expected name=value, as in ttft=200ms"));
  }
  if (parts[0] == "reader") return AddReader(parts[1], tokens_per_word, slo);
  if (parts[0] == "percentile") return SetPercentile(parts[1], slo);
  const std::optional<SloMetric> metric = MetricNamed(parts[0]);
  if (!metric) {
    return Refused(absl::StrCat("unknown name '", parts[0], "'; expected ", std::string(names),
                                ", and perhaps percentile"));
  }
  const absl::StatusOr<base::Duration> limit =
      ParseDuration(parts[1], std::chrono::milliseconds(1));
  if (!limit.ok() || *limit <= base::Duration::zero()) {
    return Refused(absl::StrCat(item, ": expected a time above 0, as in 200ms or 1.5s"));
  }
  return AddLimit(*metric, base::Milliseconds(*limit), slo);
}

std::vector<double> GapsOf(const RequestRecord& record) {
  std::vector<double> gaps;
  for (size_t i = 1; i < record.chunks.size(); ++i) {
    gaps.push_back(record.chunks[i].at - record.chunks[i - 1].at);
  }
  return gaps;
}

// The one value in seconds that stands for the request; for ITL that is its percentile-th gap.
double ValueOf(const RequestRecord& record, SloMetric metric, double percentile) {
  switch (metric) {
    case SloMetric::kTtft:
      return Ttft(record);
    case SloMetric::kTpot:
      return Tpot(record).value_or(0);
    case SloMetric::kE2e:
      return EndToEnd(record);
    case SloMetric::kMaxGap:
      return MaxGap(record).value_or(0);
    case SloMetric::kItl: {
      std::vector<double> gaps = GapsOf(record);
      std::sort(gaps.begin(), gaps.end());
      return PercentileOfSorted(gaps, percentile);
    }
  }
  return 0;
}

}  // namespace

std::string_view SloMetricName(SloMetric metric) {
  switch (metric) {
    case SloMetric::kTtft:
      return "ttft";
    case SloMetric::kTpot:
      return "tpot";
    case SloMetric::kItl:
      return "itl";
    case SloMetric::kE2e:
      return "e2e";
    case SloMetric::kMaxGap:
      return "max-gap";
  }
  return "";
}

double ReaderWordsPerMinute(std::string_view reader) {
  for (const Reader& known : kReaders) {
    if (known.name == reader) return known.words_per_minute;
  }
  return 0;
}

double ReaderTpotMs(double words_per_minute, double tokens_per_word) {
  return 60e3 / (words_per_minute * tokens_per_word);
}

bool SloNamesReader(std::string_view text) {
  return text.find("reader=") != std::string_view::npos;
}

absl::StatusOr<Slo> ParseSlo(std::string_view text, double tokens_per_word,
                             std::string_view names) {
  Slo slo;
  const std::vector<std::string> items = absl::StrSplit(std::string(text), ',');
  for (const std::string& item : items) {
    BATON_RETURN_IF_ERROR(AddItem(item, tokens_per_word, names, &slo));
  }
  if (slo.limits.empty()) {
    return Refused(
        absl::StrCat("'", std::string(text), "' limits nothing; expected ", std::string(names)));
  }
  return slo;
}

std::string SloText(const Slo& slo) {
  std::string text;
  for (const SloLimit& limit : slo.limits) {
    absl::StrAppend(&text, text.empty() ? "" : " and ", std::string(SloMetricName(limit.metric)),
                    " <= ", limit.limit_ms, " ms");
  }
  absl::StrAppend(&text, " at P", slo.percentile);
  if (!slo.reader.empty()) absl::StrAppend(&text, " (", slo.reader, " reader)");
  return text;
}

void CountAgainst(const RequestRecord& record, SloCount* count) {
  const double limit_s = count->limit.limit_ms / 1e3;
  if (count->limit.metric != SloMetric::kItl) {
    ++count->samples;
    count->violations += ValueOf(record, count->limit.metric, 0) > limit_s ? 1 : 0;
    return;
  }
  for (size_t i = 1; i < record.chunks.size(); ++i) {
    ++count->samples;
    count->violations += record.chunks[i].at - record.chunks[i - 1].at > limit_s ? 1 : 0;
  }
}

bool IsGood(const RequestRecord& record, const Slo& slo) {
  return std::all_of(slo.limits.begin(), slo.limits.end(), [&](const SloLimit& limit) {
    return ValueOf(record, limit.metric, slo.percentile) <= limit.limit_ms / 1e3;
  });
}

}  // namespace baton::bench
