"""Each process by itself: which one is different?"""

from board import Board, Panel, Row, of_baton, quantile, rate, seen

LINE = "namespace, job, instance, role"


def _processes():
    table = [(f'max by ({LINE}) (baton_server_state{{state="ready"}})', ""),
             (f"max by ({LINE}) (baton_num_requests_running)", ""),
             (f"max by ({LINE}) (baton_num_requests_waiting)", ""),
             (f"max by ({LINE}) (baton_kv_cache_usage_perc)", ""),
             (f"sum by ({LINE}) ({of_baton('rate(process_cpu_seconds_total[$__rate_interval])')})", ""),
             (f"sum by ({LINE}) ({of_baton('process_resident_memory_bytes')})", ""),
             (f"time() - max by ({LINE}) ({of_baton('process_start_time_seconds')})", "")]
    columns = {"instance": ("Instance", "string"), "role": ("Role", "string"), "Value #A": ("Ready", "bool_yes_no"),
               "Value #B": ("Running", "short"), "Value #C": ("Waiting", "short"),
               "Value #D": ("KV cache", "percentunit"), "Value #E": ("CPU cores", "short"),
               "Value #F": ("Memory", "bytes"), "Value #G": ("Up for", "s")}
    return Row("Processes", [
        Panel("Processes", "A line each. Routers have no KV cache and nothing that runs.", "short", table, "table",
              wide=16, high=9, columns=columns),
        Panel("States", "Processes by role and state. unhealthy: a device that failed, a step that does not end, or a "
              "router that sees no healthy decode worker.", "short",
              [("sum by (role, state) (baton_server_state) > 0", "{{role}} {{state}}")], high=9),
        Panel("CPU", "Cores that each process keeps busy.", "short",
              [(of_baton("rate(process_cpu_seconds_total[$__rate_interval])"), "{{role}} {{instance}}")]),
        Panel("Memory", "Resident, of each process.", "bytes",
              [(of_baton("process_resident_memory_bytes"), "{{role}} {{instance}}")]),
        Panel("Open files", "Share of those that the process may open; connections count.", "percentunit",
              [(of_baton("process_open_fds / process_max_fds"), "{{role}} {{instance}}")], top=1),
    ])


def _steps():
    return Row("Steps of the engine", [
        Panel("Sequences that run", "At most --max-num-seqs for each worker.", "short",
              [("baton_num_requests_running", "{{role}} {{instance}}")]),
        Panel("Share of time in steps", "1: the engine computes without a pause.", "percentunit",
              [(rate("baton_iteration_duration_seconds_sum", "role, instance"), "{{role}} {{instance}}")]),
        Panel("Preemptions", "Per second: sequences that gave up their blocks to be computed again. Any number that lasts "
              "wants more KV cache or fewer sequences.", "short",
              [(rate("baton_num_preemptions_total", "role, instance"), "{{role}} {{instance}}")]),
        Panel("Time of a step, p50", "By what it held: decoding only, prompts only, or both.", "s",
              [(quantile(0.5, "baton_iteration_duration_seconds", "role, phase"), "{{role}} {{phase}}")]),
        Panel("Time of a step, p99", "A decode step is the gap between two tokens of all its sequences.", "s",
              [(quantile(0.99, "baton_iteration_duration_seconds", "role, phase"), "{{role}} {{phase}}")]),
        Panel("Sequences in a step", "Mean, of those that prefill and those that decode.", "short",
              [("sum by (role, phase) (rate(baton_batch_size_sum[$__rate_interval])) / "
                "sum by (role, phase) (rate(baton_batch_size_count[$__rate_interval]))", "{{role}} {{phase}}")]),
        Panel("Tokens in a step", "Mean. A prefill worker is efficient with some hundred.", "short",
              [("sum by (role) (rate(baton_iteration_tokens_sum[$__rate_interval])) / "
                "sum by (role) (rate(baton_iteration_tokens_count[$__rate_interval]))", "{{role}}")]),
        Panel("Foretold tokens that were drawn", "Share of those that steps verified (--speculative): each saved its answer a "
              "step.", "percentunit",
              [("sum by (role, instance) (rate(baton_spec_decode_num_accepted_tokens_total[$__rate_interval])) / "
                "sum by (role, instance) (rate(baton_spec_decode_num_draft_tokens_total[$__rate_interval]))",
                "{{role}} {{instance}}")], top=1),
        Panel("Arithmetic used", "Model FLOPs over the peak that was measured at start: what limits prefill.",
              "percentunit", [("baton_model_flops_utilization", "{{role}} {{instance}}")]),
        Panel("Memory bandwidth used", "Bytes that steps had to read over the bandwidth measured at start: what limits "
              "decode. Above 1 where the processor's caches hold them.", "percentunit",
              [("baton_memory_bandwidth_utilization", "{{role}} {{instance}}")]),
    ])


def _start():
    return Row("Start and changes of state", [
        Panel("Time to load", "Once at start, by phase.", "s",
              [('max by (role, phase) (baton_model_load_duration_seconds)', "{{role}} {{phase}}")], "bargauge"),
        Panel("Restarts", "Of each address within an hour; a pod that replaces another has an address of its own.", "short",
              [(of_baton("changes(process_start_time_seconds[1h])"), "{{role}} {{instance}}")]),
        Panel("Changes of state", "Of sequences, per second.", "short",
              [(seen("baton_stage_transitions_total", "from, to", "nowhere"), "{{from}} → {{to}}")]),
    ])


def _gpus():
    return Row("GPUs (needs NVIDIA's DCGM exporter)", [
        Panel("GPU busy", "Share of the time in which any kernel ran; of all GPUs that the exporter sees.", "percent",
              [("DCGM_FI_DEV_GPU_UTIL", "{{Hostname}} {{gpu}}")], top=100, foreign=True),
        Panel("GPU memory", "In use. Baton takes its share at start and keeps it.", "decmbytes",
              [("DCGM_FI_DEV_FB_USED", "{{Hostname}} {{gpu}}")], foreign=True),
        Panel("GPU power", "Drawn now. Far below the others: a GPU that waits for its steps.", "watt",
              [("DCGM_FI_DEV_POWER_USAGE", "{{Hostname}} {{gpu}}")], foreign=True),
    ], folded=True)


def board():
    return Board("baton-workers", "Each process by itself: which one is different?",
                 [_processes(), _steps(), _start(), _gpus()])
