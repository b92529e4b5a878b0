"""How answers end, and how well that is foreseen."""

from board import Board, Panel, Row, choice, mean, quantile, rate

ENDED, BY_EOS, AT_LENGTH = "baton_request_success_total", '{stop_cause="eos"}', '{finished_reason="length"}'
CALIBRATION = "baton_end_prediction_calibration_total"


def _ends():
    return Row("How answers end", [
        Panel("Ended by the model", "Share of the answers that EOS ended. The rest met a stop string or id, or max_tokens.",
              "percentunit", [(f"{rate(ENDED + BY_EOS)} / {rate(ENDED)}", "by EOS"),
                              (f"{rate(ENDED + AT_LENGTH)} / {rate(ENDED)}", "at length")], top=1),
        Panel("Lengths of answers", "Tokens. A mean that creeps up costs as much as so many more requests.", "short",
              [(mean("baton_request_generation_tokens"), "mean"),
               (quantile(0.5, "baton_request_generation_tokens"), "p50"),
               (quantile(0.95, "baton_request_generation_tokens"), "p95"),
               (mean("baton_request_params_max_tokens"), "max_tokens, mean")]),
        Panel("EOS probability where answers stop", "Of the step that drew EOS. A low or falling one: the model or its chat "
              "template does not fit, or the temperature is high.", "percentunit",
              [(quantile(q, "baton_eos_probability_at_stop"), f"p{int(q * 100)}") for q in (0.1, 0.5)], top=1),
        Panel("EOS probability of every token", "How many sampled tokens per second had which probability of the end: dark "
              "at the bottom, since most tokens are far from one.", "percentunit",
              [("sum by (le) (increase(baton_eos_step_probability_bucket[$__rate_interval]))", "{{le}}")], "heatmap",
              wide=16, high=9),
        Panel("Answers that go wrong", "Per second: running in circles with no end in sight, and going on behind a special "
              "token, for which an id may be missing among the EOS ids.", "short",
              [(rate("baton_runaway_total", "action"), "runaway: {{action}}"),
               (rate("baton_passed_special_tokens_total"), "passed a special token")], high=9),
    ])


def _ignored():
    return Row("EOS ignored", [
        Panel("Requests that ignore EOS", "Per second, by policy. Benchmarks do; a service for people should not.", "reqps",
              [(rate("baton_ignore_eos_requests_total", "policy"), "{{policy}}")]),
        Panel("Where they would have ended", "Step at which the model would have ended them.", "short",
              [(quantile(q, "baton_eos_first_natural_position_tokens"), f"p{int(q * 100)}") for q in (0.5, 0.95)]),
        Panel("Steps drawn past an end", "Per second: EOS was the most likely token, and was ignored.", "short",
              [(rate("baton_eos_ignored_steps_total"), "steps")]),
    ])


def _foreseen():
    bins = f'{CALIBRATION}{{horizon="$horizon"}}'
    ended, went_on = (f'{CALIBRATION}{{horizon="$horizon",outcome="{outcome}"}}' for outcome in ("ended", "went_on"))

    def share(part):
        return f"sum by (bin) (increase({part}[$__range])) / sum by (bin) (increase({bins}[$__range]))"

    return Row("Ends foreseen", [
        Panel("Came true, at least", "For the chosen horizon: the share that ended within it, by what had been said "
              "(up to the number below). Good estimates make a staircase; a bar that reads 'no traffic' was never said.",
              "percentunit", [(share(ended), "{{bin}}")], "bargauge", high=8, top=1),
        Panel("Came true, at most", "The same, with those that something other than the model or max_tokens ended first, "
              "of which nobody knows. Where it is far above the other, estimates cannot be judged.",
              "percentunit", [(f"1 - {share(went_on)}", "{{bin}}")], "bargauge", high=8, top=1),
        Panel("How many were said", "Estimates for the chosen horizon by bin, over the chosen time.", "short",
              [(f"sum by (bin) (increase({bins}[$__range]))", "{{bin}}")], "bargauge", high=8),
        Panel("Error of the expected remainder", "Median of the distance in tokens, by how far the end really was.", "short",
              [(quantile(0.5, "baton_end_prediction_error_tokens", "horizon"), "end within {{horizon}}")]),
        Panel("Tokens yet to come", "That running sequences are expected to draw: a signal to scale by.", "short",
              [("sum by (role, instance) (baton_predicted_remaining_tokens)", "{{role}} {{instance}}")]),
        Panel("What estimates cost", "Share of the time of steps.", "percentunit",
              [(f"{rate('baton_end_prediction_duration_seconds_sum', 'role')} / "
                f"{rate('baton_iteration_duration_seconds_sum', 'role')}", "{{role}}")]),
        Panel("Predictors", "What foresees ends at each worker. survival learns while it serves.", "short",
              [("max by (instance, role, kind, version) (baton_predictor_info)", "")], "table", wide=12,
              columns={"instance": ("Instance", "string"), "role": ("Role", "string"), "kind": ("Kind", "string"),
                       "version": ("Version", "string")}),
        Panel("EOS log", "Lines lost per second, and files that could not be kept in order.", "short",
              [(rate("baton_eos_log_dropped_total"), "lines lost"),
               (rate("baton_eos_log_upkeep_failures_total", "step"), "{{step}} failed")], wide=12),
    ])


def board():
    horizon = choice("horizon", "Horizon (tokens)", ("1", "4", "16", "64", "256"), "16")
    return Board("baton-eos", "How answers end, and how well that is foreseen; docs/eos.md explains the figures.",
                 [_ends(), _ignored(), _foreseen()], (horizon,))
