"""What users feel: errors, waiting, and objectives."""

from alerts.alert import MODEL, NUMBER, PERCENT, SECONDS, Alert
from rules import GROUP


def _errors(name, severity, threshold, lasting):
    return Alert(
        name=name,
        severity=severity,
        left="baton:request_errors:ratio_rate5m",
        operator=">",
        threshold=threshold,
        lasting=lasting,
        unit="share of the requests",
        summary=f"{MODEL} fails requests",
        description=f"{PERCENT} of the requests of the last minutes were failed by the service.",
        means=(
            "Requests end in INTERNAL, UNAVAILABLE, DEADLINE_EXCEEDED or RESOURCE_EXHAUSTED. What clients made"
            " wrong, left, or did not read does not count."
        ),
        look=(
            "Overview, *Errors*: the reason decides. By hand: `sum by (code, reason)"
            " (rate(baton_request_errors_total[5m])) > 0`."
        ),
        do=(
            "`QUEUE_FULL`: too much load, see BatonQueueBuildup. `NO_WORKER`: see BatonNoReadyDecode."
            " DEADLINE_EXCEEDED: clients give less time than the service takes. `ATTEMPTS_EXHAUSTED`,"
            " `REQUEST_KILLED_WORKERS`: workers die; their logs say why, and the router's log names the request."
            " `LOGITS_NOT_FINITE`: see BatonLogitsNotFinite."
        ),
    )


def alerts():
    burn = (
        "An objective's budget is the share that may miss it: 1 % of the requests may fail, 5 % may have a first"
        " token after 2.5 s, 5 % of the gaps may exceed 0.2 s. The burn rate says how many times faster than in 30"
        " days the budget is used up; both windows, long and short, have to agree, so that it fires soon and ends"
        " soon."
    )
    look = (
        "Label `slo`: `answered` → BatonErrorRate; `ttft` → Disaggregation, *What a first token waits for*; `itl` →"
        " Workers, *Time of a step, p99*. `baton:slo_burn:rate1h` has the course."
    )
    do = (
        "As for the cause that shows: load (BatonQueueBuildup), balance (BatonPrefillDecodeImbalance), cache"
        " (BatonKvCacheHigh). If the objective does not suit the service, change it: `monitoring.rules.slo` of the"
        " chart, or rules.py."
    )
    return [
        _errors("BatonErrorRateHigh", "critical", "0.05", "5m"),
        _errors("BatonErrorRate", "warning", "0.01", "10m"),
        Alert(
            name="BatonSloBurnFast",
            severity="critical",
            left="baton:slo_burn:rate1h",
            operator=">",
            threshold="14.4",
            lasting="2m",
            unit="times the budget, over 1 h and 5 m",
            summary=f"{MODEL} misses its objective '{{{{ $labels.slo }}}}' by far",
            description=f"The budget of 30 days is used up {NUMBER} times too fast.",
            means=burn,
            look=look,
            do=do,
            also="and baton:slo_burn:rate5m\n> 14.4",
        ),
        Alert(
            name="BatonSloBurnSlow",
            severity="warning",
            left="baton:slo_burn:rate6h",
            operator=">",
            threshold="6",
            lasting="15m",
            unit="times the budget, over 6 h and 30 m",
            summary=f"{MODEL} misses its objective '{{{{ $labels.slo }}}}'",
            description=f"The budget of 30 days is used up {NUMBER} times too fast.",
            means=burn,
            look=look,
            do=do,
            also="and baton:slo_burn:rate30m\n> 6",
        ),
        Alert(
            name="BatonTimeToFirstTokenHigh",
            severity="critical",
            left=(
                f"histogram_quantile(0.99, sum by ({GROUP}, le)"
                " (rate(baton_time_to_first_token_seconds_bucket[5m])))"
            ),
            operator=">",
            threshold="30",
            lasting="10m",
            unit="seconds, 99th percentile",
            summary=f"First tokens of {MODEL} come late",
            description=f"One request in a hundred waits longer than {SECONDS} for its first token.",
            means="Most of such a time is waiting, in the router's queue or at a prefill worker.",
            look="Disaggregation, *What a first token waits for*: the highest stage.",
            do=(
                "Queue of the router: BatonQueueBuildup. Line or time of prefill: more prefill workers, or shorter"
                " prompts (`--max-input-length`). Reserved: decode workers have no blocks, BatonKvCacheHigh."
            ),
        ),
        Alert(
            name="BatonQueueBuildup",
            severity="warning",
            left=f'sum by ({GROUP}) (baton_num_requests_waiting{{role="router"}})',
            operator=">",
            threshold="50",
            lasting="10m",
            unit="waiting requests",
            summary=f"Requests for {MODEL} queue up",
            description=f"{NUMBER} requests wait at the routers.",
            means=(
                "More requests come than the workers answer; the queue ends them at its bound with"
                " RESOURCE_EXHAUSTED."
            ),
            look="Overview, *Requests that wait* and *Tenants that wait*; Disaggregation, *How busy*.",
            do=(
                "Add workers of the role that is busy, or let autoscaling (`ROLE.autoscaling`). One tenant only:"
                " bound it (`--tenant-max-queued`). Workers that are idle beside a queue: *Choice of workers*,"
                " `none`; the requests are too large for the workers that are there."
            ),
        ),
    ]
