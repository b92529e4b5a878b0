"""Cache, handoff, balance, and requests that nobody counts."""

from alerts.alert import MODEL, NUMBER, PERCENT, Alert
from rules import GROUP


def _cache(name, severity, threshold, lasting):
    return Alert(
        name=name,
        severity=severity,
        left=f'max by ({GROUP}) (baton_kv_cache_usage_perc{{role="decode"}})',
        operator=">",
        threshold=threshold,
        lasting=lasting,
        unit="share of KV blocks",
        summary=f"A decode worker of {MODEL} has hardly a free KV block",
        description=f"{PERCENT} of the blocks of its fullest decode worker are in use.",
        means="New sequences wait for blocks, and running ones may have to give theirs up and be computed again.",
        look="KV cache, *In use* and *Preempted, and waiting for blocks*; *Tokens yet to come*.",
        do=(
            "Add decode workers, or give them more cache (`--gpu-memory-utilization`, `--kv-cache-memory`). If only"
            " one is full, look at what runs there. `--max-output-length` bounds what one request takes."
        ),
    )


def alerts():
    return [
        _cache("BatonKvCacheFull", "critical", "0.95", "5m"),
        _cache("BatonKvCacheHigh", "warning", "0.9", "10m"),
        Alert(
            name="BatonPreemptions",
            severity="warning",
            left=f"sum by ({GROUP}, role) (rate(baton_num_preemptions_total[5m]))",
            operator=">",
            threshold="1",
            lasting="10m",
            unit="preemptions per second",
            summary="{{ $labels.role }} workers interrupt sequences",
            description=f"{NUMBER} sequences per second gave up their blocks.",
            means=(
                "Answers are longer than the cache has room for; what was preempted is computed again, or swapped, and"
                " its client sees a pause."
            ),
            look="KV cache, *Preempted, and waiting for blocks* and *Preempted, by what becomes of their KV*.",
            do="Fewer sequences at once (`--max-num-seqs`), more cache, or more decode workers; with"
            " [`--swap-space`](preemption.md) each costs less.",
        ),
        Alert(
            name="BatonHandoffFailures",
            severity="critical",
            left="baton:handoff_failures:ratio_rate5m",
            operator=">",
            threshold="0.05",
            lasting="5m",
            unit="share of the handoffs",
            summary=f"KV caches of {MODEL} do not arrive",
            description=f"{PERCENT} of the handoffs failed.",
            means="Each one costs its request a new attempt and a pause, four of them the request.",
            look="Disaggregation, *Handoffs that failed*, by reason.",
            do=(
                "PUSH_FAILED: the network between prefill and decode workers, or an `--advertise` that does not"
                " lead there. LAYOUT_MISMATCH: workers of different settings. REVOKED, EXPIRED: decode workers are"
                " short of blocks or stand still. DEVICE_FAULT: see the worker's log; `--kv-transport grpc` does"
                " without pairs of devices. other, of a receiver: what came was damaged, or from a worker that is out of"
                " step; its message stands in the log of the router."
            ),
        ),
        Alert(
            name="BatonReservationsExpired",
            severity="warning",
            left=f"sum by ({GROUP}, instance) (increase(baton_reservations_expired_total[10m]))",
            operator=">",
            threshold="0",
            lasting="0m",
            unit="reservations within 10 minutes",
            summary="Reservations at {{ $labels.instance }} expired",
            description=f"About {NUMBER} reservations heard nothing of their push for 30 s.",
            means=(
                "A prefill worker died without closing its connection, or the network swallows packets. The blocks"
                " are free again."
            ),
            look=(
                "Disaggregation, *Reservations that expired* and *Handoffs that failed*; the logs of the workers of"
                " that time."
            ),
            do=(
                "If it goes on: the network between the workers, above all idle timeouts of what stands between"
                " them."
            ),
        ),
        Alert(
            name="BatonLogitsNotFinite",
            severity="warning",
            left=f"sum by ({GROUP}, instance) (increase(baton_sequences_not_finite_total[10m]))",
            operator=">",
            threshold="0",
            lasting="0m",
            unit="sequences within 10 minutes",
            summary="What {{ $labels.instance }} computes is not always a number",
            description=f"About {NUMBER} sequences ended because their logits were not finite numbers.",
            means=(
                "NaN or infinity came out of the model. A request is tried once more, at another worker if there is one, and"
                " fails if that comes to the same end. When 8 prompts in a row end so, a worker computes a token of its own, and"
                " stops if that is spoilt, too."
            ),
            look=(
                "Whether it is one instance or all: `sum by (instance) (increase(baton_sequences_not_finite_total[1h]))`;"
                " the router's log, which names the requests."
            ),
            do=(
                "One instance: its device or memory; take it out. All of them, and always the same prompts: the"
                " checkpoint is broken, or its numbers are too large for `--dtype` or `--kv-dtype`."
            ),
        ),
        Alert(
            name="BatonPrefillDecodeImbalance",
            severity="warning",
            left=f'avg by ({GROUP}) (baton:worker_busy:ratio_rate5m{{role="prefill"}})',
            operator=">",
            threshold="0.9",
            lasting="15m",
            unit="share of time in steps, prefill workers",
            summary=f"Prefill workers of {MODEL} are short beside decode workers",
            description=(
                f"Prefill workers are busy {PERCENT} of the time and requests wait, while half of decode's cache is"
                " free."
            ),
            means=(
                "More workers of one role than of the other: time to first token grows though there is room for"
                " answers."
            ),
            look="Disaggregation, *How busy* and *Ready workers*.",
            do=(
                "Move machines from decode to prefill, or raise `--local-prefill-below` (or set it to `auto`), so that decode workers"
                " read short prompts."
            ),
            also=(
                f'and on ({GROUP}) avg by ({GROUP}) (baton_kv_cache_usage_perc{{role="decode"}}) < 0.5\n'
                f'and on ({GROUP}) sum by ({GROUP}) (baton_num_requests_waiting{{role="router"}}) > 0'
            ),
        ),
        Alert(
            name="BatonRequestLeak",
            severity="critical",
            left="baton:requests_unaccounted:count",
            operator=">",
            threshold="0",
            lasting="10m",
            unit="requests",
            summary="Router {{ $labels.instance }} has lost count of requests",
            description=f"Received requests differ from answered, failed and running ones by {NUMBER}.",
            means=(
                "A defect in Baton: a request ended without being counted, or is held by nobody. It may hold"
                " memory."
            ),
            look="`baton:requests_unaccounted:count` since when; the router's log of that time.",
            do="Report it with that log. Restarting the router (it drains) repairs the count.",
        ),
    ]
