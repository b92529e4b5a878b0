"""What every example is held to, in whatever language: the same scenes, flags and output.

Not tests by themselves; python_test.py, go_test.py, … call check().
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/clients"))
from services import (  # noqa: E402, F401
    NO_TOOLCHAIN, Fake, Served, cluster, need, secure_service)

EXAMPLES = ROOT / "examples"
BUILD = pathlib.Path(os.environ.get("BATON_BUILD", ROOT / "build")) / "examples"
LIMIT_S = 300  # of a build; compilers and downloads are in it

FULL = {"code": "RESOURCE_EXHAUSTED", "reason": "QUEUE_FULL", "retry_after_s": 0.3}
FOX = [{"role": "user", "content": "Tell me a story about a fox."}]


def build(arguments, folder, environment=None):
    """Runs a step of a toolchain; what it says is shown when it fails."""
    result = subprocess.run([str(a) for a in arguments], cwd=folder, capture_output=True, text=True, timeout=LIMIT_S,
                            env={**os.environ, **(environment or {})}, check=False)
    if result.returncode != 0:
        sys.exit(f"{arguments} failed:\n{result.stdout[-4000:]}{result.stderr[-4000:]}")


def need_version(command, *minimum):
    """Skips the test, aloud, where a tool is older than that."""
    told = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    found = re.search(r"(\d+)(?:\.(\d+))?", told.stdout + told.stderr)
    if not found or tuple(int(part or 0) for part in found.groups())[:len(minimum)] < minimum:
        print(f"skipped: {' '.join(command)} says {found and found[0]}, "
              f"the example needs {'.'.join(map(str, minimum))}", file=sys.stderr)
        sys.exit(NO_TOOLCHAIN)


def copied(language):
    """A copy of an example beside the protos that it is built from, so that a build leaves the tree as it is."""
    folder = BUILD / language  # A tree of its own: tests of other languages run beside it.
    ours = EXAMPLES / language
    # What was built by hand in the tree is not ours.
    built = {line.strip("/") for line in (ours / ".gitignore").read_text().split()}
    for source in (ours, ROOT / "proto"):
        # With times, so that what did not change is not built again.
        shutil.copytree(source, folder / source.relative_to(ROOT), dirs_exist_ok=True,
                        ignore=lambda at, names: built if at == str(ours) else ())
    return folder / "examples" / language


class Example:
    def __init__(self, command):
        self._command = [str(part) for part in command]

    def run(self, server, *flags, code=0):
        """What it prints; its standard error where it is to fail."""
        result = subprocess.run([*self._command, "--server", server, *map(str, flags)], capture_output=True,
                                text=True, timeout=cluster.PATIENCE_S, check=False)
        if result.returncode != code:
            raise cluster.Failure(f"exit code {result.returncode}, expected {code}:\n{result.stdout}{result.stderr}")
        return result.stderr if code else result.stdout


def expect(condition, what, output):
    if not condition:
        raise cluster.Failure(f"expected {what}; found:\n{output}")


def scenes_of(output):
    """{scene: its lines}"""
    parts = re.split(r"(?m)^== (\w+)\n", output)
    return dict(zip(parts[1::2], parts[2::2]))


def check_service(example):
    """All scenes against the service; texts are those of `baton generate`."""
    # Tokens come slowly enough that a long answer is still being written when a slow client leaves it.
    slow = {"BATON_FAILPOINT": "decoding:delay_ms=2"}
    with Served("--ignore-eos", "allow", "--enable-failpoints", environment=slow) as served:
        output = example.run(served.address)
        told = scenes_of(output)
        names = ["stream", "chat", "cancel", "deadline", "error", "ends"]
        expect(list(told) == names, f"the scenes {names}", output)
        asked = [{"prompt": "Once upon a time", "request_id": "stream"}, {"messages": FOX, "request_id": "chat"}]
        answers = cluster.generate(served.address, asked, "--max-tokens", "24", "--temperature", "0")
        for answer in answers:
            tokens = answer["usage"]["completion_tokens"]
            wanted = f"{answer['text']}\n[{answer['finish_reason']}, {tokens} tokens, calls 1]\n"
            expect(told[answer["request_id"]] == wanted, repr(wanted), output)
        tokens = int(re.fullmatch(r"cancelled after (\d+) tokens\n", told["cancel"])[1])
        expect(5 <= tokens < 1000, "to be cancelled soon after 5 tokens", output)
        expect(told["deadline"] == "DEADLINE_EXCEEDED\n", "the deadline's code", output)
        refused = "INVALID_ARGUMENT INVALID_SAMPLING at spec.sampling.temperature\n"
        expect(told["error"] == refused, repr(refused), output)
        steps = re.findall(r"(?m)^step (\d+): eos_prob [01]\.\d{6}$", told["ends"])
        expect(steps == [str(i) for i in range(1, 9)], "8 steps", output)
        expect(re.search(r"(?m)^after \d+: about \d+\.\d remain$", told["ends"]), "a prediction", output)
        # A deadline may pass before the request has reached the service, so only the cancelled one is counted.
        served.wait_idle()
        before = served.given_up()
        output = example.run(served.address, "--only", "cancel")
        served.wait_idle()
        expect(served.given_up() == before + 1, "one more request that its client left", output)


def check_retry(example):
    """A full queue is waited out, a broken stream goes on where it was however long that took, each call has the key."""
    with Fake(FULL, {"tokens": 3, "code": "UNAVAILABLE"}, {"tokens": 5}) as fake:
        output = example.run(fake.address, "--only", "stream", "--api-key", "secret")
        expect(output == "== stream\n w0 w1 w2 w3 w4\n[length, 5 tokens, calls 3]\n", "five words once", output)
        calls = [fake.call() for _ in range(3)]
        expect(calls[1]["at"] - calls[0]["at"] >= 0.3, "to wait as long as the server asks", calls)
        seeds = [call["request"]["spec"]["sampling"].get("seed") for call in calls]
        expect(seeds == [None, None, "77"], "the seed of the first call", calls)
        expect({call["metadata"].get("authorization") for call in calls} == {"Bearer secret"}, "the key", calls)
    with Fake({"tokens": 3, "pause_s": 0.6, "code": "UNAVAILABLE"}, {"tokens": 5}) as fake:
        output = example.run(fake.address, "--only", "stream", "--retry-for", "0.5")
        expect(" w0 w1 w2 w3 w4\n" in output, "an answer that was on its way longer than that to go on", output)
    with Fake({"code": "UNAUTHENTICATED"}, {"tokens": 1}) as fake:
        output = example.run(fake.address, "--only", "stream", code=1)
        expect("unauthenticated" in output.lower(), "a key that is refused to be told, not to be tried again", output)
    with Fake(FULL) as fake:
        output = example.run(fake.address, "--only", "stream", "--retry-for", "0.1", code=1)
        expect("failed:" in output, "a failure that is told", output)


def check_newer_router(example):
    """An answer that ends for a reason that the example has no name for is an answer."""
    with Fake({"tokens": 2, "finish_reason": 101}) as fake:
        output = example.run(fake.address, "--only", "stream")
        expect(re.search(r" w0 w1\n\[\w+, 2 tokens, calls 1\]\n", output), "two words and an end", output)


def check_tls_and_keys(example):
    """Mutual TLS and a key; without a certificate of its own, or with another key, it gets no answer."""
    with secure_service("right") as (served, folder):
        trust = ["--only", "stream", "--ca", folder / "ca.pem", "--server-name", "router", "--retry-for", "0"]
        shown = ["--cert", folder / "team-red.pem", "--key", folder / "team-red.key"]
        output = example.run(served.address, *trust, *shown, "--api-key", "right")
        expect("calls 1]" in output, "an answer", output)
        for key in (["--api-key", "wrong"], []):
            output = example.run(served.address, *trust, *shown, *key, code=1)
            expect("unauthenticated" in output.lower(), "the code of a key that is not known", output)
        example.run(served.address, *trust, "--api-key", "right", code=1)


def check(command):
    example = Example(command)
    check_service(example)
    check_retry(example)
    check_newer_router(example)
    check_tls_and_keys(example)
