"""Alerts, and what the runbook says of each.

An expression is the left side; operator and threshold are apart, so that whoever installs it can change the
number. Where several conditions have to hold, further ones stand behind `also`. What stands there on a line of its own
is the threshold once more; other numbers belong to the meaning of the alert.
"""

import dataclasses

from rules import GROUP

RUNBOOK = "docs/runbook.md"


@dataclasses.dataclass
class Alert:
    name: str
    severity: str     # critical: somebody has to get up; warning: in working hours
    left: str
    operator: str
    threshold: str
    lasting: str      # "for": how long it has to hold
    unit: str         # of the threshold, for the runbook and the chart's values
    summary: str      # one line, with labels
    description: str  # what is seen now; {{ $value }} is the left side
    means: str        # the runbook: what it means,
    look: str         # where to look first,
    do: str           # and what to do
    also: str = ""    # a further condition


PERCENT = "{{ $value | humanizePercentage }}"
SECONDS = "{{ $value | humanizeDuration }}"
NUMBER = "{{ $value | humanize }}"
MODEL = "{{ $labels.model_name }}"


def _state(role, state="ready"):
    return f'baton_server_state{{role="{role}",state="{state}"}}'


def _none_ready(name, role, severity, means, do):
    who = role if role == "router" else f"{role} worker"
    return Alert(
        name, severity, f"sum by ({GROUP}) ({_state(role)})", "<", "1", "2m", f"ready processes of role {role}",
        f"No {who} of {MODEL} is ready", f"Processes of role {role} are scraped, and none of them is ready.", means,
        "Overview, *Ready processes* and *Routers see workers*; Workers, *States*. `/readyz` of a process's admin port "
        "says in a sentence what it waits for.", do)


def _availability():
    return [
        _none_ready(
            "BatonNoReadyRouter", "router", "critical",
            "Every router starts, drains, or sees no healthy decode worker: clients get UNAVAILABLE, or find nobody.",
            "If decode workers are ready, the routers do not find or refuse them: names, ports, certificates, or another "
            "tokenizer or protocol, each of which is a line in the router's log. If they are not, see BatonNoReadyDecode."),
        _none_ready(
            "BatonNoReadyDecode", "decode", "critical",
            "No decode worker takes sequences. Requests wait for 30 s and end with UNAVAILABLE `NO_WORKER`. A service that starts "
            "from nothing looks like this, too, while it loads a large model.",
            "Read the last lines of a decode worker's log: a model that does not load, a device fault (state unhealthy), a "
            "drain that was not meant. Roll back what was changed last."),
        _none_ready(
            "BatonNoReadyPrefill", "prefill", "warning",
            "Decode workers read prompts themselves: everything is answered, and long prompts hold up the answers that are "
            "being written.",
            "As for decode workers. Until then less load, or more decode workers, keeps the gaps between tokens short."),
        Alert(
            "BatonMetricsAbsent", "critical", 'count (baton_build_info{role=~"router|decode"}) or vector(0)', "<", "1", "5m",
            "processes that are scraped", "Prometheus sees no Baton",
            "Neither a router nor a decode worker was scraped in the last minutes.",
            "The service is gone, or Prometheus does not find it. No other alert can fire while this one does.",
            "Prometheus → Status → Targets. Without targets: labels of the PodMonitor, or a network policy that does not "
            "let Prometheus to the admin port.",
            "If `baton probe ROUTER` answers, repair the scraping; otherwise the service."),
        Alert(
            "BatonWorkerUnhealthy", "critical",
            f'max by ({GROUP}, role, instance) (baton_server_state{{role=~"prefill|decode",state="unhealthy"}})', ">", "0",
            "1m", "unhealthy (1) or not (0)", "{{ $labels.role }} {{ $labels.instance }} is unhealthy",
            "The worker's device failed, or a step does not end.",
            "Requests that ran there continue at other workers; this one takes none.",
            "The worker's log: `device fault`, or the watchdog's line on a step of 30 s.",
            "It exits by itself (code 4) and is started again. If it comes back to this, take the machine out: a GPU with "
            "errors in its log, or a CPU that others use."),
        Alert(
            "BatonRestartLoop", "warning",
            f"max by ({GROUP}, role, instance) (changes(process_start_time_seconds[30m]) "
            "* on (namespace, job, instance) group_left (role, model_name) baton_build_info)", ">", "2", "0m",
            "restarts within 30 minutes", "{{ $labels.role }} {{ $labels.instance }} restarts again and again",
            f"It started {NUMBER} times anew within 30 minutes.",
            "A process that ends soon after it started: requests there are replayed, and each start takes the time to load.",
            "The log of the run before (`kubectl logs --previous`): the last line says why and what to do. Workers, "
            "*Restarts*. Killed without a line: memory; compare *Memory* with the limit.",
            "By exit code: 2 settings, 3 the model, 4 resources or a device, 5 a port that is taken."),
        Alert(
            "BatonDrainTimeout", "warning", f'max by ({GROUP}, role, instance) (baton_server_state{{state="draining"}})',
            ">", "0", "5m", "draining (1) or not (0)", "{{ $labels.role }} {{ $labels.instance }} does not finish its drain",
            "It got SIGTERM minutes ago and still serves.",
            "It waits for running answers. A drain ends by itself after `--drain-timeout`.",
            "Overview, *Whole requests*: answers as long as this? `baton_requests_inflight` of a router, "
            "`baton_num_requests_running` of a worker.",
            "If `--drain-timeout` is longer than this alert waits, all is as it was set: raise `for` (the Helm chart does so by "
            "itself). Otherwise the process hangs: keep its log, then end it; requests are replayed."),
        Alert(
            "BatonOpenFiles", "warning",
            f"max by ({GROUP}, role, instance) (process_open_fds / process_max_fds "
            "* on (namespace, job, instance) group_left (role, model_name) baton_build_info)", ">", "0.8", "10m",
            "share of the files that a process may open", "{{ $labels.role }} {{ $labels.instance }} runs out of open files",
            f"{PERCENT} of the files that it may open are open.",
            "Connections count as files. At the limit new ones are refused.",
            "Workers, *Open files*; Overview, *HTTP connections*.",
            "Raise the limit (`LimitNOFILE`, or that of the container's runtime), or lower `--http-max-connections`."),
    ]


def _errors(name, severity, threshold, lasting):
    return Alert(
        name, severity, "baton:request_errors:ratio_rate5m", ">", threshold, lasting, "share of the requests",
        f"{MODEL} fails requests", f"{PERCENT} of the requests of the last minutes were failed by the service.",
        "Requests end in INTERNAL, UNAVAILABLE, DEADLINE_EXCEEDED or RESOURCE_EXHAUSTED. What clients made wrong or left "
        "does not count.",
        "Overview, *Errors*: the reason decides. By hand: `sum by (code, reason) (rate(baton_request_errors_total[5m])) > 0`.",
        "`QUEUE_FULL`: too much load, see BatonQueueBuildup. `NO_WORKER`: see BatonNoReadyDecode. DEADLINE_EXCEEDED: clients "
        "give less time than the service takes. `ATTEMPTS_EXHAUSTED`, `REQUEST_KILLED_WORKERS`: workers die; their logs "
        "say why, and the router's log names the request.")


def _objectives():
    burn = ("An objective's budget is the share that may miss it: 1 % of the requests may fail, 5 % may have a first token "
            "after 2.5 s, 5 % of the gaps may exceed 0.2 s. The burn rate says how many times faster than in 30 days the budget "
            "is used up; both windows, long and short, have to agree, so that it fires soon and ends soon.")
    look = ("Label `slo`: `answered` → BatonErrorRate; `ttft` → Disaggregation, *What a first token waits for*; `itl` → Workers, "
            "*Time of a step, p99*. `baton:slo_burn:rate1h` has the course.")
    do = ("As for the cause that shows: load (BatonQueueBuildup), balance (BatonPrefillDecodeImbalance), cache (BatonKvCacheHigh). "
          "If the objective does not suit the service, change it: `monitoring.rules.slo` of the chart, or rules.py.")
    return [
        _errors("BatonErrorRateHigh", "critical", "0.05", "5m"),
        _errors("BatonErrorRate", "warning", "0.01", "10m"),
        Alert("BatonSloBurnFast", "critical", "baton:slo_burn:rate1h", ">", "14.4", "2m", "times the budget, over 1 h and 5 m",
              f"{MODEL} misses its objective '{{{{ $labels.slo }}}}' by far",
              f"The budget of 30 days is used up {NUMBER} times too fast.", burn, look, do,
              also="and baton:slo_burn:rate5m\n> 14.4"),
        Alert("BatonSloBurnSlow", "warning", "baton:slo_burn:rate6h", ">", "6", "15m", "times the budget, over 6 h and 30 m",
              f"{MODEL} misses its objective '{{{{ $labels.slo }}}}'",
              f"The budget of 30 days is used up {NUMBER} times too fast.", burn, look, do,
              also="and baton:slo_burn:rate30m\n> 6"),
        Alert("BatonTimeToFirstTokenHigh", "critical",
              f"histogram_quantile(0.99, sum by ({GROUP}, le) (rate(baton_time_to_first_token_seconds_bucket[5m])))",
              ">", "30", "10m", "seconds, 99th percentile", f"First tokens of {MODEL} come late",
              f"One request in a hundred waits longer than {SECONDS} for its first token.",
              "Most of such a time is waiting, in the router's queue or at a prefill worker.",
              "Disaggregation, *What a first token waits for*: the highest stage.",
              "Queue of the router: BatonQueueBuildup. Line or time of prefill: more prefill workers, or shorter prompts "
              "(`--max-input-length`). Reserved: decode workers have no blocks, BatonKvCacheHigh."),
        Alert("BatonQueueBuildup", "warning", f'sum by ({GROUP}) (baton_num_requests_waiting{{role="router"}})', ">", "50", "10m",
              "waiting requests", f"Requests for {MODEL} queue up", f"{NUMBER} requests wait at the routers.",
              "More requests come than the workers answer; the queue ends them at its bound with RESOURCE_EXHAUSTED.",
              "Overview, *Requests that wait* and *Tenants that wait*; Disaggregation, *How busy*.",
              "Add workers of the role that is busy, or let autoscaling (`ROLE.autoscaling`). One tenant only: bound it "
              "(`--tenant-max-queued`). Workers that are idle beside a queue: *Choice of workers*, `none`; the requests are "
              "too large for the workers that are there."),
    ]


def _cache(name, severity, threshold, lasting):
    return Alert(
        name, severity, f'max by ({GROUP}) (baton_kv_cache_usage_perc{{role="decode"}})', ">", threshold, lasting,
        "share of KV blocks", f"A decode worker of {MODEL} has hardly a free KV block",
        f"{PERCENT} of the blocks of its fullest decode worker are in use.",
        "New sequences wait for blocks, and running ones may have to give theirs up and be computed again.",
        "KV cache, *In use* and *Preempted, and waiting for blocks*; *Tokens yet to come*.",
        "Add decode workers, or give them more cache (`--gpu-memory-utilization`, `--kv-cache-memory`). If only one is full, look "
        "at what runs there. `--max-output-length` bounds what one request takes.")


def _handoff():
    return [
        _cache("BatonKvCacheFull", "critical", "0.95", "5m"),
        _cache("BatonKvCacheHigh", "warning", "0.9", "10m"),
        Alert("BatonPreemptions", "warning", f"sum by ({GROUP}, role) (rate(baton_num_preemptions_total[5m]))", ">", "1", "10m",
              "preemptions per second", "{{ $labels.role }} workers compute sequences twice",
              f"{NUMBER} sequences per second gave up their blocks.",
              "Answers are longer than the cache has room for; what was preempted is computed again and its client sees a pause.",
              "KV cache, *Preempted, and waiting for blocks*.",
              "Fewer sequences at once (`--max-num-seqs`), more cache, or more decode workers."),
        Alert("BatonHandoffFailures", "critical", "baton:handoff_failures:ratio_rate5m", ">", "0.05", "5m",
              "share of the handoffs", f"KV caches of {MODEL} do not arrive",
              f"{PERCENT} of the handoffs failed.",
              "Each one costs its request a new attempt and a pause, four of them the request.",
              "Disaggregation, *Handoffs that failed*, by reason.",
              "PUSH_FAILED: the network between prefill and decode workers, or an `--advertise` that does not lead there. "
              "LAYOUT_MISMATCH: workers of different settings. REVOKED, EXPIRED: decode workers are short of blocks or stand still. "
              "DEVICE_FAULT: see the worker's log; `--kv-transport grpc` does without pairs of devices."),
        Alert("BatonReservationsExpired", "warning", f"sum by ({GROUP}, instance) (increase(baton_reservations_expired_total[10m]))",
              ">", "0", "0m", "reservations within 10 minutes", "Reservations at {{ $labels.instance }} expired",
              f"About {NUMBER} reservations heard nothing of their push for 30 s.",
              "A prefill worker died without closing its connection, or the network swallows packets. The blocks are free again.",
              "Disaggregation, *Reservations that expired* and *Handoffs that failed*; the logs of the workers of that time.",
              "If it goes on: the network between the workers, above all idle timeouts of what stands between them."),
        Alert("BatonPrefillDecodeImbalance", "warning",
              f'avg by ({GROUP}) (baton:worker_busy:ratio_rate5m{{role="prefill"}})', ">", "0.9", "15m",
              "share of time in steps, prefill workers", f"Prefill workers of {MODEL} are short beside decode workers",
              f"Prefill workers are busy {PERCENT} of the time and requests wait, while half of decode's cache is free.",
              "More workers of one role than of the other: time to first token grows though there is room for answers.",
              "Disaggregation, *How busy* and *Ready workers*.",
              "Move machines from decode to prefill, or raise `--local-prefill-below`, so that decode workers read short prompts.",
              also=f'and on ({GROUP}) avg by ({GROUP}) (baton_kv_cache_usage_perc{{role="decode"}}) < 0.5\n'
                   f'and on ({GROUP}) sum by ({GROUP}) (baton_num_requests_waiting{{role="router"}}) > 0'),
        Alert("BatonRequestLeak", "critical", "baton:requests_unaccounted:count", ">", "0", "10m", "requests",
              "Router {{ $labels.instance }} has lost count of requests",
              f"Received requests differ from answered, failed and running ones by {NUMBER}.",
              "A defect in Baton: a request ended without being counted, or is held by nobody. It may hold memory.",
              "`baton:requests_unaccounted:count` since when; the router's log of that time.",
              "Report it with that log. Restarting the router (it drains) repairs the count."),
    ]


def _ends():
    week = "offset 1w"
    return [
        Alert("BatonIgnoreEosInProduction", "warning",
              f"sum by ({GROUP}) (rate(baton_ignore_eos_requests_total[15m]))\n/\n"
              f"sum by ({GROUP}) (rate(baton_requests_received_total[15m]))", ">", "0.01", "15m", "share of the requests",
              f"Requests for {MODEL} ignore EOS", f"{PERCENT} of the requests ask that EOS be ignored.",
              "They run to max_tokens whatever the model says: right for a benchmark, wasted time in front of people.",
              "EOS and prediction, *Requests that ignore EOS*; the router's log warns of each by its id, and at level debug tells "
              "its tenant.",
              "Tell the tenant, or refuse it: `--ignore-eos refuse`. Silence the alert while a benchmark runs."),
        Alert("BatonAnswersLonger", "warning", f"baton:generation_tokens:mean6h\n/\nbaton:generation_tokens:mean6h {week}", ">", "1.5",
              "1h", "times the length of a week before", f"Answers of {MODEL} have become longer",
              f"Answers of the last 6 hours are {NUMBER} times as long as a week before.",
              "Each answer costs that much more. Other prompts, another model or template, or EOS that no longer comes.",
              "EOS and prediction, *Lengths of answers*, *Ended by the model* and *EOS probability where answers stop*.",
              "If EOS ends fewer answers than before, the model, its template or its stop ids changed: `baton model inspect`. If the "
              "prompts changed, plan for it."),
        Alert("BatonMoreAnswersCutOff", "warning",
              f"baton:length_endings:ratio_rate6h\n- baton:length_endings:ratio_rate6h {week}", ">", "0.1", "1h",
              "share of the answers, more than a week before", f"More answers of {MODEL} are cut off at max_tokens",
              f"The share of answers that end at max_tokens grew by {PERCENT} against a week before.",
              "Answers do not end by themselves as they did, or clients ask for fewer tokens.",
              "EOS and prediction, *How answers end*, *Lengths of answers* (max_tokens); the EOS log, by `baton eos stats`.",
              "See BatonAnswersLonger; if max_tokens fell, tell the tenant."),
        Alert("BatonRunaways", "warning",
              f"sum by ({GROUP}) (rate(baton_runaway_total[30m]))\n/\nsum by ({GROUP}) (rate(baton_request_success_total[30m]))",
              ">", "0.02", "30m", "share of the answers", f"Answers of {MODEL} run in circles",
              f"{PERCENT} of the answers repeat themselves with no end in sight.",
              "Prompts that the model cannot finish, a temperature near 0, or a model that was quantized too far.",
              "EOS and prediction, *Answers that go wrong*; workers warn of each, with its request id.",
              "`--runaway end` ends them; a repetition penalty or a higher temperature avoids them."),
        Alert("BatonPassedSpecialTokens", "warning",
              f"sum by ({GROUP}) (rate(baton_passed_special_tokens_total[30m]))\n/\n"
              f"sum by ({GROUP}) (rate(baton_request_success_total[30m]))", ">", "0.05", "30m", "share of the answers",
              f"The stop set of {MODEL} may lack an id", f"{PERCENT} of the answers went on behind a special token.",
              "Where an answer could end, the model draws a special token that is none of its EOS ids, and goes on.",
              "Workers warn of the token by name; `baton model inspect DIR` shows the EOS set and where each id comes from.",
              "Add the id to `eos_token_id` of generation_config.json, or give it as a stop id."),
        Alert("BatonPredictorMiscalibrated", "warning",
              f'max by ({GROUP}, horizon) (baton:end_prediction_miscalibration:rate1h{{horizon=~"4|16|64"}})', ">", "0.1", "1h",
              "mean distance from the bin that was said", f"Predicted ends of {MODEL} are wrong",
              f"Estimates of an end within {{{{ $labels.horizon }}}} tokens are off by {PERCENT}, in the mean.",
              "Policies and displays go by estimates that do not hold; tokens are as right as ever. It is judged by more than a "
              "thousand estimates of an hour, and only while less than a fifth of the answers is cut off at max_tokens.",
              "EOS and prediction, *What became of estimates* and *Predictors*.",
              "The predictor's file is of other data: train again (`scripts/eos train`), or `--predictor off`. A file for another "
              "model is not used at all, and says so in the log.",
              # Estimates of answers that max_tokens cut off have no outcome, so with many of these the rest is not a fair sample.
              also=f"and sum by ({GROUP}, horizon) (increase(baton_end_prediction_calibration_total[1h])) > 1000\n"
                   f"and on ({GROUP}) baton:length_endings:ratio_rate6h < 0.2"),
        Alert("BatonPredictorSlow", "warning", f"max by ({GROUP}, role, instance) (baton:end_prediction_cost:ratio_rate5m)", ">", "0.05",
              "15m", "share of the time of steps", "Estimates slow {{ $labels.instance }} down",
              f"They take {PERCENT} of the time of steps.",
              "The engine's thread makes them between two steps. About 1 % is usual, more where a step takes less than a "
              "millisecond; it fires from 0.2 ms a step on.",
              "EOS and prediction, *What estimates cost*.",
              "A smaller kind of predictor, or `--predictor off`; on a busy machine, more cores.",
              also=f"and on ({GROUP}, instance) sum by ({GROUP}, instance) (rate(baton_end_prediction_duration_seconds_sum[5m]))\n"
                   f"/ on ({GROUP}, instance) sum by ({GROUP}, instance) (rate(baton_end_prediction_duration_seconds_count[5m])) "
                   "> 0.0002"),
        Alert("BatonEosLogDropped", "warning", f"sum by ({GROUP}, instance) (increase(baton_eos_log_dropped_total[10m]))", ">", "0", "0m",
              "lines within 10 minutes", "The EOS log of {{ $labels.instance }} lost lines",
              f"About {NUMBER} lines were lost.", "The disk is full or too slow. Answers are not touched.",
              "The router's log; `df` on the volume of `--eos-log`.",
              "Room, a faster disk, `--eos-log-sample` below 1, or fewer and smaller parts (`--eos-log-files`, "
              "`--eos-log-max-size`)."),
        Alert("BatonEosLogUpkeep", "warning",
              f"sum by ({GROUP}, instance, step) (increase(baton_eos_log_upkeep_failures_total[1h]))", ">", "0", "0m",
              "failures within an hour", "Parts of the EOS log of {{ $labels.instance }} could not be kept in order",
              "Step {{ $labels.step }} failed.", "No line is lost, but the log may grow beyond its bound.",
              "The router's log names the file and the error.", "Rights and room in the folder of `--eos-log`."),
    ]


def _doors():
    return [
        Alert("BatonApiKeyRefusals", "warning", f"sum by ({GROUP}) (rate(baton_api_key_refusals_total[10m]))", ">", "1", "10m",
              "calls per second", f"Calls to {MODEL} come without a known key", f"{NUMBER} calls per second are refused.",
              "A client with an old key that tries again and again, or somebody who guesses.",
              "Overview, *Calls without a known key*, by instance: all routers, or one? Addresses are known to what stands in "
              "front of them.",
              "Give the client its key, or close the door to that address there."),
        Alert("BatonHttpConnectionsRefused", "warning",
              f"sum by ({GROUP}, instance) (increase(baton_http_connections_refused_total[10m]))", ">", "0", "0m",
              "connections within 10 minutes", "Router {{ $labels.instance }} has no room for HTTP connections",
              f"About {NUMBER} connections were refused.",
              "As many as `--http-max-connections` are open, and none of them is idle.",
              "Overview, *HTTP connections*.", "More routers, or a higher limit with as many open files."),
    ]


def alerts():
    return [*_availability(), *_objectives(), *_handoff(), *_ends(), *_doors()]


def expression(alert):
    """The condition, with the threshold on a line of its own."""
    whole = f"(\n{alert.left}\n)" if "\n" in alert.left or " or " in alert.left else alert.left
    condition = f"{whole}\n{alert.operator} {alert.threshold}"
    return f"{condition}\n{alert.also}" if alert.also else condition


def alert_group(known, scope):
    return {"name": "baton-alerts", "rules": [
        {"alert": one.name, "expr": known.scoped(expression(one), scope),
         **({"for": one.lasting} if one.lasting != "0m" else {}),
         "labels": {"severity": one.severity},
         "annotations": {"summary": one.summary, "description": one.description,
                         "runbook_url": f"{RUNBOOK}#{one.name.lower()}"}} for one in alerts()]}
