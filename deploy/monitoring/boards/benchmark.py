"""While `baton bench` runs: is the load what was meant, and what comes out?"""

from board import Board, Panel, Row, mean, quantile, quantiles, rate


def _load():
    return Row("Is the load what was meant?", [
        Panel("Requests that ignore EOS", "Share: 1 in a run with fixed lengths, 0 in one with natural ends.", "percentunit",
              [(f"{rate('baton_ignore_eos_requests_total')} / {rate('baton_requests_received_total')}", "ignore EOS")],
              "stat", wide=6, high=6),
        Panel("Length, of what was asked", "Generated tokens over max_tokens: 1 when all answers have the length asked for.",
              "percentunit", [(f"{rate('baton_request_generation_tokens_sum')} / "
                               f"{rate('baton_request_params_max_tokens_sum')}", "generated / asked")],
              "stat", wide=6, high=6),
        Panel("Prompts found in the cache", "Share of prompt tokens. Near 0 unless the run repeats prefixes on purpose.",
              "percentunit", [(f"{rate('baton_prefix_cache_hits_total')} / {rate('baton_prefix_cache_queries_total')}",
                               "found")], "stat", wide=6, high=6),
        Panel("Not answered", "Share of the requests that came. Rates above the highest that the service can take show "
              "here.",
              "percentunit", [(f"{rate('baton_request_failure_total')} / {rate('baton_requests_received_total')}",
                               "not answered")], "stat", wide=6, high=6),
        Panel("Offered and answered", "Requests per second. Lines that part: the queue grows.", "reqps",
              [(rate("baton_requests_received_total"), "offered"), (rate("baton_request_success_total"), "answered")]),
        Panel("Concurrency", "Requests in flight, sequences that decode, and requests that wait.", "short",
              [("sum (baton_requests_inflight)", "in flight"),
               ('sum (baton_num_requests_running{role="decode"})', "at decode workers"),
               ('sum (baton_num_requests_waiting{role="router"})', "waiting")]),
        Panel("Lengths", "Tokens, mean: prompts, and answers.", "short",
              [(mean("baton_request_prompt_tokens"), "prompt"), (mean("baton_request_generation_tokens"), "answer")]),
    ])


def _out():
    return Row("What comes out", [
        Panel("Throughput", "Tokens per second.", "short",
              [(rate("baton_generation_tokens_total"), "generated"), (rate("baton_prompt_tokens_total"), "prompt")]),
        Panel("Throughput of one sequence", "Generated tokens per second of one sequence, which is one by the mean gap: it "
              "falls as the batch grows, while the sum above rises. Where the sum no longer rises, the service is full.",
              "short", [(f"{rate('baton_inter_token_latency_seconds_count')} / {rate('baton_inter_token_latency_seconds_sum')}",
                         "tokens/s per sequence")]),
        Panel("Sequences in a decode step", "Mean.", "short", [(mean("baton_batch_size", '{phase="decode"}'), "sequences")]),
        Panel("Time to first token", "As the router measures it; the bench adds the network.", "s",
              quantiles("baton_time_to_first_token_seconds")),
        Panel("Time per output token", "Mean of each request.", "s",
              quantiles("baton_request_time_per_output_token_seconds")),
        Panel("Time of a step, p50", "By role and what it held.", "s",
              [(quantile(0.5, "baton_iteration_duration_seconds", "role, phase"), "{{role}} {{phase}}")]),
        Panel("Arithmetic used", "Of the peak measured at start.", "percentunit",
              [("max by (role) (baton_model_flops_utilization)", "{{role}}")], wide=12),
        Panel("Memory bandwidth used", "Of that measured at start; above 1 where the processor's caches hold the model.",
              "percentunit", [("max by (role) (baton_memory_bandwidth_utilization)", "{{role}}")], wide=12),
    ])


def board():
    return Board("baton-benchmark", "While `baton bench` runs: is the load what was meant, and what comes out?",
                 [_load(), _out()])
