"""Parts that run GoogleTest binaries: kernels against their references, golden models, sanitizers."""

import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import time

import machine
from plan import Failure, NotMeasured, Skip

# Without a GPU: the CPU's kernels against the same references.
CPU_KERNEL_TESTS = ("kernels_ops_test", "kernels_attention_test", "kernels_sample_test")
CPU_GOLDEN_TEST = "golden_logits_test"
SANITIZER_ERROR = 97


class Outcome:
    """What one run of a test binary said."""

    def __init__(self, name):
        self.name = name
        self.passed, self.skipped, self.failed = 0, 0, []  # failed: (test, first line of the message)
        self.properties = {}
        self.problem = ""  # it crashed, or had no time
        self.seconds = 0.0
        self.output = ""

    @property
    def ran(self):
        return self.passed + len(self.failed)

    def read(self, path):
        for suite in json.loads(pathlib.Path(path).read_text())["testsuites"]:
            for test in suite["testsuite"]:
                self.take(f"{suite['name']}.{test['name']}", test)

    def take(self, name, test):
        if test["result"] == "SKIPPED":
            self.skipped += 1
        elif test["status"] != "RUN":
            return
        elif test.get("failures"):
            message = test["failures"][0]["failure"].strip().splitlines()
            self.failed.append((name, " ".join(message[:3])[:300]))
        else:
            self.passed += 1
        known = ("name", "status", "result", "timestamp", "time", "classname", "failures", "type_param",
                 "value_param", "file", "line", "suitename")
        for key, value in test.items():
            if key not in known:
                self.properties.setdefault(key, []).append((name, value))

    def add(self, other):
        self.passed += other.passed
        self.skipped += other.skipped
        self.failed += other.failed
        for key, values in other.properties.items():
            self.properties.setdefault(key, []).extend(values)
        self.problem = self.problem or other.problem
        self.seconds = max(self.seconds, other.seconds)

    def as_data(self):
        return {"passed": self.passed, "skipped": self.skipped, "failed": [list(f) for f in self.failed],
                "problem": self.problem, "seconds": round(self.seconds, 1)}


def run_gtest(context, name, path, limit_s, filter_text="*", wrapper=(), shard=None):
    """One run of a binary; never raises for what the binary does."""
    outcome = Outcome(name)
    report = context.work / f"gtest-{name}-{shard[0] if shard else 0}-{time.monotonic_ns()}.json"
    environment = {**os.environ, **context.environment}
    if shard is not None:
        environment.update(GTEST_SHARD_INDEX=str(shard[0]), GTEST_TOTAL_SHARDS=str(shard[1]))
    command = [*wrapper, str(path), f"--gtest_filter={filter_text}", f"--gtest_output=json:{report}",
               "--gtest_brief=1"]
    begin = time.monotonic()
    try:
        result = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=limit_s,
                                env=environment, check=False)
        outcome.output, code = result.stdout + result.stderr, result.returncode
    except subprocess.TimeoutExpired as error:
        said = error.stdout or b""
        outcome.output = said.decode(errors="replace") if isinstance(said, bytes) else said
        outcome.problem, code = f"not done after {limit_s:.0f} s", None
    except OSError as error:
        outcome.problem, code = f"cannot be started: {error}", None
    outcome.seconds = time.monotonic() - begin
    if report.exists() and report.stat().st_size:
        outcome.read(report)
    if code not in (0, None) and not outcome.failed:
        outcome.problem = f"ended with {code}: {' '.join(outcome.output.strip().splitlines()[-2:])[-200:]}"
    print(f"--- {' '.join(command)}\n{outcome.output[-20000:]}\n--- {outcome.as_data()}", flush=True)
    return outcome


def run_sharded(context, test, limit_s, shards, filter_text="*"):
    """The tests of one binary in `shards` processes side by side."""
    total = Outcome(test.name)
    with concurrent.futures.ThreadPoolExecutor(shards) as pool:
        for outcome in pool.map(lambda i: run_gtest(context, test.name, test.path, limit_s, filter_text,
                                                    shard=(i, shards)), range(shards)):
            total.add(outcome)
    return total


def judge(outcomes, recorder, noun):
    """The part's line, and Failure or NotMeasured when not all is well."""
    ran = sum(outcome.ran for outcome in outcomes)
    skipped = sum(outcome.skipped for outcome in outcomes)
    recorder.detail("programs", {outcome.name: outcome.as_data() for outcome in outcomes})
    line = f"{ran} tests of {len(outcomes)} {noun}{'s' * (len(outcomes) != 1)}" + (f", {skipped} skipped" if skipped else "")
    recorder.why(line)
    problems = [f"{o.name}: {o.problem}" for o in outcomes if o.problem]
    failed = [f"{name}: {message}" for o in outcomes for name, message in o.failed]
    if problems or failed:
        raise Failure(f"{len(failed)} of {ran} tests failed" + (f", {len(problems)} runs did not end well" if
                      problems else "") + "; " + "; ".join((problems + failed)[:3]))
    if ran == 0:
        raise NotMeasured(f"no test ran ({skipped} skipped themselves)")
    return line


def is_golden(test):
    return "golden" in test.name


def kernel_tests(context):
    return [test for test in context.build.labelled("gpu") if not is_golden(test)]


def run_tests(context, recorder, tests, filter_text="*"):
    """All of `tests`, one after the other; what came of each."""
    # References are scalar code on one core each.
    shards = max(1, min(4, (os.cpu_count() or 1) // 4))
    outcomes = []
    for at, test in enumerate(tests):
        # No one of them takes the time of all that follow.
        limit_s = min(context.left(), max(30, 2 * context.left() / (len(tests) - at)))
        outcomes.append(run_sharded(context, test, limit_s, shards, filter_text))
        recorder.detail("programs", {outcome.name: outcome.as_data() for outcome in outcomes})
        recorder.why(f"{len(outcomes)} of {len(tests)} programs done")
    return outcomes


def kernels(context, recorder):
    """Every kernel against its reference."""
    if context.device == "cuda":
        tests = kernel_tests(context)
        missing = f"{context.build.origin} has no tests of label gpu; expected a build of preset cuda"
    else:
        tests = [test for test in context.build.tests
                 if test.name in CPU_KERNEL_TESTS and os.path.exists(test.path)]
        missing = f"{context.build.origin} has none of {', '.join(CPU_KERNEL_TESTS)}: build them"
    if not tests:
        raise NotMeasured(missing)
    recorder.why(judge(run_tests(context, recorder, tests), recorder, "program"))


def golden(context, recorder):
    """Golden models of transformers; near-ties of bf16 are allowed by the tests, and counted here."""
    if context.device == "cuda":
        tests = [test for test in context.build.labelled("gpu") if is_golden(test)]
        missing = f"{context.build.origin} has no test of golden models on a GPU"
    else:
        tests = [test for test in context.build.tests
                 if test.name == CPU_GOLDEN_TEST and os.path.exists(test.path)]
        missing = f"{CPU_GOLDEN_TEST} is not in {context.build.origin}: build it"
    if not tests:
        raise NotMeasured(missing)
    outcomes = run_tests(context, recorder, tests, context.sizes.golden_filter)
    line = judge(outcomes, recorder, "program")
    ties = {name: int(value) for outcome in outcomes for name, value in outcome.properties.get("near_ties", [])}
    recorder.detail("near_ties", ties)
    recorder.why(f"{line}; {sum(ties.values())} near-ties" if context.device == "cuda" else line)


SUMMARY = re.compile(r"=+ (?:ERROR|RACECHECK) SUMMARY: (.*)")


def sanitizers(context, recorder):
    """compute-sanitizer over the kernel tests: memcheck on all, racecheck on those of sampling."""
    if context.device != "cuda":
        raise Skip("compute-sanitizer checks CUDA kernels; there are none on --device cpu")
    tool = machine.tool("compute-sanitizer")
    if tool is None:
        raise NotMeasured("compute-sanitizer is not in the PATH nor in the CUDA toolkit")
    tests = kernel_tests(context)
    if not tests:
        raise NotMeasured(f"{context.build.origin} has no tests of label gpu")
    # What ended soonest without it comes first, so that most of them get their turn.
    jobs = [("racecheck", test) for test in tests if "sampling" in test.name]
    jobs += [("memcheck", test) for test in sorted(tests, key=lambda t: os.path.getsize(t.path))]
    done, errors, unfinished, refused = [], [], [], []
    for at, (kind, test) in enumerate(jobs):
        share = max(10, context.left() / (len(jobs) - at) * 1.5)
        if context.left() < 10:
            unfinished.append(f"{kind} of {test.name}")
            continue
        # Libraries try calls that may fail; that is no error of ours.
        wrapper = [tool, "--tool", kind, "--error-exitcode", str(SANITIZER_ERROR), "--print-limit", "3",
                   "--report-api-errors", "no"]
        outcome = run_gtest(context, test.name, test.path, min(share, context.left() - 3), "*", wrapper)
        name = f"{kind} of {test.name}"
        summaries = SUMMARY.findall(outcome.output)
        if outcome.problem.startswith("not done"):
            unfinished.append(name)
        elif not summaries:
            refused.append(f"{name}: {' '.join(outcome.output.strip().splitlines()[-1:])[:150]}")
        elif outcome.problem or outcome.failed or not re.match(r"0 (errors|hazards)", summaries[-1]):
            errors.append(f"{name}: {summaries[-1]} {outcome.problem}".strip())
        else:
            done.append(name)
        recorder.detail("runs", {"clean": done, "errors": errors, "unfinished": unfinished, "refused": refused})
        recorder.why(f"{len(done)} runs clean, {len(unfinished)} unfinished, {len(refused)} did not work")
    line = f"{len(done)} of {len(jobs)} runs clean"
    line += f"; out of time: {', '.join(unfinished)}" if unfinished else ""
    line += f"; did not work: {'; '.join(refused)}" if refused else ""
    if errors:
        raise Failure(f"{'; '.join(errors[:3])}; {line}")
    if not done:
        raise NotMeasured(line)
    recorder.why(line)
