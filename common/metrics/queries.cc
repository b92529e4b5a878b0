#include "common/metrics/queries.h"

#include <array>

namespace baton {
namespace {

constexpr std::array kQueries = {
    MetricQuery{"Requests per second", "router", "sum(rate(baton_requests_received_total[5m]))",
                "Answered ones: `baton_request_success_total`."},
    MetricQuery{"Tokens per second, of prompts", "router",
                "sum(rate(baton_prompt_tokens_total[5m]))", "Counted when a request ends."},
    MetricQuery{"Tokens per second, generated", "router",
                "sum(rate(baton_generation_tokens_total[5m]))", "Counted as they come."},
    MetricQuery{"Time to first token, median", "router",
                "histogram_quantile(0.5, sum by (le) "
                "(rate(baton_time_to_first_token_seconds_bucket[5m])))",
                ""},
    MetricQuery{
        "Time to first token, 99th percentile", "router",
        "histogram_quantile(0.99, sum by (le) "
        "(rate(baton_time_to_first_token_seconds_bucket[5m])))",
        "By tenant: `baton_tenant_time_to_first_token_seconds` with `sum by (le, tenant)`."},
    MetricQuery{"Time between tokens, 99th percentile", "router",
                "histogram_quantile(0.99, sum by (le) "
                "(rate(baton_inter_token_latency_seconds_bucket[5m])))",
                "A pause in which a worker was replaced is in it, too."},
    MetricQuery{"Success ratio", "router",
                "sum(rate(baton_request_success_total[5m])) / "
                "(sum(rate(baton_request_success_total[5m])) + "
                "sum(rate(baton_request_errors_total{code=~\"DEADLINE_EXCEEDED|INTERNAL|"
                "RESOURCE_EXHAUSTED|UNAVAILABLE\",reason!=\"SLOW_CLIENT\"}[5m])))",
                "Requests that clients made wrong or left are in neither part; "
                "`baton_request_failure_total` has all that were not answered."},
    MetricQuery{"Requests that wait", "router", "sum(baton_num_requests_waiting{role=\"router\"})",
                "The workers' series of that name is their own, short line."},
    MetricQuery{"Sequences that run", "workers", "sum by (role) (baton_num_requests_running)",
                "At most `--max-num-seqs` for each worker."},
    MetricQuery{"KV cache in use", "workers", "max by (role) (baton_kv_cache_usage_perc)",
                "From 0 to 1. Near 1 requests wait for blocks, or are preempted "
                "(`baton_num_preemptions_total`)."},
    MetricQuery{"Handoff time, 99th percentile", "workers",
                "histogram_quantile(0.99, sum by (le, stage) "
                "(rate(baton_kv_transfer_duration_seconds_bucket[5m])))",
                "`ack` is what a first token waits for when all else is sent; `reserve` is the "
                "wait for blocks. Failures: `baton_kv_transfer_failures_total` by `reason`."},
    MetricQuery{"Scale decode workers on (HPA)", "workers",
                "avg(baton_kv_cache_usage_perc{role=\"decode\"})",
                "A target near 0.8 leaves room for answers to grow; it moves with the load, where "
                "CPU or GPU use is high at any load."},
    MetricQuery{"Scale prefill workers on (HPA)", "router",
                "histogram_quantile(0.9, sum by (le) "
                "(rate(baton_request_queue_time_seconds_bucket{role=\"router\"}[1m])))",
                "A target is the part of the time to first token that may be waiting. It is told "
                "at the ends of requests; `baton_num_requests_waiting` moves at once. It grows for "
                "want of decode workers, too, so scale those first."},
    MetricQuery{"Answers ended by the model", "router",
                "sum(rate(baton_request_success_total{stop_cause=\"eos\"}[5m])) / "
                "sum(rate(baton_request_success_total[5m]))",
                "The rest ended by a stop string or id, or at their `max_tokens`."},
    MetricQuery{"EOS probability where answers stop, median", "workers",
                "histogram_quantile(0.5, sum by (le) "
                "(rate(baton_eos_probability_at_stop_bucket[5m])))",
                "It falls when a model or its template no longer fits; every step is in the EOS "
                "log ([eos.md](eos.md))."},
};

}  // namespace

std::span<const MetricQuery> MetricQueries() { return kQueries; }

}  // namespace baton
