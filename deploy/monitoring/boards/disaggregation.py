"""A request's way, from left to right and down: queue, placement, prefill, handoff, decode."""

from board import Board, Panel, Row, mean, quantile, rate, seen

WORK = "baton_iteration_duration_seconds_sum"


def two(histogram, matchers=""):
    return [(quantile(q, histogram, matchers=matchers), f"p{int(q * 100)}") for q in (0.5, 0.99)]


def _reading(make):
    """What `make` asks of a role, of the workers that read prompts: where there are no prefill workers, those of decode."""
    return " or ".join(make(f'{{role="{role}"}}') for role in ("prefill", "decode"))


def _stage(stage):
    return f'{{stage="{stage}"}}'


def _whole():
    return Row("The whole way", [
        Panel("Where requests are", "Requests and sequences by state. queued: at the router; reserved: blocks are "
              "granted and the KV cache has not arrived. What piles up is in front of what is short.", "short",
              [('sum by (stage) (baton_num_requests_in_stage{role="router",stage="queued"})', "1 {{stage}} at routers"),
               ('sum by (role, stage) (baton_num_requests_in_stage{role=~"prefill|decode",stage=~"queued|prefilling"})',
                "2 {{stage}} at {{role}} workers"),
               ('sum by (stage) (baton_num_requests_in_stage{role="decode",stage="reserved"})',
                "3 {{stage}} at decode workers"),
               ('sum by (stage) (baton_num_requests_in_stage{role="decode",stage=~"decoding|preempted"})',
                "4 {{stage}} at decode workers")], wide=12, high=8, stack=True),
        Panel("What a first token waits for", "Mean times of the stages on top of each other, and the mean time to first "
              "token as a line of its own: what is between them is the network and the text. The handoff is not in it: "
              "the first token is drawn where the prompt is read: at the prefill worker, or, in mode unified and for short "
              "prompts, at the decode worker.", "s",
              [(mean("baton_request_queue_time_seconds", '{role="router"}'),
                "1 queue of the router, with blocks and the line of the worker that reads the prompt"),
               (mean("baton_request_prefill_time_seconds", '{role=~"prefill|decode"}'), "2 prefill"),
               (mean("baton_time_to_first_token_seconds"), "time to first token")],
              wide=12, high=8, stack=True, beside=("time to first token",)),
    ])


def _before():
    return Row("1  Queue and placement", [
        Panel("Wait before the prompt is computed", "For a place, for blocks, and in the line of the worker; told at a "
              "request's end.", "s",
              two("baton_request_queue_time_seconds", '{role="router"}')),
        Panel("Split or local", "Attempts per second whose prompt a prefill worker computes, or the decode worker itself: "
              "short ones (--local-prefill-below), or all where no prefill worker is healthy.", "reqps",
              [(rate("baton_pd_decision_total", "decision"), "{{decision}}")], stack=True),
        Panel("Why split or local", "Attempts per second by why. By --local-prefill-below N: length. By auto, what spoke the "
              "most for the choice: wait, for prompts before it; compute, of what is not cached; transfer; others, who would "
              "have waited; unknown: too little was seen yet.", "reqps",
              [(seen("baton_pd_reason_total", "decision, reason", "none"), "{{decision}}: {{reason}}")]),
        Panel("Attempts by how they ended", "Per second. Many that are neither finished nor released are work done "
              "twice: look at the workers' logs.", "reqps",
              [(seen("baton_attempts_total", "outcome", "none"), "{{outcome}}")]),
        Panel("Choice of workers", "Per second; none: nobody could take the request at that moment.", "reqps",
              [(rate("baton_router_picks_total", "outcome"), "{{outcome}}"),
               (rate("baton_router_worker_retries_total", "outcome"), "prefill asked again: {{outcome}}")]),
        Panel("Time to choose", "The router's own time for the choice.", "s", two("baton_router_pick_duration_seconds")),
        Panel("Unequal numerics", "Attempts and pushes per second between workers whose arithmetic differs, so that tokens "
              "may differ from a run on equal ones.", "reqps",
              [(rate("baton_router_numerics_mismatch_total"), "attempts"),
               (rate("baton_kv_transfer_numerics_mismatch_total"), "pushes")]),
    ])


def _prefill():
    return Row("2  Prefill", [
        Panel("Line at workers that read prompts", "Before a prompt's first step: at prefill workers, or, where there are "
              "none, at decode workers.", "s",
              [(_reading(lambda role, q=q: quantile(q, "baton_request_queue_time_seconds", matchers=role)),
                f"p{int(q * 100)}") for q in (0.5, 0.99)]),
        Panel("Prefill time", "From a prompt's first step to its first token, at prefill workers and at decode workers that "
              "read prompts themselves.", "s", two("baton_request_prefill_time_seconds", '{role=~"prefill|decode"}')),
        Panel("Prompt tokens by source", "Per second, at all workers: computed, found in the prefix cache, or received "
              "from a prefill worker.", "short",
              [(rate("baton_prompt_tokens_by_source_total", "source"), "{{source}}")], stack=True),
    ])


def _handoff():
    return Row("3  Handoff of the KV cache", [
        Panel("Time of the handoff, p99", "reserve: until the decode worker granted blocks; send: from the first blocks "
              "to the commit, beside the computing; ack: from the commit to its answer, which the second token waits "
              "for.", "s", [(quantile(0.99, "baton_kv_transfer_duration_seconds", matchers=_stage(stage)), stage)
                            for stage in ("reserve", "send", "ack")]),
        Panel("Bytes", "Per second, of committed handoffs.", "Bps",
              [(rate("baton_kv_transfer_bytes_sum"), "sent")]),
        Panel("Handoffs by transport", "Per second, as they began: messages of gRPC, or from device to device.", "reqps",
              [(rate("baton_kv_pushes_total", "transport"), "{{transport}}")]),
        Panel("Handoffs that failed", "Per second, by reason, as both sides count them. Each costs a request "
              "a pause.", "reqps",
              [(seen("baton_kv_transfer_failures_total", "side, reason", "no failures"), "{{side}} {{reason}}")]),
        Panel("Reservations that expired", "Per second: their push showed no sign of life for 30 s.", "reqps",
              [(rate("baton_reservations_expired_total"), "expired")]),
        Panel("Waiting at decode workers", "Sequences by what they wait for: capacity is blocks or a place in a step, "
              "transfer is their KV cache.", "short",
              [('sum by (reason) (baton_num_requests_waiting_by_reason{role="decode"})', "{{reason}}")]),
    ])


def _decode():
    return Row("4  Decode, and the balance of the two", [
        Panel("Decode time", "From a sequence's first token at the decode worker to its last.", "s",
              two("baton_request_decode_time_seconds", '{role="decode"}')),
        Panel("How busy", "Share of the time in which steps are computed, mean of the workers of a role. Prefill near 1 "
              "while decode's cache has room: add prefill workers; the other way round: decode workers.", "percentunit",
              [(f"avg by (role) (sum by (role, instance) (rate({WORK}[$__rate_interval])))", "{{role}}"),
               ('avg (baton_kv_cache_usage_perc{role="decode"})', "decode, KV cache in use")], top=1),
        Panel("Ready workers", "By role: the ratio of prefill to decode.", "short",
              [('sum by (role) (baton_server_state{state="ready",role=~"prefill|decode"})', "{{role}}")]),
    ])


def _pairs():
    return Row("From device to device (--kv-transport nccl, cuda_ipc)", [
        Panel("Pairs", "Decode workers that blocks can be sent to from device to device now.", "short",
              [("sum by (instance) (baton_kv_pairs)", "{{instance}}")]),
        Panel("What happened to pairs", "Per second. fallen_back: pushes of the pair go by gRPC for a while.", "short",
              [(rate("baton_kv_pair_events_total", "event"), "{{event}}")]),
        Panel("Bytes between devices", "Per second: granted (prefill) and received (decode).", "Bps",
              [(rate("baton_kv_pair_bytes_total", "role"), "{{role}}")]),
        Panel("Wait for a grant", "From a parcel's announcement to the decode worker's grant.", "s",
              two("baton_kv_pair_grant_wait_seconds")),
        Panel("Pairs asked for", "By routers, per second.", "reqps",
              [(rate("baton_router_pair_warmups_total", "outcome"), "{{outcome}}")]),
    ], folded=True)


def board():
    return Board("baton-disaggregation", "The way of a request: where it waits, and what takes its time.",
                 [_whole(), _before(), _prefill(), _handoff(), _decode(), _pairs()])
