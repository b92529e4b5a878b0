"""Recording rules: what alerts look at more than once, or over hours.

A number that an installation may want to change stands alone on the last line of an expression, behind its
operator; the Helm chart puts other numbers there.
"""

import dataclasses

from table import Table

# What a rule file looks at. It matches every series, also those without the label; the chart puts the labels of its
# release there.
EVERYTHING = 'job=~".*"'
GROUP = "namespace, model_name"

# Objectives: (name, the share of requests or tokens that may miss it, what is meant). Bounds are those of buckets.
SLO_TTFT_S, SLO_ITL_S = "2.5", "0.2"
SLOS = (
    ("answered", "0.01", "requests that the service failed"),
    ("ttft", "0.05", f"requests whose first token came after {SLO_TTFT_S} s"),
    ("itl", "0.05", f"gaps between tokens above {SLO_ITL_S} s"),
)
SLO_WINDOWS = ("5m", "30m", "1h", "6h")
# A client that does not read its stream has failed itself, though its code is that of a full queue.
SERVICE_ERRORS = ('baton_request_errors_total{code=~"DEADLINE_EXCEEDED|INTERNAL|RESOURCE_EXHAUSTED|UNAVAILABLE",'
                  'reason!="SLOW_CLIENT"}')
BINS = [f"{number / 10:.1f}" for number in range(1, 11)]


@dataclasses.dataclass
class Recording:
    name: str
    expression: str
    by: tuple       # labels of what comes out, beside those of GROUP
    labels: dict = dataclasses.field(default_factory=dict)


def _rate(series, window, by=GROUP):
    return f"sum by ({by}) (rate({series}[{window}]))"


def _missed(slo, window):
    """The share that missed an objective."""
    if slo == "answered":
        failed, good = _rate(SERVICE_ERRORS, window), _rate("baton_request_success_total", window)
        return f"{failed}\n/\n({good} + {failed})"
    histogram, bound = {"ttft": ("baton_time_to_first_token_seconds", SLO_TTFT_S),
                        "itl": ("baton_inter_token_latency_seconds", SLO_ITL_S)}[slo]
    return ("1 - " + _rate(f'{histogram}_bucket{{le="{bound}"}}', window) + "\n/\n"
            + _rate(f"{histogram}_count", window))


def _burns():
    """How many times faster than allowed the budget of an objective is used up."""
    return [Recording(f"baton:slo_burn:rate{window}", f"(\n{_missed(slo, window)}\n)\n/ {budget}", ("slo",), {"slo": slo})
            for slo, budget, _ in SLOS for window in SLO_WINDOWS]


def _miscalibration():
    """How far, in the mean, what happened lies outside of the bin that was said, at least; a bin is 0.1 wide.

    What nobody knows of counts for the estimate: as gone on where too many ended, as ended where too many went on.
    """
    by = f"{GROUP}, horizon"
    series = "baton_end_prediction_calibration_total"
    terms = []
    for number, name in enumerate(BINS):
        said = _rate(f'{series}{{bin="{name}"}}', "1h", by)
        ended, went_on = (_rate(f'{series}{{bin="{name}",outcome="{outcome}"}}', "1h", by)
                          for outcome in ("ended", "went_on"))
        terms.append(f"clamp_min({ended} - {name} * {said}, 0) + clamp_min({went_on} - {1 - number / 10:.1f} * {said}, 0)")
    return "(\n" + "\n+\n".join(terms) + f"\n)\n/\n{_rate(series, '1h', by)}"


def recordings():
    success = "baton_request_success_total"
    # By the side and not by the role, which is decode of elastic workers that send; both sides count what is refused.
    failures = 'baton_kv_transfer_failures_total{side="sender"}'
    work = "baton_iteration_duration_seconds_sum"
    line = f"{GROUP}, role, instance"
    return [
        Recording("baton:request_errors:ratio_rate5m", _missed("answered", "5m"), ()),
        *_burns(),
        Recording("baton:requests_unaccounted:count",
                  f"abs(sum by ({GROUP}, instance) (baton_requests_received_total)"
                  f"\n- sum by ({GROUP}, instance) ({success})"
                  f"\n- sum by ({GROUP}, instance) (baton_request_failure_total)"
                  f"\n- sum by ({GROUP}, instance) (baton_requests_inflight))", ("instance",)),
        Recording("baton:handoff_failures:ratio_rate5m",
                  f"{_rate(failures, '5m')}\n/\n({_rate(failures, '5m')} + "
                  + _rate('baton_kv_transfer_duration_seconds_count{stage="ack"}', "5m") + ")", ()),
        Recording("baton:queue_oldest_wait_seconds:max", f"max by ({GROUP}) (baton_queue_oldest_wait_seconds)", ()),
        Recording("baton:decode_step_seconds:mean", f"avg by ({GROUP}, role) (baton_decode_step_seconds > 0)", ("role",)),
        Recording("baton:predicted_remaining_tokens:sum", f"sum by ({GROUP}, role) (baton_predicted_remaining_tokens)",
                  ("role",)),
        Recording("baton:predicted_kv_read_tokens:sum", f"sum by ({GROUP}, role) (baton_predicted_kv_read_tokens)",
                  ("role",)),
        Recording("baton:worker_busy:ratio_rate5m", _rate(work, "5m", line), ("role", "instance")),
        Recording("baton:end_prediction_cost:ratio_rate5m",
                  f"{_rate('baton_end_prediction_duration_seconds_sum', '5m', line)}\n/\n{_rate(work, '5m', line)}",
                  ("role", "instance")),
        Recording("baton:end_prediction_miscalibration:rate1h", _miscalibration(), ("horizon",)),
        Recording("baton:generation_tokens:mean6h",
                  f"{_rate('baton_request_generation_tokens_sum', '6h')}\n/\n"
                  + _rate("baton_request_generation_tokens_count", "6h"), ()),
        Recording("baton:length_endings:ratio_rate6h",
                  _rate(f'{success}{{finished_reason="length"}}', "6h") + f"\n/\n{_rate(success, '6h')}", ()),
    ]


def table(metrics):
    """The metric table with what recording rules add."""
    return Table(metrics, {one.name: (*GROUP.split(", "), *one.by) for one in recordings()})


def scope(owners, own):
    """Rules are about every job: which one it is in, a process does not know."""
    del owners, own
    return [EVERYTHING]


def recording_group(known):
    return {"name": "baton-recording", "rules": [
        {"record": one.name, "expr": known.scoped(one.expression, scope), **({"labels": one.labels} if one.labels else {})}
        for one in recordings()]}


