"""How answers end, and how well that is foreseen."""

from alerts.alert import MODEL, NUMBER, PERCENT, Alert
from rules import GROUP


def alerts():
    week = "offset 1w"
    return [
        Alert(
            name="BatonIgnoreEosInProduction",
            severity="warning",
            left=(
                f"sum by ({GROUP}) (rate(baton_ignore_eos_requests_total[15m]))\n/\n"
                f"sum by ({GROUP}) (rate(baton_requests_received_total[15m]))"
            ),
            operator=">",
            threshold="0.01",
            lasting="15m",
            unit="share of the requests",
            summary=f"Requests for {MODEL} ignore EOS",
            description=f"{PERCENT} of the requests ask that EOS be ignored.",
            means=(
                "They run to max_tokens whatever the model says: right for a benchmark, wasted time in front of"
                " people."
            ),
            look=(
                "EOS and prediction, *Requests that ignore EOS*; the router's log warns of each by its id, and at"
                " level debug tells its tenant."
            ),
            do="Tell the tenant, or refuse it: `--ignore-eos refuse`. Silence the alert while a benchmark runs.",
        ),
        Alert(
            name="BatonAnswersLonger",
            severity="warning",
            left=f"baton:generation_tokens:mean6h\n/\nbaton:generation_tokens:mean6h {week}",
            operator=">",
            threshold="1.5",
            lasting="1h",
            unit="times the length of a week before",
            summary=f"Answers of {MODEL} have become longer",
            description=f"Answers of the last 6 hours are {NUMBER} times as long as a week before.",
            means=(
                "Each answer costs that much more. Other prompts, another model or template, or EOS that no longer"
                " comes."
            ),
            look=(
                "EOS and prediction, *Lengths of answers*, *Ended by the model* and *EOS probability where answers"
                " stop*."
            ),
            do=(
                "If EOS ends fewer answers than before, the model, its template or its stop ids changed: `baton"
                " model inspect`. If the prompts changed, plan for it."
            ),
        ),
        Alert(
            name="BatonMoreAnswersCutOff",
            severity="warning",
            left=f"baton:length_endings:ratio_rate6h\n- baton:length_endings:ratio_rate6h {week}",
            operator=">",
            threshold="0.1",
            lasting="1h",
            unit="share of the answers, more than a week before",
            summary=f"More answers of {MODEL} are cut off at max_tokens",
            description=f"The share of answers that end at max_tokens grew by {PERCENT} against a week before.",
            means="Answers do not end by themselves as they did, or clients ask for fewer tokens.",
            look=(
                "EOS and prediction, *How answers end*, *Lengths of answers* (max_tokens); the EOS log, by `baton"
                " eos stats`."
            ),
            do="See BatonAnswersLonger; if max_tokens fell, tell the tenant.",
        ),
        Alert(
            name="BatonRunaways",
            severity="warning",
            left=(
                f"sum by ({GROUP}) (rate(baton_runaway_total[30m]))\n/\nsum by ({GROUP})"
                " (rate(baton_request_success_total[30m]))"
            ),
            operator=">",
            threshold="0.02",
            lasting="30m",
            unit="share of the answers",
            summary=f"Answers of {MODEL} run in circles",
            description=f"{PERCENT} of the answers repeat themselves with no end in sight.",
            means=(
                "Prompts that the model cannot finish, a temperature near 0, or a model that was quantized too far."
            ),
            look="EOS and prediction, *Answers that go wrong*; workers warn of each, with its request id.",
            do="`--runaway end` ends them; a repetition penalty or a higher temperature avoids them.",
        ),
        Alert(
            name="BatonPassedSpecialTokens",
            severity="warning",
            left=(
                f"sum by ({GROUP}) (rate(baton_passed_special_tokens_total[30m]))\n/\n"
                f"sum by ({GROUP}) (rate(baton_request_success_total[30m]))"
            ),
            operator=">",
            threshold="0.05",
            lasting="30m",
            unit="share of the answers",
            summary=f"The stop set of {MODEL} may lack an id",
            description=f"{PERCENT} of the answers went on behind a special token.",
            means=(
                "Where an answer could end, the model draws a special token that is none of its EOS ids, and"
                " goes on."
            ),
            look=(
                "Workers warn of the token by name; `baton model inspect DIR` shows the EOS set and where each id"
                " comes from."
            ),
            do="Add the id to `eos_token_id` of generation_config.json, or give it as a stop id.",
        ),
        Alert(
            name="BatonPredictorMiscalibrated",
            severity="warning",
            left=f'max by ({GROUP}, horizon) (baton:end_prediction_miscalibration:rate1h{{horizon=~"4|16|64"}})',
            operator=">",
            threshold="0.1",
            lasting="1h",
            unit="least mean gap between predicted and observed share",
            summary=f"Predicted ends of {MODEL} are wrong",
            description=(
                f"Estimates of an end within {{{{ $labels.horizon }}}} tokens are off by {PERCENT} or more, in the mean."
            ),
            means=(
                "Policies and displays go by estimates that do not hold; tokens are as right as ever. It is judged"
                " by more than a thousand estimates of an hour. Where neither the model nor max_tokens ended an answer,"
                " its estimates are taken to have been right, so where most answers end by stop strings, tool calls or"
                " clients that leave, wrong estimates are not noticed."
            ),
            look="EOS and prediction, *Came true, at least*, *Came true, at most* and *Predictors*.",
            do=(
                "The predictor's file is of other data: train again (`scripts/eos train`), or `--predictor off`. A"
                " file for another model is not used at all, and says so in the log."
            ),
            also=f"and sum by ({GROUP}, horizon) (increase(baton_end_prediction_calibration_total[1h])) > 1000",
        ),
        Alert(
            name="BatonPredictorSlow",
            severity="warning",
            left=f"max by ({GROUP}, role, instance) (baton:end_prediction_cost:ratio_rate5m)",
            operator=">",
            threshold="0.05",
            lasting="15m",
            unit="share of the time of steps",
            summary="Estimates slow {{ $labels.instance }} down",
            description=f"They take {PERCENT} of the time of steps.",
            means=(
                "The engine's thread makes them between two steps. About 1 % is usual, more where a step takes less"
                " than a millisecond; it fires from 0.2 ms a step on."
            ),
            look="EOS and prediction, *What estimates cost*.",
            do="A smaller kind of predictor, or `--predictor off`; on a busy machine, more cores.",
            also=(
                f"and on ({GROUP}, instance) sum by ({GROUP}, instance)"
                f" (rate(baton_end_prediction_duration_seconds_sum[5m]))\n/ on ({GROUP}, instance) sum by ({GROUP},"
                " instance) (rate(baton_end_prediction_duration_seconds_count[5m])) > 0.0002"
            ),
        ),
        Alert(
            name="BatonEosLogDropped",
            severity="warning",
            left=f"sum by ({GROUP}, instance) (increase(baton_eos_log_dropped_total[10m]))",
            operator=">",
            threshold="0",
            lasting="0m",
            unit="lines within 10 minutes",
            summary="The EOS log of {{ $labels.instance }} lost lines",
            description=f"About {NUMBER} lines were lost.",
            means="The disk is full or too slow. Answers are not touched.",
            look="The router's log; `df` on the volume of `--eos-log`.",
            do=(
                "Room, a faster disk, `--eos-log-sample` below 1, or fewer and smaller parts (`--eos-log-files`, "
                "`--eos-log-max-size`)."
            ),
        ),
        Alert(
            name="BatonEosLogUpkeep",
            severity="warning",
            left=f"sum by ({GROUP}, instance, step) (increase(baton_eos_log_upkeep_failures_total[1h]))",
            operator=">",
            threshold="0",
            lasting="0m",
            unit="failures within an hour",
            summary="Parts of the EOS log of {{ $labels.instance }} could not be kept in order",
            description="Step {{ $labels.step }} failed.",
            means="No line is lost, but the log may grow beyond its bound.",
            look="The router's log names the file and the error.",
            do="Rights and room in the folder of `--eos-log`.",
        ),
    ]
