"""What one looks at first: is it well, what do users see, and what is full?"""

from board import Board, Panel, Row, choice, mean, quantile, quantiles, rate, seen
from rules import SERVICE_ERRORS

FIRING = 'ALERTS{alertname=~"Baton.+",alertstate="firing"}'


def within(histogram, bound):
    good, every = f'rate({histogram}_bucket{{le="{bound}"}}[$__range])', f"rate({histogram}_count[$__range])"
    return f"sum ({good}) / sum ({every})"


def _health():
    red, amber, green = "red", "orange", "green"
    shares = {"base": red, "top": 1, "high": 5}
    return Row("Is it well?", [
        Panel("Ready processes", "Processes that take work, by role. None of a role: nothing is answered, or, of "
              "prefill, decode workers read prompts themselves. A router is ready while it sees a healthy decode "
              "worker.", "short", [('sum by (role) (baton_server_state{state="ready"})', "{{role}}")],
              "stat", wide=6, high=5, base=red, steps=((1, green),)),
        Panel("Alerts that fire", "Of those in deploy/prometheus/rules, by name, with the number of their series; "
              "docs/runbook.md has a paragraph on each.", "short",
              [(f"count by (alertname) ({FIRING}) or label_replace(vector(0) unless on () {FIRING}, "
                '"alertname", "none", "", "")', "{{alertname}}")],
              "stat", wide=4, high=5, steps=((1, red),), foreign=True),
        Panel("Answered", "Share of the requests that got a whole answer, of those and the ones that the service "
              "failed. What clients made wrong or left is in neither part.", "percentunit",
              [(f"{rate('baton_request_success_total')} / ({rate('baton_request_success_total')} + {rate(SERVICE_ERRORS)})",
                "answered")], "stat", wide=4, steps=((0.95, amber), (0.99, green)), **shares),
        Panel("First tokens in time", "Share of the requests of the chosen time whose first token came within "
              "the objective chosen above.", "percentunit",
              [(within("baton_time_to_first_token_seconds", "$slo_ttft"), "within $slo_ttft s")], "stat", wide=5,
              steps=((0.9, amber), (0.95, green)), **shares),
        Panel("Gaps in time", "Share of the gaps between tokens of the chosen time that were within the objective "
              "chosen above.", "percentunit",
              [(within("baton_inter_token_latency_seconds", "$slo_itl"), "within $slo_itl s")], "stat", wide=5,
              steps=((0.9, amber), (0.95, green)), **shares),
        Panel("KV cache in use", "The fullest worker of each role. From 0.9 on requests wait for blocks, or are "
              "preempted.", "percentunit", [("max by (role) (baton_kv_cache_usage_perc)", "{{role}}")],
              "bargauge", wide=6, high=5, top=1, steps=((0.9, amber), (0.95, red))),
        Panel("Requests that wait", "In the routers' queues, for a worker with a place. A line that only grows means "
              "too few workers, or none that fits.", "short",
              [('sum (baton_num_requests_waiting{role="router"})', "waiting"),
               ("sum (baton_requests_inflight)", "in flight, waiting ones too")], wide=9, high=5),
        Panel("Routers see workers", "Workers whose status stream is open and that take requests, as the router sees "
              "it that sees fewest: fewer than ready processes means a network or a mismatch between them.", "short",
              [("min by (worker_role) (sum by (instance, worker_role) (baton_router_worker_up))", "{{worker_role}}")],
              wide=9, high=5),
    ])


def _users():
    return Row("What users see", [
        Panel("Requests", "Per second: those that came, those that were answered, and those that were not, by why. "
              "abort: the client left; rejected: refused before it ran.", "reqps",
              [(rate("baton_requests_received_total"), "received"), (rate("baton_request_success_total"), "answered"),
               (rate("baton_request_failure_total", "finished_reason"), "{{finished_reason}}")]),
        Panel("Tokens", "Per second: prompts when their requests end, output as it comes.", "short",
              [(rate("baton_prompt_tokens_total"), "prompt"), (rate("baton_generation_tokens_total"), "generated")]),
        Panel("Errors", "Per second, by gRPC code and reason. RESOURCE_EXHAUSTED QUEUE_FULL: too much load; UNAVAILABLE "
              "NO_WORKER: no healthy worker.", "reqps",
              [(seen("baton_request_errors_total", "code, reason", "no errors"), "{{code}} {{reason}}")]),
        Panel("Time to first token", "From a request's arrival to its first token: queue, prefill and handoff. The "
              "disaggregation board takes it apart.", "s", quantiles("baton_time_to_first_token_seconds")),
        Panel("Gap between tokens", "Between consecutive tokens of a request. A pause in which a worker was replaced "
              "is in it, too.", "s", quantiles("baton_inter_token_latency_seconds")),
        Panel("Whole requests", "From a request's arrival to its end. It grows with the length of answers.", "s",
              quantiles("baton_e2e_request_latency_seconds")),
    ])


def _load():
    return Row("What is full?", [
        Panel("Wait in the queue", "Before a prompt is computed, at the router and in the worker's line; told at a "
              "request's end.", "s",
              quantiles("baton_request_queue_time_seconds", '{role="router"}'), wide=6),
        Panel("Refused by the queue", "Per second: requests that found the queue full, and those whose deadline passed "
              "while they waited.", "reqps", [(rate("baton_queue_rejections_total", "limit"), "{{limit}}")], wide=6),
        Panel("Sequences at workers", "Those that run, and those that wait there for blocks or for their KV cache.",
              "short", [("sum by (role) (baton_num_requests_running)", "{{role}} running"),
                        ('sum by (role) (baton_num_requests_waiting{role=~"prefill|decode"})', "{{role}} waiting")], wide=6),
        Panel("How answers end", "Per second, by what stops them. Many at length: max_tokens cuts answers off.", "reqps",
              [(rate("baton_request_success_total", "finished_reason, stop_cause"), "{{finished_reason}} {{stop_cause}}")],
              stack=True, wide=6),
        Panel("Tenants", "Generated tokens per second of the five largest tenants.", "short",
              [(f"topk(5, {rate('baton_tenant_generation_tokens_total', 'tenant')})", "{{tenant}}")], wide=6),
        Panel("Tenants that wait", "Requests of the five tenants with most in the queue.", "short",
              [("topk(5, sum by (tenant) (baton_tenant_requests_waiting))", "{{tenant}}")], wide=6),
        Panel("Tenants that run", "Requests at workers of the five tenants with most there.", "short",
              [("topk(5, sum by (tenant) (baton_tenant_requests_running))", "{{tenant}}")], wide=6),
        Panel("First token by tenant", "99th percentile of the time to first token.", "s",
              [(quantile(0.99, "baton_tenant_time_to_first_token_seconds", "tenant"), "{{tenant}}")], wide=6),
    ])


def _doors():
    return Row("HTTP and keys", [
        Panel("HTTP answers", "Per second, by class of the status; a stream counts when it begins. Zero without "
              "--http-port.", "reqps", [(rate("baton_http_answers_total", "class"), "{{class}}")], wide=6),
        Panel("HTTP connections", "Open ones, idle ones too, and per second those that found no room.", "short",
              [("sum (baton_http_connections)", "open"), (rate("baton_http_connections_refused_total"), "refused/s")],
              wide=6),
        Panel("Calls without a known key", "Per second, over gRPC and HTTP, of routers with --api-keys.", "reqps",
              [(rate("baton_api_key_refusals_total"), "refused")], wide=6),
        Panel("Requests by transport", "Per second.", "reqps",
              [(rate("baton_requests_received_total", "transport"), "{{transport}}")], wide=6),
        Panel("Bytes of requests in flight", "Of --max-inflight-bytes at each router.", "bytes",
              [("max (baton_request_bytes_inflight)", "fullest router")]),
        Panel("Mean lengths", "Tokens of a request's prompt and answer, of requests that ended.", "short",
              [(mean("baton_request_prompt_tokens"), "prompt"), (mean("baton_request_generation_tokens"), "answer")]),
        Panel("Spans of traces", "Per second: those that the collector took, and those that were dropped, by reason. Zero "
              "without --otlp-endpoint.", "short",
              [(rate("baton_trace_spans_exported_total"), "taken"),
               (rate("baton_trace_spans_dropped_total", "reason"), "dropped: {{reason}}")]),
    ])


def board():
    # Bounds of buckets, or the shares would be guesses; written with a point (see table.py).
    first = choice("slo_ttft", "First token within (s)", ("0.1", "0.25", "0.5", "0.75", "2.5", "7.5"), "2.5")
    gap = choice("slo_itl", "Gap within (s)", ("0.025", "0.05", "0.075", "0.1", "0.15", "0.2", "0.3", "0.5"), "0.2")
    return Board("baton-overview", "Is the service well, what do its users see, and what is full? Start here.",
                 [_health(), _users(), _load(), _doors()], (first, gap))
