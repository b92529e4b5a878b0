#include "tools/bench/figures/figures.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "tools/bench/figures/request_times.h"

namespace baton::bench {
namespace {

// An answer that came at once, in messages bundled on the way, has a time per token but no speed:
// a few of these would be all that a mean shows.
constexpr double kLeastDecodeSeconds = 1e-3;

// The samples of every distribution, by its member.
class Samples {
 public:
  void Add(Summary Figures::*figure, double value) { of(figure).push_back(value); }

  void SummarizeInto(Figures* figures, uint64_t seed) {
    for (auto& [figure, values] : lists_) {
      figures->*figure = Summarize(std::move(values), seed++);
    }
  }

 private:
  std::vector<double>& of(Summary Figures::*figure) {
    for (auto& [known, values] : lists_) {
      if (known == figure) return values;
    }
    return lists_.emplace_back(figure, std::vector<double>()).second;
  }

  std::vector<std::pair<Summary Figures::*, std::vector<double>>> lists_;
};

void AddFirstToken(const RequestRecord& record, Samples* samples) {
  const double ttft_s = Ttft(record);
  samples->Add(&Figures::ttft_ms, 1e3 * ttft_s);
  samples->Add(&Figures::ttft_from_sent_ms, 1e3 * (record.first_token() - record.sent));
  samples->Add(&Figures::client_queue_ms, 1e3 * (record.sent - record.scheduled));
  if (record.prompt_tokens <= 0) return;
  samples->Add(&Figures::ttft_per_prompt_token_ms, 1e3 * ttft_s / record.prompt_tokens);
  if (ttft_s > 0) samples->Add(&Figures::prefill_tokens_per_s, record.prompt_tokens / ttft_s);
}

void AddServerTimings(const RequestRecord& record, Samples* samples) {
  if (!record.timings) return;
  const ServerTimings& t = *record.timings;
  samples->Add(&Figures::queue_ms, t.queue_ms);
  samples->Add(&Figures::prefill_ms, t.prefill_ms);
  samples->Add(&Figures::ttft_rest_ms, std::max(0.0, t.ttft_ms - t.queue_ms - t.prefill_ms));
  samples->Add(&Figures::network_ms, 1e3 * (record.first_token() - record.sent) - t.ttft_ms);
  const int32_t computed = record.prompt_tokens - record.cached_tokens;
  if (t.prefill_ms > 0 && computed > 0) {
    samples->Add(&Figures::server_prefill_tokens_per_s, 1e3 * computed / t.prefill_ms);
  }
  // The server delivers the first token before the KV cache has arrived where decoding goes on.
  samples->Add(&Figures::kv_transfer_ms, t.kv_transfer_ms);
  if (const auto gap = FirstGap(record)) {
    samples->Add(&Figures::first_decode_ms, std::max(0.0, 1e3 * *gap - t.kv_transfer_ms));
  }
}

void AddDecode(const RequestRecord& record, Samples* samples) {
  const auto tokens = static_cast<double>(OutputTokens(record));
  samples->Add(&Figures::e2el_ms, 1e3 * EndToEnd(record));
  if (tokens > 0) samples->Add(&Figures::ntpot_ms, 1e3 * EndToEnd(record) / tokens);
  for (size_t i = 1; i < record.chunks.size(); ++i) {
    samples->Add(&Figures::itl_ms, 1e3 * (record.chunks[i].at - record.chunks[i - 1].at));
  }
  if (const auto gap = MaxGap(record)) samples->Add(&Figures::max_gap_ms, 1e3 * *gap);
  const std::optional<double> tpot = Tpot(record);
  if (!tpot) return;
  samples->Add(&Figures::tpot_ms, 1e3 * *tpot);
  const double decode_s = DecodeSeconds(record);
  if (decode_s < kLeastDecodeSeconds) return;
  samples->Add(&Figures::tokens_per_s_per_user, 1 / *tpot);
  samples->Add(&Figures::decode_tokens_per_s, tokens / decode_s);
  samples->Add(&Figures::decode_tokens_per_s_n1, (tokens - 1) / decode_s);
}

// Adds up the requests that were scheduled inside the window.
class Totals {
 public:
  void Add(const RequestRecord& record, Figures* figures) {
    const int64_t tokens = OutputTokens(record);
    ++figures->finish_reasons[record.finish_reason];
    figures->prompt_tokens += record.prompt_tokens;
    figures->cached_tokens += record.cached_tokens;
    figures->output_tokens += tokens;
    figures->extra_attempts += std::max(0, record.attempts - 1);
    chunks_ += static_cast<int64_t>(record.chunks.size());
    if (!record.natural_end_step) return;
    ++natural_ends_;
    after_end_ += std::max<int64_t>(0, tokens - *record.natural_end_step);
  }

  void Finish(Figures* figures) const {
    const auto share = [](int64_t part, int64_t whole) {
      return whole > 0 ? static_cast<double>(part) / static_cast<double>(whole) : 0;
    };
    figures->tokens_per_chunk = share(figures->output_tokens, chunks_);
    figures->natural_end_share = share(natural_ends_, figures->completed);
    figures->tokens_after_natural_end_share = share(after_end_, figures->output_tokens);
    figures->failed_share = share(figures->failed, figures->completed + figures->failed);
  }

 private:
  int64_t chunks_ = 0;
  int64_t natural_ends_ = 0;
  int64_t after_end_ = 0;
};

// What arrived of completed requests inside the window, their tokens and their ends, whenever the
// requests were scheduled.
class Arrivals {
 public:
  explicit Arrivals(const Window& window)
      : window_(window), seconds_(static_cast<size_t>(std::ceil(window.seconds())) + 1) {}

  // `good`: the request kept every limit.
  void Add(const RequestRecord& record, bool good) {
    const bool ended = window_.Holds(record.ended);
    requests_ += ended ? 1 : 0;
    good_requests_ += ended && good ? 1 : 0;
    if (window_.Holds(record.first_token())) prompt_tokens_ += record.prompt_tokens;
    // Where a server counts other tokens than its messages show, each message stands for its share.
    double shown = 0;
    for (const Chunk& chunk : record.chunks) shown += chunk.tokens;
    const double weight = shown > 0 ? static_cast<double>(OutputTokens(record)) / shown : 0;
    for (const Chunk& chunk : record.chunks) {
      if (!window_.Holds(chunk.at)) continue;
      output_tokens_ += weight * chunk.tokens;
      seconds_[static_cast<size_t>(chunk.at - window_.from)] += weight * chunk.tokens;
    }
  }

  void Finish(Figures* figures) const {
    const double span = window_.seconds();
    if (span <= 0) return;
    figures->request_throughput = static_cast<double>(requests_) / span;
    figures->request_goodput = static_cast<double>(good_requests_) / span;
    figures->input_throughput = static_cast<double>(prompt_tokens_) / span;
    figures->output_throughput = output_tokens_ / span;
    figures->total_token_throughput = figures->input_throughput + figures->output_throughput;
    figures->peak_output_tokens_per_s = *std::max_element(seconds_.begin(), seconds_.end());
  }

 private:
  const Window window_;
  std::vector<double> seconds_;
  int64_t requests_ = 0;
  int64_t good_requests_ = 0;
  int64_t prompt_tokens_ = 0;
  double output_tokens_ = 0;
};

void AddConcurrency(const LoadResult& load, Figures* figures) {
  const Window& window = figures->window;
  const std::vector<ConcurrencyStep> steps = ConcurrencyOverTime(load.records);
  figures->mean_concurrency = MeanConcurrency(steps, window.from, window.to);
  int32_t before = 0;
  int32_t peak = 0;
  for (const ConcurrencyStep& step : steps) {
    if (step.at > window.to) break;
    if (step.at >= window.from) peak = std::max({peak, before, step.requests});
    before = step.requests;
  }
  figures->peak_concurrency = std::max(peak, before);
}

// Counts an unfinished request; false for one that completed.
bool CountUnfinished(const RequestRecord& record, Figures* figures) {
  if (record.ok()) return false;
  if (record.cancelled) {
    ++figures->cancelled;
    return true;
  }
  ++figures->failed;
  const absl::Status& status = record.status;
  ++figures->errors[absl::StrCat(std::string(CodeName(status.code())), ": ", status.message())];
  return true;
}

}  // namespace

Figures ComputeFigures(const LoadResult& load, const Window& window, const std::optional<Slo>& slo,
                       uint64_t seed) {
  Figures figures;
  figures.window = window;
  figures.duration_s = window.seconds();
  if (slo) {
    for (const SloLimit& limit : slo->limits) figures.slo.push_back({.limit = limit});
  }
  Samples samples;
  Totals totals;
  Arrivals arrivals(window);
  int64_t good = 0;
  for (const RequestRecord& record : load.records) {
    const bool is_good = slo && record.ok() && IsGood(record, *slo);
    if (record.ok()) arrivals.Add(record, is_good);
    if (!window.Holds(record.scheduled)) continue;
    ++figures.requests;
    if (CountUnfinished(record, &figures)) continue;
    ++figures.completed;
    totals.Add(record, &figures);
    samples.Add(&Figures::prompt_len, record.prompt_tokens);
    samples.Add(&Figures::output_len, static_cast<double>(OutputTokens(record)));
    if (record.natural_end_step) {
      samples.Add(&Figures::natural_end_step, *record.natural_end_step);
    }
    for (SloCount& count : figures.slo) CountAgainst(record, &count);
    good += is_good ? 1 : 0;
    if (record.chunks.empty()) continue;
    AddFirstToken(record, &samples);
    AddServerTimings(record, &samples);
    AddDecode(record, &samples);
  }
  samples.SummarizeInto(&figures, seed);
  totals.Finish(&figures);
  arrivals.Finish(&figures);
  AddConcurrency(load, &figures);
  const int64_t judged = figures.completed + figures.failed;
  if (judged > 0) figures.goodput_share = static_cast<double>(good) / static_cast<double>(judged);
  return figures;
}

std::string VoidReason(std::span<const RequestRecord> records, EosMode eos) {
  if (eos == EosMode::kHonor) return "";
  for (const RequestRecord& record : records) {
    if (!record.ok() || OutputTokens(record) == record.max_tokens) continue;
    return absl::StrCat(
        "request ", record.index, record.request_id.empty() ? "" : " (" + record.request_id + ")",
        ": expected ", record.max_tokens, " output tokens, found ", OutputTokens(record),
        " (finish reason '", record.finish_reason,
        "'): the server does not ignore EOS as asked, so the requests did not do equal work");
  }
  return "";
}

bool ClientLimited(std::span<const double> lag_ms) { return LagP99(lag_ms) > kClientLimitedLagMs; }

double LagP99(std::span<const double> lag_ms) {
  std::vector<double> sorted(lag_ms.begin(), lag_ms.end());
  std::sort(sorted.begin(), sorted.end());
  return PercentileOfSorted(sorted, 99);
}

}  // namespace baton::bench
