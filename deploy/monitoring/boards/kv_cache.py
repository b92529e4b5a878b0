"""The KV cache: is there room, who has it, and what is found again?"""

from board import Board, Panel, Row, mean, quantile, rate, seen


def _room():
    return Row("Room", [
        Panel("In use", "Share of the blocks of each worker; cached blocks that nobody uses count as free.", "percentunit",
              [("baton_kv_cache_usage_perc", "{{role}} {{instance}}")], top=1, steps=((0.9, "orange"), (0.95, "red"))),
        Panel("Blocks by state", "quarantined: their sequence is over, and a transfer may still read them; they come free "
              "within seconds.", "short", [("sum by (role, state) (baton_kv_blocks)", "{{role}} {{state}}")], stack=True),
        Panel("Preempted, and waiting for blocks", "Sequences that gave their blocks to older ones, per second, and those "
              "that wait for blocks or a place.", "short",
              [(rate("baton_num_preemptions_total", "role"), "{{role}} preempted/s"),
               ('sum by (role) (baton_num_requests_waiting_by_reason{reason="capacity"})', "{{role}} waiting")]),
        Panel("Time until blocks are granted", "At decode workers, from a request's arrival there.", "s",
              [(quantile(q, "baton_kv_transfer_duration_seconds", matchers='{stage="reserve"}'), f"p{int(q * 100)}")
               for q in (0.5, 0.99)]),
        Panel("Tokens yet to come", "That running sequences are expected to draw, of those with an estimate: what the "
              "cache has to hold beside what is there.", "short",
              [("sum by (role, instance) (baton_predicted_remaining_tokens)", "{{role}} {{instance}}")]),
        Panel("Caches", "As they were made at start.", "short",
              [("max by (instance, role, block_size, num_gpu_blocks, cache_dtype) (baton_cache_config_info)", "")], "table",
              columns={"instance": ("Instance", "string"), "role": ("Role", "string"),
                       "block_size": ("Tokens per block", "string"), "num_gpu_blocks": ("Blocks", "string"),
                       "cache_dtype": ("Type", "string")}),
    ])


def _swapping():
    return Row("Swapping", [
        Panel("Preempted, by what becomes of their KV", "Per second: computed again, or copied to the swap space and back.", "short",
              [(rate("baton_preemptions_by_way_total", "role, way"), "{{role}} {{way}}")], stack=True),
        Panel("Swap space in use", "Share of the memory of the host that --swap-space gave; nothing where there is none.",
              "percentunit", [("baton_swap_space_usage_perc", "{{instance}}")], top=1, steps=((0.95, "orange"),)),
        Panel("Copied", "Bytes per second, out to the host and back in.", "Bps",
              [(rate("baton_swap_bytes_total", "direction"), "{{direction}}")]),
        Panel("Computed again all the same", "Per second. full: the swap space had no room; lost: the beginning that was left in "
              "the prefix cache was gone.", "short", [(rate("baton_swap_misses_total", "cause"), "{{cause}}")]),
    ])


def _prefixes():
    return Row("Prefixes found again", [
        Panel("Hit rate", "Share of the prompt tokens that were found in the prefix cache, of those that were looked up.",
              "percentunit", [(f"{rate('baton_prefix_cache_hits_total', 'role')} / "
                               f"{rate('baton_prefix_cache_queries_total', 'role')}", "{{role}}")], top=1),
        Panel("Prompt tokens by source", "Per second: computed, found, or received from a prefill worker.", "short",
              [(rate("baton_prompt_tokens_by_source_total", "role, source"), "{{role}} {{source}}")], stack=True),
        Panel("Evicted blocks", "Per second: cached blocks that were given up for want of room. With a low hit rate, a "
              "larger cache would pay.", "short",
              [(rate("baton_kv_evicted_blocks_total", "role, cause"), "{{role}} {{cause}}")]),
    ])


def _moved():
    return Row("Handed over", [
        Panel("Bytes of a handoff", "Mean: grows with the prompt, less what the decode worker holds already.", "bytes",
              [(mean("baton_kv_transfer_bytes"), "mean")]),
        Panel("Bytes per second", "Of committed handoffs.", "Bps", [(rate("baton_kv_transfer_bytes_sum"), "sent")]),
        Panel("Failures", "Per second, by reason, as senders count them.", "reqps",
              [(seen('baton_kv_transfer_failures_total{side="sender"}', "reason", "no failures"), "{{reason}}")]),
    ])


def board():
    return Board("baton-kv-cache", "The KV cache: is there room, who has it, and what is found again?",
                 [_room(), _swapping(), _prefixes(), _moved()])
