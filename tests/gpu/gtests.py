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
# A line that tells of one test: "[       OK ] Suite.Test (3 ms)".
PROGRESS = re.compile(r"\[ +(RUN|OK|FAILED|SKIPPED) +\] (\w[\w/]*\.[\w/]+)(?=$|,| \()")


def ends_of(text, first, last):
    """The first and the last characters of a text that is longer than both: causes stand in front, and
    what was found behind."""
    if len(text) <= first + last:
        return text
    return f"{text[:first]} … {text[len(text) - last:]}"


def one_line(lines):
    return ends_of(" ".join(line.strip() for line in lines if line.strip()), 400, 200)


class Outcome:
    """What one run of a test binary said."""

    def __init__(self, name):
        self.name = name
        self.passed, self.skipped, self.failed = 0, 0, []  # failed: (test, message in one line)
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
            self.failed.append((name, one_line(test["failures"][0]["failure"].splitlines())))
        else:
            self.passed += 1
        known = ("name", "status", "result", "timestamp", "time", "classname", "failures", "type_param",
                 "value_param", "file", "line", "suitename")
        for key, value in test.items():
            if key not in known:
                self.properties.setdefault(key, []).append((name, value))

    def read_progress(self):
        """What the output of a program tells that ended without a report: the test that it ended in has
        failed. Returns that one's name, or '' where it ran none."""
        begun, said = "", []
        for line in self.output.splitlines():
            match = PROGRESS.match(line)
            if match is None:
                said.append(line)
                continue
            what, name = match.groups()
            if what == "RUN":
                begun, said = name, []
                continue
            if name != begun:  # the list of all that failed, at the end
                continue
            if what == "FAILED":
                self.failed.append((name, one_line(said)))
            self.passed += what == "OK"
            self.skipped += what == "SKIPPED"
            begun, said = "", []
        if begun:
            self.failed.append((begun, one_line(said) or "said nothing"))
        return begun

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
    command = [*wrapper, str(path), f"--gtest_filter={filter_text}", f"--gtest_output=json:{report}"]
    begin = time.monotonic()
    try:
        # Both in one, so that what a test says stands behind its name.
        result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
                                timeout=limit_s, env=environment, check=False)
        outcome.output, code = result.stdout, result.returncode
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
            outcome.problem = f"ended with {code}: {last_words(outcome)}"
    else:
        judge_without_report(outcome, code)
    print(f"--- {' '.join(command)}\n{ends_of(without_passed(outcome.output), 8000, 12000)}\n--- {outcome.as_data()}",
          flush=True)
    return outcome


def last_words(outcome):
    return " ".join(outcome.output.strip().splitlines()[-2:])[-200:]


def judge_without_report(outcome, code):
    """A program that ended early counts as failed, for the tests that it still had ran nowhere."""
    if code is not None:
        outcome.problem = f"ended with {code} and without a report: {last_words(outcome)}"
    if begun := outcome.read_progress():
        outcome.problem += f", in {begun}"
    elif not outcome.failed:
        outcome.failed.append((outcome.name, outcome.problem))


def without_passed(output):
    """The log needs no line for a test that passed."""
    return re.sub(r"^\[ RUN      \] (\S+)\n\[       OK \] \1\b.*\n", "", output, flags=re.M)


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
        raise Failure(f"{len(failed)} of {ran} tests failed" + (f", {len(problems)} of {len(outcomes)} {noun}s did not "
                      "end well" if problems else "") + "; " + "\n".join([*problems[:3], *failed[:10]]))
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
        # No one of them takes the time of all that follow; the first finds nothing in memory yet.
        limit_s = min(context.left(), max(60 if at == 0 else 30, 2 * context.left() / (len(tests) - at)))
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
