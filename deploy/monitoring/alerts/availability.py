"""Is anybody there?"""

from alerts.alert import MODEL, NUMBER, PERCENT, Alert
from rules import GROUP


def _state(role, state="ready"):
    return f'baton_server_state{{role="{role}",state="{state}"}}'


def _none_ready(name, role, severity, means, do):
    who = role if role == "router" else f"{role} worker"
    return Alert(
        name=name,
        severity=severity,
        left=f"sum by ({GROUP}) ({_state(role)})",
        operator="<",
        threshold="1",
        lasting="2m",
        unit=f"ready processes of role {role}",
        summary=f"No {who} of {MODEL} is ready",
        description=f"None of the processes of role {role} is ready.",
        means=means,
        look=(
            "Overview, *Ready processes* and *Routers see workers*; Workers, *States*. `/readyz` of a process's"
            " admin port says in a sentence what it waits for."
        ),
        do=do,
    )


def alerts():
    return [
        _none_ready(
            "BatonNoReadyRouter",
            "router",
            "critical",
            "Every router starts, drains, or sees no healthy decode worker: clients get UNAVAILABLE, or find"
            " nobody.",
            "If decode workers are ready, the routers do not find or refuse them: names, ports, certificates, or"
            " another tokenizer or protocol, each of which is a line in the router's log. If they are not, see"
            " BatonNoReadyDecode.",
        ),
        _none_ready(
            "BatonNoReadyDecode",
            "decode",
            "critical",
            "No decode worker takes sequences. Requests wait for 30 s and end with UNAVAILABLE `NO_WORKER`. A"
            " service that starts from nothing looks like this, too, while it loads a large model.",
            "Read the last lines of a decode worker's log: a model that does not load, a device fault (state"
            " unhealthy), a drain that was not meant. Roll back what was changed last.",
        ),
        _none_ready(
            "BatonNoReadyPrefill",
            "prefill",
            "warning",
            "Decode workers read prompts themselves: everything is answered, and long prompts hold up the answers"
            " that are being written.",
            "As for decode workers. Until then less load, or more decode workers, keeps the gaps between tokens"
            " short.",
        ),
        Alert(
            name="BatonMetricsAbsent",
            severity="critical",
            # Of a role whose processes are all gone no series is left to be compared, so roles are counted.
            left='count (count by (role) (baton_build_info{role=~"router|decode"})) or vector(0)',
            operator="<",
            threshold="2",
            lasting="5m",
            unit="of the roles router and decode are scraped",
            summary="Prometheus sees no router, or no decode worker",
            description=f"Of the roles router and decode, {NUMBER} were scraped in the last minutes.",
            means=(
                "All routers, all decode workers, or all of both are gone, or Prometheus does not find them; most"
                " alerts about them cannot fire then. Where rules look at several services at once, as they do"
                " without the chart, a router of another service hides that those of this one are gone."
            ),
            look=(
                "Prometheus → Status → Targets: which are down, which are not there? The last lines of their log,"
                " with `kubectl logs --previous` those of the run before. No targets at all: labels of the"
                " PodMonitor, or a network policy that does not let Prometheus to the admin port."
            ),
            do="If `baton probe ROUTER` answers, repair the scraping; otherwise start what is gone.",
        ),
        Alert(
            name="BatonWorkerFault",
            severity="warning",
            # A worker in this state exits within seconds, before anybody scrapes it; routers keep the count.
            left=f'sum by ({GROUP}) (increase(baton_attempts_total{{outcome="device_fault"}}[15m]))',
            operator=">",
            threshold="0",
            lasting="0m",
            unit="requests cut off by a worker's fault within 15 minutes",
            summary=f"A worker of {MODEL} failed",
            description=f"A device failed, or a step did not end: {NUMBER} requests had to go on at other workers.",
            means=(
                "The worker told its routers and exited (code 4); it is started again. Requests that ran there"
                " continue at other workers. One that had no requests is not seen here, but by its restart."
            ),
            look=(
                "Workers, *Restarts*: which one? Its log of the run before: `engine stopped: step N failed: …`, or"
                " `engine stopped: neither a step nor the work between steps got on for 30 s`."
            ),
            do="If it comes back to this, take the machine out: a GPU with errors in its log, or a CPU that others use.",
        ),
        Alert(
            name="BatonTargetDown",
            severity="warning",
            left="max by (namespace, job, instance) (up)",
            operator="<",
            threshold="1",
            lasting="15m",
            unit="(0 = not scraped)",
            summary="{{ $labels.instance }} cannot be scraped",
            description="Prometheus has not reached this process of Baton for a quarter of an hour.",
            means=(
                "It ends before anybody sees it, again and again; or still fetches its model; or Prometheus does not"
                " get through. The others do its work meanwhile, and no other alert tells of a process that is not"
                " scraped."
            ),
            look=(
                "`kubectl get pods`: CrashLoopBackOff, or an init container that runs? The log of the run before"
                " (`kubectl logs --previous`): the last line says why it ended and what to do. Prometheus → Status →"
                " Targets says why it was not reached."
            ),
            do="By exit code: 2 settings, 3 the model, 4 resources or a device, 5 a port that is taken.",
            # What else Prometheus looks at is not in a job of ours.
            also="and on (namespace, job) group by (namespace, job) (baton_build_info)",
        ),
        Alert(
            name="BatonRestartLoop",
            severity="warning",
            # What waits for its next start is not scraped, so what it was is asked of the last minutes.
            left=(
                f"max by ({GROUP}, role, instance) (changes(process_start_time_seconds[30m]) "
                "* on (namespace, job, instance) group_left (role, model_name) "
                "topk by (namespace, job, instance) (1, last_over_time(baton_build_info[10m])))"
            ),
            operator=">",
            threshold="2",
            lasting="0m",
            unit="restarts within 30 minutes",
            summary="{{ $labels.role }} {{ $labels.instance }} restarts again and again",
            description=f"It started {NUMBER} times anew within 30 minutes.",
            means=(
                "A process that ends some time after it started: requests there are replayed, and each start takes the"
                " time to load. What ends before it was scraped once does not count here: see BatonTargetDown."
            ),
            look=(
                "The log of the run before (`kubectl logs --previous`): the last line says why and what to do."
                " Workers, *Restarts*. Killed without a line: memory; compare *Memory* with the limit."
            ),
            do="By exit code: 2 settings, 3 the model, 4 resources or a device, 5 a port that is taken.",
        ),
        Alert(
            name="BatonDrainTimeout",
            severity="warning",
            left=f'max by ({GROUP}, role, instance) (baton_server_state{{state="draining"}})',
            operator=">",
            threshold="0",
            # Half a minute more than the drain-timeout of the shipped units and compose file: a drain that ends as it should
            # is seen for 5 s and a scrape more. They kill the process 180 s after SIGTERM, before which this has to fire.
            lasting="90s",
            unit="(1 = draining)",
            summary="{{ $labels.role }} {{ $labels.instance }} does not finish its drain",
            description="It got SIGTERM longer ago than a drain is to last, and has not ended.",
            means="It waits for running answers. A drain ends by itself after `--drain-timeout`.",
            look=(
                "Overview, *Whole requests*: answers as long as this? `baton_requests_inflight` of a router, "
                "`baton_num_requests_running` of a worker."
            ),
            do=(
                "If `--drain-timeout` is longer than this alert waits, all is as it was set: raise `for` to half a"
                " minute more than it (the Helm chart does so by itself, role by role). Otherwise the process hangs:"
                " keep its log. The chart, the units and the compose file have it killed two minutes after its drain"
                " should have ended; requests are replayed."
            ),
        ),
        Alert(
            name="BatonOpenFiles",
            severity="warning",
            left=(
                f"max by ({GROUP}, role, instance) (process_open_fds / process_max_fds "
                "* on (namespace, job, instance) group_left (role, model_name) baton_build_info)"
            ),
            operator=">",
            threshold="0.8",
            lasting="10m",
            unit="share of the files that a process may open",
            summary="{{ $labels.role }} {{ $labels.instance }} runs out of open files",
            description=f"{PERCENT} of the files that it may open are open.",
            means=(
                "Connections count as files. New ones to the gRPC port are closed at once when less than a"
                " sixteenth of the limit is left, those to the HTTP port from a thirty-second on; the log says so."
                " Those that are open are served on, and room comes back as connections end."
            ),
            look="Workers, *Open files*; Overview, *HTTP connections*.",
            do=(
                "Find who keeps connections open (`ss -tnp`). Raise the limit: the hard one counts, up to which every"
                " process raises its own (`LimitNOFILE`, or that of the container's runtime; `prlimit --nofile` while"
                " it runs). Or lower `--http-max-connections`."
            ),
        ),
    ]
