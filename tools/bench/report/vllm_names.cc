#include "tools/bench/report/vllm_names.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <ctime>

#include "absl/strings/str_cat.h"
#include "tools/bench/figures/request_times.h"

namespace baton::bench {
namespace {

using Json = nlohmann::ordered_json;

std::string DateOf(double unix_seconds) {
  const auto seconds = static_cast<std::time_t>(unix_seconds);
  std::tm utc{};
  gmtime_r(&seconds, &utc);
  std::array<char, 32> text{};
  const size_t size = std::strftime(text.data(), text.size(), "%Y%m%d-%H%M%S", &utc);
  return {text.data(), size};
}

// One list per name, one entry per request.
class Lists {
 public:
  void Add(const RequestRecord& record, double run_start) {
    const bool ok = record.ok();
    input_lens_.push_back(record.prompt_tokens > 0 ? record.prompt_tokens
                                                   : std::max(0, record.planned_prompt_tokens));
    output_lens_.push_back(ok ? OutputTokens(record) : 0);
    ttfts_.push_back(ok ? Ttft(record) : 0);
    latencies_.push_back(ok ? EndToEnd(record) : 0);
    start_times_.push_back(run_start + record.scheduled);
    queue_times_.push_back(record.sent - record.scheduled);
    Json gaps = Json::array();
    for (size_t i = 1; ok && i < record.chunks.size(); ++i) {
      gaps.push_back(record.chunks[i].at - record.chunks[i - 1].at);
    }
    itls_.push_back(std::move(gaps));
    const absl::string_view error = record.status.message();
    errors_.push_back(std::string(error.data(), error.size()));
  }

  size_t size() const { return ttfts_.size(); }

  void MoveInto(Json* json) {
    (*json)["input_lens"] = std::move(input_lens_);
    (*json)["output_lens"] = std::move(output_lens_);
    (*json)["ttfts"] = std::move(ttfts_);
    (*json)["itls"] = std::move(itls_);
    (*json)["latencies"] = std::move(latencies_);
    (*json)["start_times"] = std::move(start_times_);
    (*json)["queue_times"] = std::move(queue_times_);
    (*json)["errors"] = std::move(errors_);
  }

 private:
  Json input_lens_ = Json::array();
  Json output_lens_ = Json::array();
  Json ttfts_ = Json::array();
  Json itls_ = Json::array();
  Json latencies_ = Json::array();
  Json start_times_ = Json::array();
  Json queue_times_ = Json::array();
  Json errors_ = Json::array();
};

// Null without samples, since 0 ms would be a very good server.
void AddSummary(const std::string& name, const Summary& summary, Json* json) {
  const auto add = [&](const std::string& statistic, double value) {
    (*json)[statistic + "_" + name + "_ms"] = summary.count > 0 ? Json(value) : Json(nullptr);
  };
  add("mean", summary.mean);
  add("median", summary.p50);
  add("std", summary.std);
  add("p50", summary.p50);
  add("p90", summary.p90);
  add("p95", summary.p95);
  add("p99", summary.p99);
  add("p99.9", summary.p999);
}

// All runs one after the other, as one: a run begins where the one before has ended.
LoadResult Joined(const std::vector<RunResult>& runs) {
  LoadResult joined;
  for (const RunResult& run : runs) {
    for (RequestRecord record : run.load.records) {
      record.scheduled += joined.duration_s;
      record.sent += joined.duration_s;
      record.ended += joined.duration_s;
      for (Chunk& chunk : record.chunks) chunk.at += joined.duration_s;
      joined.records.push_back(std::move(record));
    }
    joined.duration_s += WholeRun(run.load).to;
  }
  return joined;
}

void AddSetup(const BenchResult& result, size_t prompts, Json* json) {
  const RunResult* first = result.runs.empty() ? nullptr : &result.runs.front();
  const double searched = result.find_max ? result.find_max->unix_started : 0;
  (*json)["date"] = DateOf(first == nullptr ? searched : first->load.unix_started);
  (*json)["endpoint_type"] = result.endpoint_type;
  (*json)["backend"] = result.endpoint_type;
  (*json)["label"] = nullptr;
  (*json)["model_id"] = result.model_id;
  (*json)["tokenizer_id"] = result.tokenizer_id;
  (*json)["num_prompts"] = prompts;
  const bool open = first != nullptr && first->rate && std::isfinite(*first->rate);
  const bool closed = first != nullptr && first->concurrency.has_value();
  (*json)["request_rate"] = open ? Json(*first->rate) : Json("inf");
  (*json)["burstiness"] = std::isfinite(result.burstiness) ? Json(result.burstiness) : Json("inf");
  (*json)["max_concurrency"] = closed ? Json(*first->concurrency) : Json(nullptr);
}

}  // namespace

Json VllmResult(const BenchResult& result) {
  const LoadResult joined = Joined(result.runs);
  const Figures figures = ComputeFigures(joined, WholeRun(joined), result.slo, 0);
  Lists lists;
  double start = 0;
  for (const RunResult& run : result.runs) {
    for (const RequestRecord& record : run.load.records) {
      if (!record.cancelled) lists.Add(record, start);
    }
    start += WholeRun(run.load).to;
  }
  Json json;
  AddSetup(result, lists.size(), &json);
  json["duration"] = figures.duration_s;
  json["completed"] = figures.completed;
  json["failed"] = figures.failed;
  json["total_input_tokens"] = figures.prompt_tokens;
  json["total_output_tokens"] = figures.output_tokens;
  json["request_throughput"] = figures.request_throughput;
  json["request_goodput"] = result.slo ? Json(figures.request_goodput) : Json(nullptr);
  json["output_throughput"] = figures.output_throughput;
  json["total_token_throughput"] = figures.total_token_throughput;
  lists.MoveInto(&json);
  json["max_output_tokens_per_s"] = figures.peak_output_tokens_per_s;
  json["max_concurrent_requests"] = static_cast<int64_t>(figures.peak_concurrency);
  AddSummary("ttft", figures.ttft_ms, &json);
  AddSummary("tpot", figures.tpot_ms, &json);
  AddSummary("itl", figures.itl_ms, &json);
  AddSummary("e2el", figures.e2el_ms, &json);
  return json;
}

}  // namespace baton::bench
